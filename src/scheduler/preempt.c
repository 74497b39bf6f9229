/* Preemption: which pods of lower priority have to go so that this one fits, and making them go.
 *
 * Upstream never takes devices from their holders. Here, unless device scoring is off, a node whose
 * devices are in use is looked at, too: claims whose every consumer would go count as given back,
 * and a pod is a victim only where the search for devices then succeeds because of it.
 */
#include <string.h>

#include "client/volumes.h"
#include "data/json.h"
#include "data/time_fmt.h"
#include "scheduler/preempt_int.h"

struct hunt {
    struct cycle *c;
    bool devices;                  /* of the node that is looked at */
    struct bh_dra_holder *holders; /* claims with devices that the node sees */
    size_t holders_n;
    struct bh_str *released; /* claims of the pods that were taken off */
    struct sched_budget *budgets;
    size_t budgets_n;
    struct victims *found;
    size_t found_n;
    uint32_t unhelpful, no_victims;
    struct cycle inner; /* counts the reasons of nodes where not even all victims help */
};

static int start_cmp(const struct spod *a, const struct spod *b)
{
    return bh_time_cmp(a->p->status.start_time, b->p->status.start_time);
}

static bool no_start(const struct spod *p)
{
    return bh_time_is_zero(p->p->status.start_time);
}

/* Higher priority first, then the one that runs longer; one that did not start is the newest. Two
 * that did not start are told apart by when they are looked at, as upstream does: the earlier look
 * wins. */
static bool more_important(const struct spod *a, const struct spod *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    if (no_start(b))
        return true;
    return !no_start(a) && start_cmp(a, b) < 0;
}

/* Sorting by insertion: with such an order the way is part of the result. */
static void important_first(struct spod **p, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k > 0 && more_important(p[k], p[k - 1]); k--) {
            struct spod *x = p[k];

            p[k] = p[k - 1];
            p[k - 1] = x;
        }
}

size_t sched_budgets_read(struct bh_scheduler *s, struct bh_arena *a, struct sched_budget **ret)
{
    size_t n = 0;
    struct bh_obj *o;

    if (!s->inf_pdbs)
        return 0;
    *ret = bh_new_n(a, struct sched_budget, bh_informer_count(s->inf_pdbs));
    for (size_t it = 0; (o = bh_informer_next(s->inf_pdbs, &it));) {
        struct sched_budget *b = &(*ret)[n++];

        b->ns = o->ns;
        b->b = bh_obj_struct(o);
        b->allowed = b->b->status.disruptions_allowed;
        bh_meta_selector(a, b->b->spec.selector, &b->sel);
    }
    return n;
}

static bool disrupted_already(const struct sched_budget *b, const struct spod *pod)
{
    for (size_t i = 0; i < b->b->status.disrupted_pods.n; i++)
        if (bh_str_eq(b->b->status.disrupted_pods.p[i].key, pod->obj->name))
            return true;
    return false;
}

bool sched_breaks_budget(const struct sched_budget *budgets, size_t n, const struct spod *pod,
                         int64_t *left)
{
    bool breaks = false;

    if (!pod->obj->labels.n)
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct sched_budget *b = &budgets[i];

        if (!bh_str_eq(b->ns, pod->obj->ns) || bh_label_selector_empty(&b->sel) ||
            !bh_label_selector_match(&b->sel, &pod->obj->labels) || disrupted_already(b, pod))
            continue;
        left[i]--;
        breaks |= left[i] < 0;
    }
    return breaks;
}

static void take_off(struct hunt *h, struct spod *pod, struct snode *n)
{
    sched_node_del_pod(h->c->s, pod);
    sched_affinity_change(h->c, pod, n, -1);
    sched_spread_change(h->c, pod, n, -1);
}

static void put_on(struct hunt *h, struct spod *pod, struct snode *n)
{
    sched_node_add_pod(h->c->s, n, pod);
    sched_affinity_change(h->c, pod, n, 1);
    sched_spread_change(h->c, pod, n, 1);
}

