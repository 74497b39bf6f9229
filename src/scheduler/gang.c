/* Pods that are placed together: all members of a PodGroup that wait are tried in one go, and none
 * of them is bound unless as many as the group wants have a place at once.
 *
 * What a member gets (node, devices) is taken in view and ledger at once, so that the next member
 * sees it; when the group does not fit, all is given back before anything else happens. They are
 * tried one after the other first, as upstream does, then by a search that goes back on what it
 * gave (gang_search.c): a member that is content with anything may have taken what another one
 * needs. Room that preemption would make counts, but nobody is evicted unless the group then fits,
 * and nobody as long as it fits without: for each member on its own, then for all of them together
 * (gang_preempt.c).
 *
 * A group that does not fit waits as any pod does: until something happens that can help one of its
 * members. Its bindings are written only when the claims of all members are stored (bind.c).
 */
#include <string.h>

#include "api/gen/scheduling_v1alpha2.h"
#include "base/limits.h"
#include "data/json.h"
#include "data/time_fmt.h"
#include "scheduler/gang_int.h"

#define WAIT_TEXT                                                                                  \
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, one or "   \
    "more plugins asked to wait and no plugin rejected pod"
#define PREEMPT_TEXT "pod group is unschedulable, pod group is waiting for preemption to complete"
#define SPENT_TEXT   " (gave up looking for places for all of them after %llu steps)"

/* A search that did not help is not begun again for so many times as long as it took. */
#define REST_FACTOR 50
#define STEP_NS     1000

/* ---- which pods belong together ---- */

static struct bh_str group_name(const struct bh_core_v1_pod *p)
{
    const struct bh_core_v1_pod_scheduling_group *g = p->spec.scheduling_group;

    return g && g->has_pod_group_name ? g->pod_group_name : (struct bh_str){NULL, 0};
}

static void search_again(void *arg)
{
    struct gang *g = arg;

    sched_gang_wake(g->s, g);
}

static struct gang *gang_get(struct bh_scheduler *s, struct bh_str ns, struct bh_str name)
{
    BH_AUTO_BUF key = {.max = 1024};
    struct gang *g;

    bh_buf_addf(&key, "%.*s/%.*s", BH_SF(ns), BH_SF(name));
    g = bh_map_get(&s->gangs, bh_buf_str(&key));
    if (g)
        return g;
    g = bh_calloc(1, sizeof(*g));
    g->s = s;
    bh_timer_init(&g->when, s->loop, search_again, g);
    g->key = bh_strdup_c(bh_buf_str(&key));
    bh_list_init(&g->members);
    (void)bh_map_put(&s->gangs, bh_s(g->key), g);
    return g;
}

static void gang_drop(struct bh_scheduler *s, struct gang *g)
{
    if (g->obj || g->n)
        return;
    bh_timer_stop(&g->when);
    g->away = sched_away_free(g->away);
    (void)bh_map_del(&s->gangs, bh_s(g->key));
    bh_free(g->key);
    bh_free(g);
}

void sched_gang_join(struct bh_scheduler *s, struct spod *pod)
{
    struct bh_str name = group_name(pod->p);

    if (!name.n)
        return;
    pod->gang = gang_get(s, pod->obj->ns, name);
    bh_list_add_tail(&pod->gang->members, &pod->gang_link);
    pod->gang->n++;
}

static const struct bh_scheduling_v1alpha2_pod_group *group_of(const struct gang *g)
{
    return g->obj ? bh_obj_struct(g->obj) : NULL;
}

static int32_t min_count(const struct gang *g)
{
    const struct bh_scheduling_v1alpha2_pod_group *pg = group_of(g);

    return pg && pg->spec.scheduling_policy.gang ? pg->spec.scheduling_policy.gang->min_count : 1;
}

/* Too few are left, or the group is gone: what was kept for the rest is kept for nothing. */
static void break_up(struct gang *g)
{
    g->away = sched_away_free(g->away);
    bh_list_for(it, &g->members)
    {
        struct spod *pod = bh_container(it, struct spod, gang_link);

        if (pod->nominated && g->s->ready)
            sched_unnominate(g->s, pod);
    }
}

void sched_gang_leave(struct bh_scheduler *s, struct spod *pod)
{
    struct gang *g = pod->gang;

    if (!g)
        return;
    bh_list_del(&pod->gang_link);
    pod->gang = NULL;
    g->n--;
    if ((int64_t)g->n < min_count(g))
        break_up(g);
    gang_drop(s, g);
}

