/* What the scheduler takes back of claims: allocations, reservations for a pod, and claims that it
 * made itself.
 *
 * Until the answer is known the claim must not be used: a pod that is bound with the allocation, or
 * the reservation, that the informer still shows would run without its devices once the write
 * lands. So a write whose fate is unknown is repeated, for the very version it was made for, until
 * it is stored or has become impossible.
 */
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "scheduler/sched_int.h"

#define AGAIN_FIRST_MS 500
#define AGAIN_MAX_MS   5000

struct giving {
    struct bh_link link; /* in s->giving */
    struct bh_scheduler *s;
    struct bh_obj *obj; /* the version that the write is made for */
    struct bh_obj *pod; /* whose reservation is taken back; NULL: the allocation is */
    bool read;          /* another wrote: which version is there now is to be read */
    bool unsure;        /* a write for this version may still land */
    bool beaten;        /* another wrote, and the informer does not show it yet */
    uint64_t landed;    /* first version known to be without the reservation; 0: none yet */
    struct bh_timer again;
    int64_t wait_ms; /* before the last time */
    uint64_t call;
};

static void giving_end(struct giving *g)
{
    struct bh_scheduler *s = g->s;

    if (g->call)
        bh_client_cancel(s->client, g->call);
    bh_timer_stop(&g->again);
    bh_list_del(&g->link);
    (void)bh_obj_unref(g->obj);
    (void)bh_obj_unref(g->pod);
    bh_free(g);
}

static void again_later(struct bh_timer *again, int64_t *wait_ms)
{
    *wait_ms = *wait_ms ? 2 * *wait_ms : AGAIN_FIRST_MS;
    if (*wait_ms > AGAIN_MAX_MS)
        *wait_ms = AGAIN_MAX_MS;
    bh_timer_start(again, *wait_ms);
}

static bool unknown(const struct bh_client_res *res)
{
    return res->status == 0 || res->status == 429 || res->status >= 500;
}

/* pod_uid empty: that of the allocation. */
static struct giving *giving_of(struct bh_scheduler *s, struct bh_str uid, struct bh_str pod_uid)
{
    bh_list_for(it, &s->giving)
    {
        struct giving *g = bh_container(it, struct giving, link);

        if (bh_str_eq(g->obj->uid, uid) && (g->pod ? bh_str_eq(g->pod->uid, pod_uid) : !pod_uid.n))
            return g;
    }
    return NULL;
}

static void answer(void *arg, const struct bh_client_res *res)
{
    struct giving *g = arg;
    struct bh_scheduler *s = g->s;
    const struct bh_obj *cur;

    g->call = 0;
    if (unknown(res)) {
        again_later(&g->again, &g->wait_ms);
        return;
    }
    if (res->err.code == BH_OK)
        return; /* the informer's event ends it */
    /* Somebody else wrote: this write cannot land any more, nor an earlier one of its kind. Whoever
     * waited for it looks again, but not at what is old: it would ask for the same at once. */
    cur = bh_informer_get(s->inf_claims, g->obj->ns, g->obj->name);
    if (cur && bh_str_eq(cur->uid, g->obj->uid) && cur->rv <= g->obj->rv) {
        if (res->status == 409 || res->status == 404)
            g->beaten = true; /* the informer's event ends it */
        else
            again_later(&g->again, &g->wait_ms);
        return;
    }
    giving_end(g);
    sched_devices_freed(s);
}

static void send(void *arg)
{
    struct giving *g = arg;
    struct bh_resource_v1_resource_claim c =
        *(const struct bh_resource_v1_resource_claim *)bh_obj_struct(g->obj);

    memset(&c.status, 0, sizeof(c.status));
    g->call = bh_client_update(g->s->client, &bh_resource_v1_resource_claim_kind, &c, "status",
                               answer, g);
}

static struct giving *giving_new(struct bh_scheduler *s, struct bh_obj *claim,
                                 void (*again)(void *))
{
    struct giving *g = bh_calloc(1, sizeof(*g));

    g->s = s;
    g->obj = bh_obj_ref(claim);
    bh_timer_init(&g->again, s->loop, again, g);
    bh_list_add_tail(&s->giving, &g->link);
    return g;
}

void sched_give_back(struct bh_scheduler *s, struct bh_obj *claim)
{
    struct giving *g;

    if (giving_of(s, claim->uid, (struct bh_str){NULL, 0}))
        return;
    g = giving_new(s, claim, send);
    send(g);
}

bool sched_gives_back(struct bh_scheduler *s, const struct bh_obj *claim)
{
    return giving_of(s, claim->uid, (struct bh_str){NULL, 0}) != NULL;
}