static enum verdict judge(struct hunt *h, struct snode *n, bool quiet, struct candidate *k)
{
    enum verdict v;
    bool was = h->c->quiet;
    uint32_t *counts = h->c->counts;

    *k = (struct candidate){.node = n};
    h->c->quiet = quiet;
    if (!quiet)
        h->c->counts = h->inner.counts;
    v = sched_filter(h->c, n);
    if (v == V_OK && h->c->dra_state)
        v = sched_claims_filter(h->c, n, k);
    if (v == V_OK && h->c->features)
        v = sched_features_filter(h->c, n);
    h->c->quiet = was;
    h->c->counts = counts;
    return v;
}

/* ---- devices ---- */

/* Claims of which no consumer would be left. One that nobody uses is not given back by anybody's
 * going. */
static void count_released(struct hunt *h)
{
    struct cycle *c = h->c;

    if (!h->devices)
        return;
    c->released_n = 0;
    for (size_t i = 0; i < h->holders_n; i++) {
        const struct bh_resource_v1_resource_claim *cl;
        bool off = true;

        if (!h->holders[i].claim || h->holders[i].reserved) {
            c->pod->holders_bind = true;
            continue;
        }
        cl = bh_obj_struct(h->holders[i].claim);
        for (size_t k = 0; off && k < cl->status.reserved_for.n; k++)
            off = sched_consumer_off(c->s, &cl->status.reserved_for.p[k], c->pod, c->pod->gang);
        if (off && cl->status.reserved_for.n)
            h->released[c->released_n++] = h->holders[i].claim_uid;
    }
}

static void look_at_holders(struct hunt *h, const struct snode *n)
{
    struct cycle *c = h->c;

    h->devices = c->dra_state && !c->s->opts.device_scoring_off;
    if (!h->devices)
        return;
    h->holders_n = bh_dra_node_holders(c->s->model, n->name, c->a, &h->holders);
    h->released = bh_new_n(c->a, struct bh_str, h->holders_n + 1);
    c->released = h->released;
}

static void forget_holders(struct hunt *h)
{
    h->c->released = NULL;
    h->c->released_n = 0;
}

/* Adds a victim back if the pod still fits; else it is a victim. */
static bool reprieve(struct hunt *h, struct snode *n, struct spod *v, struct victims *out)
{
    struct candidate k;

    put_on(h, v, n);
    count_released(h);
    if (judge(h, n, true, &k) == V_OK)
        return true;
    take_off(h, v, n);
    out->p[out->n++] = v;
    return false;
}

/* Which of the pods taken off would have to stay away. */
static void find_victims(struct hunt *h, struct snode *n, struct spod **low, size_t m)
{
    struct victims out = {.node = n};
    bool *breaks = bh_new_n(h->c->a, bool, m);
    int64_t *left = bh_new_n(h->c->a, int64_t, h->budgets_n);
    size_t protected = 0;

    important_first(low, m);
    for (size_t i = 0; i < h->budgets_n; i++)
        left[i] = h->budgets[i].allowed;
    for (size_t i = 0; i < m; i++)
    protected += breaks[i] = sched_breaks_budget(h->budgets, h->budgets_n, low[i], left);
    out.p = bh_new_n(h->c->a, struct spod *, m);
    for (size_t i = 0; i < m; i++)
        if (breaks[i] && !reprieve(h, n, low[i], &out))
            out.budget_violations++;
    for (size_t i = 0; i < m; i++)
        if (!breaks[i])
            (void)reprieve(h, n, low[i], &out);
    for (size_t i = 0; i < out.n; i++)
        put_on(h, out.p[i], n);
    if (!out.n)
        return; /* it fits as things are, or as soon as what is on its way out is gone */
    if (protected && protected < m) /* one list of the two */
        important_first(out.p, out.n);
    h->found[h->found_n++] = out;
}

