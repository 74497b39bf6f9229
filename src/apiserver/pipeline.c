/* Accepting, batching, publishing, and rolling back. */
#include "apiserver/pipeline.h"

#include "api/obj_commit.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "net/loop.h"

#include <string.h>

struct joined {
    struct joined *next;
    bh_pipeline_done done;
    void *arg;
};

struct op {
    struct op *next;
    enum bh_store_op op;
    struct bh_wc_res *res;
    struct bh_obj *obj;
    bh_pipeline_done done;
    void *arg;
    struct joined *joined, **joined_last;
    size_t bytes;
    size_t key_n;
    char key[];
};

struct bh_pipeline {
    struct bh_loop *loop;
    struct bh_store *store;
    struct bh_wc *wc;
    struct op *first, **last; /* accepted, not yet given to the store */
    size_t waiting;           /* those, and those in the batch */
    size_t bytes;             /* of their objects */
    struct op *batch;         /* given to the store */
    size_t batch_n;
    struct bh_store_write writes[BH_COMMIT_BATCH_MAX];
    struct bh_map head; /* key -> newest struct op of what is not published */
    bool scheduled;     /* start() is deferred */
    bool freed;         /* a commit is still under way: the memory goes when it ends */
    char trouble[BH_ERR_MSG_MAX];
};

static struct bh_str op_key(const struct op *o)
{
    return (struct bh_str){o->key, o->key_n};
}

static void op_free(struct op *o)
{
    while (o->joined) {
        struct joined *j = o->joined;

        o->joined = j->next;
        bh_free(j);
    }
    (void)bh_obj_unref(o->obj);
    bh_free(o);
}

struct bh_pipeline *bh_pipeline_new(struct bh_loop *l, struct bh_store *store, struct bh_wc *wc)
{
    struct bh_pipeline *p = bh_calloc(1, sizeof(*p));

    p->loop = l;
    p->store = store;
    p->wc = wc;
    p->last = &p->first;
    return p;
}

static void destroy(struct bh_pipeline *p)
{
    bh_map_done(&p->head);
    bh_free(p);
}

static void drop_list(struct op *o)
{
    while (o) {
        struct op *next = o->next;

        op_free(o);
        o = next;
    }
}

static void start(void *arg);

struct bh_pipeline *bh_pipeline_free(struct bh_pipeline *p)
{
    if (!p)
        return NULL;
    drop_list(p->first);
    p->first = NULL;
    p->last = &p->first;
    p->freed = true;
    if (p->scheduled && bh_loop_defer_drop(p->loop, start, p))
        p->scheduled = false;
    if (!p->batch && !p->scheduled)
        destroy(p);
    return NULL;
}

struct bh_obj *bh_pipeline_head(const struct bh_pipeline *p, const struct bh_wc_res *res,
                                struct bh_str key)
{
    const struct op *o = bh_map_get(&p->head, key);

    if (o)
        return o->op == BH_STORE_DELETE ? NULL : o->obj;
    return bh_wc_get(res, key);
}

struct bh_obj *bh_pipeline_next(const struct bh_pipeline *p, const struct bh_wc_res *res,
                                size_t *it)
{
    struct bh_str key;
    void *v;

    while (bh_map_next(&p->head, it, &key, &v)) {
        const struct op *o = v;

        if (o->res == res && o->op != BH_STORE_DELETE)
            return o->obj;
    }
    return NULL;
}

size_t bh_pipeline_waiting(const struct bh_pipeline *p)
{
    return p->waiting;
}

const char *bh_pipeline_trouble(const struct bh_pipeline *p)
{
    return p->trouble[0] ? p->trouble : NULL;
}

static void start(void *arg);

static void schedule(struct bh_pipeline *p)
{
    if (p->scheduled || p->batch || !p->first)
        return;
    /* Deferred to the end of the loop's round, so that all requests that arrived together share one
     * commit. */
    p->scheduled = true;
    bh_loop_defer(p->loop, start, p);
}

int bh_pipeline_submit(struct bh_pipeline *p, enum bh_store_op op, struct bh_wc_res *res,
                       struct bh_str key, struct bh_obj *obj, bh_pipeline_done done, void *arg,
                       struct bh_err *err)
{
    struct op *o;