void sched_gang_put(struct bh_scheduler *s, struct bh_obj *group)
{
    struct gang *g = gang_get(s, group->ns, group->name);
    struct bh_obj *old = g->obj;

    g->obj = bh_obj_ref(group);
    (void)bh_obj_unref(old);
    if (!old)
        sched_gang_wake(s, g);
}

void sched_gang_del(struct bh_scheduler *s, const struct bh_obj *group)
{
    struct gang *g = gang_get(s, group->ns, group->name);

    g->obj = bh_obj_unref(g->obj);
    break_up(g);
    gang_drop(s, g);
}

void sched_gangs_done(struct bh_scheduler *s)
{
    size_t it = 0;
    void *v;

    while (bh_map_next(&s->gangs, &it, NULL, &v)) {
        struct gang *g = v;

        bh_timer_stop(&g->when);
        g->away = sched_away_free(g->away);
        (void)bh_obj_unref(g->obj);
        bh_free(g->key);
        bh_free(g);
    }
    bh_map_done(&s->gangs);
}

bool sched_gang_held(const struct bh_scheduler *s, const struct spod *pod)
{
    if (!pod->gang || !s->inf_podgroups || !(pod->prof->on[PT_PRE_ENQUEUE] & 1u << PL_GANG))
        return false;
    return !pod->gang->obj || (int64_t)pod->gang->n < min_count(pod->gang);
}

/* The group came, or a member did: what was held back may go on, and what waits is worth a try. */
void sched_gang_wake(struct bh_scheduler *s, struct gang *g)
{
    bh_list_for_safe(it, &g->members)
    {
        struct spod *pod = bh_container(it, struct spod, gang_link);

        if (pod->where == POD_GATED || (pod->where == POD_WAITING && g->obj))
            sched_enqueue(s, pod);
    }
}

/* ---- one after the other ---- */

void gang_charge(struct bh_scheduler *s, struct spod *pod,
                 const struct bh_core_v1_node_allocatable_resource_claim_status_vec *v)
{
    if (pod->charge || v)
        sched_pod_charge(s, pod, v);
}

static void forget_pending(struct attempt *t, const struct member *m)
{
    size_t kept = 0;

    for (size_t i = 0; i < t->pending_n; i++)
        if (t->pending[i].by != m->pod)
            t->pending[kept++] = t->pending[i];
    t->pending_n = kept;
}

void gang_pending(struct attempt *t, const struct member *m)
{
    forget_pending(t, m);
    for (size_t i = 0; i < m->c.claims_n; i++) {
        const struct pod_claim *k = &m->c.claims[i];

        if (k->ask_at < 0)
            continue;
        bh_arena_grow(t->a, &t->pending, &t->pending_cap, t->pending_n + 1, sizeof(*t->pending));
        t->pending[t->pending_n++] =
            (struct pending_claim){m->pod, k->obj->uid, &m->place.dra.allocations[k->ask_at]};
    }
}

void gang_seat(struct attempt *t, struct member *m)
{
    m->k = &m->place;
    m->was_nominated = m->pod->nominated;
    sched_nominate(m->pod, NULL);
    gang_charge(t->s, m->pod, m->place.native);
    sched_node_add_pod(t->s, m->place.node, m->pod);
    gang_pending(t, m);
}

void gang_unseat(struct attempt *t, struct member *m)
{
    forget_pending(t, m);
    sched_node_del_pod(t->s, m->pod);
    gang_charge(t->s, m->pod, NULL);
    sched_nominate(m->pod, m->was_nominated);
    m->k = NULL;
}

static void give_back(struct attempt *t, struct member *m)
{
    if (m->k) {
        gang_unseat(t, m);
        sched_claims_unreserve(&m->c, &m->place);
    }
    for (size_t i = 0; i < m->victims_n; i++)
        sched_node_add_pod(t->s, m->place.node, m->victims[i]);
    (void)bh_dra_suppose_back(t->s->model, m->released, m->released_n, true);
    if (m->began)
        bh_dra_suppose(t->s->model, false);
    m->began = false;
    m->victims_n = m->released_n = 0;
}

/* In the reverse order: what was reserved before supposing began is given back behind its end. */
static void give_all_back(struct attempt *t)
{
    for (size_t i = t->n; i-- > 0;)
        give_back(t, &t->m[i]);
}

static bool supposes(const struct attempt *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->m[i].began)
            return true;
    return false;
}

/* Room that preemption would make for this member: the victims are taken off for the trial, and
 * their claims count as given back. */
