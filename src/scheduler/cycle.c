/* One attempt: filters, scores, a decision that takes effect at once; or the reasons for none. */
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "scheduler/sched_int.h"

/* Of a pod that needs devices, nodes beyond so many that fit are not looked at: the allocator
 * offers the best guesses first. */
#define CLAIM_NODES_MAX 16
/* Nodes whose devices an explanation looks at. */
#define EXPLAIN_NODES_MAX 64

static const char *const reason_texts[R_FIXED] = {
    [R_UNSCHEDULABLE] = "node(s) were unschedulable",
    [R_TAINT] = "node(s) had untolerated taint(s)",
    [R_AFFINITY] = "node(s) didn't match Pod's node affinity/selector",
    [R_AFFINITY_NAMES] = "node(s) didn't satisfy plugin(s) [NodeAffinity]",
    [R_AFFINITY_ENFORCED] = "node(s) didn't match scheduler-enforced node affinity",
    [R_PORTS] = "node(s) didn't have free ports for the requested pod ports",
    [R_TOO_MANY_PODS] = "Too many pods",
    [R_SPREAD] = "node(s) didn't match pod topology spread constraints",
    [R_SPREAD_LABEL] =
        "node(s) didn't match pod topology spread constraints (missing required label)",
    [R_POD_AFFINITY] = "node(s) didn't match pod affinity rules",
    [R_POD_ANTI] = "node(s) didn't match pod anti-affinity rules",
    [R_POD_EXISTING_ANTI] = "node(s) didn't satisfy existing pods anti-affinity rules",
    [R_CLAIMS] = "cannot allocate all claims",
    [R_CLAIM_NODE] = "resourceclaim not available on the node",
    [R_VOLUME_NODE] = "node(s) didn't match PersistentVolume's node affinity",
    [R_VOLUME_FIND] = "node(s) didn't find available persistent volumes to bind",
    [R_VOLUME_ZONE] = "node(s) had no available volume zone",
    [R_VOLUME_COUNT] = "node(s) exceed max volume count",
    [R_VOLUME_RWOP] = ("node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod "
                       "access mode already "
                       "in-use by another pod"),
    [R_VOLUME_DISK] = "node(s) had no available disk",
    [R_VOLUME_SPACE] = "node(s) did not have enough free storage",
    [R_VOLUME_GONE] = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    [R_FEATURES] = "node(s) didn't match Pod's required features",
};

enum verdict sched_fail(struct cycle *c, enum plugin pl, enum verdict v, uint32_t reason)
{
    if (!c->quiet) {
        c->counts[reason]++;
        c->rejected_by |= 1u << pl;
    }
    return v;
}

enum verdict sched_fail_text(struct cycle *c, enum plugin pl, enum verdict v, struct bh_str text)
{
    size_t cap = c->texts_cap;

    if (c->quiet)
        return v;
    c->rejected_by |= 1u << pl;
    for (uint32_t i = 0; i < c->texts_n; i++)
        if (bh_str_eq(c->texts[i], text)) {
            c->text_counts[i]++;
            return v;
        }
    if (c->texts_n == cap) {
        bh_arena_grow(c->a, &c->texts, &cap, c->texts_n + 1, sizeof(*c->texts));
        cap = c->texts_cap;
        bh_arena_grow(c->a, &c->text_counts, &cap, c->texts_n + 1, sizeof(*c->text_counts));
        c->texts_cap = (uint32_t)cap;
    }
    c->texts[c->texts_n] = bh_str_dup(c->a, text);
    c->text_counts[c->texts_n++] = 1;
    return v;
}

void sched_fail_text_n(struct cycle *c, struct bh_str text, uint32_t n)
{
    (void)sched_fail_text(c, PL_NONE, V_UNSCHEDULABLE, text);
    c->text_counts[c->texts_n - 1] = n;
}

int sched_error(struct cycle *c, enum plugin pl, const char *fmt, ...)
{
    va_list ap;
    struct bh_str text;

    va_start(ap, fmt);
    text = bh_str_vfmt(c->a, fmt, ap);
    va_end(ap);
    c->err_plugin = pl;
    return bh_err_set(&c->err, BH_E_INTERNAL, "running \"%s\" filter plugin: %.*s",
                      sched_plugin_name(pl), BH_SF(text));
}

/* ---- messages ---- */

static void add_line(struct bh_arena *a, struct bh_str *lines, size_t *n, uint32_t count,
                     struct bh_str text)
{
    struct bh_str s = bh_str_fmt(a, "%u %.*s", count, BH_SF(text));
    size_t i = (*n)++;

