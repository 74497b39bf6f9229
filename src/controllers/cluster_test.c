/* What the tests of controllers share. */
#include "controllers/cluster_test.h"

#include "api/gen/coordination_v1.h"
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/resource_v1.h"
#include "api/gen/resource_v1beta2.h"
#include "base/arena.h"
#include "base/test.h"
#include "data/time_fmt.h"

static void start(struct tc *t)
{
    struct bh_err err = {0};

    t->ctl = bh_controllers_new(&t->f.base, &t->opts, &err);
    if (!t->ctl)
        bh_test_fail(__FILE__, __LINE__, "%s", err.msg);
    tc_run(t, 100);
}

void tc_open(struct tc *t, const char *controllers)
{
    *t = (struct tc){.opts = {.controllers = controllers}};
    world_open(&t->w);
    t->own = world_client(&t->w, "system:kube-controller-manager", NULL);
    flaky_init(&t->f, t->own);
    start(t);
}

void tc_close(struct tc *t)
{
    (void)bh_controllers_free(t->ctl);
    (void)bh_client_free(&t->f.base);
    (void)bh_client_free(t->own);
    world_close(&t->w);
}

void tc_restart(struct tc *t)
{
    t->ctl = bh_controllers_free(t->ctl);
    tc_run(t, 100);
    start(t);
}

const char *tc_fmt(struct tc *t, const char *fmt, ...)
{
    struct bh_str s;
    va_list ap;

    va_start(ap, fmt);
    s = bh_str_vfmt(t->w.arena, fmt, ap);
    va_end(ap);
    return s.p;
}

static const char *now_text(struct tc *t, bool micro)
{
    int64_t ns = bh_loop_wall_ns(t->w.loop);
    char buf[64];
    struct bh_str s = bh_time_fmt((struct bh_time){ns / 1000000000, 0}, buf);

    if (!micro)
        return bh_str_dup(t->w.arena, s).p;
    return tc_fmt(t, "%.*s.%06dZ", (int)s.n - 1, s.p, (int)(ns % 1000000000 / 1000));
}

void tc_node(struct tc *t, const char *name)
{
    (void)world_make(&t->w, NODE, NULL, tc_fmt(t, "{\"metadata\":{\"name\":\"%s\"}}", name));
    (void)world_merge(
        &t->w, NODE, NULL, name, "status",
        tc_fmt(t,
               "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":"
               "\"KubeletReady\",\"lastHeartbeatTime\":\"%s\",\"lastTransitionTime\":\"%s\"}]}}",
               now_text(t, false), now_text(t, false)));
    (void)world_make(&t->w, &bh_coordination_v1_lease_kind, "kube-node-lease",
                     tc_fmt(t,
                            "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"holderIdentity\":\"%s\","
                            "\"leaseDurationSeconds\":40,\"renewTime\":\"%s\"}}",
                            name, name, now_text(t, true)));
}

void tc_beat(struct tc *t, const char *name)
{
    (void)world_merge(&t->w, &bh_coordination_v1_lease_kind, "kube-node-lease", name, "",
                      tc_fmt(t, "{\"spec\":{\"renewTime\":\"%s\"}}", now_text(t, true)));
}

void tc_slice(struct tc *t, const char *node, int n, const char *taints)
{
    const char *devices = "";
    const char *name = tc_fmt(t, "slice-%s", node);

    for (int i = 0; i < n; i++)
        devices = tc_fmt(t, "%s%s{\"name\":\"d%d\"%s%s}", devices, i ? "," : "", i,
                         i == 0 && taints ? ",\"taints\":" : "", i == 0 && taints ? taints : "");
    if (world_get(&t->w, SLICE, NULL, name)) {
        (void)world_merge(&t->w, SLICE, NULL, name, "",
                          tc_fmt(t, "{\"spec\":{\"devices\":[%s]}}", devices));
        return;
    }
    (void)world_make(
        &t->w, SLICE, NULL,
        tc_fmt(t,
               "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"driver\":\"d\",\"nodeName\":\"%s\","
               "\"pool\":{\"name\":\"%s\",\"generation\":1,\"resourceSliceCount\":1},"
               "\"devices\":[%s]}}",
               name, node, node, devices));
}

void tc_claim(struct tc *t, const char *ns, const char *name, const char *pool, const char *device,
              const char *tolerations)
{
    const char *more = tolerations ? tc_fmt(t, ",\"tolerations\":%s", tolerations) : "";

    (void)world_make(
        &t->w, CLAIM, ns,
        tc_fmt(t,
               "{\"metadata\":{\"name\":\"%s\",\"finalizers\":[\"resource.kubernetes.io/"
               "delete-protection\"]},\"spec\":{\"devices\":{\"requests\":[{\"name\":\"r\","
               "\"exactly\":{\"deviceClassName\":\"c\"%s}}]}}}",
               name, more));
    (void)world_merge(
        &t->w, CLAIM, ns, name, "status",
        tc_fmt(t,
               "{\"status\":{\"allocation\":{\"devices\":{\"results\":[{\"request\":\"r\","
               "\"driver\":\"d\",\"pool\":\"%s\",\"device\":\"%s\"%s}]}}}}",
               pool, device, more));
}