static void make_room(struct attempt *t, struct member *m)
{
    enum preempt_result r;
    const struct victims *v = NULL;

    if (t->waits) {
        m->c.gang_why = BH_S("not eligible due to a terminating pod on the nominated node.");
        return;
    }
    r = sched_preempt_find(&m->c, &m->c.gang_why, &v);
    if (r == PREEMPT_NOT_NOW && m->pod->nominated)
        t->waits = true; /* for those whom an earlier life of ours sent away */
    if (r != PREEMPT_DONE)
        return;
    if ((m->c.unallocated_n || m->c.ext) && !v->k.dra.allocations) {
        m->c.gang_why = BH_S("not attempted for a member of a pod group that needs devices.");
        return;
    }
    m->began = !supposes(t);
    if (m->began)
        bh_dra_suppose(t->s->model, true);
    m->place = v->k;
    m->place.node = v->node;
    m->victims = v->p;
    m->victims_n = v->n;
    m->released = v->released;
    m->released_n = v->released_n;
    for (size_t i = 0; i < v->n; i++)
        sched_node_del_pod(t->s, v->p[i]);
    bh_dra_suppose_released(t->s->model, v->released, v->released_n);
    if (sched_claims_reserve(&m->c, &m->place))
        gang_seat(t, m);
    else
        give_back(t, m);
}

static void try_member(struct attempt *t, struct member *m)
{
    const struct candidate *k;

    m->c = (struct cycle){.s = t->s, .pod = m->pod, .prof = m->pod->prof, .a = t->a};
    m->c.in_gang = true;
    m->pod->holders_bind = false;
    m->c.pending = t->pending;
    m->c.pending_n = t->pending_n;
    k = sched_decide(&m->c);
    if (k) {
        m->place = *k;
        gang_seat(t, m);
    } else {
        m->error = m->c.err.code != BH_OK;
        if (!m->error && t->s->nodes.n && m->pod->prof->on[PT_POST_FILTER] & 1u << PL_PREEMPTION)
            make_room(t, m);
        m->roomed = m->k != NULL;
        m->message = bh_str_dup(t->a, m->k ? sched_message(&m->c) : sched_failure_text(&m->c));
        m->rejected_by = m->c.rejected_by;
    }
    m->had_place = m->k != NULL;
}

int32_t gang_placed(const struct attempt *t)
{
    int32_t n = 0;

    bh_list_for(it, &t->g->members) n += bh_container(it, struct spod, gang_link)->node != NULL;
    return n;
}

/* In upstream's order, which is what messages are about. */
static bool try_all(struct attempt *t)
{
    for (size_t i = 0; i < t->n; i++) {
        try_member(t, &t->m[i]);
        if (t->m[i].error)
            return false;
    }
    return gang_placed(t) >= t->want;
}

/* ---- what becomes of it ---- */

static const struct bh_meta_v1_condition *condition(const struct gang *g)
{
    const struct bh_scheduling_v1alpha2_pod_group *pg = group_of(g);

    for (size_t i = 0; pg && i < pg->status.conditions.n; i++)
        if (bh_str_eqc(pg->status.conditions.p[i].type, "PodGroupScheduled"))
            return &pg->status.conditions.p[i];
    return NULL;
}

