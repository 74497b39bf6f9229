/* What the scheduler takes back of claims: allocations, and reservations for a pod.
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

#define AGAIN_MS 500

struct giving {
    struct bh_link link; /* in s->giving */
    struct bh_scheduler *s;
    struct bh_obj *obj; /* the version that the write is made for */
    struct bh_obj *pod; /* whose reservation is taken back; NULL: the allocation is */
    bool read;          /* another wrote: which version is there now is to be read */
    bool unsure;        /* a write for this version may still land */
    uint64_t landed;    /* first version known to be without the reservation; 0: none yet */
    struct bh_timer again;
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

    g->call = 0;
    if (res->status == 0 || res->status == 429 || res->status >= 500) {
        bh_timer_start(&g->again, AGAIN_MS);
        return;
    }
    if (res->err.code == BH_OK)
        return; /* the informer's event ends it */
    /* Somebody else wrote: this write cannot land any more, nor an earlier one of its kind. */
    giving_end(g);
    sched_devices_freed(s); /* whoever waited for it looks again */
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
        bh_timer_start(&g->again, AGAIN_MS);
        return;
    }
    g->obj = bh_obj_ref(res->obj);
    (void)bh_obj_unref(old);
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
    bool unknown = res->status == 0 || res->status == 429 || res->status >= 500;

    g->call = 0;
    if (!g->read && res->status == 409) {
        g->read = true;
        release_send(g);
    } else if (unknown) {
        g->unsure |= !g->read;
        bh_timer_start(&g->again, AGAIN_MS);
    } else if (res->status == 404) {
        release_over(g);
    } else if (res->err.code != BH_OK || !res->obj) {
        if (g->read || g->unsure)
            bh_timer_start(&g->again, AGAIN_MS);
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

/* ---- both ---- */

void sched_give_seen(struct bh_scheduler *s, const struct bh_obj *claim, bool gone)
{
    bh_list_for_safe(it, &s->giving)
    {
        struct giving *g = bh_container(it, struct giving, link);

        if (!bh_str_eq(g->obj->uid, claim->uid))
            continue;
        /* A release of which nothing is known yet ends by its own answer. */
        if (gone || (g->pod ? g->landed && claim->rv >= g->landed : claim->rv > g->obj->rv))
            giving_end(g);
    }
}

void sched_give_done(struct bh_scheduler *s)
{
    bh_list_for_safe(it, &s->giving) giving_end(bh_container(it, struct giving, link));
}