    if (p->waiting >= BH_COMMIT_QUEUE_MAX || p->bytes + obj->json.n > BH_COMMIT_QUEUE_BYTES_MAX) {
        (void)bh_obj_unref(obj);
        return bh_err_set(err, BH_E_BUSY,
                          "too many writes wait for the store (%zu), please try again later",
                          p->waiting);
    }
    o = bh_calloc(1, sizeof(*o) + key.n + 1);
    o->op = op;
    o->res = res;
    o->obj = obj;
    o->done = done;
    o->arg = arg;
    o->joined_last = &o->joined;
    o->bytes = obj->json.n;
    o->key_n = key.n;
    memcpy(o->key, key.p, key.n);
    *p->last = o;
    p->last = &o->next;
    p->waiting++;
    p->bytes += o->bytes;
    (void)bh_map_put(&p->head, op_key(o), o);
    schedule(p);
    return 0;
}

void bh_pipeline_join(struct bh_pipeline *p, struct bh_str key, bh_pipeline_done done, void *arg)
{
    struct op *o = bh_map_get(&p->head, key);
    struct joined *j = bh_calloc(1, sizeof(*j));

    bh_assert(o != NULL);
    j->done = done;
    j->arg = arg;
    *o->joined_last = j;
    o->joined_last = &j->next;
}

static void forget_head(struct bh_pipeline *p, const struct op *o)
{
    if (bh_map_get(&p->head, op_key(o)) == o)
        (void)bh_map_del(&p->head, op_key(o));
}

/* Tells everybody who waits for this write, and frees it. */
static void op_over(struct bh_pipeline *p, struct op *o, struct bh_obj *obj,
                    const struct bh_err *err)
{
    p->waiting--;
    p->bytes -= o->bytes;
    if (o->done && !p->freed)
        o->done(o->arg, obj, err);
    for (struct joined *j = o->joined; j && !p->freed; j = j->next)
        j->done(j->arg, obj, err);
    op_free(o);
}

static void publish_batch(struct bh_pipeline *p, struct op *batch)
{
    size_t i = 0;

    /* Everything is shown before anybody is answered: an answer may make its reader ask for any of
     * it. */
    for (struct op *o = batch; o; o = o->next, i++) {
        bh_obj_assign(o->obj, p->writes[i].rev);
        forget_head(p, o);
        bh_wc_publish(o->res, op_key(o), o->op == BH_STORE_DELETE, o->obj);
    }
    while (batch) {
        struct op *o = batch;

        batch = o->next;
        op_over(p, o, o->obj, NULL);
    }
}

static void fail_all(struct bh_pipeline *p, struct op *list, const struct bh_err *err)
{
    while (list) {
        struct op *o = list;

        list = o->next;
        op_over(p, o, NULL, err);
    }
}

static void committed(void *arg, const struct bh_err *err)
{
    struct bh_pipeline *p = arg;
    struct op *batch = p->batch;

    p->batch = NULL;
    if (p->freed) {
        drop_list(batch);
        destroy(p);
        return;
    }
    if (!err) {
        if (p->trouble[0])
            bh_log(BH_INFO, "the store works again");
        p->trouble[0] = '\0';
        publish_batch(p, batch);
    } else {
        struct op *queued = p->first;
        struct bh_err told = {.code = BH_E_IO};

        bh_log(BH_ERROR, "commit failed, nothing of it is stored", BH_CSTR("error", err->msg),
               BH_I64("writes", p->waiting));
        (void)bh_err_set(&told, BH_E_IO, "the write could not be made durable and was undone: %s",
                         err->msg);
        memcpy(p->trouble, told.msg, sizeof(p->trouble));
        p->first = NULL;
        p->last = &p->first;
        bh_map_done(&p->head);
        memset(&p->head, 0, sizeof(p->head));
        fail_all(p, batch, &told);
        fail_all(p, queued, &told);
    }
    if (p->freed) {
        destroy(p);
        return;
    }
    schedule(p);
}

static void start(void *arg)
{
    struct bh_pipeline *p = arg;
    size_t bytes = 0;
    struct op *o;

    p->scheduled = false;
    if (p->freed) {
        destroy(p);
        return;
    }
    if (p->batch || !p->first)
        return;
    p->batch = p->first;
    p->batch_n = 0;
    for (o = p->first;; o = o->next) {
        p->writes[p->batch_n++] =
            (struct bh_store_write){.op = o->op, .key = op_key(o), .value = o->obj->json};
        bytes += o->bytes;
        p->first = o->next;
        if (p->batch_n == BH_COMMIT_BATCH_MAX || bytes >= BH_COMMIT_BATCH_BYTES_MAX || !o->next) {
            o->next = NULL;
            break;
        }
    }
    if (!p->first)
        p->last = &p->first;
    bh_store_commit(p->store, p->writes, p->batch_n, committed, p);
}
