/* Requests made of arbitrary bytes against a whole server on the virtual loop: method, path, query,
 * headers and body are lines of the input. */
#include "apiserver/apiserver.h"
#include "base/str.h"
#include "net/loop.h"
#include "store/store.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void on_answer(void *arg, const struct bh_api_response *r)
{
    (void)arg, (void)r;
}
static void on_open(void *arg, struct bh_str t, const struct bh_api_header *h, size_t n)
{
    (void)arg, (void)t, (void)h, (void)n;
}
static bool on_event(void *arg, const struct bh_api_event *ev)
{
    (void)arg, (void)ev;
    return true;
}
static void on_end(void *arg)
{
    (void)arg;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static struct bh_loop *l;
    static struct bh_store *store;
    static struct bh_apiserver *srv;
    static struct bh_str masters[] = {BH_S_INIT("system:masters")};
    static const struct bh_user user = {.name = BH_S_INIT("fuzz"), .groups = {masters, 1}};
    struct bh_api_sink sink = {NULL, on_answer, on_open, on_event, on_end};
    struct bh_str rest = {(const char *)p, n};
    struct bh_api_request rq = {.user = &user};
    uint64_t id;

    if (!srv) {
        l = bh_loop_new_virtual(1, 0);
        store = bh_store_new_memory(l);
        if (bh_apiserver_new(l, store, NULL, &srv, NULL) < 0)
            return 0;
        bh_loop_advance(l, 1000000000);
    }
    rq.method = bh_str_cut(&rest, '\n');
    rq.path = bh_str_cut(&rest, '\n');
    rq.query = bh_str_cut(&rest, '\n');
    rq.accept = bh_str_cut(&rest, '\n');
    rq.content_type = bh_str_cut(&rest, '\n');
    rq.body = rest;
    id = bh_apiserver_handle(srv, &rq, &sink);
    bh_loop_advance(l, 1000000000);
    if (id)
        bh_apiserver_cancel(srv, id);
    return 0;
}
