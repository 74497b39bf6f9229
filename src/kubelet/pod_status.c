/* The status of a pod, computed from what the runtime knows and what the worker waits for. Pure. */
#include "api/gen/meta_v1.h"
#include "base/buf.h"
#include "base/fs.h"
#include "data/time_fmt.h"
#include "kubelet/kubelet_int.h"

#define TERMINATION_LOG_MAX 4096

static struct bh_time from_ns(int64_t ns)
{
    return (struct bh_time){ns / 1000000000, 0};
}

const struct bh_cri_container *pod_latest(const struct bh_cri_container_vec *v, struct bh_str name)
{
    const struct bh_cri_container *last = NULL;

    for (size_t i = 0; i < v->n; i++)
        if (bh_str_eq(v->p[i].name, name) && (!last || v->p[i].attempt > last->attempt))
            last = &v->p[i];
    return last;
}

static const struct bh_cri_container *before(const struct bh_cri_container_vec *v,
                                             const struct bh_cri_container *c)
{
    const struct bh_cri_container *last = NULL;

    for (size_t i = 0; i < v->n; i++)
        if (bh_str_eq(v->p[i].name, c->name) && v->p[i].attempt < c->attempt &&
            (!last || v->p[i].attempt > last->attempt))
            last = &v->p[i];
    return last;
}

bool pod_should_restart(const struct bh_core_v1_pod *pod, const struct bh_core_v1_container *c,
                        bool init, const struct bh_cri_container *last)
{
    struct bh_str policy = pod->spec.restart_policy;

    if (c->has_restart_policy && c->restart_policy.n)
        policy = c->restart_policy;
    for (size_t i = 0; c->restart_policy_rules.n && i < c->restart_policy_rules.n; i++) {
        const struct bh_core_v1_container_restart_rule *r = &c->restart_policy_rules.p[i];
        bool in = false;

        for (size_t k = 0; r->exit_codes && k < r->exit_codes->values.n; k++)
            in = in || r->exit_codes->values.p[k] == last->exit_code;
        if (r->exit_codes && in == bh_str_eqc(r->exit_codes->operator, "In") &&
            bh_str_starts(r->action, BH_S("Restart")))
            return true;
    }
    if (init &&
        !pod_is_sidecar(c)) /* an init container that succeeded is done whatever the policy says */
        return last->exit_code != 0 && !bh_str_eqc(policy, "Never");
    return bh_str_eqc(policy, "Always") ||
           (bh_str_eqc(policy, "OnFailure") && last->exit_code != 0);
}

static const struct pod_wait *find_wait(const struct pod_status_in *in, struct bh_str name)
{
    for (size_t i = 0; i < in->n_waits; i++)
        if (bh_str_eq(in->waits[i].name, name))
            return &in->waits[i];
    return NULL;
}

static struct bh_core_v1_container_state_terminated *
terminated(struct bh_arena *a, const struct pod_status_in *in,
           const struct bh_core_v1_container *spec, const struct bh_cri_container *c)
{
    struct bh_core_v1_container_state_terminated *t =
        bh_new(a, struct bh_core_v1_container_state_terminated);
    BH_AUTO_BUF b = {.max = TERMINATION_LOG_MAX + 1};

    t->exit_code = c->exit_code;
    t->reason = c->reason.n    ? bh_str_dup(a, c->reason)
                : c->exit_code ? BH_S("Error")
                               : BH_S("Completed");
    t->message = bh_str_dup(a, c->message);
    if (spec->termination_message_path.n &&
        bh_fs_read(pod_termination_log(a, in->kubelet->root, in->pod->uid, c->name, c->attempt),
                   TERMINATION_LOG_MAX, &b, NULL) >= 0 &&
        b.n)
        t->message = bh_str_dup(a, bh_buf_str(&b));
    t->started_at = from_ns(c->started_ns ? c->started_ns : c->created_ns);
    t->finished_at = from_ns(c->finished_ns);
    t->container_id = bh_str_fmt(a, "%s://%.*s", in->kubelet->rt->ops->name, BH_SF(c->id));
    return t;
}