static struct spod **order_of(struct hunt *h, const struct snode *n)
{
    struct spod **order = bh_new_n(h->c->a, struct spod *, n->pods.n + 1);

    for (uint32_t i = 0; i < n->pods.n; i++)
        order[i] = n->pods.p[i];
    return order;
}

/* Who came first decides elsewhere: as it was. */
static void restore_order(struct snode *n, struct spod *const *order)
{
    for (uint32_t i = 0; i < n->pods.n; i++) {
        n->pods.p[i] = order[i];
        order[i]->node_at = i;
    }
}

static void hunt_on(struct hunt *h, struct snode *n)
{
    uint32_t all = n->pods.n;
    struct spod **order = order_of(h, n);
    struct spod **low = bh_new_n(h->c->a, struct spod *, all + 1);
    bool for_devices = h->c->verdicts[n->at] == V_DEVICES;
    struct candidate k;
    size_t m = 0;

    for (uint32_t i = 0; i < all; i++)
        if (order[i]->priority < h->c->pod->priority && !sched_placed_with(h->c, order[i]))
            low[m++] = order[i];
    if (!m) {
        if (for_devices)
            h->unhelpful++;
        else
            h->no_victims++;
        return;
    }
    look_at_holders(h, n);
    for (size_t i = 0; i < m; i++)
        take_off(h, low[i], n);
    count_released(h);
    if (judge(h, n, for_devices, &k) == V_OK) {
        find_victims(h, n, low, m);
    } else {
        h->unhelpful += for_devices; /* upstream did not look at it */
        for (size_t i = 0; i < m; i++)
            put_on(h, low[i], n);
    }
    forget_holders(h);
    restore_order(n, order);
}

/* The devices that the pod gets once these are gone. */
static void note_devices(struct hunt *h, struct victims *v)
{
    struct cycle *c = h->c;
    struct spod **order;

    look_at_holders(h, v->node);
    if (!h->devices)
        return;
    order = order_of(h, v->node);
    for (size_t i = 0; i < v->n; i++)
        take_off(h, v->p[i], v->node);
    count_released(h);
    if (judge(h, v->node, true, &v->k) == V_OK && sched_claims_settle(c, &v->k)) {
        v->released = c->released;
        v->released_n = c->released_n;
    }
    for (size_t i = 0; i < v->n; i++)
        put_on(h, v->p[i], v->node);
    forget_holders(h);
    restore_order(v->node, order);
}

static int64_t priorities(const struct victims *v)
{
    int64_t sum = 0;

    for (size_t i = 0; i < v->n; i++)
        sum += (int64_t)v->p[i]->priority + INT32_MAX + 1;
    return sum;
}

/* Of the victims with the highest priority the one that started first. */
static const struct spod *earliest(const struct victims *v)
{
    const struct spod *e = v->p[0];

    for (size_t i = 1; i < v->n && v->p[i]->priority == v->p[0]->priority; i++)
        if (no_start(e) || (!no_start(v->p[i]) && start_cmp(v->p[i], e) < 0))
            e = v->p[i];
    return e;
}

/* Whether a is the better choice than b: upstream's order of questions. */
static bool better(const struct victims *a, const struct victims *b)
{
    const struct spod *ea, *eb;

    if (a->budget_violations != b->budget_violations)
        return a->budget_violations < b->budget_violations;
    if (a->p[0]->priority != b->p[0]->priority)
        return a->p[0]->priority < b->p[0]->priority;
    if (priorities(a) != priorities(b))
        return priorities(a) < priorities(b);
    if (a->n != b->n)
        return a->n < b->n;
    ea = earliest(a);
    eb = earliest(b);
    if (no_start(ea) || no_start(eb))
        return no_start(ea) && !no_start(eb);
    return start_cmp(ea, eb) > 0;
}

/* ---- making room ---- */

