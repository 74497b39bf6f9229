/* Sequences for clients that cannot hand several requests over at once: each is sent when the one
 * before it was answered with success. A request with_status becomes two, the object and its
 * status.
 */
#include "client/client_int.h"

#include "api/engine.h"
#include "api/gen/meta_v1.h"
#include "base/arena.h"

struct client_seq {
    struct client_seq *next, **link; /* of the same client; link points to this one */
    struct bh_client *c;
    struct bh_arena *arena;
    uint64_t id, call; /* of the sequence, and of the request under way */
    struct bh_client_req *reqs;
    struct bh_client_res *res;
    size_t n, at;
    struct bh_obj *half; /* object of reqs[at], whose status is under way */
    bh_client_seq_fn fn;
    void *arg;
};

static void seq_send(struct client_seq *q);

static void seq_unlink(struct client_seq *q)
{
    *q->link = q->next;
    if (q->next)
        q->next->link = q->link;
}

static void seq_free(struct client_seq *q)
{
    for (size_t i = 0; i < q->n; i++)
        (void)bh_obj_unref(q->res[i].obj);
    (void)bh_obj_unref(q->half);
    (void)bh_arena_free(q->arena);
}

static bool seq_more(const struct client_seq *q, const struct bh_client_res *res)
{
    return res->err.code == BH_OK && q->at + 1 < q->n;
}

static void seq_answered(void *arg, const struct bh_client_res *res)
{
    struct client_seq *q = arg;
    struct bh_client_res *mine = &q->res[q->at];

    bool half = res->err.code == BH_OK && q->reqs[q->at].with_status && !q->half;

    q->call = 0;
    if (half && res->obj) {
        q->half = bh_obj_ref(res->obj);
        seq_send(q);
        return;
    }
    *mine = (struct bh_client_res){.status = res->status,
                                   .err = res->err,
                                   .reason = bh_str_dup(q->arena, res->reason),
                                   .obj = res->obj ? bh_obj_ref(res->obj) : NULL};
    if (half) /* the status was not sent: nobody is told that all went well */
        (void)bh_err_set(&mine->err, BH_E_PROTO, "the answer holds no object to write a status of");
    if (!mine->obj && q->half)
        mine->obj = bh_obj_ref(q->half);
    q->half = bh_obj_unref(q->half);
    if (seq_more(q, mine)) {
        q->at++;
        seq_send(q);
        return;
    }
    seq_unlink(q); /* fn may free the client */
    if (q->fn)
        q->fn(q->arg, q->res, q->at + 1);
    seq_free(q);
}

/* The status, for the version that the object got. */
static void send_status(struct client_seq *q, struct bh_client_req *req)
{
    const struct bh_kind *k = req->msg_kind;
    void *msg = bh_arena_memdup(q->arena, req->msg, k->type->size);
    struct bh_meta_v1_object_meta *m = (void *)((char *)msg + k->meta_off);

    m->name = bh_str_dup(q->arena, q->half->name);
    m->uid = bh_str_dup(q->arena, q->half->uid);
    m->resource_version = bh_str_fmt(q->arena, "%llu", (unsigned long long)q->half->rv);
    req->verb = BH_VERB_UPDATE;
    req->name = m->name;
    req->subresource = BH_S("status");
    req->msg = msg;
}

static void seq_send(struct client_seq *q)
{
    struct bh_client_req req = q->reqs[q->at];

    req.with_status = false;
    if (q->half)
        send_status(q, &req);
    q->call = bh_client_call(q->c, &req, seq_answered, q);
}

void client_seq_start(struct bh_client *c, uint64_t id, const struct bh_client_req *reqs, size_t n,
                      bh_client_seq_fn fn, void *arg)
{
    struct bh_arena *a = bh_arena_new(0);
    struct client_seq *q = bh_new(a, struct client_seq);

    q->c = c;
    q->arena = a;
    q->id = id;
    q->reqs = bh_new_n(a, struct bh_client_req, n);
    q->res = bh_new_n(a, struct bh_client_res, n);
    q->n = n;
    for (size_t i = 0; i < n; i++)
        bh_client_req_copy(a, &reqs[i], &q->reqs[i]);
    q->fn = fn;
    q->arg = arg;
    q->next = c->seqs;
    q->link = &c->seqs;
    if (q->next)
        q->next->link = &q->next;
    c->seqs = q;
    seq_send(q);
}

static void seq_drop(struct client_seq *q)
{
    uint64_t call = q->call;

    seq_unlink(q);
    q->c->vt->cancel(q->c, call);
    seq_free(q);
}

bool client_seq_cancel(struct bh_client *c, uint64_t id)
{
    for (struct client_seq *q = c->seqs; q; q = q->next)
        if (q->id == id) {
            seq_drop(q);
            return true;
        }
    return false;
}

void client_seq_done(struct bh_client *c)
{
    while (c->seqs)
        seq_drop(c->seqs);
}
