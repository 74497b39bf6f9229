/* Preemption: which pods of lower priority have to go so that this one fits, and making them go. */
#include <stdlib.h>
#include <string.h>

#include "api/gen/policy_v1.h"
#include "data/json.h"
#include "data/selector.h"
#include "data/time_fmt.h"
#include "scheduler/sched_int.h"

struct victims {
    struct snode *node;
    struct spod **p; /* most important first */
    size_t n;
    int64_t budget_violations;
};

struct budget {
    struct bh_str ns;
    struct bh_label_selector sel;
    int64_t allowed;
    const struct bh_policy_v1_pod_disruption_budget *b;
};

struct hunt {
    struct cycle *c;
    struct budget *budgets;
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

/* Higher priority first, then the one that runs longer. A pod that did not start is the newest. */
static int important_first(const void *x, const void *y)
{
    const struct spod *a = *(struct spod *const *)x, *b = *(struct spod *const *)y;
    int r;

    if (a->priority != b->priority)
        return a->priority > b->priority ? -1 : 1;
    if (no_start(a) != no_start(b))
        return no_start(a) ? 1 : -1;
    r = start_cmp(a, b);
    return r ? r : bh_str_cmp(a->obj->name, b->obj->name);
}

static void read_budgets(struct hunt *h)
{
    struct bh_scheduler *s = h->c->s;
    struct bh_obj *o;

    if (!s->inf_pdbs)
        return;
    h->budgets = bh_new_n(h->c->a, struct budget, bh_informer_count(s->inf_pdbs));
    for (size_t it = 0; (o = bh_informer_next(s->inf_pdbs, &it));) {
        struct budget *b = &h->budgets[h->budgets_n++];

        b->ns = o->ns;
        b->b = bh_obj_struct(o);
        b->allowed = b->b->status.disruptions_allowed;
        sched_selector(h->c->a, b->b->spec.selector, &b->sel);
    }
}

static bool disrupted_already(const struct budget *b, const struct spod *pod)
{
    for (size_t i = 0; i < b->b->status.disrupted_pods.n; i++)
        if (bh_str_eq(b->b->status.disrupted_pods.p[i].key, pod->obj->name))
            return true;
    return false;
}

/* Whether the loss of the pod would break a budget, given those before it. */
static bool breaks_budget(struct hunt *h, const struct spod *pod, int64_t *left)
{
    bool breaks = false;

    if (!pod->obj->labels.n)
        return false;
    for (size_t i = 0; i < h->budgets_n; i++) {
        const struct budget *b = &h->budgets[i];

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

static enum verdict judge(struct hunt *h, struct snode *n, bool quiet)
{
    struct candidate k = {.node = n};
    enum verdict v;
    bool was = h->c->quiet;
    uint32_t *counts = h->c->counts;

    h->c->quiet = quiet;
    if (!quiet)
        h->c->counts = h->inner.counts;
    v = sched_filter(h->c, n);
    if (v == V_OK && h->c->dra_state)
        v = sched_claims_filter(h->c, n, &k);
    if (v == V_OK && h->c->features)
        v = sched_features_filter(h->c, n);
    h->c->quiet = was;
    h->c->counts = counts;
    return v;
}

/* Adds a victim back if the pod still fits; else it is a victim. */
static bool reprieve(struct hunt *h, struct snode *n, struct spod *v, struct victims *out)
{
    put_on(h, v, n);
    if (judge(h, n, true) == V_OK)
        return true;
    take_off(h, v, n);
    out->p[out->n++] = v;
    return false;
}

static void hunt_on(struct hunt *h, struct snode *n)
{
    struct victims out = {.node = n};
    struct spod **low = bh_new_n(h->c->a, struct spod *, n->pods.n + 1);
    bool *breaks;
    int64_t *left;
    size_t m = 0;

    for (uint32_t i = 0; i < n->pods.n; i++)
        if (n->pods.p[i]->priority < h->c->pod->priority)
            low[m++] = n->pods.p[i];
    if (!m) {
        h->no_victims++;
        return;
    }
    qsort(low, m, sizeof(*low), important_first);
    for (size_t i = 0; i < m; i++)
        take_off(h, low[i], n);
    if (judge(h, n, false) != V_OK) {
        for (size_t i = 0; i < m; i++)
            put_on(h, low[i], n);
        return;
    }
    left = bh_new_n(h->c->a, int64_t, h->budgets_n);
    breaks = bh_new_n(h->c->a, bool, m);
    for (size_t i = 0; i < h->budgets_n; i++)
        left[i] = h->budgets[i].allowed;
    for (size_t i = 0; i < m; i++)
        breaks[i] = breaks_budget(h, low[i], left);
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
        return; /* it fits as things are now: the next attempt will see */
    qsort(out.p, out.n, sizeof(*out.p), important_first);
    h->found[h->found_n++] = out;
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

static void evict(struct cycle *c, struct spod *v, const struct snode *n)
{
    BH_AUTO_BUF b = {.max = 4096};
    char buf[BH_TIME_BUF];
    struct bh_time now = {bh_loop_wall_ns(c->s->loop) / 1000000000, 0};

    if (v->obj->deleting)
        return;
    bh_buf_addf(&b,
                "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":{\"conditions\":[{\"type\":"
                "\"DisruptionTarget\",\"observedGeneration\":%lld,\"status\":\"True\","
                "\"lastProbeTime\":null,\"lastTransitionTime\":\"%.*s\",\"reason\":"
                "\"PreemptionByScheduler\",\"message\":\"%.*s: preempting to accommodate a higher "
                "priority pod\"}]}}",
                BH_SF(v->obj->uid), (long long)v->p->metadata.generation,
                BH_SF(bh_time_fmt(now, buf)), BH_SF(c->prof->name));
    (void)bh_client_patch(c->s->client, &bh_core_v1_pod_kind, v->obj->ns, v->obj->name, "status",
                          BH_PATCH_STRATEGIC, bh_buf_str(&b), NULL, NULL);
    (void)bh_client_delete(c->s->client, &bh_core_v1_pod_kind, v->obj->ns, v->obj->name,
                           v->obj->uid, -1, NULL, NULL);
    bh_event(sched_recorder(c->s, c->pod), v->obj, "Normal", "Preempted",
             "Preempted by pod %.*s on node %.*s", BH_SF(c->pod->obj->uid), BH_SF(n->name));
}

static void take(struct cycle *c, const struct victims *v)
{
    bh_list_for_safe(it, &v->node->nominees)
    {
        struct spod *o = bh_container(it, struct spod, nominated_link);

        if (o->priority < c->pod->priority)
            sched_nominate(o, NULL); /* its place is taken; it will be told on its next attempt */
    }
    sched_nominate(c->pod, v->node);
    for (size_t i = 0; i < v->n; i++)
        evict(c, v->p[i], v->node);
}

/* Earlier victims of this pod are on their way out: no further ones. */
static bool still_leaving(const struct cycle *c)
{
    const struct snode *n = c->pod->nominated;

    if (!n || !n->obj || c->verdicts[n->at] == V_UNRESOLVABLE)
        return false;
    for (uint32_t i = 0; i < n->pods.n; i++)
        if (n->pods.p[i]->obj->deleting && n->pods.p[i]->priority < c->pod->priority)
            return true;
    return false;
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

/* True: room is being made, and the pod is nominated. False: *why (upstream's words). */
bool sched_preempt(struct cycle *c, struct bh_str *why)
{
    struct hunt h = {.c = c};
    struct bh_scheduler *s = c->s;
    uint32_t max = (uint32_t)((uint64_t)s->nodes.n * (uint64_t)c->prof->preempt_percentage / 100);
    const struct victims *v;

    if (c->pod->p->spec.has_preemption_policy &&
        bh_str_eqc(c->pod->p->spec.preemption_policy, "Never")) {
        *why = BH_S("not eligible due to preemptionPolicy=Never.");
        return false;
    }
    if (still_leaving(c)) {
        *why = BH_S("not eligible due to a terminating pod on the nominated node.");
        return false;
    }
    if (max < (uint32_t)c->prof->preempt_min)
        max = (uint32_t)c->prof->preempt_min;
    max = max > s->nodes.n ? s->nodes.n : max;
    h.found = bh_new_n(c->a, struct victims, max);
    h.inner = (struct cycle){.s = s, .pod = c->pod, .prof = c->prof, .a = c->a};
    h.inner.counts = bh_new_n(c->a, uint32_t, R_TEXT);
    read_budgets(&h);
    for (uint32_t i = 0; i < s->nodes.n && h.found_n < max; i++) {
        struct snode *n = s->nodes.p[(s->start + i) % s->nodes.n];

        if (c->prefilter_msg.n || c->verdicts[n->at] != V_UNSCHEDULABLE)
            h.unhelpful++;
        else
            hunt_on(&h, n);
    }
    if (!h.found_n) {
        *why = verdict_text(&h);
        return false;
    }
    v = &h.found[0];
    for (size_t i = 1; i < h.found_n; i++)
        if (better(&h.found[i], v))
            v = &h.found[i];
    take(c, v);
    return true;
}