    while (i > 0 && bh_str_cmp(s, lines[i - 1]) < 0) {
        lines[i] = lines[i - 1];
        i--;
    }
    lines[i] = s;
}

/* "1 Insufficient cpu, 2 node(s) were unschedulable": sorted as text, as upstream does. */
static void histogram(struct cycle *c, struct bh_buf *out)
{
    size_t n = 0, max = R_FIXED + c->s->res_n + c->texts_n;
    struct bh_str *lines = bh_new_n(c->a, struct bh_str, max);

    for (uint32_t i = 0; i < R_FIXED; i++)
        if (c->counts[i])
            add_line(c->a, lines, &n, c->counts[i], bh_s(reason_texts[i]));
    for (uint32_t i = 0; i < c->s->res_n; i++)
        if (c->counts[R_INSUFFICIENT + i])
            add_line(c->a, lines, &n, c->counts[R_INSUFFICIENT + i],
                     bh_str_fmt(c->a, "Insufficient %.*s", BH_SF(c->s->res_names[i])));
    for (uint32_t i = 0; i < c->texts_n; i++)
        add_line(c->a, lines, &n, c->text_counts[i], c->texts[i]);
    for (size_t i = 0; i < n; i++)
        bh_buf_addf(out, "%s%.*s", i ? ", " : ": ", BH_SF(lines[i]));
    if (n)
        bh_buf_addc(out, '.');
}

struct bh_str sched_reasons(struct cycle *c)
{
    BH_AUTO_BUF b = {.max = 64u << 10};
    struct bh_str all;

    histogram(c, &b);
    all = bh_str_dup(c->a, bh_buf_str(&b));
    return all.n > 2 ? bh_str_sub(all, 2, all.n - 1) : all; /* ": … ." */
}

struct bh_str sched_message(struct cycle *c)
{
    BH_AUTO_BUF b = {.max = 64u << 10};

    bh_buf_addf(&b, "0/%u nodes are available", c->s->nodes.n);
    if (c->prefilter_msg.n)
        bh_buf_addf(&b, ": %.*s.", BH_SF(c->prefilter_msg));
    else
        histogram(c, &b);
    if (c->postfilter_msg.n)
        bh_buf_addf(&b, " %.*s", BH_SF(c->postfilter_msg));
    return bh_str_dup(c->a, bh_buf_str(&b));
}

/* Ours, behind upstream's words: which device fails which request, and why. */
static struct bh_str explained(struct cycle *c, struct bh_str message)
{
    struct bh_str nodes[EXPLAIN_NODES_MAX];
    struct bh_dra_reasons why;
    struct bh_str text;
    size_t n = 0;

    if (!c->ask || !c->counts[R_CLAIMS])
        return message;
    for (uint32_t i = 0; i < c->s->nodes.n && n < EXPLAIN_NODES_MAX; i++)
        if (c->verdicts[i] == V_UNRESOLVABLE || c->verdicts[i] == V_DEVICES)
            nodes[n++] = c->s->nodes.p[i]->name;
    bh_dra_explain(c->ask, nodes, n, c->a, &why);
    text = bh_dra_explain_text(&why, BH_S("cannot allocate all claims"), c->a);
    if (!text.n || bh_str_eqc(text, "cannot allocate all claims"))
        return message;
    return bh_str_fmt(c->a, "%.*s %.*s", BH_SF(message), BH_SF(text));
}

static struct bh_str bounded(struct bh_str s)
{
    if (s.n <= BH_MESSAGE_BYTES_MAX)
        return s;
    s.n = BH_MESSAGE_BYTES_MAX;
    while (s.n && ((unsigned char)s.p[s.n] & 0xC0) == 0x80)
        s.n--;
    return s;
}

/* ---- looking for nodes ---- */

/* Upstream's default: all of a small cluster, down to 5% of a large one, never less than 100. */
static uint32_t nodes_to_find(const struct sched_profile *p, uint32_t n)
{
    uint32_t percent = (uint32_t)p->percentage, k;

    if (n < 100)
        return n;
    if (!percent)
        percent = 50 - (n / 125 < 45 ? n / 125 : 45);
    k = (uint32_t)((uint64_t)n * percent / 100);
    return k < 100 ? 100 : k;
}

