/* The scale of a workload: its replicas seen and changed as an autoscaling/v1 Scale.
 *
 * Nothing of a Scale is stored. It is made of the object when it is shown, and what a write says of
 * it goes back into the object, which is then written like any other update.
 */
#include "apiserver/scale.h"

#include "api/gen/apps_v1.h"
#include "api/gen/autoscaling_v1.h"
#include "api/gen/core_v1.h"
#include "api/label_selector.h"
#include "apiserver/body.h"
#include "apiserver/validate/validate_int.h"
#include "apiserver/write.h"

#include <string.h>

/* What a kind has of a scale. */
struct scaled {
    int32_t *replicas;
    bool *has_replicas;
    int32_t seen;
    const struct bh_meta_v1_label_selector *selector;
    const struct bh_str_map *labels; /* in its place */
};

static struct scaled scaled_of(const struct bh_kind *k, void *obj)
{
    struct bh_core_v1_replication_controller *rc = obj;
    struct bh_apps_v1_stateful_set *st = obj;
    struct bh_apps_v1_deployment *d = obj;
    struct bh_apps_v1_replica_set *rs = obj;

    if (k->type == &bh_core_v1_replication_controller_type)
        return (struct scaled){&rc->spec.replicas, &rc->spec.has_replicas, rc->status.replicas,
                               NULL, &rc->spec.selector};
    if (k->type == &bh_apps_v1_stateful_set_type)
        return (struct scaled){&st->spec.replicas, &st->spec.has_replicas, st->status.replicas,
                               st->spec.selector, NULL};
    if (k->type == &bh_apps_v1_deployment_type)
        return (struct scaled){&d->spec.replicas, &d->spec.has_replicas, d->status.replicas,
                               d->spec.selector, NULL};
    return (struct scaled){&rs->spec.replicas, &rs->spec.has_replicas, rs->status.replicas,
                           rs->spec.selector, NULL};
}

bool bh_scale_asked(const struct bh_rq *rq)
{
    return rq->sub && bh_str_eqc(rq->sub->name, "scale");
}

const struct bh_kind *bh_body_kind(const struct bh_rq *rq)
{
    return bh_scale_asked(rq) ? &bh_autoscaling_v1_scale_kind : rq->kind;
}

static struct bh_str selector_text(struct bh_arena *a, const struct scaled *s)
{
    struct bh_meta_v1_label_selector of_labels = {0};
    struct bh_label_selector sel;

    if (s->labels)
        of_labels.match_labels = *s->labels;
    if (!bh_label_selector_of(a, s->labels ? &of_labels : s->selector, &sel) || sel.nothing)
        return BH_S("");
    return bh_label_selector_str(a, &sel);
}

struct bh_obj *bh_scale_of(struct bh_rq *rq, const struct bh_obj *stored, struct bh_err *err)
{
    void *obj = bh_arena_memdup(rq->a, bh_obj_struct(stored), stored->kind->type->size);
    const struct bh_meta_v1_object_meta *m = bh_meta_const(stored->kind, obj);
    struct scaled s = scaled_of(stored->kind, obj);
    struct bh_autoscaling_v1_scale scale = {
        .metadata = {.name = m->name,
                     .namespace = m->namespace,
                     .uid = m->uid,
                     .resource_version = m->resource_version,
                     .creation_timestamp = m->creation_timestamp},
        .spec = {.replicas = *s.replicas},
        .status = {.replicas = s.seen, .selector = selector_text(rq->a, &s)}};

    return bh_obj_from_struct(&bh_autoscaling_v1_scale_kind, &scale, err);
}

static int bad_uid(struct bh_rq *rq, const struct bh_obj *old, struct bh_str uid)
{
    struct bh_str what = bh_str_fmt(rq->a, "%.*s/scale", BH_SF(rq->kind->resource));
    int r = bh_fail_msg(rq, BH_E_CONFLICT,
                        "Operation cannot be fulfilled on %.*s \"%.*s\": Precondition failed: "
                        "UID in precondition: %.*s, UID in object meta: %.*s",
                        BH_SF(bh_qualified(rq, rq->kind->group, what)), BH_SF(old->name),
                        BH_SF(uid), BH_SF(old->uid));

    rq->fail.name = old->name;
    rq->fail.group = rq->kind->group;
    rq->fail.kind = what;
    return r;
}

