/* Accepting, batching, publishing, and rolling back. */
#include "apiserver/pipeline.h"

#include "api/obj_commit.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "net/loop.h"

#include <string.h>

#define HEADS_MIN 256

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
    struct bh_str json; /* of obj while it is pending: the store gets it without a look at obj */
    uint64_t rev;       /* set when it is durable */
    /* Among the heads, if it is one. */
    struct op *bucket_next;
    uint64_t hash;
    bool is_head;
    size_t key_n;
    char key[];
};

struct bh_pipeline {
    struct bh_loop *loop;
    struct bh_store *store;
    struct bh_wc *wc;
    struct op *first, **last; /* accepted, not yet given to the store */
    size_t queued;            /* those */
    size_t waiting;           /* those, those in the batch, and those not yet told */
    size_t bytes;             /* of their objects */
    struct op *batch;         /* given to the store */
    size_t batch_n;
    struct bh_store_write writes[BH_COMMIT_BATCH_MAX];
    /* The newest op of each key that is not published, by the key's hash. */
    struct op **heads;
    size_t heads_n, heads_cap; /* a power of two, or 0 */
    bool scheduled;            /* start() is deferred */
    bool freed;                /* the memory goes when the commit under way ends, and telling */
    bool telling;              /* committed() calls those who wait */
    char trouble[BH_ERR_MSG_MAX];
};

static struct bh_str op_key(const struct op *o)
{
    return (struct bh_str){o->key, o->key_n};
}

/* ---- heads ---- */

static struct op **bucket(const struct bh_pipeline *p, uint64_t hash)
{
    return &p->heads[hash & (p->heads_cap - 1)];
}

/* Where the pointer to the head of key is; NULL when there is none. */
static struct op **head_at(const struct bh_pipeline *p, struct bh_str key, uint64_t hash)
{
    if (p->heads_n == 0)
        return NULL;
    for (struct op **at = bucket(p, hash); *at; at = &(*at)->bucket_next)
        if ((*at)->hash == hash && bh_str_eq(op_key(*at), key))
            return at;
    return NULL;
}

static struct op *head_of(const struct bh_pipeline *p, struct bh_str key)
{
    struct op **at = p->heads_n > 0 ? head_at(p, key, bh_str_hash(key)) : NULL;

    return at ? *at : NULL;
}

static void heads_grow(struct bh_pipeline *p)
{
    struct op **old = p->heads;
    size_t n = p->heads_cap;

    p->heads_cap = n ? 2 * n : HEADS_MIN;
    p->heads = bh_calloc(p->heads_cap, sizeof(struct op *));
    for (size_t i = 0; i < n; i++)
        while (old[i]) {
            struct op *o = old[i], **at = bucket(p, o->hash);

            old[i] = o->bucket_next;
            o->bucket_next = *at;
            *at = o;
        }
    bh_free(old);
}

/* It takes the place of the older op of its key. */
static void head_put(struct bh_pipeline *p, struct op *o)
{
    struct op **at;

    o->hash = bh_str_hash(op_key(o));
    o->is_head = true;
    at = head_at(p, op_key(o), o->hash);
    if (at) {
        (*at)->is_head = false;
        o->bucket_next = (*at)->bucket_next;
        *at = o;
        return;
    }
    if (p->heads_n == p->heads_cap)
        heads_grow(p);
    p->heads_n++;
    at = bucket(p, o->hash);
    o->bucket_next = *at;
    *at = o;
}

static void head_forget(struct bh_pipeline *p, struct op *o)
{
    struct op **at;

    if (!o->is_head)
        return;
    o->is_head = false;
    p->heads_n--;
    for (at = bucket(p, o->hash); *at != o; at = &(*at)->bucket_next)
        ;
    *at = o->bucket_next;
}

static void heads_forget_all(struct bh_pipeline *p)
{
    bh_free(p->heads);
    p->heads = NULL;
    p->heads_n = p->heads_cap = 0;
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
    heads_forget_all(p);
    bh_free(p);
}

/* Whoever leaves a freed pipeline last takes its memory along. */
static void destroy_unused(struct bh_pipeline *p)
{
    if (!p->batch && !p->scheduled && !p->telling)
        destroy(p);
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
    destroy_unused(p);
    return NULL;
}

struct bh_obj *bh_pipeline_head(const struct bh_pipeline *p, const struct bh_wc_res *res,
                                struct bh_str key)
{
    const struct op *o = head_of(p, key);

    if (o)
        return o->op == BH_STORE_DELETE ? NULL : o->obj;
    return bh_wc_get(res, key);
}

