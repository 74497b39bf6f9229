/* device-taint-eviction-controller: pods go whose device cannot be used any more.
 *
 * Driven by events: a change of a slice, rule, claim or pod judges again only what it can touch,
 * and each pod that has to go has one plan with one timer. Facts: the device specification,
 * section 8. Deviations: extended-resource users are evicted too; a rule without selector selects
 * nothing; one that selects everything has to be confirmed (device_taint.h); messages name taint
 * and device after upstream's words.
 */
#include <inttypes.h>
#include <stdio.h>

#include "api/engine.h"
#include "api/gen/core_v1.h"
#include "api/gen/meta_v1.h"
#include "api/gen/resource_v1.h"
#include "api/gen/resource_v1beta2.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "controllers/controllers_int.h"
#include "controllers/device_taint.h"
#include "data/json.h"
#include "data/time_fmt.h"

#define EVICTION_REASON  "DeletionByDeviceTaintManager"
#define REASONS_TOLD_MAX 3
#define RETRY_MIN_MS     5
#define RETRY_MAX_MS     1000000
#define STATUS_PACE_MS   10000
#define STATUS_BEHIND_MS 3
#define STATUS_WORKERS   8
#define LOOK_NS          ((int64_t)60 * 1000000000)

struct evictor {
    struct ctl *ctl;
    struct bh_informer *pods, *claims, *rules, *slices;
    struct dt_index *index;
    struct bh_map plans;         /* pod uid -> struct plan */
    struct bh_map evicted;       /* rule uid -> struct count: pods evicted since start */
    struct bh_workqueue *status; /* rule names whose status has to be looked at */
    struct bh_link writes;       /* of status, under way */
    struct bh_recorder *recorder;
};

struct count {
    int64_t n;
};

/* One pod that has to go. */
struct plan {
    struct evictor *e;
    struct bh_arena *arena; /* reasons; renewed with each judgement */
    struct bh_obj *pod;     /* as last seen */
    struct bh_timer timer;
    int64_t at_ns; /* Unix time */
    struct dt_reason_vec reasons;
    uint64_t call, mark;   /* the step under way, and the condition's write beside it */
    struct bh_err deleted; /* how the deletion went */
    unsigned failures;
    bool running; /* a step is under way: the plan is not changed before it ends */
    bool done; /* deleted; remembered until the cache shows it, so that it is not counted twice */
};

/* A condition of a rule that is being written. */
struct status_write {
    struct bh_link link;
    struct evictor *e;
    struct bh_str key; /* the work queue's */
    struct bh_obj *rule;
    struct bh_buf body;
    struct bh_timer timer;
    uint64_t call;
};

static void plan_run(void *arg);
static void pod_judge(struct evictor *e, struct bh_obj *o);

/* Times of taints are of the wall clock, which may be set: it is looked at each minute. */
static void plan_wait(struct plan *p, int64_t ns)
{
    bh_timer_start_ns(&p->timer, ns < 0 ? 0 : ns < LOOK_NS ? ns : LOOK_NS);
}

static void plan_free(struct plan *p)
{
    bh_timer_stop(&p->timer);
    bh_client_cancel(p->e->ctl->client, p->call);
    bh_client_cancel(p->e->ctl->client, p->mark);
    (void)bh_obj_unref(p->pod);
    (void)bh_arena_free(p->arena);
    bh_free(p);
}

static void plan_drop(struct plan *p)
{
    (void)bh_map_del(&p->e->plans, p->pod->uid);
    plan_free(p);
}

/* " key=value on driver/pool/device (rule r), …": at most three, after upstream's words. */
static void reasons_text(const struct dt_reason_vec *v, struct bh_buf *b)
{
    for (size_t i = 0; i < v->n && i < REASONS_TOLD_MAX; i++) {
        const struct dt_reason *r = &v->p[i];

        bh_buf_addf(b, "%s%.*s", i ? ", " : " ", BH_SF(r->key));
        if (r->value.n)
            bh_buf_addf(b, "=%.*s", BH_SF(r->value));
        bh_buf_addf(b, " on device %.*s", BH_SF(r->device));
        if (r->rule.n)
            bh_buf_addf(b, " (DeviceTaintRule %.*s)", BH_SF(r->rule));
    }
    if (v->n > REASONS_TOLD_MAX)
        bh_buf_addf(b, ", and %zu more", v->n - REASONS_TOLD_MAX);
}

