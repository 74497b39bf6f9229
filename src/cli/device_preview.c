/* Which pods a taint rule sends away, and when: what `bulkhead device taint --dry-run` says. Judged
 * by the controller's own code. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/gen/core_v1.h"
#include "api/gen/resource_v1.h"
#include "api/gen/resource_v1beta2.h"
#include "api/obj.h"
#include "base/arena.h"
#include "base/map.h"
#include "cli/device_cmd.h"
#include "cli/table.h"
#include "controllers/device_taint.h"
#include "net/loop.h"

struct row {
    struct bh_str pod, node, claim, goes;
};

struct preview {
    struct device_api *api;
    const struct bh_obj *rule;
    struct bh_map claims, pods; /* "ns/name" -> object */
    struct dt_index *index;
    struct row *rows;
    size_t n, cap;
};

static void index_by_key(struct bh_map *m, const struct device_objs *objs)
{
    char buf[1024];

    for (size_t i = 0; i < objs->n; i++)
        (void)bh_map_put(m, bh_obj_key(objs->p[i], buf, sizeof(buf)), objs->p[i]);
}

static struct bh_obj *by_name(const struct bh_map *m, struct bh_arena *a, struct bh_str ns,
                              struct bh_str name)
{
    return bh_map_get(m, bh_str_fmt(a, "%.*s/%.*s", BH_SF(ns), BH_SF(name)));
}

static struct bh_obj *claim_get(void *arg, struct bh_str ns, struct bh_str name)
{
    struct preview *p = arg;

    return by_name(&p->claims, p->api->a, ns, name);
}

static struct bh_str goes(struct preview *p, const struct bh_obj *pod)
{
    struct dt_verdict v = dt_judge_pod(p->index, pod, claim_get, p, p->rule, p->api->a);
    int64_t wait;

    if (pod->deleting)
        return BH_S("is going already");
    if (v.at_ns == DT_NEVER)
        return BH_S("stays: it tolerates the taint");
    wait = (v.at_ns - bh_loop_wall_ns(p->api->loop) + 999999999) / 1000000000;
    if (wait <= 0)
        return BH_S("at once");
    return bh_str_fmt(p->api->a, "after %" PRId64 "s: it tolerates the taint for a while", wait);
}

/* The pods of a claim that has a device which the rule selects. */
static void claim_rows(struct preview *p, const struct bh_obj *o)
{
    const struct bh_resource_v1_resource_claim *c = bh_obj_struct(o);
    bool selected = false;

    for (size_t i = 0; c->status.allocation && i < c->status.allocation->devices.results.n; i++) {
        const struct bh_resource_v1_device_request_allocation_result *r =
            &c->status.allocation->devices.results.p[i];

        selected = selected || dt_rule_selects(p->rule, r->driver, r->pool, r->device);
    }
    for (size_t i = 0; selected && i < c->status.reserved_for.n; i++) {
        const struct bh_resource_v1_resource_claim_consumer_reference *r =
            &c->status.reserved_for.p[i];
        struct bh_obj *pod = by_name(&p->pods, p->api->a, o->ns, r->name);

        if (!pod || !bh_str_eq(pod->uid, r->uid))
            continue;
        bh_arena_grow(p->api->a, &p->rows, &p->cap, p->n + 1, sizeof(*p->rows));
        p->rows[p->n++] = (struct row){
            .pod = bh_str_fmt(p->api->a, "%.*s/%.*s", BH_SF(pod->ns), BH_SF(pod->name)),
            .node = ((const struct bh_core_v1_pod *)bh_obj_struct(pod))->spec.node_name,
            .claim = o->name,
            .goes = goes(p, pod)};
    }
}

static int by_pod(const void *x, const void *y)
{
    const struct row *a = x, *b = y;
    int r = bh_str_cmp(a->pod, b->pod);

    return r ? r : bh_str_cmp(a->claim, b->claim);
}

int device_preview(struct device_api *api, const struct bh_obj *rule, struct bh_err *err)
{
    const struct bh_resource_v1beta2_device_taint_rule *ru = bh_obj_struct(rule);
    static const char *const heads[] = {"POD", "NODE", "CLAIM", "GOES"};
    struct preview p = {.api = api, .rule = bh_obj_ref(rule)};
    int r = 0;

    if (!bh_str_eqc(ru->spec.taint.effect, "NoExecute")) {
        printf("no pod goes: the effect %.*s does not evict\n", BH_SF(ru->spec.taint.effect));
    } else {
        r = device_api_list(api, &bh_core_v1_pod_kind, &api->pods, err);
        p.index = dt_index_new(false);
        index_by_key(&p.claims, &api->claims);
        index_by_key(&p.pods, &api->pods);
        for (size_t i = 0; r == 0 && i < api->claims.n; i++)
            claim_rows(&p, api->claims.p[i]);
        if (p.n > 1)
            qsort(p.rows, p.n, sizeof(*p.rows), by_pod);
        if (p.n)
            cli_table(heads, BH_COUNT(heads), &p.rows[0].pod, p.n);
        else if (r == 0)
            puts("no pod goes: nobody uses the device");
        p.index = dt_index_free(p.index);
    }
    bh_map_done(&p.claims);
    bh_map_done(&p.pods);
    (void)bh_obj_unref(p.rule);
    return r;
}