/* Judges one node; adds it to the candidates when it fits. False ends the search: an error. */
static bool try_node(struct cycle *c, struct snode *n)
{
    struct candidate k = {.node = n};
    enum verdict v = sched_filter(c, n);

    if (v == V_OK && c->dra_state)
        v = sched_claims_filter(c, n, &k);
    if (v == V_OK && c->features)
        v = sched_features_filter(c, n);
    if (v == V_ERROR)
        return false;
    c->verdicts[n->at] = (uint8_t)v;
    if (v == V_OK)
        c->feasible[c->feasible_n++] = k;
    return true;
}

#define V_NOT_TRIED 0xff

/* The allocator's own order: nodes that can have the devices, best guess first. */
static bool find_by_devices(struct cycle *c)
{
    struct bh_str name;
    uint64_t it = 0;

    while (c->feasible_n < CLAIM_NODES_MAX && bh_dra_ask_next(c->ask, &it, &name)) {
        struct snode *n = sched_node_find(c->s, name);

        if (n && n->obj && c->verdicts[n->at] == V_NOT_TRIED && !try_node(c, n))
            return false;
    }
    return true;
}

/* The only node that devices which are allocated already leave, or NULL: several, or none known. */
static struct snode *node_of_devices(const struct cycle *c)
{
    for (size_t i = 0; i < c->claims_n; i++) {
        const struct bh_core_v1_node_selector *sel =
            c->claims[i].allocated ? c->claims[i].alloc->node_selector : NULL;
        const struct bh_core_v1_node_selector_term *t = sel ? sel->node_selector_terms.p : NULL;
        const struct bh_core_v1_node_selector_requirement *r;
        struct snode *n;

        if (!t || sel->node_selector_terms.n != 1 || t->match_expressions.n ||
            t->match_fields.n != 1)
            continue;
        r = t->match_fields.p;
        if (!bh_str_eqc(r->key, "metadata.name") || !bh_str_eqc(r->operator, "In") ||
            r->values.n != 1)
            continue;
        n = sched_node_find(c->s, r->values.p[0]);
        return n && n->obj ? n : NULL;
    }
    return NULL;
}

static bool find_nodes(struct cycle *c)
{
    struct bh_scheduler *s = c->s;
    uint32_t n = s->nodes.n, want = nodes_to_find(c->prof, n), i;
    struct snode *only = node_of_devices(c);

    memset(c->verdicts, V_NOT_TRIED, n);
    c->feasible =
        bh_new_n(c->a, struct candidate, c->ask && want < CLAIM_NODES_MAX ? CLAIM_NODES_MAX : want);
    if (c->pod->nominated && c->pod->nominated->obj) {
        if (!try_node(c, c->pod->nominated))
            return false;
        if (c->feasible_n)
            return true;
    }
    /* If it does not take the pod, each of the others is asked for its reason. */
    if (only && c->verdicts[only->at] == V_NOT_TRIED) {
        if (!try_node(c, only))
            return false;
        if (c->feasible_n)
            return true;
    }
    if (c->ask && !s->opts.device_scoring_off) {
        if (!find_by_devices(c))
            return false;
        if (c->feasible_n)
            return true;
    }
    if (c->ext && !s->opts.device_scoring_off && want > CLAIM_NODES_MAX)
        want = CLAIM_NODES_MAX;
    for (i = 0; i < n && c->feasible_n < want; i++) {
        struct snode *node = s->nodes.p[(s->start + i) % n];
        const char *later = (const char *)s->nodes.p[(s->start + i + 4) % n];

        /* Thousands of nodes do not stay in the cache between attempts. */
        __builtin_prefetch(later);
        __builtin_prefetch(later + 64);
        __builtin_prefetch(later + 128);
        if (c->verdicts[node->at] == V_NOT_TRIED && !try_node(c, node))
            return false;
    }
    s->start = (s->start + i) % n;
    return true;
}

static struct candidate *best(const struct cycle *c)
{
    struct candidate *b = &c->feasible[0];

    for (size_t i = 1; i < c->feasible_n; i++)
        if (c->feasible[i].score > b->score)
            b = &c->feasible[i];
    return b;
}