/* ---- reservations ---- */

static bool stands(const struct giving *g)
{
    const struct bh_resource_v1_resource_claim *c = bh_obj_struct(g->obj);

    for (size_t i = 0; i < c->status.reserved_for.n; i++)
        if (bh_str_eq(c->status.reserved_for.p[i].uid, g->pod->uid))
            return true;
    return false;
}

static void release_over(struct giving *g)
{
    struct bh_scheduler *s = g->s;

    giving_end(g);
    sched_devices_freed(s); /* the pod, which waited for it, looks again */
}

/* It stands no more; the claim may be used when the informer shows that, too. */
static void release_landed(struct giving *g)
{
    const struct bh_obj *cur = bh_informer_get(g->s->inf_claims, g->obj->ns, g->obj->name);

    g->landed = g->obj->rv;
    if (!cur || !bh_str_eq(cur->uid, g->obj->uid) || cur->rv >= g->landed)
        release_over(g);
}

static void release_send(void *arg);

static void release_read(struct giving *g, const struct bh_client_res *res)
{
    struct bh_obj *old = g->obj;

    if (!res->obj || !bh_str_eq(res->obj->uid, old->uid)) {
        release_over(g);
        return;
    }
    if (res->obj->rv <= old->rv) { /* what is in our way is not there to be read yet */
        again_later(&g->again, &g->wait_ms);
        return;
    }
    g->obj = bh_obj_ref(res->obj);
    (void)bh_obj_unref(old);
    g->wait_ms = 0;
    g->read = false;
    g->unsure = false; /* nothing that was made for the old version can land */
    if (stands(g))
        release_send(g);
    else
        release_landed(g);
}

static void release_answer(void *arg, const struct bh_client_res *res)
{
    struct giving *g = arg;
    bool lost = unknown(res);

    g->call = 0;
    if (!g->read && res->status == 409) {
        g->read = true;
        release_send(g);
    } else if (lost) {
        g->unsure |= !g->read;
        again_later(&g->again, &g->wait_ms);
    } else if (res->status == 404) {
        release_over(g);
    } else if (res->err.code != BH_OK || !res->obj) {
        if (g->read || g->unsure)
            again_later(&g->again, &g->wait_ms);
        else
            release_over(g); /* refused: the reservation stands */
    } else if (g->read) {
        release_read(g, res);
    } else {
        struct bh_obj *old = g->obj;

        g->obj = bh_obj_ref(res->obj);
        (void)bh_obj_unref(old);
        release_landed(g);
    }
}

/* For one version only, lest it land after the next attempt has found the reservation and used
 * it. */
static void release_send(void *arg)
{
    struct giving *g = arg;
    BH_AUTO_BUF b = {.max = 4096};

    if (g->read) {
        struct bh_client_req req = {.verb = BH_VERB_GET,
                                    .kind = &bh_resource_v1_resource_claim_kind,
                                    .ns = g->obj->ns,
                                    .name = g->obj->name};

        g->call = bh_client_call(g->s->client, &req, release_answer, g);
        return;
    }
    bh_buf_addf(&b,
                "{\"metadata\":{\"uid\":\"%.*s\",\"resourceVersion\":\"%" PRIu64
                "\"},\"status\":{\"reservedFor\":[{\"$patch\":\"delete\",\"uid\":\"%.*s\"}]}}",
                BH_SF(g->obj->uid), g->obj->rv, BH_SF(g->pod->uid));
    g->call =
        bh_client_patch(g->s->client, &bh_resource_v1_resource_claim_kind, g->obj->ns, g->obj->name,
                        "status", BH_PATCH_STRATEGIC, bh_buf_str(&b), release_answer, g);
}

void sched_release(struct bh_scheduler *s, struct bh_obj *claim, struct bh_obj *pod)
{
    struct giving *g;

    if (giving_of(s, claim->uid, pod->uid))
        return;
    g = giving_new(s, claim, release_send);
    g->pod = bh_obj_ref(pod);
    release_send(g);
}

bool sched_releases(struct bh_scheduler *s, const struct bh_obj *claim, const struct bh_obj *pod)
{
    return giving_of(s, claim->uid, pod->uid) != NULL;
}

/* ---- claims ---- */

#define FINALIZER "resource.kubernetes.io/delete-protection"

struct removal {
    struct bh_link link; /* in s->removing */
    struct bh_scheduler *s;
    struct bh_obj *obj; /* the version that the write is made for */
    bool read;          /* another wrote: which version is there now is to be read */
    struct bh_timer again;
    int64_t wait_ms; /* before the last time */
    uint64_t call;
};

