/* What the controllers share: informers with many listeners, and small questions about objects. */
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "base/arena.h"
#include "base/list.h"
#include "controllers/controllers_int.h"

struct listener {
    struct listener *next;
    const struct bh_informer_ops *ops;
    void *arg;
};

struct shared {
    struct bh_link link;
    const struct bh_kind *kind;
    struct bh_informer *informer;
    struct listener *listeners; /* in order of subscription */
};

struct ctl_informers {
    struct bh_client *client;
    struct bh_link all;
};

static void shared_added(void *arg, struct bh_obj *o)
{
    const struct shared *s = arg;

    for (const struct listener *l = s->listeners; l; l = l->next)
        if (l->ops->added)
            l->ops->added(l->arg, o);
}

static void shared_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    const struct shared *s = arg;

    for (const struct listener *l = s->listeners; l; l = l->next)
        if (l->ops->updated)
            l->ops->updated(l->arg, old, o);
}

static void shared_deleted(void *arg, struct bh_obj *last)
{
    const struct shared *s = arg;

    for (const struct listener *l = s->listeners; l; l = l->next)
        if (l->ops->deleted)
            l->ops->deleted(l->arg, last);
}

static void shared_synced(void *arg)
{
    const struct shared *s = arg;

    for (const struct listener *l = s->listeners; l; l = l->next)
        if (l->ops->synced)
            l->ops->synced(l->arg);
}

static void shared_listed(void *arg, uint64_t rv)
{
    const struct shared *s = arg;

    for (const struct listener *l = s->listeners; l; l = l->next)
        if (l->ops->listed)
            l->ops->listed(l->arg, rv);
}

static const struct bh_informer_ops shared_ops = {shared_added, shared_updated, shared_deleted,
                                                  shared_synced, shared_listed};

struct ctl_informers *ctl_informers_new(struct bh_client *c)
{
    struct ctl_informers *s = bh_calloc(1, sizeof(*s));

    s->client = c;
    bh_list_init(&s->all);
    return s;
}

struct ctl_informers *ctl_informers_free(struct ctl_informers *set)
{
    if (!set)
        return NULL;
    bh_list_for_safe(it, &set->all)
    {
        struct shared *s = bh_container(it, struct shared, link);

        (void)bh_informer_free(s->informer);
        while (s->listeners) {
            struct listener *l = s->listeners;

            s->listeners = l->next;
            bh_free(l);
        }
        bh_free(s);
    }
    bh_free(set);
    return NULL;
}

struct bh_informer *ctl_subscribe(struct ctl_informers *set, const struct bh_kind *k,
                                  const struct bh_informer_ops *ops, void *arg)
{
    struct shared *s = NULL;
    struct listener *l = bh_calloc(1, sizeof(*l)), **end;

    bh_list_for(it, &set->all) if (bh_container(it, struct shared, link)->kind == k) s =
        bh_container(it, struct shared, link);
    if (!s) {
        s = bh_calloc(1, sizeof(*s));
        s->kind = k;
        bh_list_add_tail(&set->all, &s->link);
    }
    l->ops = ops;
    l->arg = arg;
    for (end = &s->listeners; *end; end = &(*end)->next)
        ;
    *end = l;
    /* The first list is delivered from the loop, so that everybody who subscribes at start hears
     * all of it. */
    if (!s->informer)
        s->informer = bh_informer_new(set->client, k, (struct bh_str){0}, (struct bh_str){0},
                                      (struct bh_str){0}, &shared_ops, s);
    return s->informer;
}

bool ctl_synced(struct bh_informer *const *informers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!bh_informer_synced(informers[i]))
            return false;
    return true;
}

bool ctl_pod_done(const struct bh_core_v1_pod *pod)
{
    return bh_str_eqc(pod->status.phase, "Succeeded") || bh_str_eqc(pod->status.phase, "Failed") ||
           (!bh_time_is_zero(pod->metadata.deletion_timestamp) && pod->spec.node_name.n == 0);
}

bool ctl_owned_by(const struct bh_meta_v1_object_meta *m, const char *kind, struct bh_str uid)
{
    for (size_t i = 0; i < m->owner_references.n; i++) {
        const struct bh_meta_v1_owner_reference *r = &m->owner_references.p[i];

        if (r->has_controller && r->controller)
            return bh_str_eqc(r->kind, kind) && bh_str_eq(r->uid, uid);
    }
    return false;
}

struct bh_str ctl_pod_claim_name(const struct bh_core_v1_pod *pod, size_t i)
{
    const struct bh_core_v1_pod_resource_claim *rc = &pod->spec.resource_claims.p[i];

    if (rc->has_resource_claim_name)
        return rc->resource_claim_name;
    for (size_t k = 0; k < pod->status.resource_claim_statuses.n; k++) {
        const struct bh_core_v1_pod_resource_claim_status *st =
            &pod->status.resource_claim_statuses.p[k];

        if (bh_str_eq(st->name, rc->name))
            return st->has_resource_claim_name ? st->resource_claim_name : (struct bh_str){0};
    }
    return (struct bh_str){0};
}