static void evict(struct cycle *c, struct spod *v)
{
    BH_AUTO_BUF b = {.max = 64u << 10};
    char buf[BH_TIME_BUF];
    struct bh_time now = {bh_loop_wall_ns(c->s->loop) / 1000000000, 0};

    if (v->obj->deleting)
        return;
    bh_buf_addf(&b,
                "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":{\"$setElementOrder/conditions\":[",
                BH_SF(v->obj->uid));
    for (size_t i = 0; i < v->p->status.conditions.n; i++)
        if (!bh_str_eqc(v->p->status.conditions.p[i].type, "DisruptionTarget")) {
            bh_buf_addz(&b, "{\"type\":");
            bh_json_write_str(&b, v->p->status.conditions.p[i].type);
            bh_buf_addz(&b, "},");
        }
    bh_buf_addf(&b,
                "{\"type\":\"DisruptionTarget\"}],\"conditions\":[{\"type\":"
                "\"DisruptionTarget\",\"observedGeneration\":%lld,\"status\":\"True\","
                "\"lastProbeTime\":null,\"lastTransitionTime\":\"%.*s\",\"reason\":"
                "\"PreemptionByScheduler\",\"message\":\"%.*s: preempting to accommodate a higher "
                "priority pod\"}]}}",
                (long long)v->p->metadata.generation, BH_SF(bh_time_fmt(now, buf)),
                BH_SF(c->prof->name));
    (void)bh_client_patch(c->s->client, &bh_core_v1_pod_kind, v->obj->ns, v->obj->name, "status",
                          BH_PATCH_STRATEGIC, bh_buf_str(&b), NULL, NULL);
    (void)bh_client_delete(c->s->client, &bh_core_v1_pod_kind, v->obj->ns, v->obj->name,
                           v->obj->uid, -1, NULL, NULL);
    bh_event(sched_recorder(c->s, c->pod), v->obj, "Normal", "Preempted",
             "Preempted by pod %.*s on node %.*s", BH_SF(c->pod->obj->uid), BH_SF(v->node->name));
}

void sched_preempt_take(struct cycle *c, const struct victims *v)
{
    struct snode *n = v->node;

    bh_list_for_safe(it, &n->nominees)
    {
        struct spod *o = bh_container(it, struct spod, nominated_link);

        if (o->priority < c->pod->priority)
            sched_unnominate(c->s, o);
    }
    if (c->pod->nominated != n)
        sched_denominate(c->s, c->pod);
    sched_nominate(c->pod, n);
    sched_hold_set(c->s, c->pod, v->k.dra.allocations, v->k.dra.n);
    sched_histogram_add(&c->s->victims, (double)v->n, 1);
    c->pod->away = sched_away_free(c->pod->away);
    c->pod->away = sched_away_new(c->s, c->pod, NULL, v, 1);
    for (size_t i = 0; i < v->n; i++)
        evict(c, v->p[i]);
}

static bool preempted(const struct spod *pod)
{
    const struct bh_core_v1_pod_condition_vec *v = &pod->p->status.conditions;

    for (size_t i = 0; pod->obj->deleting && i < v->n; i++)
        if (bh_str_eqc(v->p[i].type, "DisruptionTarget"))
            return bh_str_eqc(v->p[i].status, "True") &&
                   bh_str_eqc(v->p[i].reason, "PreemptionByScheduler");
    return false;
}

static void keep_devices(struct hunt *h, struct victims *v)
{
    struct cycle *c = h->c;

    if (c->pod->hold)
        return;
    note_devices(h, v);
    sched_hold_set(c->s, c->pod, v->k.dra.allocations, v->k.dra.n);
}

/* Earlier victims of this pod are on their way out: no further ones. What becomes free is kept for
 * it, also when an earlier life of ours sent them away. */
static bool still_leaving(struct hunt *h)
{
    struct cycle *c = h->c;
    struct victims v = {.node = c->pod->nominated};

    if (!v.node || !v.node->obj || c->verdicts[v.node->at] == V_UNRESOLVABLE)
        return false;
    v.p = bh_new_n(c->a, struct spod *, v.node->pods.n);
    for (uint32_t i = 0; i < v.node->pods.n; i++)
        if (v.node->pods.p[i]->priority < c->pod->priority && preempted(v.node->pods.p[i]))
            v.p[v.n++] = v.node->pods.p[i];
    if (!v.n)
        return sched_away_waits(c->pod->away); /* not seen leaving yet, or their claims remain */
    keep_devices(h, &v);
    return true;
}

/* The victims are gone, and their claims not given back yet. */
static bool still_given_back(struct hunt *h)
{
    struct cycle *c = h->c;
    struct snode *n = c->pod->nominated;
    struct candidate k;
    bool soon;

    if (!n || !n->obj || c->prefilter_msg.n || c->verdicts[n->at] != V_DEVICES)
        return false;
    look_at_holders(h, n);
    count_released(h);
    soon = judge(h, n, true, &k) == V_OK;
    forget_holders(h);
    if (soon)
        keep_devices(h, &(struct victims){.node = n});
    return soon;
}

static struct bh_str verdict_text(struct hunt *h)
{
    struct cycle *in = &h->inner;

    if (h->unhelpful)
        (void)sched_fail_text_n(in, BH_S("Preemption is not helpful for scheduling"), h->unhelpful);
    if (h->no_victims)
        (void)sched_fail_text_n(in, BH_S("No preemption victims found for incoming pod"),
                                h->no_victims);
    return sched_message(in);
}

enum preempt_result sched_preempt_find(struct cycle *c, struct bh_str *why,
                                       const struct victims **ret)
{
    struct hunt h = {.c = c};
    struct bh_scheduler *s = c->s;
    uint32_t max = (uint32_t)((uint64_t)s->nodes.n * (uint64_t)c->prof->preempt_percentage / 100);
    struct victims *v;

    s->preemptions++;
    if (c->pod->p->spec.has_preemption_policy &&
        bh_str_eqc(c->pod->p->spec.preemption_policy, "Never")) {
        *why = BH_S("not eligible due to preemptionPolicy=Never.");
        return PREEMPT_NOT_NOW;
    }
    if (still_leaving(&h) || still_given_back(&h)) {
        *why = BH_S("not eligible due to a terminating pod on the nominated node.");
        return PREEMPT_NOT_NOW;
    }
    if (max < (uint32_t)c->prof->preempt_min)
        max = (uint32_t)c->prof->preempt_min;
    max = max > s->nodes.n ? s->nodes.n : max;
    h.found = bh_new_n(c->a, struct victims, max);
    h.inner = (struct cycle){.s = s, .pod = c->pod, .prof = c->prof, .a = c->a};
    h.inner.counts = bh_new_n(c->a, uint32_t, R_TEXT);
    h.budgets_n = sched_budgets_read(s, c->a, &h.budgets);
    for (uint32_t i = 0; i < s->nodes.n && h.found_n < max; i++) {
        struct snode *n = s->nodes.p[(s->start + i) % s->nodes.n];

        if (c->prefilter_msg.n ||
            (c->verdicts[n->at] != V_UNSCHEDULABLE && c->verdicts[n->at] != V_DEVICES))
            h.unhelpful++;
        else
            hunt_on(&h, n);
    }
    if (!h.found_n) {
        *why = verdict_text(&h);
        return PREEMPT_NOTHING;
    }
    v = &h.found[0];
    for (size_t i = 1; i < h.found_n; i++)
        if (better(&h.found[i], v))
            v = &h.found[i];
    note_devices(&h, v);
    *ret = v;
    return PREEMPT_DONE;
}

/* *why: upstream's words, unless room is being made. */
enum preempt_result sched_preempt(struct cycle *c, struct bh_str *why)
{
    const struct victims *v = NULL;
    enum preempt_result r = sched_preempt_find(c, why, &v);

    if (r == PREEMPT_DONE)
        sched_preempt_take(c, v);
    return r;
}