void tc_pod(struct tc *t, const char *ns, const char *name, const char *node, const char *claim)
{
    struct bh_obj *o = world_make(
        &t->w, POD, ns,
        tc_fmt(t,
               "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"nodeName\":\"%s\",\"containers\":[{"
               "\"name\":\"c\",\"image\":\"i\"}]%s%s%s}}",
               name, node,
               claim ? ",\"resourceClaims\":[{\"name\":\"r\",\"resourceClaimName\":\"" : "",
               claim ? claim : "", claim ? "\"}]" : ""));
    const char *reserved = "";
    const struct bh_resource_v1_resource_claim *c;

    if (!claim || !o)
        return;
    c = tc_get_claim(t, ns, claim);
    for (size_t i = 0; c && i < c->status.reserved_for.n; i++) {
        if (bh_str_eq(c->status.reserved_for.p[i].uid, o->uid))
            return; /* a controller was faster */
        reserved =
            tc_fmt(t, "%s{\"resource\":\"pods\",\"name\":\"%.*s\",\"uid\":\"%.*s\"},", reserved,
                   BH_SF(c->status.reserved_for.p[i].name), BH_SF(c->status.reserved_for.p[i].uid));
    }
    (void)world_merge(
        &t->w, CLAIM, ns, claim, "status",
        tc_fmt(t,
               "{\"status\":{\"reservedFor\":[%s{\"resource\":\"pods\",\"name\":\"%s\",\"uid\":"
               "\"%.*s\"}]}}",
               reserved, name, BH_SF(o->uid)));
}

const struct bh_core_v1_pod *tc_get_pod(struct tc *t, const char *ns, const char *name)
{
    struct bh_obj *o = world_get(&t->w, POD, ns, name);

    return o ? bh_obj_struct(o) : NULL;
}

const struct bh_resource_v1_resource_claim *tc_get_claim(struct tc *t, const char *ns,
                                                         const char *name)
{
    struct bh_obj *o = world_get(&t->w, CLAIM, ns, name);

    return o ? bh_obj_struct(o) : NULL;
}

bool tc_deleting(struct tc *t, const char *ns, const char *name)
{
    struct bh_obj *o = world_get(&t->w, POD, ns, name);

    return !o || o->deleting;
}

const char *tc_pod_condition(struct tc *t, const char *ns, const char *name, const char *type)
{
    const struct bh_core_v1_pod *p = tc_get_pod(t, ns, name);

    for (size_t i = 0; p && i < p->status.conditions.n; i++) {
        const struct bh_core_v1_pod_condition *c = &p->status.conditions.p[i];

        if (bh_str_eqc(c->type, type))
            return tc_fmt(t, "%.*s %.*s %.*s", BH_SF(c->status), BH_SF(c->reason),
                          BH_SF(c->message));
    }
    return "";
}

const char *tc_rule_condition(struct tc *t, const char *name)
{
    struct bh_obj *o = world_get(&t->w, RULE, NULL, name);
    const struct bh_resource_v1beta2_device_taint_rule *r = o ? bh_obj_struct(o) : NULL;

    if (!r || r->status.conditions.n != 1)
        return "";
    return tc_fmt(t, "%.*s %.*s %.*s", BH_SF(r->status.conditions.p[0].status),
                  BH_SF(r->status.conditions.p[0].reason),
                  BH_SF(r->status.conditions.p[0].message));
}

struct looking {
    const char *object, *reason, *message;
    bool found;
};

static void look(void *arg, const struct bh_client_res *res)
{
    struct looking *l = arg;

    for (size_t i = 0; i < res->items_n; i++) {
        const struct bh_core_v1_event *e = bh_obj_struct(res->items[i]);

        l->found = l->found || (bh_str_eqc(e->involved_object.name, l->object) &&
                                bh_str_eqc(e->reason, l->reason) &&
                                bh_str_starts(e->message, bh_s(l->message)));
    }
}

bool tc_event(struct tc *t, const char *ns, const char *object, const char *reason,
              const char *message)
{
    struct looking l = {object, reason, message, false};

    (void)bh_client_call(t->w.client,
                         &(struct bh_client_req){
                             .verb = BH_VERB_LIST, .kind = &bh_core_v1_event_kind, .ns = bh_s(ns)},
                         look, &l);
    tc_run(t, 100);
    return l.found;
}