static void removal_end(struct removal *r)
{
    if (r->call)
        bh_client_cancel(r->s->client, r->call);
    bh_timer_stop(&r->again);
    bh_list_del(&r->link);
    (void)bh_obj_unref(r->obj);
    bh_free(r);
}

static void removal_send(void *arg);

static void removal_read(void *arg, const struct bh_client_res *res)
{
    struct removal *r = arg;
    struct bh_obj *old = r->obj;

    r->call = 0;
    if (unknown(res) ||
        (res->obj && bh_str_eq(res->obj->uid, old->uid) && res->obj->rv <= old->rv)) {
        again_later(&r->again, &r->wait_ms);
        return;
    }
    if (!res->obj || !bh_str_eq(res->obj->uid, old->uid)) {
        removal_end(r);
        return;
    }
    r->obj = bh_obj_ref(res->obj);
    (void)bh_obj_unref(old);
    r->wait_ms = 0;
    r->read = false;
    removal_send(r);
}

/* Of the finalizer, when there is one, and of the deletion. */
static void removal_answer(void *arg, const struct bh_client_res *res, size_t n)
{
    struct removal *r = arg;
    const struct bh_client_res *last = &res[n - 1];

    r->call = 0;
    if (unknown(last)) {
        again_later(&r->again, &r->wait_ms);
    } else if (last->status == 409) { /* another version, or another claim of this name */
        r->read = true;
        removal_send(r);
    } else {
        removal_end(r); /* done, or there is nothing that could be done */
    }
}

static void removal_send(void *arg)
{
    struct removal *r = arg;
    struct bh_resource_v1_resource_claim c =
        *(const struct bh_resource_v1_resource_claim *)bh_obj_struct(r->obj);
    struct bh_str_vec f = {NULL, 0};
    const struct bh_kind *k = &bh_resource_v1_resource_claim_kind;
    struct bh_client_req reqs[2] = {
        {.verb = BH_VERB_UPDATE, .kind = k, .ns = r->obj->ns, .name = r->obj->name, .msg_kind = k},
        {.verb = BH_VERB_DELETE, .kind = k, .ns = r->obj->ns, .name = r->obj->name}};
    size_t first;

    if (r->read) {
        struct bh_client_req get = reqs[1];

        get.verb = BH_VERB_GET;
        r->call = bh_client_call(r->s->client, &get, removal_read, r);
        return;
    }
    BH_AUTO_ARENA a = bh_arena_new(0);

    f.p = bh_new_n(a, struct bh_str, c.metadata.finalizers.n + 1);
    for (size_t i = 0; i < c.metadata.finalizers.n; i++)
        if (!bh_str_eqc(c.metadata.finalizers.p[i], FINALIZER))
            f.p[f.n++] = c.metadata.finalizers.p[i];
    first = f.n == c.metadata.finalizers.n;
    c.metadata.finalizers = f;
    reqs[0].msg = &c;
    reqs[1].body = bh_str_fmt(a,
                              "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\","
                              "\"preconditions\":{\"uid\":\"%.*s\"}}",
                              BH_SF(r->obj->uid));
    r->call = bh_client_sequence(r->s->client, reqs + first, 2 - first, removal_answer, r);
}

void sched_claim_remove(struct bh_scheduler *s, struct bh_obj *claim)
{
    struct removal *r;

    bh_list_for(it, &s->removing)
    {
        if (bh_str_eq(bh_container(it, struct removal, link)->obj->uid, claim->uid))
            return;
    }
    r = bh_calloc(1, sizeof(*r));
    r->s = s;
    r->obj = bh_obj_ref(claim);
    bh_timer_init(&r->again, s->loop, removal_send, r);
    bh_list_add_tail(&s->removing, &r->link);
    removal_send(r);
}

/* ---- all ---- */

void sched_give_seen(struct bh_scheduler *s, const struct bh_obj *claim, bool gone)
{
    bool beaten = false;

    bh_list_for_safe(it, &s->giving)
    {
        struct giving *g = bh_container(it, struct giving, link);

        if (!bh_str_eq(g->obj->uid, claim->uid))
            continue;
        /* A release of which nothing is known yet ends by its own answer. */
        if (gone || (g->pod ? g->landed && claim->rv >= g->landed : claim->rv > g->obj->rv)) {
            beaten |= g->beaten;
            giving_end(g);
        }
    }
    if (beaten)
        sched_devices_freed(s); /* whoever waited for it looks again */
}

void sched_give_done(struct bh_scheduler *s)
{
    bh_list_for_safe(it, &s->giving) giving_end(bh_container(it, struct giving, link));
    bh_list_for_safe(it2, &s->removing) removal_end(bh_container(it2, struct removal, link));
}
