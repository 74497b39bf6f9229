/* The HTTP server fed with any frames at all: whatever comes, every exchange ends once and nothing
 * is left. */
#include "net/http_server_int.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static int open_exchanges;

static void ended(void *arg)
{
    open_exchanges--;
    bh_http_stream_end(arg);
}

static void handle(void *arg, struct bh_http_exchange *x)
{
    struct bh_part part = {.data = x->body};

    (void)arg;
    if (x->path.n % 2 == 0) { /* a watch: it lives until the client or the server goes */
        open_exchanges++;
        bh_http_on_close(x, ended, x);
        bh_http_stream_start(x, 200, x->headers, x->headers_n);
        bh_http_stream_write(x, &part, 1);
    } else {
        bh_http_respond(x, 200, x->headers, x->headers_n, &part, 1);
    }
}

static void stop(void *arg)
{
    bh_loop_stop(arg);
}

static void turns(struct bh_loop *l, int n)
{
    while (n-- > 0) {
        bh_loop_defer(l, stop, l);
        bh_loop_run(l);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static const char magic[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    static struct bh_loop *l;
    struct bh_http_server *s;
    BH_AUTO_BUF b = {0};
    int sv[2];

    if (!l)
        l = bh_loop_new_real(NULL);
    if (n > 100000 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv) < 0)
        return 0;
    s = bh_http_server_new(l, &(struct bh_http_server_opts){.handler = handle});
    bh_http2_adopt(s, bh_stream_from_fd(l, sv[0], NULL, NULL, NULL));
    bh_buf_addz(&b, magic);
    bh_buf_add(&b, p, n);
    (void)!write(sv[1], b.p, b.n);
    turns(l, 4);
    (void)close(sv[1]);
    turns(l, 2);
    (void)bh_http_server_free(s);
    turns(l, 2);
    bh_assert(open_exchanges == 0);
    return 0;
}