/* ---- executing one plan: GET, event, condition and DELETE ---- */

static void count_rules(struct plan *p)
{
    for (size_t i = 0; i < p->reasons.n; i++) {
        const struct dt_reason *r = &p->reasons.p[i];
        bool again = false;
        struct count *c;

        for (size_t k = 0; k < i; k++)
            again = again || bh_str_eq(p->reasons.p[k].rule_uid, r->rule_uid);
        if (!r->rule_uid.n || again)
            continue;
        c = bh_map_get(&p->e->evicted, r->rule_uid);
        if (!c) {
            c = bh_calloc(1, sizeof(*c));
            (void)bh_map_put(&p->e->evicted, r->rule_uid, c);
        }
        c->n++;
        bh_workqueue_add_after(p->e->status, r->rule, STATUS_PACE_MS);
    }
}

static struct bh_obj *plan_pod(const struct plan *p) /* as it is now; NULL: it is gone */
{
    struct bh_obj *o = bh_informer_get(p->e->pods, p->pod->ns, p->pod->name);

    return o && bh_str_eq(o->uid, p->pod->uid) ? o : NULL;
}

/* What happened while the step was under way counts now: it may be called off. */
static void plan_retry(struct plan *p, const struct bh_err *err)
{
    struct bh_obj *pod = plan_pod(p);
    int64_t ms = RETRY_MIN_MS;

    bh_log(BH_WARN, "eviction failed, retrying", BH_STR("pod", p->pod->name),
           BH_CSTR("error", err->msg));
    for (unsigned i = 0; i < p->failures && ms < RETRY_MAX_MS; i++)
        ms *= 2;
    p->failures++;
    p->running = false;
    bh_timer_start(&p->timer, ms < RETRY_MAX_MS ? ms : RETRY_MAX_MS);
    if (pod)
        pod_judge(p->e, pod);
    else
        plan_drop(p);
}

/* Condition and deletion are sent together, so that they become durable together: the deletion
 * decides how it went. A conflict ends in the next GET. */
static void plan_settle(struct plan *p)
{
    struct bh_obj *pod;

    if (p->mark || p->call)
        return;
    if (p->deleted.code != BH_OK && p->deleted.code != BH_E_NOT_FOUND) {
        plan_retry(p, &p->deleted);
        return;
    }
    if (p->deleted.code == BH_OK)
        count_rules(p);
    pod = plan_pod(p);
    p->running = false;
    p->done = p->deleted.code == BH_OK && pod && !pod->deleting;
    if (!p->done)
        plan_drop(p);
}

static void plan_deleted(void *arg, const struct bh_client_res *res)
{
    struct plan *p = arg;

    p->call = 0;
    p->deleted = res->err;
    plan_settle(p);
}

static void plan_marked(void *arg, const struct bh_client_res *res)
{
    struct plan *p = arg;

    p->mark = 0;
    if (res->err.code != BH_OK && res->err.code != BH_E_NOT_FOUND)
        bh_log(BH_DEBUG, "condition of an evicted pod not written", BH_STR("pod", p->pod->name),
               BH_CSTR("error", res->err.msg));
    plan_settle(p);
}

static const struct bh_core_v1_pod_condition *disruption(const struct bh_obj *pod)
{
    const struct bh_core_v1_pod *p = bh_obj_struct(pod);

    for (size_t i = 0; i < p->status.conditions.n; i++)
        if (bh_str_eqc(p->status.conditions.p[i].type, "DisruptionTarget"))
            return &p->status.conditions.p[i];
    return NULL;
}

/* Events of this controller name the pod, not one version of it. */
static void pod_event(struct evictor *e, const struct bh_obj *pod, const char *what,
                      struct bh_str why)
{
    struct bh_obj ref = *pod;

    ref.rv = 0;
    bh_event(e->recorder, &ref, "Normal", "DeviceTaintManagerEviction", "%s%s%.*s", what,
             why.n ? ":" : "", BH_SF(why));
}

/* A condition that is new comes last. */
static void conditions_order(const struct bh_obj *pod, bool there, struct bh_buf *b)
{
    const struct bh_core_v1_pod *p = bh_obj_struct(pod);

    bh_buf_addz(b, "\"$setElementOrder/conditions\":[");
    for (size_t i = 0; i < p->status.conditions.n; i++) {
        bh_buf_addz(b, i ? ",{\"type\":" : "{\"type\":");
        bh_json_write_str(b, p->status.conditions.p[i].type);
        bh_buf_addc(b, '}');
    }
    if (!there)
        bh_buf_addf(b, "%s{\"type\":\"DisruptionTarget\"}", p->status.conditions.n ? "," : "");
    bh_buf_addz(b, "],");
}