static void set_waiting(struct bh_arena *a, struct bh_core_v1_container_state *s,
                        struct bh_str reason, struct bh_str message)
{
    s->waiting = bh_new(a, struct bh_core_v1_container_state_waiting);
    s->waiting->reason = bh_str_dup(a, reason);
    s->waiting->message = bh_str_dup(a, message);
}

/* initialized: every init container before the app containers is through. */
static void container_status(struct bh_arena *a, const struct pod_status_in *in,
                             const struct bh_core_v1_container *spec, bool init, bool initialized,
                             struct bh_core_v1_container_status *out)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(in->pod);
    const struct bh_cri_container *c = pod_latest(in->containers, spec->name);
    const struct bh_cri_container *prev = c ? before(in->containers, c) : NULL;
    const struct pod_wait *w = find_wait(in, spec->name);

    out->name = spec->name;
    out->image = spec->image;
    out->image_id = (struct bh_str){"", 0};
    out->has_started = true;
    if (!c) {
        if (in->terminal && pod->spec.node_name.n && in->fail_reason)
            set_waiting(a, &out->state,
                        initialized || init ? BH_S("ContainerCreating") : BH_S("PodInitializing"),
                        (struct bh_str){0});
        else if (w)
            set_waiting(a, &out->state, w->reason, w->message);
        else
            set_waiting(a, &out->state,
                        init || pod->spec.init_containers.n == 0 ? BH_S("ContainerCreating")
                                                                 : BH_S("PodInitializing"),
                        (struct bh_str){0});
        if (init && pod->spec.init_containers.n && !w)
            out->state.waiting->reason = BH_S("PodInitializing");
        return;
    }
    out->restart_count = (int32_t)c->attempt;
    out->image_id = bh_str_dup(a, c->image_ref.n ? c->image_ref : c->image_id);
    out->container_id = bh_str_fmt(a, "%s://%.*s", in->kubelet->rt->ops->name, BH_SF(c->id));
    if (c->state == BH_CRI_RUNNING) {
        out->state.running = bh_new(a, struct bh_core_v1_container_state_running);
        out->state.running->started_at = from_ns(c->started_ns);
        out->ready = !init || pod_is_sidecar(spec);
        out->started = true;
        if (prev)
            out->last_state.terminated = terminated(a, in, spec, prev);
    } else if (c->state == BH_CRI_EXITED || c->state == BH_CRI_UNKNOWN) {
        if (w && !in->terminal) { /* it waits to be started again */
            set_waiting(a, &out->state, w->reason, w->message);
            out->last_state.terminated = terminated(a, in, spec, c);
        } else {
            out->state.terminated = terminated(a, in, spec, c);
            if (prev)
                out->last_state.terminated = terminated(a, in, spec, prev);
        }
        out->ready = init && !pod_is_sidecar(spec) && c->exit_code == 0;
    } else if (w) {
        set_waiting(a, &out->state, w->reason, w->message);
    } else {
        set_waiting(a, &out->state, BH_S("ContainerCreating"), (struct bh_str){0});
    }
}

/* ---- phase ---- */

struct tally {
    size_t running, waiting, succeeded, failed, restarting;
    bool init_failed, init_pending;
};

