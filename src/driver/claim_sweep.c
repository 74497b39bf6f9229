/* One round: list the prepared claims, read each from the API, release those that have been gone
 * for long enough. */
#include "driver/claim_sweep.h"

#include "api/gen/resource_v1.h"
#include "api/obj.h"
#include "base/arena.h"
#include "base/log.h"
#include "base/map.h"
#include "client/client.h"
#include "driver/claim_store.h"
#include "driver/dra_service.h"
#include "net/loop.h"

#define PERIOD_MAX_MS 30000

struct gone { /* a claim that was missing */
    int64_t since_ns;
    bool seen; /* in this round */
};

struct bh_claim_sweep {
    struct bh_loop *loop;
    struct bh_client *client;
    struct bh_dra_service *svc;
    struct bh_claim_store *store;
    char *driver;
    int grace_ms;
    struct bh_timer timer;
    struct bh_map gone; /* UID to struct gone * */
    bool turn;          /* a turn is asked for or under way */
    bool closed;
    uint64_t call;

    struct bh_arena *arena; /* of the round */
    struct bh_claim_ref *claims;
    size_t n, at;
    struct bh_claim_ref *release;
    size_t release_n;
};

static void next_claim(struct bh_claim_sweep *s);

static void sweep_done(struct bh_claim_sweep *s)
{
    void *g;

    for (size_t it = 0; bh_map_next(&s->gone, &it, NULL, &g);)
        bh_free(g);
    bh_map_done(&s->gone);
    (void)bh_arena_free(s->arena);
    bh_free(s->driver);
    bh_free(s);
}

static void round_end(struct bh_claim_sweep *s)
{
    struct bh_str uid;
    void *g;

    for (size_t it = 0; bh_map_next(&s->gone, &it, &uid, &g);) {
        if (((struct gone *)g)->seen) {
            ((struct gone *)g)->seen = false;
            continue;
        }
        (void)bh_map_del(&s->gone, uid); /* it came back, or was released */
        bh_free(g);
    }
    s->arena = bh_arena_free(s->arena);
    s->n = s->at = s->release_n = 0;
    bh_timer_start(&s->timer, s->grace_ms / 2 < PERIOD_MAX_MS ? s->grace_ms / 2 : PERIOD_MAX_MS);
}

static void release_work(void *arg) /* worker pool */
{
    struct bh_claim_sweep *s = arg;
    struct bh_err err = {0};

    for (size_t i = 0; i < s->release_n; i++)
        if (bh_claim_unprepare(s->store, &s->release[i], &err) < 0)
            bh_log(BH_WARN, "cannot release a claim that is gone, it will be tried again",
                   BH_STR("uid", s->release[i].uid), BH_CSTR("why", err.msg));
        else
            bh_log(BH_WARN, "released a claim that left the API and that nobody released",
                   BH_STR("namespace", s->release[i].ns), BH_STR("claim", s->release[i].name),
                   BH_STR("uid", s->release[i].uid));
}

static void release_done(void *arg)
{
    struct bh_claim_sweep *s = arg;

    s->turn = false;
    if (s->closed)
        sweep_done(s);
    else
        round_end(s);
}

static bool holds(const struct bh_claim_sweep *s, const struct bh_obj *obj, struct bh_str uid)
{
    const struct bh_resource_v1_resource_claim *c = bh_obj_struct(obj);

    if (!bh_str_eq(obj->uid, uid) || !c->status.allocation)
        return false;
    for (size_t i = 0; i < c->status.allocation->devices.results.n; i++)
        if (bh_str_eqc(c->status.allocation->devices.results.p[i].driver, s->driver))
            return true;
    return false;
}

static void got_claim(void *arg, const struct bh_client_res *res)
{
    struct bh_claim_sweep *s = arg;
    const struct bh_claim_ref *c = &s->claims[s->at];
    bool gone = res->err.code == BH_E_NOT_FOUND ||
                (res->err.code == BH_OK && res->obj && !holds(s, res->obj, c->uid));
    struct gone *g;

    s->call = 0;
    if (gone) {
        g = bh_map_get(&s->gone, c->uid);
        if (!g) {
            g = bh_calloc(1, sizeof(*g));
            g->since_ns = bh_loop_mono_ns(s->loop);
            (void)bh_map_put(&s->gone, c->uid, g);
        }
        g->seen = true;
        if (bh_loop_mono_ns(s->loop) - g->since_ns >= (int64_t)s->grace_ms * 1000000)
            s->release[s->release_n++] = *c;
    }
    s->at++;
    next_claim(s);
}

static void next_claim(struct bh_claim_sweep *s)
{
    struct bh_client_req r = {.verb = BH_VERB_GET, .kind = &bh_resource_v1_resource_claim_kind};

    if (s->at < s->n) {
        r.ns = s->claims[s->at].ns;
        r.name = s->claims[s->at].name;
        s->call = bh_client_call(s->client, &r, got_claim, s);
    } else if (s->release_n > 0) {
        s->turn = true;
        bh_dra_service_turn(s->svc, release_work, release_done, s);
    } else {
        round_end(s);
    }
}

static void list_work(void *arg) /* worker pool */
{
    struct bh_claim_sweep *s = arg;

    s->n = bh_claim_store_list(s->store, s->arena, &s->claims);
}

static void list_done(void *arg)
{
    struct bh_claim_sweep *s = arg;

    s->turn = false;
    if (s->closed) {
        sweep_done(s);
        return;
    }
    s->release = bh_new_n(s->arena, struct bh_claim_ref, s->n + 1);
    next_claim(s);
}

static void round_start(void *arg)
{
    struct bh_claim_sweep *s = arg;

    s->arena = bh_arena_new(0);
    s->turn = true;
    bh_dra_service_turn(s->svc, list_work, list_done, s);
}

struct bh_claim_sweep *bh_claim_sweep_new(struct bh_client *c, struct bh_dra_service *svc,
                                          struct bh_claim_store *store, const char *driver,
                                          int grace_ms)
{
    struct bh_claim_sweep *s = bh_calloc(1, sizeof(*s));

    s->loop = bh_client_loop(c);
    s->client = c;
    s->svc = svc;
    s->store = store;
    s->driver = bh_strdup_c(bh_s(driver));
    s->grace_ms = grace_ms;
    bh_timer_init(&s->timer, s->loop, round_start, s);
    bh_timer_start(&s->timer, grace_ms / 2 < PERIOD_MAX_MS ? grace_ms / 2 : PERIOD_MAX_MS);
    return s;
}

struct bh_claim_sweep *bh_claim_sweep_free(struct bh_claim_sweep *s)
{
    if (!s)
        return NULL;
    bh_timer_stop(&s->timer);
    if (s->call != 0)
        bh_client_cancel(s->client, s->call);
    s->call = 0;
    s->closed = true;
    if (!s->turn)
        sweep_done(s);
    return NULL;
}