/* What can be freed for it: an idle claim, or pods of lower priority. */
static void post_filter(struct cycle *c)
{
    enum preempt_result r = c->prof->run[PT_POST_FILTER].n ? PREEMPT_NOT_NOW : PREEMPT_NOTHING;
    const struct point_plugins *run = &c->prof->run[PT_POST_FILTER];
    struct bh_str said = {NULL, 0};

    for (uint8_t i = 0; i < run->n; i++) {
        struct bh_str why = {NULL, 0};

        if (run->p[i] == PL_DYNAMIC_RESOURCES) {
            if (c->prefilter_no_dra) {
                c->postfilter_msg = BH_S("not found");
                return;
            }
            why = sched_claims_postfilter(c);
        } else if (c->in_gang) {
            why = bh_str_fmt(c->a, "preemption: %.*s", BH_SF(c->gang_why));
        } else if ((r = sched_preempt(c, &why)) == PREEMPT_DONE) {
            return;
        } else {
            why = bh_str_fmt(c->a, "preemption: %.*s", BH_SF(why));
        }
        said = said.n ? bh_str_fmt(c->a, "%.*s, %.*s", BH_SF(said), BH_SF(why)) : why;
    }
    if (r == PREEMPT_NOTHING && !c->in_gang)
        sched_denominate(c->s, c->pod);
    c->postfilter_msg = said;
}

/* Why there is no place. What can be freed is set free. */
struct bh_str sched_failure_text(struct cycle *c)
{
    if (c->err.code != BH_OK)
        return bounded(bh_str_dup(c->a, bh_s(c->err.msg)));
    if (!c->s->nodes.n)
        return BH_S("no nodes available to schedule pods");
    post_filter(c);
    return bounded(explained(c, sched_message(c)));
}

static void failed(struct cycle *c)
{
    bool error = c->err.code != BH_OK;
    uint64_t kind = 0;
    struct bh_str m;

    if (error || !c->s->nodes.n)
        sched_denominate(c->s, c->pod);
    m = sched_failure_text(c);
    if (error || c->dra_cut) { /* not for good: it is tried again without any event */
        sched_requeue(c->s, c->pod, 0, true);
        sched_say(c->s, c->pod, error ? "SchedulerError" : "Unschedulable", m, true);
        return;
    }
    if (!c->rejected_by)
        c->rejected_by = 1u << PL_NONE;
    /* A pod that something is being freed for is not like the others. */
    if (!c->pod->nominated && !c->pod->holders_bind && !c->prefilter_msg.n && !c->ext &&
        c->s->nodes.n)
        kind = sched_failure_note(c->s, c->pod, c->rejected_by, m);
    sched_requeue(c->s, c->pod, c->rejected_by, false);
    sched_say(c->s, c->pod, "Unschedulable", m, true);
    sched_herd_failed(c->s, c->pod, kind, bh_str_hash(m));
}

const struct candidate *sched_decide(struct cycle *c)
{
    struct bh_scheduler *s = c->s;
    struct candidate *k, *one;

    if (c->pod->charge) /* of an attempt that came to nothing */
        sched_pod_charge(s, c->pod, NULL);
    c->counts = bh_new_n(c->a, uint32_t, R_TEXT);
    c->verdicts = bh_arena_alloc(c->a, s->nodes.n + 1);
    if (!s->nodes.n || !sched_prefilter(c))
        return NULL;
    one = bh_new(c->a, struct candidate);
    one->node = sched_kind_choose(c, nodes_to_find(c->prof, s->nodes.n));
    if (one->node)
        return one;
    if (!find_nodes(c) || !c->feasible_n)
        return NULL;
    if (c->feasible_n > 1)
        sched_score(c);
    k = best(c);
    if (!sched_claims_reserve(c, k))
        return NULL;
    if (k->native)
        sched_pod_charge(s, c->pod, k->native);
    return k;
}

void sched_commit(struct cycle *c, const struct candidate *k, struct bind_group *bg)
{
    sched_denominate(c->s, c->pod);
    c->pod->assumed = true;
    c->pod->where = POD_BINDING;
    sched_bind(c, k, bg);
}

static void attempt(struct bh_scheduler *s, struct spod *pod)
{
    struct cycle c = {.s = s, .pod = pod, .prof = pod->prof, .a = s->attempt_arena};
    const struct candidate *k;
    const struct failure *f;

    s->stats.attempts++;
    pod->holders_bind = false;
    f = sched_failure(s, pod);
    if (f) {
        sched_requeue(s, pod, f->rejected_by, false);
        sched_say(s, pod, "Unschedulable", f->message, true);
        sched_herd_failed(s, pod, f->kind, bh_str_hash(f->message));
        return;
    }
    k = sched_decide(&c);
    if (!k) {
        failed(&c);
        return;
    }
    sched_node_add_pod(s, k->node, pod);
    sched_commit(&c, k, NULL);
    sched_herd_next(s, pod);
}

void sched_attempt(struct bh_scheduler *s, struct spod *pod)
{
    if (pod->gang && s->inf_podgroups)
        sched_gang_attempt(s, pod);
    else
        attempt(s, pod);
    bh_arena_reset(s->attempt_arena);
}