static void count(struct tally *t, const struct pod_status_in *in, const struct bh_core_v1_pod *pod,
                  const struct bh_core_v1_container *spec, bool init)
{
    const struct bh_cri_container *c = pod_latest(in->containers, spec->name);
    bool exited = c && (c->state == BH_CRI_EXITED || c->state == BH_CRI_UNKNOWN);

    if (init) {
        if (pod_is_sidecar(spec)) {
            if (!c || (c->state != BH_CRI_RUNNING && !exited))
                t->init_pending = true;
        } else if (!exited ||
                   (c->exit_code != 0 && pod_should_restart(pod, spec, true, c) && !in->terminal)) {
            t->init_pending = true;
        } else if (c->exit_code != 0) {
            t->init_failed = true;
        }
        return;
    }
    if (!c || c->state == BH_CRI_CREATED) {
        t->waiting++;
    } else if (c->state == BH_CRI_RUNNING) {
        t->running++;
    } else if (!in->terminal && pod_should_restart(pod, spec, false, c)) {
        t->restarting++;
    } else if (c->exit_code == 0) {
        t->succeeded++;
    } else {
        t->failed++;
    }
}

static const char *phase_of(const struct pod_status_in *in, const struct bh_core_v1_pod *pod,
                            const struct tally *t)
{
    if (bh_str_eqc(pod->status.phase, "Failed"))
        return "Failed";
    if (bh_str_eqc(pod->status.phase, "Succeeded"))
        return "Succeeded";
    if (in->fail_reason || t->init_failed)
        return "Failed";
    if (in->terminal && t->running == 0)
        return t->failed || t->waiting || t->init_pending ? "Failed" : "Succeeded";
    if (t->init_pending || t->waiting)
        return "Pending";
    if (t->running || t->restarting)
        return "Running";
    return t->failed ? "Failed" : "Succeeded";
}

/* ---- conditions ---- */

static void condition(const struct pod_status_in *in, struct bh_core_v1_pod_status *out,
                      const char *type, bool on, const char *reason, struct bh_str message)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(in->pod);
    struct bh_core_v1_pod_condition *c = &out->conditions.p[out->conditions.n++];

    c->type = bh_s(type);
    c->status = on ? BH_S("True") : BH_S("False");
    c->observed_generation = pod->metadata.generation;
    c->last_transition_time = in->now;
    if (!on && reason) {
        c->reason = bh_s(reason);
        c->message = message;
    }
    for (size_t i = 0; i < pod->status.conditions.n; i++) {
        const struct bh_core_v1_pod_condition *o = &pod->status.conditions.p[i];

        if (bh_str_eq(o->type, c->type) && bh_str_eq(o->status, c->status))
            c->last_transition_time = o->last_transition_time;
    }
}

static struct bh_str unready_names(struct bh_arena *a, const char *words,
                                   const struct bh_core_v1_container_status_vec *v)
{
    BH_AUTO_BUF b = {.max = 1024};
    bool any = false;

    bh_buf_addf(&b, "%s: [", words);
    for (size_t i = 0; i < v->n; i++)
        if (!v->p[i].ready) {
            bh_buf_addf(&b, "%s%.*s", any ? " " : "", BH_SF(v->p[i].name));
            any = true;
        }
    bh_buf_addc(&b, ']');
    return bh_str_dup(a, bh_buf_str(&b));
}

static bool gates_ready(const struct bh_core_v1_pod *pod)
{
    for (size_t i = 0; i < pod->spec.readiness_gates.n; i++) {
        bool on = false;

        for (size_t k = 0; k < pod->status.conditions.n; k++)
            on = on || (bh_str_eq(pod->status.conditions.p[k].type,
                                  pod->spec.readiness_gates.p[i].condition_type) &&
                        bh_str_eqc(pod->status.conditions.p[k].status, "True"));
        if (!on)
            return false;
    }
    return true;
}