/* The condition, unless the pod has it already (an earlier attempt failed at the deletion). */
static void plan_write_condition(struct plan *p, const struct bh_obj *pod, struct bh_str why)
{
    const struct bh_core_v1_pod_condition *old = disruption(pod);
    BH_AUTO_BUF b = {.max = 1 << 16}, msg = {.max = BH_MESSAGE_BYTES_MAX + 128};
    struct bh_time since = {bh_loop_wall_ns(p->e->ctl->loop) / 1000000000, 0};
    char when[64];

    bh_buf_addf(&msg, "Device Taint manager: deleting due to NoExecute taint%.*s", BH_SF(why));
    if (old && bh_str_eqc(old->status, "True")) {
        if (bh_str_eqc(old->reason, EVICTION_REASON) && bh_str_eq(old->message, bh_buf_str(&msg)))
            return;
        since = old->last_transition_time;
    }
    bh_buf_addf(&b, "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":{", BH_SF(p->pod->uid));
    conditions_order(pod, old != NULL, &b);
    bh_buf_addf(&b,
                "\"conditions\":[{\"type\":\"DisruptionTarget\",\"status\":\"True\",\"reason\":"
                "\"" EVICTION_REASON "\",\"lastTransitionTime\":\"%.*s\",\"message\":",
                BH_SF(bh_time_fmt(since, when)));
    bh_json_write_str(&b, bh_buf_str(&msg));
    bh_buf_addz(&b, "}]}}");
    p->mark = bh_client_patch(p->e->ctl->client, &bh_core_v1_pod_kind, p->pod->ns, p->pod->name,
                              "status", BH_PATCH_STRATEGIC, bh_buf_str(&b), plan_marked, p);
}

static void plan_mark(struct plan *p, const struct bh_obj *pod)
{
    BH_AUTO_BUF why = {.max = BH_MESSAGE_BYTES_MAX};

    reasons_text(&p->reasons, &why);
    pod_event(p->e, p->pod, "Marking for deletion", bh_buf_str(&why));
    plan_write_condition(p, pod, bh_buf_str(&why));
    p->call = bh_client_delete(p->e->ctl->client, &bh_core_v1_pod_kind, p->pod->ns, p->pod->name,
                               p->pod->uid, -1, plan_deleted, p);
}

static void plan_got(void *arg, const struct bh_client_res *res)
{
    struct plan *p = arg;

    p->call = 0;
    if (res->err.code == BH_E_NOT_FOUND || (res->obj && !bh_str_eq(res->obj->uid, p->pod->uid))) {
        plan_drop(p);
    } else if (res->err.code != BH_OK || !res->obj) {
        plan_retry(p, &res->err);
    } else if (res->obj->deleting) {
        count_rules(p);
        plan_drop(p);
    } else {
        plan_mark(p, res->obj);
    }
}

static void plan_run(void *arg)
{
    struct plan *p = arg;
    int64_t wait = p->at_ns - bh_loop_wall_ns(p->e->ctl->loop);

    if (wait > 0) { /* the plan is far off, or somebody set the clock back */
        plan_wait(p, wait);
        return;
    }
    p->running = true;
    p->call = bh_client_call(p->e->ctl->client,
                             &(struct bh_client_req){.verb = BH_VERB_GET,
                                                     .kind = &bh_core_v1_pod_kind,
                                                     .ns = p->pod->ns,
                                                     .name = p->pod->name},
                             plan_got, p);
}

/* ---- judging ---- */

static void rules_touched(struct evictor *e, const struct dt_reason_vec *v)
{
    for (size_t i = 0; i < v->n; i++)
        if (v->p[i].rule.n)
            bh_workqueue_add_after(e->status, v->p[i].rule, STATUS_PACE_MS);
}

/* Takes the arena, which holds the verdict's reasons. */
static void plan_set(struct evictor *e, struct bh_obj *pod, const struct dt_verdict *v,
                     struct bh_arena *a)
{
    struct plan *p = bh_map_get(&e->plans, pod->uid);
    int64_t wait = v->at_ns - bh_loop_wall_ns(e->ctl->loop);

    if (p && (p->running || p->done)) {
        (void)bh_arena_free(a);
        return;
    }
    if (!p) {
        p = bh_calloc(1, sizeof(*p));
        p->e = e;
        bh_timer_init(&p->timer, e->ctl->loop, plan_run, p);
        (void)bh_map_put(&e->plans, pod->uid, p);
    }
    (void)bh_obj_ref(pod);
    (void)bh_obj_unref(p->pod);
    p->pod = pod;
    (void)bh_arena_free(p->arena);
    p->arena = a;
    p->reasons = v->reasons;
    p->at_ns = v->at_ns;
    if (!p->failures || !bh_timer_armed(&p->timer)) /* else the pause after a failure counts */
        plan_wait(p, wait);
    rules_touched(e, &p->reasons);
}

static void plan_cancel(struct evictor *e, struct bh_obj *pod, bool deleted)
{
    struct plan *p = bh_map_get(&e->plans, pod->uid);

    if (!p || p->running) /* the answer under way ends it, and counts it */
        return;
    if (p->done && !deleted) /* too late */
        return;
    if (!deleted)
        pod_event(e, pod, "Cancelling deletion", (struct bh_str){NULL, 0});
    rules_touched(e, &p->reasons);
    plan_drop(p);
}

static struct bh_obj *claim_get(void *arg, struct bh_str ns, struct bh_str name)
{
    return bh_informer_get(((struct evictor *)arg)->claims, ns, name);
}

static void pod_judge(struct evictor *e, struct bh_obj *o)
{
    struct bh_arena *a;
    struct dt_verdict v;

    if (o->deleting) {
        plan_cancel(e, o, true);
        return;
    }
    a = bh_arena_new(0);
    v = dt_judge_pod(e->index, o, claim_get, e, NULL, a);
    if (v.at_ns == DT_NEVER) {
        (void)bh_arena_free(a);
        plan_cancel(e, o, false);
    } else {
        plan_set(e, o, &v, a);
    }
}

static void claim_judge(struct evictor *e, struct bh_obj *c)
{
    const struct bh_resource_v1_resource_claim *claim = bh_obj_struct(c);

    for (size_t i = 0; i < claim->status.reserved_for.n; i++) {
        struct bh_obj *pod = bh_informer_get(e->pods, c->ns, claim->status.reserved_for.p[i].name);

        if (pod && bh_str_eq(pod->uid, claim->status.reserved_for.p[i].uid))
            pod_judge(e, pod);
    }
}

static void claim_touched(void *arg, struct bh_str key)
{
    struct evictor *e = arg;
    struct bh_str name = key, ns = bh_str_cut(&name, '/');
    struct bh_obj *c = bh_informer_get(e->claims, ns, name);

    if (c)
        claim_judge(e, c);
}

/* ---- status of rules ---- */

#define UNCONFIRMED "ConfirmationNeeded"

static bool rule_held(const struct evictor *e, const struct bh_obj *rule)
{
    return !e->ctl->opts->taints_of_all_unconfirmed && dt_rule_unconfirmed(rule);
}

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

struct rule_counts {
    size_t pods, namespaces;
};

static struct rule_counts rule_waiting(struct evictor *e, const struct bh_obj *rule)
{
    struct rule_counts c = {0, 0};
    struct bh_map spaces = {0};
    void *v;

    for (size_t it = 0; bh_map_next(&e->plans, &it, NULL, &v);) {
        struct plan *p = v;
        struct bh_obj *pod = bh_informer_get(e->pods, p->pod->ns, p->pod->name);
        bool concerns = false;

        for (size_t i = 0; i < p->reasons.n; i++)
            concerns = concerns || bh_str_eq(p->reasons.p[i].rule_uid, rule->uid);
        if (!concerns || !pod || pod->deleting || !bh_str_eq(pod->uid, p->pod->uid))
            continue;
        c.pods++;
        (void)bh_map_put(&spaces, p->pod->ns, p);
    }
    c.namespaces = spaces.n;
    bh_map_done(&spaces);
    return c;
}

struct simulation {
    struct evictor *e;
    const struct bh_obj *rule;
    struct bh_map claims, pods, spaces; /* sets: claim keys, pod uids, namespaces */
    size_t allocated;
};

static void simulate_claim(void *arg, struct bh_str key)
{
    struct simulation *s = arg;
    struct bh_str name = key, ns = bh_str_cut(&name, '/');
    struct bh_obj *c = bh_informer_get(s->e->claims, ns, name);
    const struct bh_resource_v1_resource_claim *claim = c ? bh_obj_struct(c) : NULL;

    if (!c || !claim->status.allocation || bh_map_put(&s->claims, key, s))
        return;
    for (size_t i = 0; i < claim->status.allocation->devices.results.n; i++) {
        const struct bh_resource_v1_device_request_allocation_result *r =
            &claim->status.allocation->devices.results.p[i];

        s->allocated += dt_rule_selects(s->rule, r->driver, r->pool, r->device);
    }
    for (size_t i = 0; i < claim->status.reserved_for.n; i++) {
        const struct bh_resource_v1_resource_claim_consumer_reference *r =
            &claim->status.reserved_for.p[i];
        struct bh_obj *pod = bh_informer_get(s->e->pods, ns, r->name);
        BH_AUTO_ARENA a = bh_arena_new(0);

        if (!pod || pod->deleting || !bh_str_eq(pod->uid, r->uid) ||
            dt_judge_pod(s->e->index, pod, claim_get, s->e, s->rule, a).at_ns == DT_NEVER)
            continue;
        (void)bh_map_put(&s->pods, pod->uid, s);
        (void)bh_map_put(&s->spaces, pod->ns, s);
    }
}

struct rule_effect {
    size_t devices, allocated, pods, namespaces;
};

/* What the rule would do with effect NoExecute. */
static struct rule_effect rule_simulate(struct evictor *e, const struct bh_obj *rule)
{
    struct simulation s = {.e = e, .rule = rule};
    struct rule_effect r;

    dt_each_user(e->index, rule, simulate_claim, &s);
    r = (struct rule_effect){dt_count_devices(e->index, rule), s.allocated, s.pods.n, s.spaces.n};
    bh_map_done(&s.claims);
    bh_map_done(&s.pods);
    bh_map_done(&s.spaces);
    return r;
}

static void would_evict(const struct rule_effect *r, struct bh_buf *msg)
{
    bh_buf_addf(msg, "%zu published device%s selected. %zu allocated device%s selected. ",
                r->devices, plural(r->devices), r->allocated, plural(r->allocated));
    bh_buf_addf(msg, "%zu pod%s would be evicted in %zu %snamespace%s ", r->pods, plural(r->pods),
                r->namespaces, r->namespaces == 1 ? "" : "different ", plural(r->namespaces));
}

static const struct bh_meta_v1_condition *
rule_condition(const struct bh_resource_v1beta2_device_taint_rule *r)
{
    for (size_t i = 0; i < r->status.conditions.n; i++)
        if (bh_str_eqc(r->status.conditions.p[i].type, "EvictionInProgress"))
            return &r->status.conditions.p[i];
    return NULL;
}

/* How long the condition has to wait; 0: it may be written. Only a rule that changed is answered at
 * once. */
static int64_t status_wait_ms(const struct bh_resource_v1beta2_device_taint_rule *r,
                              const struct bh_meta_v1_condition *old, bool held, int64_t wall_ns)
{
    int64_t age_ms;

    if (!old || old->observed_generation != r->metadata.generation ||
        bh_str_eqc(old->reason, UNCONFIRMED) != held)
        return 0;
    age_ms = wall_ns / 1000000 - old->last_transition_time.sec * 1000;
    return age_ms >= 0 && age_ms < STATUS_PACE_MS ? STATUS_PACE_MS - age_ms : 0;
}

/* Condition status and reason; the message goes to msg. */
static bool status_of(struct evictor *e, const struct bh_obj *o, const char **reason,
                      struct bh_buf *msg)
{
    const struct bh_resource_v1beta2_device_taint_rule *r = bh_obj_struct(o);
    const struct count *n = bh_map_get(&e->evicted, o->uid);
    struct rule_counts c = {0, 0};

    if (rule_held(e, o)) {
        struct rule_effect would = rule_simulate(e, o);

        *reason = UNCONFIRMED;
        would_evict(&would, msg);
        bh_buf_addz(msg, "if the rule was confirmed. It selects every device, so nobody is evicted "
                         "until its annotation " BH_ANNOTATION_CONFIRM_ALL " is \"true\".");
    } else if (bh_str_eqc(r->spec.taint.effect, "NoExecute")) {
        c = rule_waiting(e, o);
        *reason = c.pods ? "PodsPendingEviction" : n ? "Completed" : "NotStarted";
        if (c.pods)
            bh_buf_addf(msg, "%zu pod%s to be evicted in %zu %snamespace%s.", c.pods,
                        c.pods == 1 ? " needs" : "s need", c.namespaces,
                        c.namespaces == 1 ? "" : "different ", plural(c.namespaces));
    } else if (bh_str_eqc(r->spec.taint.effect, "None")) {
        struct rule_effect would = rule_simulate(e, o);

        *reason = "NoEffect";
        would_evict(&would, msg);
        bh_buf_addz(msg, "if the effect was NoExecute. This information will not be updated again. "
                         "Recreate the DeviceTaintRule to trigger an update.");
    } else {
        *reason = "OtherEffect";
        bh_buf_addz(msg, "Eviction only happens for the NoExecute effect.");
    }
    if (n)
        bh_buf_addf(msg, "%s%" PRId64 " pod%s evicted since starting the controller.",
                    msg->n ? " " : "", n->n, plural((size_t)n->n));
    return c.pods > 0;
}

static void status_write_free(struct status_write *w)
{
    bh_list_del(&w->link);
    bh_timer_stop(&w->timer);
    bh_client_cancel(w->e->ctl->client, w->call);
    (void)bh_obj_unref(w->rule);
    bh_buf_done(&w->body);
    bh_free(w);
}

static void status_written(void *arg, const struct bh_client_res *res)
{
    struct status_write *w = arg;
    struct evictor *e = w->e;
    struct bh_str key = w->key;
    bool ok = res->err.code == BH_OK || res->err.code == BH_E_NOT_FOUND;

    if (!ok)
        bh_log(BH_DEBUG, "rule status not written", BH_CSTR("error", res->err.msg));
    status_write_free(w);
    bh_workqueue_done(e->status, key, ok ? BH_WORK_OK : BH_WORK_RETRY);
}

static void status_send(void *arg)
{
    struct status_write *w = arg;

    const struct bh_client_req req = {
        .verb = BH_VERB_PATCH,
        .kind = w->rule->kind,
        .name = w->rule->name,
        .subresource = BH_S("status"),
        .patch = BH_PATCH_APPLY,
        .query = BH_S("fieldManager=device-taint-eviction-controller&force=true"),
        .body = bh_buf_str(&w->body)};

    w->call = bh_client_call(w->e->ctl->client, &req, status_written, w);
}

/* What it says is fixed now. Evictions that begin at this moment are written first, or they would
 * have to wait until this is durable. */
static void status_write(struct evictor *e, struct bh_str key, struct bh_obj *o, const char *status,
                         const char *reason, struct bh_str message)
{
    const struct bh_resource_v1beta2_device_taint_rule *r = bh_obj_struct(o);
    struct status_write *w = bh_calloc(1, sizeof(*w));
    int64_t wall = bh_loop_wall_ns(e->ctl->loop);
    char when[64];

    w->body.max = 8192;
    bh_buf_addf(&w->body,
                "{\"kind\":\"%.*s\",\"apiVersion\":\"%.*s\",\"metadata\":{\"name\":\"%.*s\","
                "\"uid\":\"%.*s\"},\"status\":{\"conditions\":[{\"type\":\"EvictionInProgress\","
                "\"status\":\"%s\",\"reason\":\"%s\",\"observedGeneration\":%" PRId64
                ",\"lastTransitionTime\":\"%.*s\",\"message\":",
                BH_SF(o->kind->kind), BH_SF(o->kind->api_version), BH_SF(o->name), BH_SF(o->uid),
                status, reason, r->metadata.generation,
                BH_SF(bh_time_fmt((struct bh_time){wall / 1000000000, 0}, when)));
    bh_json_write_str(&w->body, message);
    bh_buf_addz(&w->body, "}]}}");
    w->e = e;
    w->key = key;
    w->rule = bh_obj_ref(o);
    bh_list_add_tail(&e->writes, &w->link);
    bh_timer_init(&w->timer, e->ctl->loop, status_send, w);
    bh_timer_start(&w->timer, bh_str_eqc(bh_s(status), "True") ? STATUS_BEHIND_MS : 0);
}

static void status_sync(void *arg, struct bh_str name)
{
    struct evictor *e = arg;
    struct bh_obj *o = bh_informer_get(e->rules, (struct bh_str){0}, name);
    const struct bh_resource_v1beta2_device_taint_rule *r = o ? bh_obj_struct(o) : NULL;
    const struct bh_meta_v1_condition *old = o ? rule_condition(r) : NULL;
    int64_t wall = bh_loop_wall_ns(e->ctl->loop);
    int64_t wait = o ? status_wait_ms(r, old, rule_held(e, o), wall) : -1;
    BH_AUTO_BUF msg = {.max = BH_MESSAGE_BYTES_MAX};
    const char *reason, *status;

    if (wait != 0) {
        if (wait > 0)
            bh_workqueue_add_after(e->status, name, wait);
        bh_workqueue_done(e->status, name, BH_WORK_OK);
        return;
    }
    status = status_of(e, o, &reason, &msg) ? "True" : "False";
    if (bh_str_eqc(bh_s(status), "True"))
        bh_workqueue_add_after(e->status, name, STATUS_PACE_MS);
    if (old && bh_str_eqc(old->status, status) && bh_str_eqc(old->reason, reason) &&
        bh_str_eq(old->message, bh_buf_str(&msg)) &&
        old->observed_generation == r->metadata.generation)
        bh_workqueue_done(e->status, name, BH_WORK_OK);
    else
        status_write(e, name, o, status, reason, bh_buf_str(&msg));
    if (bh_str_eqc(bh_s(reason), UNCONFIRMED) &&
        !(old && bh_str_eqc(old->reason, UNCONFIRMED) &&
          old->observed_generation == r->metadata.generation))
        bh_event(e->recorder, o, "Warning", UNCONFIRMED,
                 "The rule selects every device with effect NoExecute; nobody is evicted until its "
                 "annotation " BH_ANNOTATION_CONFIRM_ALL " is \"true\"");
}

/* ---- events ---- */

static void slice_added(void *arg, struct bh_obj *o)
{
    struct evictor *e = arg;

    dt_index_slice(e->index, NULL, o, claim_touched, e);
}
static void slice_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    struct evictor *e = arg;

    dt_index_slice(e->index, old, o, claim_touched, e);
}
static void slice_deleted(void *arg, struct bh_obj *last)
{
    struct evictor *e = arg;

    dt_index_slice(e->index, last, NULL, claim_touched, e);
}
static void rule_added(void *arg, struct bh_obj *o)
{
    struct evictor *e = arg;

    dt_index_rule(e->index, NULL, o, claim_touched, e);
    bh_workqueue_add(e->status, o->name);
}
static void rule_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    const struct bh_resource_v1beta2_device_taint_rule *a = bh_obj_struct(old),
                                                       *b = bh_obj_struct(o);
    struct evictor *e = arg;
    /* Our own status writes come back here, and annotations leave the generation alone. */
    bool same = rule_held(e, old) == rule_held(e, o) &&
                bh_msg_equal(&bh_resource_v1beta2_device_taint_rule_spec_type, &a->spec, &b->spec);

    dt_index_rule(e->index, old, o, same ? NULL : claim_touched, e);
    if (!same)
        bh_workqueue_add(e->status, o->name);
}
static void rule_deleted(void *arg, struct bh_obj *last)
{
    struct evictor *e = arg;

    dt_index_rule(e->index, last, NULL, claim_touched, e);
    bh_free(bh_map_del(&e->evicted, last->uid));
}
static void claim_added(void *arg, struct bh_obj *o)
{
    struct evictor *e = arg;

    dt_index_claim(e->index, NULL, o);
    claim_judge(e, o);
}
/* What bears on eviction: devices and consumers. Health and conditions of devices change often. */
static bool claim_same(const struct bh_resource_v1_resource_claim *a,
                       const struct bh_resource_v1_resource_claim *b)
{
    if (!a->status.allocation != !b->status.allocation ||
        a->status.reserved_for.n != b->status.reserved_for.n)
        return false;
    for (size_t i = 0; i < a->status.reserved_for.n; i++)
        if (!bh_str_eq(a->status.reserved_for.p[i].uid, b->status.reserved_for.p[i].uid))
            return false;
    return !a->status.allocation || bh_msg_equal(&bh_resource_v1_allocation_result_type,
                                                 a->status.allocation, b->status.allocation);
}

