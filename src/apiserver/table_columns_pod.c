/* Cells of pods. */
#include "apiserver/table_columns.h"

#include "api/gen/core_v1.h"
#include "base/buf.h"
#include "data/time_fmt.h"

#include <stdio.h>

#define REASON_BYTES 300

/* What `kubectl get pods` says of a pod's containers. */
struct summary {
    int ready, total, restarts;
    struct bh_time last_restart;
    char reason[REASON_BYTES];
};

static void set_reason(struct summary *s, const char *fmt, ...) BH_PRINTF(2, 3);
static void set_reason(struct summary *s, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(s->reason, sizeof(s->reason), fmt, ap);
    va_end(ap);
}

static bool condition_is(const struct bh_core_v1_pod *p, const char *type, const char *status)
{
    for (size_t i = 0; i < p->status.conditions.n; i++)
        if (bh_str_eqc(p->status.conditions.p[i].type, type))
            return bh_str_eqc(p->status.conditions.p[i].status, status);
    return false;
}

/* An init container that runs beside the others. */
static bool is_sidecar(const struct bh_core_v1_pod *p, struct bh_str name)
{
    for (size_t i = 0; i < p->spec.init_containers.n; i++) {
        const struct bh_core_v1_container *c = &p->spec.init_containers.p[i];

        if (bh_str_eq(c->name, name))
            return c->has_restart_policy && bh_str_eqc(c->restart_policy, "Always");
    }
    return false;
}

/* No time at all comes before every other. */
static bool later(struct bh_time a, struct bh_time b)
{
    if (bh_time_is_zero(a) || bh_time_is_zero(b))
        return !bh_time_is_zero(a);
    return a.sec > b.sec || (a.sec == b.sec && a.nsec > b.nsec);
}

static void count_restarts(const struct bh_core_v1_container_status *c, int *restarts,
                           struct bh_time *last)
{
    const struct bh_core_v1_container_state_terminated *t = c->last_state.terminated;

    *restarts += c->restart_count;
    if (t && later(t->finished_at, *last))
        *last = t->finished_at;
}

static void ended(struct summary *s, const char *prefix,
                  const struct bh_core_v1_container_state_terminated *t)
{
    if (t->reason.n)
        set_reason(s, "%s%.*s", prefix, BH_SF(t->reason));
    else if (t->signal != 0)
        set_reason(s, "%sSignal:%d", prefix, (int)t->signal);
    else
        set_reason(s, "%sExitCode:%d", prefix, (int)t->exit_code);
}

/* True while init containers are still at work (or have failed). side collects the restarts of
 * sidecars alone: they count on when the pod is past its start. */
static bool initializing(const struct bh_core_v1_pod *p, struct summary *s, struct summary *side)
{
    for (size_t i = 0; i < p->status.init_container_statuses.n; i++) {
        const struct bh_core_v1_container_status *c = &p->status.init_container_statuses.p[i];
        const struct bh_core_v1_container_state_terminated *t = c->state.terminated;
        const struct bh_core_v1_container_state_waiting *w = c->state.waiting;
        bool sidecar = is_sidecar(p, c->name);

        count_restarts(c, &s->restarts, &s->last_restart);
        if (sidecar)
            count_restarts(c, &side->restarts, &side->last_restart);
        if (t && t->exit_code == 0)
            continue;
        if (sidecar && c->has_started && c->started) {
            s->ready += c->ready;
            continue;
        }
        if (t)
            ended(s, "Init:", t);
        else if (w && w->reason.n && !bh_str_eqc(w->reason, "PodInitializing"))
            set_reason(s, "Init:%.*s", BH_SF(w->reason));
        else
            set_reason(s, "Init:%zu/%zu", i, p->spec.init_containers.n);
        return true;
    }
    return false;
}

static void running(const struct bh_core_v1_pod *p, struct summary *s)
{
    bool has_running = false;
    char error[REASON_BYTES] = "";

    for (size_t i = p->status.container_statuses.n; i-- > 0;) {
        const struct bh_core_v1_container_status *c = &p->status.container_statuses.p[i];
        const struct bh_core_v1_container_state *st = &c->state;

        count_restarts(c, &s->restarts, &s->last_restart);
        if (st->waiting && st->waiting->reason.n) {
            set_reason(s, "%.*s", BH_SF(st->waiting->reason));
        } else if (st->terminated) {
            ended(s, "", st->terminated);
            if (st->terminated->exit_code != 0)
                (void)snprintf(error, sizeof(error), "%s", s->reason);
        } else if (c->ready && st->running) {
            has_running = true;
            s->ready++;
        }
    }
    if (!bh_str_eqc(bh_s(s->reason), "Completed"))
        return;
    if (has_running && condition_is(p, "Ready", "True"))
        set_reason(s, "Running");
    else if (error[0])
        (void)snprintf(s->reason, sizeof(s->reason), "%s", error);
    else if (has_running)
        set_reason(s, "NotReady");
}

