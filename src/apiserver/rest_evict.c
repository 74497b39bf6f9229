/* Evictions: deletions that disruption budgets have a say in.
 *
 * The budget is read at the head of the pipeline and its change is handed over in the same
 * callback, so no two evictions can take the same allowance.
 */
#include "api/budget.h"
#include "api/engine.h"
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/policy_v1.h"
#include "api/label_selector.h"
#include "apiserver/body.h"
#include "apiserver/write.h"

#include <string.h>

#define DISRUPTED_MAX   2000 /* upstream: pods that a budget's status names at most */
#define RETRY_S         10
#define REFUSED         "Cannot evict pod as it would violate the pod's disruption budget."
#define BUDGET_RESOURCE "poddisruptionbudgets"

/* ---- which budget ---- */

static bool selects(struct bh_rq *rq, const struct bh_policy_v1_pod_disruption_budget *b,
                    const struct bh_core_v1_pod *p)
{
    struct bh_label_selector s;

    return bh_label_selector_of(rq->a, b->spec.selector, &s) &&
           bh_label_selector_match(&s, &p->metadata.labels);
}

/* The budget of the pod as it will be, NULL for none. Two are more than can be served. */
static int find_budget(struct bh_rq *rq, struct bh_resource *res, const struct bh_core_v1_pod *p,
                       struct bh_obj **ret)
{
    struct bh_wc_list l;
    struct bh_err err = {0};

    *ret = NULL;
    if (bh_wc_list(res->wc, rq->a, bh_wc_key(res->wc, rq->a, p->metadata.namespace, BH_S("")),
                   BH_S(""), 0, &l, &err) < 0)
        return bh_fail_err(rq, &err);
    for (size_t i = 0; i < l.n; i++) {
        struct bh_obj *o = bh_pipeline_head(rq->srv->pipe, res->wc,
                                            bh_wc_key(res->wc, rq->a, l.p[i]->ns, l.p[i]->name));

        if (!o || !selects(rq, bh_obj_struct(o), p))
            continue;
        if (*ret)
            return bh_fail_plain(rq, "This pod has more than one PodDisruptionBudget, which the "
                                     "eviction subresource does not support.");
        *ret = o;
    }
    return 0;
}

/* ---- whether it allows it ---- */

static int refuse(struct bh_rq *rq, int retry_s, struct bh_str why)
{
    int r = bh_fail_msg(rq, BH_E_BUSY, REFUSED);

    rq->fail.retry_after = retry_s;
    rq->fail.extra_cause.reason = BH_S("DisruptionBudget");
    rq->fail.extra_cause.message = why;
    return r;
}

static int forbid(struct bh_rq *rq, const struct bh_policy_v1_pod_disruption_budget *b,
                  const char *why)
{
    int r = bh_fail_msg(rq, BH_E_FORBIDDEN, "poddisruptionbudget.policy \"%.*s\" is forbidden: %s",
                        BH_SF(b->metadata.name), why);

    rq->fail.name = b->metadata.name;
    rq->fail.group = BH_S("policy");
    rq->fail.kind = BH_S("poddisruptionbudget");
    return r;
}

static int nothing_allowed(struct bh_rq *rq, const struct bh_policy_v1_pod_disruption_budget *b)
{
    const struct bh_meta_v1_condition *c =
        bh_condition_find(&b->status.conditions, "DisruptionAllowed");
    bool says = c && bh_str_eqc(c->status, "False") && c->message.n > 0;
    struct bh_str name = b->metadata.name;

    if (says && bh_str_eqc(c->reason, "SyncFailed"))
        return refuse(rq, 0,
                      bh_str_fmt(rq->a,
                                 "The disruption budget %.*s does not allow evicting pods "
                                 "currently because it failed sync: %.*s",
                                 BH_SF(name), BH_SF(c->message)));
    if (b->status.current_healthy <= b->status.desired_healthy)
        return refuse(rq, 0,
                      bh_str_fmt(rq->a,
                                 "The disruption budget %.*s needs %d healthy pods and has %d "
                                 "currently",
                                 BH_SF(name), (int)b->status.desired_healthy,
                                 (int)b->status.current_healthy));
    if (says)
        return refuse(rq, 0,
                      bh_str_fmt(rq->a,
                                 "The disruption budget %.*s does not allow evicting pods "
                                 "currently (%.*s): %.*s",
                                 BH_SF(name), BH_SF(c->reason), BH_SF(c->message)));
    return refuse(rq, 0,
                  bh_str_fmt(rq->a,
                             "The disruption budget %.*s does not allow evicting pods currently",
                             BH_SF(name)));
}

/* The controller is told whose deletion to expect, sorted by name. */
static void note_pod(struct bh_rq *rq, struct bh_policy_v1_pod_disruption_budget *b,
                     struct bh_str pod)
{
    struct bh_time_map *m = &b->status.disrupted_pods;
    struct bh_time_entry *p = bh_new_n(rq->a, struct bh_time_entry, m->n + 1);
    size_t at = 0, n = m->n;

