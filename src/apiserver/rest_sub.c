/* Subresources of pods that act instead of storing what was sent: binding, eviction, log. */
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "apiserver/body.h"
#include "apiserver/pod_log.h"
#include "apiserver/scale.h"
#include "apiserver/write.h"

#include <string.h>

/* A bare Status 201, as upstream answers to bindings and evictions. */
static void answer_created(struct bh_rq *rq)
{
    struct bh_meta_v1_status st = {.status = BH_S("Success"), .code = 201};

    if (rq->objects) { /* the number says it all */
        struct bh_api_response res = {.status = 201};

        bh_rq_answer(rq, &res);
        return;
    }
    bh_rq_answer_msg(rq, 201, &bh_meta_v1_status_kind, &st);
}

static void acted(void *arg, struct bh_obj *obj, const struct bh_err *err)
{
    struct bh_rq *rq = arg;

    (void)obj;
    if (err) {
        (void)bh_fail_err(rq, err);
        bh_rq_send_fail(rq);
        return;
    }
    answer_created(rq);
}

/* ---- binding ---- */

static int binding_conflict(struct bh_rq *rq, struct bh_str name, struct bh_str why)
{
    int r = bh_fail_msg(rq, BH_E_CONFLICT,
                        "Operation cannot be fulfilled on pods/binding \"%.*s\": %.*s", BH_SF(name),
                        BH_SF(why));

    rq->fail.name = name;
    rq->fail.kind = BH_S("pods/binding");
    return r;
}

static void set_scheduled(struct bh_rq *rq, struct bh_core_v1_pod *p)
{
    struct bh_core_v1_pod_condition c = {
        .type = BH_S("PodScheduled"), .status = BH_S("True"), .last_transition_time = rq->now};
    struct bh_core_v1_pod_condition *v;
    size_t n = p->status.conditions.n;

    for (size_t i = 0; i < n; i++)
        if (bh_str_eqc(p->status.conditions.p[i].type, "PodScheduled")) {
            if (bh_str_eqc(p->status.conditions.p[i].status, "True"))
                c.last_transition_time = p->status.conditions.p[i].last_transition_time;
            p->status.conditions.p[i] = c;
            return;
        }
    v = bh_new_n(rq->a, struct bh_core_v1_pod_condition, n + 1);
    if (n > 0)
        memcpy(v, p->status.conditions.p, n * sizeof(*v));
    v[n] = c;
    p->status.conditions.p = v;
    p->status.conditions.n = n + 1;
}

static int precondition_failed(struct bh_rq *rq, struct bh_resource *pods,
                               const struct bh_core_v1_pod *p, const char *what,
                               struct bh_str given, struct bh_str have)
{
    return bh_fail_conflict(
        rq, &bh_core_v1_pod_kind, p->metadata.name, "%.*s",
        BH_SF(bh_str_fmt(rq->a,
                         "StorageError: invalid object, Code: 4, Key: %.*s, ResourceVersion: 0, "
                         "AdditionalErrorMsg: Precondition failed: %s in precondition: %.*s, "
                         "%s in object meta: %.*s",
                         BH_SF(bh_rq_key(rq, pods, p->metadata.namespace, p->metadata.name)), what,
                         BH_SF(given), what, BH_SF(have))));
}

static int check_binding(struct bh_rq *rq, struct bh_resource *pods,
                         const struct bh_core_v1_binding *b, const struct bh_core_v1_pod *p)
{
    struct bh_str name = p->metadata.name;

    /* Through the collection of bindings nobody looks at uid and version. */
    if (rq->ri.name.n > 0 && b->metadata.uid.n > 0 && !bh_str_eq(b->metadata.uid, p->metadata.uid))
        return precondition_failed(rq, pods, p, "UID", b->metadata.uid, p->metadata.uid);
    if (rq->ri.name.n > 0 && b->metadata.resource_version.n > 0 &&
        !bh_str_eq(b->metadata.resource_version, p->metadata.resource_version))
        return precondition_failed(rq, pods, p, "ResourceVersion", b->metadata.resource_version,
                                   p->metadata.resource_version);
    if (!bh_time_is_zero(p->metadata.deletion_timestamp))
        return binding_conflict(
            rq, name,
            bh_str_fmt(rq->a, "pod %.*s is being deleted, cannot be assigned to a host",
                       BH_SF(name)));
    if (p->spec.node_name.n > 0)
        return binding_conflict(rq, name,
                                bh_str_fmt(rq->a, "pod %.*s is already assigned to node \"%.*s\"",
                                           BH_SF(name), BH_SF(p->spec.node_name)));
    if (p->spec.scheduling_gates.n > 0)
        return binding_conflict(
            rq, name,
            bh_str_fmt(rq->a, "pod %.*s has non-empty .spec.schedulingGates", BH_SF(name)));
    return 0;
}