static struct summary summarize(const struct bh_core_v1_pod *p)
{
    struct summary s = {.total = (int)p->spec.containers.n}, side = {0};
    struct bh_str phase = p->status.phase;

    set_reason(&s, "%.*s", BH_SF(p->status.reason.n ? p->status.reason : phase));
    for (size_t i = 0; i < p->status.conditions.n; i++)
        if (bh_str_eqc(p->status.conditions.p[i].type, "PodScheduled") &&
            bh_str_eqc(p->status.conditions.p[i].reason, "SchedulingGated"))
            set_reason(&s, "SchedulingGated");
    for (size_t i = 0; i < p->spec.init_containers.n; i++)
        s.total += is_sidecar(p, p->spec.init_containers.p[i].name);
    if (!initializing(p, &s, &side) || condition_is(p, "Initialized", "True")) {
        s.restarts = side.restarts;
        s.last_restart = side.last_restart;
        running(p, &s);
    }
    if (!bh_time_is_zero(p->metadata.deletion_timestamp)) {
        if (bh_str_eqc(p->status.reason, "NodeLost"))
            set_reason(&s, "Unknown");
        else if (!bh_str_eqc(phase, "Succeeded") && !bh_str_eqc(phase, "Failed"))
            set_reason(&s, "Terminating");
    }
    return s;
}

static void ready(const void *obj, struct bh_time now, struct bh_buf *out)
{
    struct summary s = summarize(obj);

    (void)now;
    bh_cell_fmt(out, "%d/%d", s.ready, s.total);
}

static void status(const void *obj, struct bh_time now, struct bh_buf *out)
{
    struct summary s = summarize(obj);

    (void)now;
    bh_cell_str(out, bh_s(s.reason));
}

static void restarts(const void *obj, struct bh_time now, struct bh_buf *out)
{
    struct summary s = summarize(obj);
    char buf[BH_TIME_BUF];

    if (s.restarts != 0 && !bh_time_is_zero(s.last_restart))
        bh_cell_fmt(out, "%d (%.*s ago)", s.restarts, BH_SF(bh_age(now, s.last_restart, buf)));
    else
        bh_cell_fmt(out, "%d", s.restarts);
}

static void or_none(struct bh_buf *out, struct bh_str s)
{
    bh_cell_str(out, s.n ? s : BH_S("<none>"));
}

static void ip(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct bh_core_v1_pod *p = obj;

    (void)now;
    or_none(out, p->status.pod_ips.n ? p->status.pod_ips.p[0].ip : BH_S(""));
}

static void node(const void *obj, struct bh_time now, struct bh_buf *out)
{
    (void)now;
    or_none(out, ((const struct bh_core_v1_pod *)obj)->spec.node_name);
}

static void nominated_node(const void *obj, struct bh_time now, struct bh_buf *out)
{
    (void)now;
    or_none(out, ((const struct bh_core_v1_pod *)obj)->status.nominated_node_name);
}

static void readiness_gates(const void *obj, struct bh_time now, struct bh_buf *out)
{
    const struct bh_core_v1_pod *p = obj;
    size_t open = 0;

    (void)now;
    for (size_t i = 0; i < p->spec.readiness_gates.n; i++) {
        struct bh_str type = p->spec.readiness_gates.p[i].condition_type;

        for (size_t k = 0; k < p->status.conditions.n; k++)
            if (bh_str_eq(p->status.conditions.p[k].type, type)) {
                open += bh_str_eqc(p->status.conditions.p[k].status, "True");
                break;
            }
    }
    if (p->spec.readiness_gates.n)
        bh_cell_fmt(out, "%zu/%zu", open, p->spec.readiness_gates.n);
    else
        bh_cell_str(out, BH_S("<none>"));
}

void bh_row_conditions(const struct bh_kind *k, const void *obj, struct bh_buf *out)
{
    const struct bh_core_v1_pod *p = obj;
    const char *text;

    if (k != &bh_core_v1_pod_kind)
        return;
    if (bh_str_eqc(p->status.phase, "Succeeded"))
        text = "The pod has completed successfully.";
    else if (bh_str_eqc(p->status.phase, "Failed"))
        text = "The pod failed.";
    else
        return;
    bh_buf_addf(out,
                ",\"conditions\":[{\"type\":\"Completed\",\"status\":\"True\",\"reason\":\"%.*s\","
                "\"message\":\"%s\"}]",
                BH_SF(p->status.phase), text);
}

const struct bh_column_entry bh_columns_pod[] = {
    {"pod_ready", ready},
    {"pod_status", status},
    {"pod_restarts", restarts},
    {"pod_ip", ip},
    {"pod_node", node},
    {"pod_nominated_node", nominated_node},
    {"pod_readiness_gates", readiness_gates},
    {NULL, NULL},
};