static void conditions(struct bh_arena *a, const struct pod_status_in *in,
                       struct bh_core_v1_pod_status *out, bool initialized)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(in->pod);
    bool sandbox = in->sandbox && in->sandbox->state == BH_CRI_SANDBOX_READY, all = true;
    bool succeeded = bh_str_eqc(out->phase, "Succeeded"), failed = bh_str_eqc(out->phase, "Failed");
    const char *reason = "ContainersNotReady";
    struct bh_str message = {0};

    out->conditions.p = bh_new_n(a, struct bh_core_v1_pod_condition, 5);
    condition(in, out, "PodReadyToStartContainers", sandbox, NULL, message);
    condition(in, out, "Initialized", initialized || succeeded, "ContainersNotInitialized",
              initialized ? message
                          : unready_names(a, "containers with incomplete status",
                                          &out->init_container_statuses));
    if (succeeded)
        out->conditions.p[1].reason = BH_S("PodCompleted");
    for (size_t i = 0; i < out->container_statuses.n; i++)
        all = all && out->container_statuses.p[i].ready;
    all = all && !succeeded && !failed;
    if (succeeded)
        reason = "PodCompleted";
    else if (failed)
        reason = "PodFailed";
    else if (!all)
        message = unready_names(a, "containers with unready status", &out->container_statuses);
    if (all && !gates_ready(pod)) {
        condition(in, out, "Ready", false, "ReadinessGatesNotReady",
                  BH_S("the status of pod readiness gates is not \"True\""));
    } else {
        condition(in, out, "Ready", all, reason, message);
    }
    condition(in, out, "ContainersReady", all, reason, message);
    condition(in, out, "PodScheduled", true, NULL, (struct bh_str){0});
}

void pod_status_make(struct bh_arena *a, const struct pod_status_in *in,
                     struct bh_core_v1_pod_status *out)
{
    const struct bh_core_v1_pod *pod = bh_obj_struct(in->pod);
    struct tally t = {0};
    bool initialized;

    for (size_t i = 0; i < pod->spec.init_containers.n; i++)
        count(&t, in, pod, &pod->spec.init_containers.p[i], true);
    for (size_t i = 0; i < pod->spec.containers.n; i++)
        count(&t, in, pod, &pod->spec.containers.p[i], false);
    initialized = !t.init_pending && !t.init_failed;
    out->observed_generation = pod->metadata.generation;
    out->phase = bh_s(phase_of(in, pod, &t));
    if (in->fail_reason) {
        out->reason = bh_s(in->fail_reason);
        out->message = bh_s(in->fail_message);
    }
    out->host_ip = bh_s(in->kubelet->node_ip);
    out->host_ips.p = bh_new(a, struct bh_core_v1_host_ip);
    out->host_ips.p->ip = out->host_ip;
    out->host_ips.n = 1;
    if (pod->spec.host_network)
        out->pod_ip = out->host_ip;
    else if (in->sandbox && in->sandbox->ips.n)
        out->pod_ip = bh_str_dup(a, in->sandbox->ips.p[0]);
    if (out->pod_ip.n) {
        out->pod_ips.p = bh_new(a, struct bh_core_v1_pod_ip);
        out->pod_ips.p->ip = out->pod_ip;
        out->pod_ips.n = 1;
    }
    out->start_time = in->start_time;
    out->qos_class = bh_s(pod_qos(pod));
    out->init_container_statuses.n = pod->spec.init_containers.n;
    if (out->init_container_statuses.n)
        out->init_container_statuses.p =
            bh_new_n(a, struct bh_core_v1_container_status, pod->spec.init_containers.n);
    for (size_t i = 0; i < pod->spec.init_containers.n; i++)
        container_status(a, in, &pod->spec.init_containers.p[i], true, initialized,
                         &out->init_container_statuses.p[i]);
    out->container_statuses.p =
        bh_new_n(a, struct bh_core_v1_container_status, pod->spec.containers.n + 1);
    out->container_statuses.n = pod->spec.containers.n;
    for (size_t i = 0; i < pod->spec.containers.n; i++) {
        container_status(a, in, &pod->spec.containers.p[i], false, initialized,
                         &out->container_statuses.p[i]);
        if (in->kubelet->dra && pod->spec.containers.p[i].resources.claims.n)
            bh_dra_container_health(in->kubelet->dra, in->pod, &pod->spec.containers.p[i], a,
                                    &out->container_statuses.p[i].allocated_resources_status);
    }
    conditions(a, in, out, initialized);
}