    while (at < n && bh_str_cmp(m->p[at].key, pod) < 0)
        at++;
    if (at > 0)
        memcpy(p, m->p, at * sizeof(*p));
    p[at] = (struct bh_time_entry){pod, {rq->now.sec, 0}};
    if (at < n && bh_str_eq(m->p[at].key, pod))
        memcpy(p + at + 1, m->p + at + 1, (n - at - 1) * sizeof(*p));
    else if (at < n)
        memcpy(p + at + 1, m->p + at, (n - at) * sizeof(*p));
    m->n = at < n && bh_str_eq(m->p[at].key, pod) ? n : n + 1;
    m->p = p;
}

/* As the server's own write, and owned by it. */
static int store_budget(struct bh_rq *rq, struct bh_resource *res, struct bh_obj *old,
                        struct bh_policy_v1_pod_disruption_budget *b)
{
    const struct bh_kind *kind = rq->kind;
    struct bh_str manager = rq->field_manager;
    int r;

    rq->kind = res->hub;
    rq->field_manager = BH_S("kube-apiserver");
    r = bh_managed_keep(rq, res->hub, b, bh_obj_struct(old), BH_S("status"));
    rq->kind = kind;
    rq->field_manager = manager;
    return r < 0 ? r : bh_write_submit_then(rq, BH_STORE_UPDATE, res, b, NULL, NULL);
}

static int take_one(struct bh_rq *rq, struct bh_resource *res, struct bh_obj *old,
                    const struct bh_core_v1_pod *p)
{
    struct bh_policy_v1_pod_disruption_budget *b =
        bh_msg_dup(&bh_policy_v1_pod_disruption_budget_type, bh_obj_struct(old), rq->a);

    if (b->status.observed_generation < b->metadata.generation)
        return refuse(
            rq, RETRY_S,
            bh_str_fmt(rq->a, "The disruption budget %.*s is still being processed by the server.",
                       BH_SF(b->metadata.name)));
    if (b->status.disruptions_allowed < 0)
        return forbid(rq, b, "pdb disruptions allowed is negative");
    if (b->status.disrupted_pods.n > DISRUPTED_MAX)
        return forbid(rq, b,
                      "DisruptedPods map too big - too many evictions not confirmed by PDB "
                      "controller");
    if (b->status.disruptions_allowed == 0)
        return nothing_allowed(rq, b);
    if (rq->dry_run)
        return 0;
    if (--b->status.disruptions_allowed == 0)
        bh_budget_say(rq->a, b, rq->now);
    note_pod(rq, b, p->metadata.name);
    return store_budget(rq, res, old, b);
}

/* A pod that is done, not yet running, or going already disrupts nobody. */
static bool beyond_budgets(const struct bh_core_v1_pod *p)
{
    return bh_str_eqc(p->status.phase, "Succeeded") || bh_str_eqc(p->status.phase, "Failed") ||
           bh_str_eqc(p->status.phase, "Pending") ||
           !bh_time_is_zero(p->metadata.deletion_timestamp);
}

int bh_budget_take(struct bh_rq *rq, const struct bh_obj *pod)
{
    struct bh_resource *res = bh_resource_find(rq->srv, BH_S("policy"), BH_S(BUDGET_RESOURCE));
    const struct bh_core_v1_pod *p = bh_obj_struct(pod);
    const struct bh_policy_v1_pod_disruption_budget *b;
    struct bh_obj *o;
    int r;

    if (!res || beyond_budgets(p))
        return 0;
    r = find_budget(rq, res, p, &o);
    if (r < 0 || !o)
        return r;
    b = bh_obj_struct(o);
    /* One that is not ready is not counted as healthy: it may go when that is asked for, or when
     * the others are enough. */
    if (!bh_pod_is_ready(p) &&
        ((b->spec.has_unhealthy_pod_eviction_policy &&
          bh_str_eqc(b->spec.unhealthy_pod_eviction_policy, "AlwaysAllow")) ||
         (b->status.desired_healthy > 0 && b->status.current_healthy >= b->status.desired_healthy)))
        return 0;
    return take_one(rq, res, o, p);
}

/* ---- the request ---- */

/* The older version of the form is taken too. */
static int decode_eviction(struct bh_rq *rq, void **ret)
{
    struct bh_str api_version, kind;

    if (bh_json_peek_kind(rq->body, rq->a, &api_version, &kind, NULL) == 0 &&
        bh_str_eqc(api_version, "policy/v1beta1") && bh_str_eqc(kind, "Eviction"))
        return bh_body_decode_json(rq, &bh_policy_v1_eviction_kind, rq->body, ret);
    return bh_body_decode(rq, &bh_policy_v1_eviction_kind, ret);
}

int bh_rest_eviction(struct bh_rq *rq, bh_pipeline_done done)
{
    struct bh_policy_v1_eviction *e;
    struct bh_obj *old;
    void *msg = NULL;
    int r = rq->as == BH_AS_TABLE ? bh_media_no_shape(rq) : bh_options_write(rq, "CreateOptions");

    if (r == 0)
        r = decode_eviction(rq, &msg);
    if (r < 0)
        return r;
    e = msg;
    r = bh_check_namespace(rq, &e->metadata);
    if (r < 0)
        return r;
    if (!bh_str_eq(e->metadata.name, rq->ri.name))
        return bh_fail_msg(rq, BH_E_BAD_REQUEST,
                           "name in URL does not match name in Eviction object");
    r = bh_rq_head(rq, &old);
    if (r < 0)
        return r;
    return bh_rest_evict(rq, old, e->delete_options, done);
}