/* PodGroupScheduled of the group; a group that was scheduled once stays so. */
static void tell(struct attempt *t, const char *status, const char *reason, struct bh_str message)
{
    const struct bh_meta_v1_condition *old = condition(t->g);
    BH_AUTO_BUF b = {.max = 16u << 10};
    char buf[BH_TIME_BUF];
    struct bh_time now = {bh_loop_wall_ns(t->s->loop) / 1000000000, 0};

    if (!t->g->obj || (old && bh_str_eqc(old->status, "True") && *status != 'T'))
        return;
    if (old && bh_str_eqc(old->status, status)) {
        if (bh_str_eqc(old->reason, reason) && bh_str_eq(old->message, message))
            return;
        now = old->last_transition_time;
    }
    bh_buf_addf(&b,
                "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":{\"conditions\":[{\"type\":"
                "\"PodGroupScheduled\",\"observedGeneration\":%lld,\"status\":\"%s\","
                "\"lastTransitionTime\":\"%.*s\",\"reason\":\"%s\",\"message\":",
                BH_SF(t->g->obj->uid), (long long)group_of(t->g)->metadata.generation, status,
                BH_SF(bh_time_fmt(now, buf)), reason);
    bh_json_write_str(&b, message);
    bh_buf_addz(&b, "}]}}");
    (void)bh_client_patch(t->s->client, &bh_scheduling_v1alpha2_pod_group_kind, t->g->obj->ns,
                          t->g->obj->name, "status", BH_PATCH_STRATEGIC, bh_buf_str(&b), NULL,
                          NULL);
}

/* The plugins that decide where it can be. In another place it may leave its own to a sibling that
 * found none, and those who failed did so beside the others: any of these may let the group fit. */
static uint32_t concerns(const struct spod *pod)
{
    const struct bh_core_v1_pod_spec *spec = &pod->p->spec;
    uint32_t by = 1u << PL_RESOURCES_FIT | 1u << PL_NODE_UNSCHEDULABLE | 1u << PL_TAINT_TOLERATION;

    if (spec->node_selector.n || spec->affinity)
        by |= 1u << PL_NODE_AFFINITY;
    if (pod->terms)
        by |= 1u << PL_INTER_POD_AFFINITY;
    if (spec->topology_spread_constraints.n)
        by |= 1u << PL_TOPOLOGY_SPREAD;
    if (spec->resource_claims.n)
        by |= 1u << PL_DYNAMIC_RESOURCES;
    if (pod->ports_n)
        by |= 1u << PL_NODE_PORTS;
    return by & pod->prof->on[PT_FILTER];
}

static void wait(struct attempt *t, struct member *m, uint32_t by)
{
    if (!t->s->opts.device_scoring_off)
        by |= concerns(m->pod);
    sched_requeue(t->s, m->pod, by ? by : 1u << PL_NONE, false);
}

/* Fits, but not together with the others. */
static void wait_for_others(struct attempt *t, struct member *m, struct bh_str message)
{
    wait(t, m, m->rejected_by | 1u << PL_GANG);
    sched_say(t->s, m->pod, "Unschedulable", message, true);
}

static void say_failure(struct attempt *t, struct member *m)
{
    if (m->error) {
        sched_requeue(t->s, m->pod, 0, true);
        sched_say(t->s, m->pod, "SchedulerError", m->message, true);
        return;
    }
    wait(t, m, m->rejected_by);
    sched_say(t->s, m->pod, "Unschedulable", m->message, true);
}

static void bind_all(struct attempt *t)
{
    struct bind_group *bg = NULL;

    for (size_t i = 0; i < t->n; i++)
        if (t->m[i].k)
            bg = sched_bind_group_add(bg);
    for (size_t i = 0; i < t->n; i++)
        if (t->m[i].k) {
            sched_nominate(t->m[i].pod, t->m[i].was_nominated); /* this is how it ends */
            sched_commit(&t->m[i].c, t->m[i].k, bg);
        } else {
            say_failure(t, &t->m[i]);
        }
    tell(t, "True", "Scheduled", (struct bh_str){NULL, 0});
}

/* The places of members, and what it takes to have them. */
static void note_places(struct attempt *t)
{
    t->v = bh_new_n(t->a, struct victims, t->n);
    for (size_t i = 0; i < t->n; i++) {
        const struct member *m = &t->m[i];

        if (m->k)
            t->v[i] = (struct victims){
                .node = m->place.node, .p = m->victims, .n = m->victims_n, .k = m->place};
    }
}

/* The group fits once the victims are gone: its members are nominated to their places. */
static void evict_and_wait(struct attempt *t)
{
    struct bh_str text = BH_S(PREEMPT_TEXT);

    t->g->away = sched_away_free(t->g->away);
    for (size_t i = 0; i < t->n; i++) {
        struct member *m = &t->m[i];

        if (!t->v[i].node) {
            say_failure(t, m);
            continue;
        }
        sched_preempt_take(&m->c, &t->v[i]);
        m->pod->away = sched_away_free(m->pod->away); /* the gang remembers them */
        wait_for_others(t, m, m->roomed ? m->message : text);
    }
    t->g->away = sched_away_new(t->s, NULL, t->g, t->v, t->n);
    tell(t, "False", "Unschedulable", text);
}

/* A search that took long has to rest before the next one. */
static void rest(struct attempt *t)
{
    struct gang *g = t->g;
    int64_t now = bh_loop_mono_ns(t->s->loop);

    if (t->work)
        g->search_ns = now + (int64_t)t->work * STEP_NS * REST_FACTOR;
    if (t->too_early)
        bh_timer_start_ns(&g->when, g->search_ns - now);
}

static void refuse_all(struct attempt *t)
{
    struct bh_str text = BH_S("pod group is unschedulable"), others = BH_S(WAIT_TEXT);
    bool error = false;

    for (size_t i = 0; i < t->n; i++) {
        struct member *m = &t->m[i];

        if (m->error) {
            text = bh_str_fmt(t->a, "failed to schedule other pod from a pod group: %.*s",
                              BH_SF(m->message));
            error = true;
        }
    }
    if (t->spent && !error) {
        text = bh_str_fmt(t->a, "%.*s" SPENT_TEXT, BH_SF(text), (unsigned long long)t->work);
        others = bh_str_fmt(t->a, "%.*s" SPENT_TEXT, BH_SF(others), (unsigned long long)t->work);
    }
    for (size_t i = 0; i < t->n; i++) {
        struct member *m = &t->m[i];

        if (!t->waits && !t->too_early) /* else room is still being made for all of them */
            sched_denominate(t->s, m->pod);
        if (error && !m->error) {
            sched_requeue(t->s, m->pod, 0, true);
            sched_say(t->s, m->pod, "SchedulerError", text, true);
        } else if (m->had_place) {
            wait_for_others(t, m, others);
        } else {
            say_failure(t, m);
        }
    }
    tell(t, "False", error ? "SchedulerError" : "Unschedulable", text);
}

/* ---- the attempt ---- */

static bool before(const struct spod *a, const struct spod *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->added_ns != b->added_ns ? a->added_ns < b->added_ns : a->seq < b->seq;
}

/* All members that wait for a place, and are not held back, leave the queue. */
static void gather(struct attempt *t, struct spod *first)
{
    t->m = bh_new_n(t->a, struct member, t->g->n);
    bh_list_for(it, &t->g->members)
    {
        struct spod *pod = bh_container(it, struct spod, gang_link);
        size_t i;

        if (pod != first && pod->where != POD_ACTIVE && pod->where != POD_BACKOFF &&
            pod->where != POD_WAITING)
            continue;
        if (pod->node || !pod->prof || pod->obj->deleting)
            continue;
        sched_dequeue(t->s, pod);
        pod->tried_ns = bh_loop_mono_ns(t->s->loop);
        for (i = t->n++; i > 0 && before(pod, t->m[i - 1].pod); i--)
            t->m[i].pod = t->m[i - 1].pod;
        t->m[i].pod = pod;
    }
}

/* One queue, one way of scheduling: members of other profiles cannot be tried together. */
static bool one_profile(struct attempt *t)
{
    struct bh_str text;
    size_t i = 1;

    while (i < t->n && t->m[i].pod->prof == t->m[0].pod->prof)
        i++;
    if (i >= t->n)
        return true;
    text = bh_str_fmt(t->a,
                      "all pods in a single pod group should have the same .spec.schedulerName "
                      "set, got: \"%.*s\" and \"%.*s\"",
                      BH_SF(t->m[0].pod->prof->name), BH_SF(t->m[i].pod->prof->name));
    for (i = 0; i < t->n; i++) {
        sched_requeue(t->s, t->m[i].pod, 0, true);
        sched_say(t->s, t->m[i].pod, "SchedulerError", text, true);
    }
    return false;
}

enum outcome { REFUSED, PLACED, ROOM_TO_MAKE };

/* Leaves members seated only when they are to be bound. */
static enum outcome search(struct attempt *t)
{
    bool fit, rooms = false, error = false;
    int32_t want = t->want;

    t->waits = sched_away_waits(t->g->away);
    fit = try_all(t);
    for (size_t i = 0; i < t->n; i++) {
        rooms |= t->m[i].victims_n > 0;
        error |= t->m[i].error;
    }
    if (fit && !rooms)
        return PLACED;
    if (fit) { /* as many without evictions, or as upstream does */
        t->want = gang_placed(t);
        note_places(t);
    }
    give_all_back(t);
    if (error)
        return REFUSED;
    if (!t->s->opts.device_scoring_off) { /* upstream looks no further */
        t->too_early = bh_loop_mono_ns(t->s->loop) < t->g->search_ns;
        if (t->too_early)
            return REFUSED;
        if (gang_search(t))
            return PLACED;
        if (!t->waits)
            fit |= gang_find_victims(t);
        t->want = want;
        if (t->waits)
            return REFUSED;
    }
    return fit ? ROOM_TO_MAKE : REFUSED;
}

void sched_gang_attempt(struct bh_scheduler *s, struct spod *first)
{
    struct attempt t = {.s = s, .g = first->gang, .a = s->attempt_arena};

    t.want = first->prof->on[PT_PERMIT] & 1u << PL_GANG ? min_count(t.g) : 1;
    gather(&t, first);
    if (!t.n || !one_profile(&t))
        return;
    s->stats.attempts += t.n;
    switch (search(&t)) {
    case PLACED:
        t.g->away = sched_away_free(t.g->away);
        bind_all(&t);
        break;
    case ROOM_TO_MAKE:
        rest(&t);
        evict_and_wait(&t);
        break;
    case REFUSED:
        rest(&t);
        refuse_all(&t);
        break;
    }
    gang_search_done(&t);
}