static int check(struct bh_rq *rq, const struct bh_autoscaling_v1_scale *scale,
                 const struct bh_obj *old, const char *verb)
{
    struct bh_field_errs errs = {.a = rq->a};
    struct bh_str uid = scale->metadata.uid;

    bh_v_meta(&errs, BH_FP(NULL, "metadata"), &scale->metadata, true, bh_check_dns1123_subdomain,
              BH_VM_KUBE);
    bh_v_nonnegative(&errs, BH_FP(BH_FP(NULL, "spec"), "replicas"), scale->spec.replicas);
    if (errs.n)
        return bh_fail_invalid(rq, BH_S("autoscaling"), BH_S("Scale"), old->name, &errs);
    /* Of an update the write itself tells it, as of any other. */
    if (strcmp(verb, "update") != 0 && uid.n && !bh_str_eq(uid, old->uid))
        return bad_uid(rq, old, uid);
    return 0;
}

int bh_scale_write(struct bh_rq *rq, struct bh_obj *old, const void *msg, const char *verb)
{
    const struct bh_autoscaling_v1_scale *scale = msg;
    struct bh_update u = {.old = old, .sub = rq->ri.sub, .verb = verb};
    struct scaled s;
    int r = check(rq, scale, old, verb);

    if (r < 0)
        return r;
    u.obj = bh_msg_dup(rq->kind->type, bh_obj_struct(old), rq->a);
    s = scaled_of(rq->kind, u.obj);
    *s.has_replicas = true;
    *s.replicas = scale->spec.replicas;
    bh_meta_of(rq->kind, u.obj)->resource_version = scale->metadata.resource_version;
    if (scale->metadata.uid.n)
        bh_meta_of(rq->kind, u.obj)->uid = scale->metadata.uid;
    return bh_write_update(rq, &u);
}

static int put(struct bh_rq *rq)
{
    struct bh_meta_v1_object_meta *m;
    struct bh_obj *old;
    void *scale = NULL;
    int r = bh_options_write(rq, "UpdateOptions");

    if (r == 0)
        r = bh_body_decode(rq, bh_body_kind(rq), &scale);
    if (r < 0)
        return r;
    m = bh_meta_of(bh_body_kind(rq), scale);
    r = bh_check_namespace(rq, m);
    if (r == 0)
        r = bh_check_name(rq, m);
    if (r == 0)
        r = bh_rq_head(rq, &old);
    return r < 0 ? r : bh_scale_write(rq, old, scale, "update");
}

/* Of `from`, the members that are named. */
static struct bh_jv only(struct bh_arena *a, const struct bh_jv *from, const char *const *names,
                         size_t n)
{
    struct bh_jv r = BH_JV_OBJ;

    for (size_t i = 0; from && i < n; i++) {
        const struct bh_jv *v = bh_jv_getc(from, names[i]);

        if (v)
            (void)bh_jv_setc(a, &r, names[i], *v);
    }
    return r;
}

void bh_scale_apply(struct bh_rq *rq, struct bh_jv *patch)
{
    static const char *const meta[] = {"name", "namespace", "uid", "resourceVersion"},
                             *const spec[] = {"replicas"};
    struct bh_jv r = BH_JV_OBJ;

    (void)bh_jv_setc(rq->a, &r, "apiVersion", bh_jv_str(rq->kind->api_version));
    (void)bh_jv_setc(rq->a, &r, "kind", bh_jv_str(rq->kind->kind));
    (void)bh_jv_setc(rq->a, &r, "metadata",
                     only(rq->a, bh_jv_getc(patch, "metadata"), meta, BH_COUNT(meta)));
    (void)bh_jv_setc(rq->a, &r, "spec",
                     only(rq->a, bh_jv_getc(patch, "spec"), spec, BH_COUNT(spec)));
    *patch = r;
}

struct bh_time bh_scale_time(const struct bh_rq *rq)
{
    return bh_scale_asked(rq) ? (struct bh_time){0, 0} : rq->now;
}

void bh_scale_bare(const struct bh_kind *k, void *obj)
{
    struct scaled s = scaled_of(k, obj);

    if (*s.replicas == 0)
        *s.has_replicas = false;
}

bool bh_scale_owned(struct bh_rq *rq, const struct bh_managers *m)
{
    static const char *const path[] = {"spec.replicas"};
    const struct bh_fset *replicas = bh_fset_of_paths(rq->a, path, 1);

    for (size_t i = 0; i < m->n; i++) {
        struct bh_fset *set = NULL;

        if (bh_fset_decode(bh_manager_text(&m->p[i], rq->a), rq->a, &set, NULL) == 0 &&
            !bh_fset_empty(bh_fset_intersection(rq->a, set, replicas)))
            return true;
    }
    return false;
}

int bh_rest_scale(struct bh_rq *rq)
{
    return bh_str_eqc(rq->ri.verb, "update") ? put(rq) : 1;
}