static void claim_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    struct evictor *e = arg;

    if (claim_same(bh_obj_struct(old), bh_obj_struct(o)))
        return;
    dt_index_claim(e->index, old, o);
    claim_judge(e, old); /* also those that it no longer knows */
    claim_judge(e, o);
}
static void claim_deleted(void *arg, struct bh_obj *last)
{
    struct evictor *e = arg;

    dt_index_claim(e->index, last, NULL);
    claim_judge(e, last);
}
static void pod_added(void *arg, struct bh_obj *o)
{
    if (((const struct bh_core_v1_pod *)bh_obj_struct(o))->spec.resource_claims.n ||
        ((const struct bh_core_v1_pod *)bh_obj_struct(o))->status.extended_resource_claim_status)
        pod_judge(arg, o);
}
static bool same_claim_names(const struct bh_core_v1_pod *a, const struct bh_core_v1_pod *b)
{
    if (a->status.resource_claim_statuses.n != b->status.resource_claim_statuses.n ||
        !a->status.extended_resource_claim_status != !b->status.extended_resource_claim_status)
        return false;
    for (size_t i = 0; i < a->status.resource_claim_statuses.n; i++)
        if (!bh_str_eq(a->status.resource_claim_statuses.p[i].resource_claim_name,
                       b->status.resource_claim_statuses.p[i].resource_claim_name))
            return false;
    return true;
}
static void pod_updated(void *arg, struct bh_obj *old, struct bh_obj *o)
{
    const struct bh_core_v1_pod *a = bh_obj_struct(old), *b = bh_obj_struct(o);

    if (old->deleting != o->deleting || !bh_str_eq(a->spec.node_name, b->spec.node_name) ||
        !same_claim_names(a, b))
        pod_added(arg, o);
}
static void pod_deleted(void *arg, struct bh_obj *last)
{
    plan_cancel(arg, last, true);
}