static int bind(struct bh_rq *rq, struct bh_resource *pods, const struct bh_core_v1_binding *b,
                struct bh_obj *old)
{
    struct bh_core_v1_pod *p = bh_msg_dup(&bh_core_v1_pod_type, bh_obj_struct(old), rq->a);
    int r = check_binding(rq, pods, b, p);

    if (r < 0)
        return r;
    p->spec.node_name = b->target.name;
    for (size_t i = 0; i < b->metadata.annotations.n; i++)
        bh_str_map_put(rq->a, &p->metadata.annotations, b->metadata.annotations.p[i].key,
                       b->metadata.annotations.p[i].value);
    for (size_t i = 0; i < b->metadata.labels.n; i++)
        bh_str_map_put(rq->a, &p->metadata.labels, b->metadata.labels.p[i].key,
                       b->metadata.labels.p[i].value);
    p->status.nominated_node_name = (struct bh_str){NULL, 0}; /* it has its place */
    set_scheduled(rq, p);
    if (rq->dry_run) {
        answer_created(rq);
        return 0;
    }
    r = bh_write_submit_then(rq, BH_STORE_UPDATE, pods, p, acted, rq);
    rq->accepted = r == 0;
    return r;
}

int bh_rest_binding(struct bh_rq *rq)
{
    struct bh_resource *pods = bh_resource_find(rq->srv, BH_S(""), BH_S("pods"));
    struct bh_core_v1_binding *b;
    struct bh_obj *old;
    struct bh_str name;
    void *msg = NULL;
    int r = rq->as == BH_AS_TABLE ? bh_media_no_shape(rq) : bh_options_write(rq, "CreateOptions");

    if (r == 0)
        r = bh_body_decode(rq, &bh_core_v1_binding_kind, &msg);
    if (r < 0)
        return r;
    b = msg;
    if (b->metadata.namespace.n > 0 && !bh_str_eq(b->metadata.namespace, rq->ri.ns))
        return bh_fail_msg(rq, BH_E_BAD_REQUEST,
                           "the namespace of the provided object does not match the namespace sent "
                           "on the request");
    name = rq->ri.name.n > 0 ? rq->ri.name : b->metadata.name;
    if (rq->ri.name.n > 0 && !bh_str_eq(b->metadata.name, rq->ri.name))
        return bh_fail_msg(rq, BH_E_BAD_REQUEST,
                           "name in URL does not match name in Binding object");
    if (b->target.kind.n > 0 && !bh_str_eqc(b->target.kind, "Node") &&
        !bh_str_eqc(b->target.kind, "Minion"))
        return bh_fail_plain(
            rq, "target.kind: Unsupported value: \"%.*s\": supported values: \"Node\", \"<empty>\"",
            BH_SF(b->target.kind));
    if (b->target.name.n == 0)
        return bh_fail_plain(rq, "target.name: Required value");
    old = bh_pipeline_head(rq->srv->pipe, pods->wc, bh_rq_key(rq, pods, rq->ri.ns, name));
    if (!old)
        return bh_fail_not_found(rq, BH_S(""), BH_S("pods"), name);
    return bind(rq, pods, b, old);
}

/* ---- which ---- */

int bh_rest_sub(struct bh_rq *rq)
{
    struct bh_str sub = rq->ri.sub;

    if (bh_scale_asked(rq))
        return bh_rest_scale(rq);
    if (rq->res->hub != &bh_core_v1_pod_kind)
        return 1;
    if (bh_str_eqc(sub, "binding"))
        return bh_rest_binding(rq);
    if (bh_str_eqc(sub, "eviction"))
        return bh_rest_eviction(rq, acted);
    if (bh_str_eqc(sub, "log"))
        return bh_pod_log(rq);
    return 1;
}
