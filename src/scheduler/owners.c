/* Selectors of the workloads that own pods, for the default spreading. */
#include "api/gen/apps_v1.h"
#include "client/volumes.h"
#include "data/selector.h"
#include "scheduler/sched_int.h"

static const struct bh_meta_v1_owner_reference *controller(const struct spod *pod)
{
    const struct bh_meta_v1_owner_reference_vec *v = &pod->p->metadata.owner_references;

    for (size_t i = 0; i < v->n; i++)
        if (v->p[i].controller)
            return &v->p[i];
    return NULL;
}

static void add_all(struct bh_arena *a, struct bh_label_selector *sel,
                    const struct bh_label_selector *more)
{
    for (size_t i = 0; i < more->n; i++)
        if (bh_label_selector_add(a, sel, more->reqs[i].key, more->reqs[i].op, more->reqs[i].values,
                                  NULL) < 0)
            sel->nothing = true;
    sel->nothing |= more->nothing;
}

bool sched_owner_selector(struct cycle *c, struct bh_label_selector *sel)
{
    const struct bh_meta_v1_owner_reference *o = controller(c->pod);
    struct bh_label_selector more = {0};
    struct bh_obj *obj = NULL;

    if (!o)
        return false;
    if (bh_str_eqc(o->kind, "ReplicaSet") && c->s->inf_rss) {
        obj = bh_informer_get(c->s->inf_rss, c->pod->obj->ns, o->name);
        if (obj)
            bh_meta_selector(
                c->a, ((const struct bh_apps_v1_replica_set *)bh_obj_struct(obj))->spec.selector,
                &more);
    } else if (bh_str_eqc(o->kind, "StatefulSet") && c->s->inf_stss) {
        obj = bh_informer_get(c->s->inf_stss, c->pod->obj->ns, o->name);
        if (obj)
            bh_meta_selector(
                c->a, ((const struct bh_apps_v1_stateful_set *)bh_obj_struct(obj))->spec.selector,
                &more);
    } else if (bh_str_eqc(o->kind, "ReplicationController") && c->s->inf_rcs) {
        obj = bh_informer_get(c->s->inf_rcs, c->pod->obj->ns, o->name);
        if (obj)
            more = bh_label_selector_from_map(
                c->a, &((const struct bh_core_v1_replication_controller *)bh_obj_struct(obj))
                           ->spec.selector);
    }
    if (!obj)
        return false;
    add_all(c->a, sel, &more);
    return more.n > 0;
}