static void evictor_begin(void *arg)
{
    struct evictor *e = arg;

    if (ctl_synced((struct bh_informer *[]){e->slices, e->rules, e->claims, e->pods}, 4))
        bh_workqueue_resume(e->status);
}

static const struct bh_informer_ops slice_ops = {slice_added, slice_updated, slice_deleted,
                                                 evictor_begin};
static const struct bh_informer_ops rule_ops = {rule_added, rule_updated, rule_deleted,
                                                evictor_begin};
static const struct bh_informer_ops claim_ops = {claim_added, claim_updated, claim_deleted,
                                                 evictor_begin};
static const struct bh_informer_ops pod_ops = {pod_added, pod_updated, pod_deleted, evictor_begin};

static void *evictor_start(struct ctl *c)
{
    struct evictor *e = bh_calloc(1, sizeof(*e));

    e->ctl = c;
    e->recorder = bh_recorder_new(c->client, ctl_device_taint_eviction.name, "");
    e->index = dt_index_new(!c->opts->taints_of_all_unconfirmed);
    bh_list_init(&e->writes);
    e->status = bh_workqueue_new(c->loop, STATUS_WORKERS, status_sync, e);
    bh_workqueue_pause(e->status);
    e->slices = ctl_subscribe(c->informers, &bh_resource_v1_resource_slice_kind, &slice_ops, e);
    e->rules =
        ctl_subscribe(c->informers, &bh_resource_v1beta2_device_taint_rule_kind, &rule_ops, e);
    e->claims = ctl_subscribe(c->informers, &bh_resource_v1_resource_claim_kind, &claim_ops, e);
    e->pods = ctl_subscribe(c->informers, &bh_core_v1_pod_kind, &pod_ops, e);
    return e;
}

static void evictor_stop(void *self)
{
    struct evictor *e = self;
    void *v;

    bh_list_for_safe(l, &e->writes) status_write_free(bh_container(l, struct status_write, link));
    for (size_t it = 0; bh_map_next(&e->plans, &it, NULL, &v);)
        plan_free(v);
    bh_map_done(&e->plans);
    for (size_t it = 0; bh_map_next(&e->evicted, &it, NULL, &v);)
        bh_free(v);
    bh_map_done(&e->evicted);
    e->status = bh_workqueue_free(e->status);
    e->recorder = bh_recorder_free(e->recorder);
    e->index = dt_index_free(e->index);
    bh_free(e);
}

const struct ctl_controller ctl_device_taint_eviction = {"device-taint-eviction-controller",
                                                         evictor_start, evictor_stop};
