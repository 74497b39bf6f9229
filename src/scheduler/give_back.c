/* Claims whose allocation the scheduler gives back.
 *
 * Until the answer is known the claim must not be used: a pod that is bound with the allocation
 * that the informer still shows would run without its devices once the write lands. So a write
 * whose fate is unknown is repeated, for the very version it was made for, until it is stored or
 * has become impossible.
 */
#include "scheduler/sched_int.h"

#include <string.h>

#define AGAIN_MS 500

struct giving {
    struct bh_link link; /* in s->giving */
    struct bh_scheduler *s;
    struct bh_obj *obj; /* the version with the allocation */
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
    bh_free(g);
}

static struct giving *giving_of(struct bh_scheduler *s, struct bh_str uid)
{
    bh_list_for(it, &s->giving)
    {
        struct giving *g = bh_container(it, struct giving, link);

        if (bh_str_eq(g->obj->uid, uid))
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

void sched_give_back(struct bh_scheduler *s, struct bh_obj *claim)
{
    struct giving *g;

    if (giving_of(s, claim->uid))
        return;
    g = bh_calloc(1, sizeof(*g));
    g->s = s;
    g->obj = bh_obj_ref(claim);
    bh_timer_init(&g->again, s->loop, send, g);
    bh_list_add_tail(&s->giving, &g->link);
    send(g);
}

bool sched_gives_back(struct bh_scheduler *s, const struct bh_obj *claim)
{
    return giving_of(s, claim->uid) != NULL;
}

void sched_give_seen(struct bh_scheduler *s, const struct bh_obj *claim, bool gone)
{
    struct giving *g = giving_of(s, claim->uid);

    if (g && (gone || claim->rv > g->obj->rv))
        giving_end(g);
}

void sched_give_done(struct bh_scheduler *s)
{
    bh_list_for_safe(it, &s->giving) giving_end(bh_container(it, struct giving, link));
}