/* it: the bucket, and how many of it have been passed. */
struct bh_obj *bh_pipeline_next(const struct bh_pipeline *p, const struct bh_wc_res *res,
                                size_t *it)
{
    size_t i = *it / BH_COMMIT_QUEUE_MAX, passed = *it % BH_COMMIT_QUEUE_MAX;

    for (; i < p->heads_cap; i++, passed = 0) {
        const struct op *o = p->heads[i];

        for (size_t k = 0; o && k < passed; k++)
            o = o->bucket_next;
        for (; o; o = o->bucket_next) {
            passed++;
            if (o->res == res && o->op != BH_STORE_DELETE) {
                *it = i * BH_COMMIT_QUEUE_MAX + passed;
                return o->obj;
            }
        }
    }
    *it = i * BH_COMMIT_QUEUE_MAX;
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

static void committed(void *arg, const struct bh_err *err);

/* How many of those that wait go into the next commit: half of them, so that the loop has the
 * answers of one half to work on while the other is made durable. All in one commit would have loop
 * and disk take turns. Small commits are not halved: what an fsync costs is shared by few then. */
static size_t batch_max(const struct bh_pipeline *p)
{
    size_t n = p->queued / 2;

    if (n < BH_COMMIT_BATCH_WHOLE)
        n = BH_COMMIT_BATCH_WHOLE;
    return n < BH_COMMIT_BATCH_MAX ? n : BH_COMMIT_BATCH_MAX;
}

/* Gives the store what waits, if it is free. */
static void give(struct bh_pipeline *p)
{
    size_t most = batch_max(p), bytes = 0;
    struct op *o = p->first;

    if (p->batch || !o)
        return;
    p->batch = o;
    p->batch_n = 0;
    for (;; o = o->next) {
        p->writes[p->batch_n++] =
            (struct bh_store_write){.op = o->op, .key = op_key(o), .value = o->json};
        bytes += o->json.n;
        if (p->batch_n == most || bytes >= BH_COMMIT_BATCH_BYTES_MAX || !o->next)
            break;
    }
    p->first = o->next;
    o->next = NULL;
    if (!p->first)
        p->last = &p->first;
    p->queued -= p->batch_n;
    bh_store_commit(p->store, p->writes, p->batch_n, committed, p);
}

static void start(void *arg)
{
    struct bh_pipeline *p = arg;

    p->scheduled = false;
    if (p->freed)
        destroy_unused(p);
    else
        give(p);
}

/* A commit begins at the end of the loop's round, so that all requests that arrived together share
 * it. When that is a long round, the store does not wait for it. */
static void schedule(struct bh_pipeline *p)
{
    if (p->batch || !p->first)
        return;
    if (p->queued >= BH_COMMIT_BATCH_EARLY) {
        give(p);
    } else if (!p->scheduled) {
        p->scheduled = true;
        bh_loop_defer(p->loop, start, p);
    }
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
    o->json = obj->json;
    o->key_n = key.n;
    memcpy(o->key, key.p, key.n);
    *p->last = o;
    p->last = &o->next;
    p->queued++;
    p->waiting++;
    p->bytes += o->json.n;
    head_put(p, o);
    schedule(p);
    return 0;
}

void bh_pipeline_join(struct bh_pipeline *p, struct bh_str key, bh_pipeline_done done, void *arg)
{
    struct op *o = head_of(p, key);
    struct joined *j = bh_calloc(1, sizeof(*j));

    bh_assert(o != NULL);
    j->done = done;
    j->arg = arg;
    *o->joined_last = j;
    o->joined_last = &j->next;
}

/* Tells everybody who waits for this write, and frees it. */
static void op_over(struct bh_pipeline *p, struct op *o, struct bh_obj *obj,
                    const struct bh_err *err)
{
    p->waiting--;
    p->bytes -= o->json.n;
    if (o->done && !p->freed)
        o->done(o->arg, obj, err);
    for (struct joined *j = o->joined; j && !p->freed; j = j->next)
        j->done(j->arg, obj, err);
    op_free(o);
}

static void publish_batch(struct bh_pipeline *p, struct op *batch)
{
    /* Everything is shown before anybody is answered: an answer may make its reader ask for any of
     * it. */
    for (struct op *o = batch; o; o = o->next) {
        bh_obj_assign(o->obj, o->rev);
        head_forget(p, o);
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

static void batch_durable(struct bh_pipeline *p, struct op *batch)
{
    size_t i = 0;

    if (p->trouble[0])
        bh_log(BH_INFO, "the store works again");
    p->trouble[0] = '\0';
    for (struct op *o = batch; o; o = o->next)
        o->rev = p->writes[i++].rev;
    give(p); /* the store works while the loop tells */
    publish_batch(p, batch);
}

static void batch_failed(struct bh_pipeline *p, struct op *batch, const struct bh_err *err)
{
    struct op *queued = p->first;
    struct bh_err told = {.code = BH_E_IO};

    bh_log(BH_ERROR, "commit failed, nothing of it is stored", BH_CSTR("error", err->msg),
           BH_I64("writes", p->waiting));
    (void)bh_err_set(&told, BH_E_IO, "the write could not be made durable and was undone: %s",
                     err->msg);
    memcpy(p->trouble, told.msg, sizeof(p->trouble));
    p->first = NULL;
    p->last = &p->first;
    p->queued = 0;
    heads_forget_all(p);
    fail_all(p, batch, &told);
    fail_all(p, queued, &told);
}

static void committed(void *arg, const struct bh_err *err)
{
    struct bh_pipeline *p = arg;
    struct op *batch = p->batch;

    p->batch = NULL;
    if (p->freed) {
        drop_list(batch);
        destroy_unused(p);
        return;
    }
    p->telling = true;
    if (err)
        batch_failed(p, batch, err);
    else
        batch_durable(p, batch);
    p->telling = false;
    if (p->freed)
        destroy_unused(p);
    else
        schedule(p);
}
