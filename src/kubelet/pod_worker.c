/* The pod worker: one state machine per pod, between what the API wants and what the runtime has.
 *
 * Each turn reads the runtime's view of the pod, writes the status when it changed, and starts at
 * most one step; when the step is done the next turn begins. Nothing is remembered that the
 * runtime, the driver manager or the API can tell, but back-offs.
 *
 *     run:        prepare devices -> read references -> volumes -> sandbox -> init containers ->
 * containers -> watch terminate:  stop containers -> release devices -> stop sandbox -> final
 * status -> remove -> delete from the API
 */
#include <inttypes.h>
#include <stdio.h>

#include "api/engine.h"
#include "api/gen/meta_v1.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"
#include "data/time_fmt.h"
#include "kubelet/kubelet_int.h"

#define SECOND_NS            ((int64_t)1000000000)
#define BACKOFF_MIN_NS       (10 * SECOND_NS)
#define BACKOFF_MAX_NS       (300 * SECOND_NS)
#define BACKOFF_RESET_NS     (600 * SECOND_NS)
#define SANDBOX_RETRY_MAX_NS (60 * SECOND_NS)
#define RESYNC_MS            60000
#define ORPHAN_GRACE_S       1
#define GRACE_MIN_S          0
#define RELEARN_TRIES_MAX    10

/* What the worker remembers of a container between turns. */
struct slot {
    struct bh_str name;       /* heap */
    int64_t backoff_ns;       /* next delay */
    int64_t not_before_ns;    /* monotonic; 0: now */
    int64_t judged_finish_ns; /* finish time of the exit that not_before was computed for */
    char *reason, *message;   /* waiting state, NULL: none */
};

struct pod_worker {
    struct bh_kubelet *k;
    struct bh_str uid;  /* heap */
    struct bh_obj *pod; /* NULL: an orphan in the runtime */
    struct bh_timer timer;
    struct bh_arena *arena;        /* of the turn */
    struct bh_cri_sandbox sandbox; /* of the turn; id empty: none */
    char *sandbox_id;
    uint32_t sandbox_attempt;
    bool has_attempt; /* sandbox_attempt was used */
    struct slot *slots;
    size_t n_slots;
    struct pod_refs *refs;
    struct volumes_work *volumes; /* on the worker pool */
    struct bh_time start_time;
    bool busy;         /* a turn or its step is under way */
    bool again;        /* look again when it is done */
    bool gone;         /* left the API */
    bool terminal;     /* nothing is started any more */
    bool started;      /* may work (adoption is over) */
    bool removed;      /* nothing of it is left on the node */
    bool was_terminal; /* came to us finished */
    bool adopted;      /* its sandbox is from before our start, and its devices were not released */
    unsigned relearn_tries;
    const char *fail_reason, *fail_message;
    int64_t sandbox_backoff_ns, sandbox_not_before_ns; /* after a failure to make it */
    char *status;                                      /* last acknowledged status, as JSON */
    char *sending;                                     /* status under way */
    uint64_t status_call, delete_call;
    bool delete_asked;
    int stops;                                   /* stop calls under way */
    const struct bh_core_v1_container *starting; /* of pod */
    struct bh_obj *starting_pod;                 /* keeps starting alive */
    uint32_t starting_attempt;
    struct bh_str starting_image; /* heap */
    char *created_id;
};

static void turn(void *arg);
static void step_done(struct pod_worker *w);

/* ---- small things ---- */

static const struct bh_core_v1_pod *spec_of(const struct pod_worker *w)
{
    return w->pod ? bh_obj_struct(w->pod) : NULL;
}

static void poke(struct pod_worker *w)
{
    if (w->busy)
        w->again = true;
    else if (w->started)
        bh_timer_start(&w->timer, 0);
}

static void poke_at(struct pod_worker *w, int64_t mono_ns)
{
    int64_t now = bh_loop_mono_ns(w->k->loop), wait = mono_ns > now ? mono_ns - now : 0;

    if (!bh_timer_armed(&w->timer) || w->timer.at_ns > now + wait)
        bh_timer_start_ns(&w->timer, wait);
}

static struct slot *slot_of(struct pod_worker *w, struct bh_str name)
{
    for (size_t i = 0; i < w->n_slots; i++)
        if (bh_str_eq(w->slots[i].name, name))
            return &w->slots[i];
    w->slots = bh_realloc(w->slots, (w->n_slots + 1) * sizeof(*w->slots));
    w->slots[w->n_slots] = (struct slot){.name = {bh_strdup_c(name), name.n}};
    return &w->slots[w->n_slots++];
}

static void set_wait(struct slot *s, const char *reason, const char *message)
{
    char *r = reason ? bh_strdup_c(bh_s(reason)) : NULL,
         *m = reason ? bh_strdup_c(bh_s(message)) : NULL;

    bh_free(s->reason);
    bh_free(s->message);
    s->reason = r;
    s->message = m;
}

static void back_off(struct pod_worker *w, struct slot *s)
{
    s->backoff_ns = s->backoff_ns ? s->backoff_ns * 2 : BACKOFF_MIN_NS;
    if (s->backoff_ns > BACKOFF_MAX_NS)
        s->backoff_ns = BACKOFF_MAX_NS;
    s->not_before_ns = bh_loop_mono_ns(w->k->loop) + s->backoff_ns;
}

static struct bh_time wall_now(const struct pod_worker *w)
{
    return (struct bh_time){bh_loop_wall_ns(w->k->loop) / SECOND_NS, 0};
}

static bool phase_final(const struct bh_core_v1_pod *pod)
{
    return bh_str_eqc(pod->status.phase, "Succeeded") || bh_str_eqc(pod->status.phase, "Failed");
}

/* ---- status ---- */

static void status_written(void *arg, const struct bh_client_res *res)
{
    struct pod_worker *w = arg;

    w->status_call = 0;
    if (res->err.code == BH_OK) {
        bh_free(w->status);
        w->status = w->sending;
    } else {
        bh_free(w->sending);
        if (res->err.code == BH_E_NOT_FOUND || res->err.code == BH_E_CONFLICT)
            w->gone = w->gone || res->err.code == BH_E_NOT_FOUND;
        else
            bh_log(BH_WARN, "pod status not written", BH_STR("pod", w->pod->name),
                   BH_CSTR("error", res->err.msg));
    }
    w->sending = NULL;
    if (res->err.code == BH_OK || res->err.code == BH_E_NOT_FOUND)
        poke(w);
    else
        poke_at(w, bh_loop_mono_ns(w->k->loop) + SECOND_NS);
}

/* The status as a patch. Conditions are merged by type, so a reason that no longer holds has to be
 * taken away in words. */
static void status_json(struct bh_core_v1_pod_status *st, struct bh_buf *b)
{
    const struct bh_core_v1_pod_condition_vec all = st->conditions;

    st->conditions = (struct bh_core_v1_pod_condition_vec){0};
    bh_msg_encode_json(&bh_core_v1_pod_status_type, st, b);
    b->n--; /* the closing brace */
    bh_buf_addz(b, b->n > 1 ? ",\"conditions\":[" : "\"conditions\":[");
    for (size_t i = 0; i < all.n; i++) {
        bh_buf_addz(b, i ? "," : "");
        bh_msg_encode_json(&bh_core_v1_pod_condition_type, &all.p[i], b);
        if (all.p[i].reason.n == 0) {
            b->n--;
            bh_buf_addz(b, ",\"reason\":null,\"message\":null}");
        } else if (all.p[i].message.n == 0) {
            b->n--;
            bh_buf_addz(b, ",\"message\":null}");
        }
    }
    bh_buf_addz(b, "]}");
}

/* Writes the status when it differs from what the API has acknowledged. Returns whether it is
 * acknowledged. */
static bool write_status(struct pod_worker *w, const struct bh_cri_container_vec *containers)
{
    struct pod_wait *waits = bh_new_n(w->arena, struct pod_wait, w->n_slots + 1);
    struct pod_status_in in = {.kubelet = w->k,
                               .pod = w->pod,
                               .sandbox = w->sandbox.id.n ? &w->sandbox : NULL,
                               .containers = containers,
                               .waits = waits,
                               .start_time = w->start_time,
                               .terminal = w->terminal,
                               .fail_reason = w->fail_reason,
                               .fail_message = w->fail_message,
                               .now = wall_now(w)};
    struct bh_core_v1_pod_status st = {0};
    BH_AUTO_BUF b = {.max = BH_BODY_BYTES_MAX}, body = {.max = BH_BODY_BYTES_MAX};

    if (w->gone || !w->pod)
        return true;
    for (size_t i = 0; i < w->n_slots; i++)
        if (w->slots[i].reason)
            waits[in.n_waits++] = (struct pod_wait){w->slots[i].name, bh_s(w->slots[i].reason),
                                                    bh_s(w->slots[i].message)};
    pod_status_make(w->arena, &in, &st);
    status_json(&st, &b);
    if (w->status && bh_str_eqc(bh_buf_str(&b), w->status))
        return true;
    if (w->status_call) /* one at a time; its answer brings us back */
        return false;
    bh_buf_addf(&body, "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":%.*s}", BH_SF(w->uid),
                BH_SF(bh_buf_str(&b)));
    w->sending = bh_strdup_c(bh_buf_str(&b));
    w->status_call =
        bh_client_patch(w->k->client, &bh_core_v1_pod_kind, w->pod->ns, w->pod->name, "status",
                        BH_PATCH_STRATEGIC, bh_buf_str(&body), status_written, w);
    return false;
}

/* ---- starting one container: image -> references -> create -> start ---- */

static void start_end(struct pod_worker *w)
{
    w->starting = NULL;
    w->starting_pod = bh_obj_unref(w->starting_pod);
    bh_free(w->created_id);
    w->created_id = NULL;
    bh_free((void *)(uintptr_t)w->starting_image.p);
    w->starting_image = (struct bh_str){0};
    w->refs = pod_refs_free(w->refs);
    w->again = true;
    step_done(w);
}

static void start_failed(struct pod_worker *w, const char *reason, const char *event,
                         const char *message)
{
    struct slot *s = slot_of(w, w->starting->name);

    bh_event(w->k->recorder, w->starting_pod, "Warning", event, "%s", message);
    set_wait(s, reason, message);
    back_off(w, s);
    start_end(w);
}

static void started(void *arg, const struct bh_err *err)
{
    struct pod_worker *w = arg;

    if (err) {
        char msg[BH_ERR_MSG_MAX + 64];

        snprintf(msg, sizeof(msg), "Error: %s", err->msg);
        start_failed(w, "RunContainerError", "Failed", msg);
        return;
    }
    set_wait(slot_of(w, w->starting->name), NULL, NULL);
    bh_event(w->k->recorder, w->starting_pod, "Normal", "Started", "Container started");
    start_end(w);
}

static void created(void *arg, const struct bh_err *err, struct bh_str id)
{
    struct pod_worker *w = arg;

    if (err) {
        char msg[BH_ERR_MSG_MAX + 64];

        snprintf(msg, sizeof(msg), "Error: %s", err->msg);
        start_failed(w, "CreateContainerError", "Failed", msg);
        return;
    }
    bh_event(w->k->recorder, w->starting_pod, "Normal", "Created", "Container created");
    w->created_id = bh_strdup_c(id);
    w->k->rt->ops->container_start(w->k->rt, bh_s(w->created_id), started, w);
}

static void refs_ready(void *arg, const struct bh_err *err)
{
    struct pod_worker *w = arg;
    struct bh_cri_container_config *cfg;
    struct bh_err e = {0};
    struct bh_str ip = w->sandbox.ips.n ? w->sandbox.ips.p[0] : (struct bh_str){0};
    int r = 0;

    if (err)
        e = *err;
    else
        r = pod_container_config(w->arena, w->k, w->starting_pod, w->starting, w->refs,
                                 w->starting_attempt, ip, w->starting_image, &cfg, &e);
    if (err || r < 0) {
        char msg[BH_ERR_MSG_MAX + 64];

        snprintf(msg, sizeof(msg), "Error: %s", e.msg);
        start_failed(w, "CreateContainerConfigError", "Failed", msg);
        return;
    }
    w->k->rt->ops->container_create(w->k->rt, bh_s(w->sandbox_id), cfg, created, w);
}

static void have_image(struct pod_worker *w, struct bh_str id)
{
    w->starting_image = (struct bh_str){bh_strdup_c(id), id.n};
    w->refs = pod_refs_free(w->refs);
    w->refs = pod_refs_fetch(w->k, w->starting_pod, false, refs_ready, w);
}

static void pulled(void *arg, const struct bh_err *err, struct bh_str id)
{
    struct pod_worker *w = arg;
    struct slot *s = slot_of(w, w->starting->name);
    char msg[BH_ERR_MSG_MAX + 512];

    if (!err) {
        bh_event(w->k->recorder, w->starting_pod, "Normal", "Pulled",
                 "Successfully pulled image \"%.*s\"", BH_SF(w->starting->image));
        have_image(w, id);
        return;
    }
    snprintf(msg, sizeof(msg), "Failed to pull image \"%.*s\": %s", BH_SF(w->starting->image),
             err->msg);
    /* Between two tries the state reads ImagePullBackOff, as upstream's. */
    start_failed(w,
                 s->reason && bh_str_eqc(bh_s(s->reason), "ErrImagePull") ? "ImagePullBackOff"
                                                                          : "ErrImagePull",
                 "Failed", msg);
}

static void image_known(void *arg, const struct bh_err *err, const struct bh_cri_image *image)
{
    struct pod_worker *w = arg;
    char msg[BH_ERR_MSG_MAX + 512];

    if (err) {
        snprintf(msg, sizeof(msg), "Failed to inspect image \"%.*s\": %s",
                 BH_SF(w->starting->image), err->msg);
        start_failed(w, "ImageInspectError", "InspectFailed", msg);
    } else if (image && !bh_str_eqc(w->starting->image_pull_policy, "Always")) {
        bh_event(w->k->recorder, w->starting_pod, "Normal", "Pulled",
                 "Container image \"%.*s\" already present on machine", BH_SF(w->starting->image));
        have_image(w, image->id);
    } else if (bh_str_eqc(w->starting->image_pull_policy, "Never")) {
        snprintf(msg, sizeof(msg),
                 "Container image \"%.*s\" is not present with pull policy of Never",
                 BH_SF(w->starting->image));
        start_failed(w, "ErrImageNeverPull", "ErrImageNeverPull", msg);
    } else if (image) {
        /* Always: asked of a registry where the runtime can; what was imported here is the newest
         * there is otherwise. */
        have_image(w, image->id);
    } else {
        bh_event(w->k->recorder, w->starting_pod, "Normal", "Pulling", "Pulling image \"%.*s\"",
                 BH_SF(w->starting->image));
        w->k->rt->ops->image_pull(w->k->rt, w->starting->image, pulled, w);
    }
}

/* The number of this run: one more than any that the runtime or the API knows of. */
static uint32_t next_attempt(const struct pod_worker *w, const struct bh_core_v1_container *c,
                             const struct bh_cri_container *last)
{
    const struct bh_core_v1_pod *pod = spec_of(w);
    const struct bh_core_v1_container_status_vec *lists[] = {&pod->status.container_statuses,
                                                             &pod->status.init_container_statuses};
    uint32_t n = last ? last->attempt + 1 : 0;

    for (size_t l = 0; l < BH_COUNT(lists); l++)
        for (size_t i = 0; i < lists[l]->n; i++) {
            const struct bh_core_v1_container_status *s = &lists[l]->p[i];

            if (bh_str_eq(s->name, c->name) && s->container_id.n &&
                (uint32_t)s->restart_count + 1 > n)
                n = (uint32_t)s->restart_count + 1;
        }
    return n;
}

static void start_container(struct pod_worker *w, const struct bh_core_v1_container *c,
                            const struct bh_cri_container *last)
{
    w->starting = c;
    w->starting_pod = bh_obj_ref(w->pod);
    w->starting_attempt = next_attempt(w, c, last);
    w->k->rt->ops->image_status(w->k->rt, c->image, image_known, w);
}

/* A container that was made and never started: what an agent that died in between left behind. */
static void start_existing(struct pod_worker *w, const struct bh_core_v1_container *c,
                           const struct bh_cri_container *have)
{
    w->starting = c;
    w->starting_pod = bh_obj_ref(w->pod);
    w->created_id = bh_strdup_c(have->id);
    w->k->rt->ops->container_start(w->k->rt, bh_s(w->created_id), started, w);
}

/* Judges an exit once: when may it start again? Returns true when that is now. */
static bool may_restart(struct pod_worker *w, const struct bh_core_v1_container *c,
                        const struct bh_cri_container *last)
{
    struct slot *s = slot_of(w, c->name);
    int64_t now = bh_loop_mono_ns(w->k->loop);
    char msg[BH_MESSAGE_BYTES_MAX];

    if (s->judged_finish_ns != last->finished_ns) {
        bool first = s->backoff_ns == 0 || last->finished_ns - last->started_ns > BACKOFF_RESET_NS;

        s->judged_finish_ns = last->finished_ns;
        if (first) {
            s->backoff_ns = BACKOFF_MIN_NS;
            s->not_before_ns = 0;
        } else {
            s->not_before_ns = now + s->backoff_ns;
            snprintf(msg, sizeof(msg),
                     "back-off %" PRId64 "s restarting failed container=%.*s pod=%.*s_%.*s(%.*s)",
                     s->backoff_ns / SECOND_NS, BH_SF(c->name), BH_SF(w->pod->name),
                     BH_SF(w->pod->ns), BH_SF(w->uid));
            set_wait(s, "CrashLoopBackOff", msg);
            bh_event(w->k->recorder, w->pod, "Warning", "BackOff",
                     "Back-off restarting failed container %.*s in pod %.*s_%.*s(%.*s)",
                     BH_SF(c->name), BH_SF(w->pod->name), BH_SF(w->pod->ns), BH_SF(w->uid));
            s->backoff_ns = s->backoff_ns * 2 > BACKOFF_MAX_NS ? BACKOFF_MAX_NS : s->backoff_ns * 2;
        }
    }
    if (s->not_before_ns > now) {
        poke_at(w, s->not_before_ns);
        return false;
    }
    return true;
}

/* ---- running: which container is next? ---- */

enum verdict { V_FINE, V_WAIT, V_ACT, V_DEAD };

/* One container's needs. ACT: a step was started. DEAD: it has ended for good. */
static enum verdict look_at(struct pod_worker *w, const struct bh_core_v1_container *c, bool init,
                            const struct bh_cri_container_vec *v)
{
    const struct bh_cri_container *last = pod_latest(v, c->name);
    struct slot *s = slot_of(w, c->name);

    if (last && last->state == BH_CRI_RUNNING)
        return V_FINE;
    if (last && last->state == BH_CRI_EXITED && !pod_should_restart(spec_of(w), c, init, last))
        return V_DEAD;
    if (last && last->state == BH_CRI_EXITED && !may_restart(w, c, last))
        return V_WAIT;
    if (s->not_before_ns > bh_loop_mono_ns(w->k->loop)) {
        poke_at(w, s->not_before_ns);
        return V_WAIT;
    }
    if (last && last->state == BH_CRI_CREATED)
        start_existing(w, c, last);
    else
        start_container(w, c, last);
    return V_ACT;
}

static void removed_old(void *arg, const struct bh_err *err)
{
    struct pod_worker *w = arg;

    if (err)
        bh_log(BH_WARN, "old container not removed", BH_CSTR("error", err->msg));
    w->again = w->again || !err;
    step_done(w);
}

/* Two runs of each container are kept (the last state is told, its log can be read); older ones go.
 */
static bool remove_old(struct pod_worker *w, const struct bh_cri_container_vec *v)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_cri_container *last = pod_latest(v, v->p[i].name);

        if (v->p[i].attempt + 1 >= last->attempt || v->p[i].state == BH_CRI_RUNNING)
            continue;
        w->k->rt->ops->container_remove(w->k->rt, v->p[i].id, removed_old, w);
        return true;
    }
    return false;
}

/* Returns true when a step was started. */
static bool run_containers(struct pod_worker *w, const struct bh_cri_container_vec *v)
{
    const struct bh_core_v1_pod *pod = spec_of(w);
    size_t dead = 0;

    for (size_t i = 0; i < pod->spec.init_containers.n; i++) {
        const struct bh_core_v1_container *c = &pod->spec.init_containers.p[i];
        const struct bh_cri_container *last = pod_latest(v, c->name);

        switch (look_at(w, c, true, v)) {
        case V_ACT:
            return true;
        case V_WAIT:
            return false;
        case V_DEAD:
            if (last->exit_code != 0) {
                w->terminal = true; /* an init container that may not be repeated ends the pod */
                w->again = true;
                return false;
            }
            break;
        case V_FINE:
            if (!pod_is_sidecar(c))
                return false; /* it runs; the next one waits for it */
            break;
        }
    }
    for (size_t i = 0; i < pod->spec.containers.n; i++) {
        enum verdict x = look_at(w, &pod->spec.containers.p[i], false, v);

        if (x == V_ACT)
            return true;
        dead += x == V_DEAD;
    }
    if (dead == pod->spec.containers.n) {
        w->terminal = true;
        w->again = true;
        return false;
    }
    return remove_old(w, v);
}

/* ---- the sandbox: devices -> references -> volumes -> run ---- */

/* On the worker pool: it owns all that it touches, because the pod worker may go away meanwhile. */
struct volumes_work {
    struct pod_worker *w; /* NULL: gone */
    char *root;
    struct bh_str uid; /* heap */
    struct bh_obj *pod;
    struct pod_refs *refs;
    struct bh_err err;
    int r;
};

static struct volumes_work *volumes_work_new(struct pod_worker *w)
{
    struct volumes_work *vw = bh_calloc(1, sizeof(*vw));

    vw->w = w;
    vw->root = bh_strdup_c(bh_s(w->k->root));
    vw->uid = (struct bh_str){bh_strdup_c(w->uid), w->uid.n};
    vw->pod = w->pod ? bh_obj_ref(w->pod) : NULL;
    w->volumes = vw;
    return vw;
}

static void volumes_work_free(struct volumes_work *vw)
{
    if (vw->w)
        vw->w->volumes = NULL;
    vw->refs = pod_refs_free(vw->refs);
    (void)bh_obj_unref(vw->pod);
    bh_free((void *)(uintptr_t)vw->uid.p);
    bh_free(vw->root);
    bh_free(vw);
}

static void sandbox_later(struct pod_worker *w)
{
    w->sandbox_backoff_ns = w->sandbox_backoff_ns ? w->sandbox_backoff_ns * 2 : BACKOFF_MIN_NS;
    if (w->sandbox_backoff_ns > SANDBOX_RETRY_MAX_NS)
        w->sandbox_backoff_ns = SANDBOX_RETRY_MAX_NS;
    w->sandbox_not_before_ns = bh_loop_mono_ns(w->k->loop) + w->sandbox_backoff_ns;
    poke_at(w, w->sandbox_not_before_ns);
    w->refs = pod_refs_free(w->refs);
    step_done(w);
}

static void sandbox_failed(struct pod_worker *w, const char *reason, const char *what,
                           const char *detail)
{
    bh_event(w->k->recorder, w->pod, "Warning", reason, "%s%s", what, detail);
    sandbox_later(w);
}

static void sandbox_up(void *arg, const struct bh_err *err, struct bh_str id)
{
    struct pod_worker *w = arg;

    w->refs = pod_refs_free(w->refs);
    if (err) {
        sandbox_failed(w, "FailedCreatePodSandBox", "Failed to create pod sandbox: ", err->msg);
        return;
    }
    bh_free(w->sandbox_id);
    w->sandbox_id = bh_strdup_c(id);
    w->sandbox_backoff_ns = w->sandbox_not_before_ns = 0;
    w->again = true;
    step_done(w);
}

static void volumes_run(void *arg)
{
    struct volumes_work *vw = arg;

    vw->r = pod_volumes_setup(vw->root, vw->pod, vw->refs, &vw->err);
}

static void volumes_done(void *arg)
{
    struct volumes_work *vw = arg;
    struct pod_worker *w = vw->w;
    struct bh_err err = vw->err;
    bool ok = vw->r >= 0;

    volumes_work_free(vw);
    if (!w)
        return;
    if (!ok) {
        sandbox_failed(w, "FailedMount", "", err.msg);
        return;
    }
    if (w->has_attempt)
        w->sandbox_attempt++;
    w->has_attempt = true;
    w->k->rt->ops->sandbox_run(
        w->k->rt, pod_sandbox_config(w->arena, w->k, w->pod, w->sandbox_attempt), sandbox_up, w);
}

static void sandbox_refs(void *arg, const struct bh_err *err)
{
    struct pod_worker *w = arg;
    struct volumes_work *vw;

    if (err) {
        sandbox_failed(w, "FailedMount", "MountVolume.SetUp failed: ", err->msg);
        return;
    }
    vw = volumes_work_new(w);
    vw->refs = w->refs;
    w->refs = NULL;
    bh_loop_work(w->k->loop, volumes_run, volumes_done, vw);
}

static void devices_ready(void *arg, const struct bh_err *err)
{
    struct pod_worker *w = arg;

    if (err) { /* the manager has told the pod why */
        sandbox_later(w);
        return;
    }
    w->refs = pod_refs_free(w->refs);
    w->refs = pod_refs_fetch(w->k, w->pod, true, sandbox_refs, w);
}

/* The record of what a running pod holds was lost (a quarantined checkpoint): the drivers are asked
 * again, which is harmless for what is prepared. */
static void devices_recovered(void *arg, const struct bh_err *err)
{
    struct pod_worker *w = arg;

    if (err) {
        sandbox_later(w);
        return;
    }
    w->sandbox_backoff_ns = w->sandbox_not_before_ns = 0;
    w->again = true;
    step_done(w);
}

static bool devices_lost(const struct pod_worker *w)
{
    return w->k->dra && bh_dra_pod_needs(w->pod) && !bh_dra_pod_holds(w->k->dra, w->uid) &&
           w->sandbox_not_before_ns <= bh_loop_mono_ns(w->k->loop);
}

static void devices_relearned(void *arg, const struct bh_err *err)
{
    struct pod_worker *w = arg;

    if (err)
        poke_at(w, bh_loop_mono_ns(w->k->loop) + SECOND_NS);
    else
        w->again = true;
    step_done(w);
}

/* The same for a pod that is ending: what no record names would stay prepared, while the claim is
 * given to the next pod. After some tries (a driver that does not come back) the pod goes all the
 * same: drivers look for claims that the API has forgotten. Returns true when a step was started.
 */
static bool relearn_devices(struct pod_worker *w)
{
    if (!w->adopted || w->gone || w->was_terminal || !w->pod || !w->sandbox.id.n ||
        w->sandbox.state != BH_CRI_SANDBOX_READY || !bh_dra_pod_needs(w->pod))
        return false;
    if (w->relearn_tries++ == RELEARN_TRIES_MAX) {
        bh_log(BH_WARN, "the pod's devices are not known and not released, continuing",
               BH_STR("pod_uid", w->uid));
        w->adopted = false;
        return false;
    }
    (void)bh_dra_prepare(w->k->dra, w->pod, devices_relearned, w);
    return true;
}

static void make_sandbox(struct pod_worker *w)
{
    if (w->k->dra && bh_dra_pod_needs(w->pod))
        (void)bh_dra_prepare(w->k->dra, w->pod, devices_ready, w);
    else
        devices_ready(w, NULL);
}

static void sandbox_lost(void *arg, const struct bh_err *err)
{
    struct pod_worker *w = arg;

    if (err) {
        sandbox_failed(w, "FailedKillPod", "error killing pod: ", err->msg);
        return;
    }
    bh_free(w->sandbox_id);
    w->sandbox_id = NULL;
    w->again = true;
    step_done(w);
}

/* ---- termination ---- */

static int64_t grace_of(const struct pod_worker *w)
{
    const struct bh_core_v1_pod *pod = spec_of(w);

    if (w->gone || !pod)
        return ORPHAN_GRACE_S;
    if (pod->metadata.has_deletion_grace_period_seconds)
        return pod->metadata.deletion_grace_period_seconds;
    return pod->spec.has_termination_grace_period_seconds
               ? pod->spec.termination_grace_period_seconds
               : 30;
}

static void stopped(void *arg, const struct bh_err *err)
{
    struct pod_worker *w = arg;

    if (err)
        bh_log(BH_WARN, "container not stopped", BH_STR("pod_uid", w->uid),
               BH_CSTR("error", err->msg));
    if (err)
        poke_at(w, bh_loop_mono_ns(w->k->loop) + SECOND_NS);
    else
        w->again = true;
    if (--w->stops == 0)
        step_done(w);
}

static bool stop_running(struct pod_worker *w, const struct bh_cri_container_vec *v)
{
    int64_t grace = grace_of(w);
    int n = 0;

    for (size_t i = 0; i < v->n; i++)
        n += v->p[i].state == BH_CRI_RUNNING;
    w->stops = n;
    for (size_t i = 0; i < v->n; i++) {
        if (v->p[i].state != BH_CRI_RUNNING)
            continue;
        if (w->pod)
            bh_event(w->k->recorder, w->pod, "Normal", "Killing", "Stopping container %.*s",
                     BH_SF(v->p[i].name));
        w->k->rt->ops->container_stop(w->k->rt, v->p[i].id,
                                      grace < GRACE_MIN_S ? GRACE_MIN_S : grace, stopped, w);
    }
    return n > 0;
}

static void unprepared(void *arg, const struct bh_err *err)
{
    struct pod_worker *w = arg;

    if (err) {
        bh_log(BH_WARN, "devices not released, trying again", BH_STR("pod_uid", w->uid),
               BH_CSTR("error", err->msg));
        poke_at(w, bh_loop_mono_ns(w->k->loop) + BACKOFF_MIN_NS);
    } else {
        w->adopted = false;
        w->again = true;
    }
    step_done(w);
}

static void sandbox_stopped(void *arg, const struct bh_err *err)
{
    struct pod_worker *w = arg;

    if (err)
        poke_at(w, bh_loop_mono_ns(w->k->loop) + BACKOFF_MIN_NS);
    else
        w->again = true;
    step_done(w);
}

static void sandbox_removed(void *arg, const struct bh_err *err)
{
    struct pod_worker *w = arg;

    if (err) {
        bh_log(BH_WARN, "sandbox not removed, trying again", BH_STR("pod_uid", w->uid),
               BH_CSTR("error", err->msg));
        poke_at(w, bh_loop_mono_ns(w->k->loop) + BACKOFF_MIN_NS);
    } else {
        bh_free(w->sandbox_id);
        w->sandbox_id = NULL;
        w->again = true;
    }
    step_done(w);
}

static void teardown_run(void *arg)
{
    struct volumes_work *vw = arg;

    vw->r = pod_volumes_teardown(vw->root, vw->uid, &vw->err);
}

static void teardown_done(void *arg)
{
    struct volumes_work *vw = arg;
    struct pod_worker *w = vw->w;

    if (!w) {
        volumes_work_free(vw);
        return;
    }
    if (vw->r < 0) {
        bh_log(BH_WARN, "volumes not removed, trying again", BH_STR("pod_uid", w->uid),
               BH_CSTR("error", vw->err.msg));
        poke_at(w, bh_loop_mono_ns(w->k->loop) + BACKOFF_MIN_NS);
    } else {
        w->removed = true;
        w->again = true;
    }
    volumes_work_free(vw);
    step_done(w);
}

static void api_deleted(void *arg, const struct bh_client_res *res)
{
    struct pod_worker *w = arg;

    w->delete_call = 0;
    if (res->err.code == BH_OK || res->err.code == BH_E_NOT_FOUND)
        return; /* the informer tells when it is gone */
    w->delete_asked = false;
    poke_at(w, bh_loop_mono_ns(w->k->loop) + SECOND_NS);
}

/* What is left to do when nothing may run any more. Returns true when a step was started. */
static bool terminate(struct pod_worker *w, const struct bh_cri_container_vec *v)
{
    bool leaving = w->gone || !w->pod || w->pod->deleting;

    w->terminal = true;
    if (stop_running(w, v))
        return true;
    if (w->k->dra && bh_dra_pod_holds(w->k->dra, w->uid)) {
        (void)bh_dra_unprepare(w->k->dra, w->uid, unprepared, w);
        return true;
    }
    if (w->k->dra && relearn_devices(w))
        return true;
    if (w->sandbox.id.n && w->sandbox.state == BH_CRI_SANDBOX_READY) {
        w->k->rt->ops->sandbox_stop(w->k->rt, bh_s(w->sandbox_id), sandbox_stopped, w);
        return true;
    }
    if (!w->was_terminal && !write_status(w, v))
        return false;
    if (!leaving)
        return false;
    if (w->sandbox_id) { /* with its containers */
        w->k->rt->ops->sandbox_remove(w->k->rt, bh_s(w->sandbox_id), sandbox_removed, w);
        return true;
    }
    if (!w->removed) {
        bh_loop_work(w->k->loop, teardown_run, teardown_done, volumes_work_new(w));
        return true;
    }
    if (!w->gone && w->pod && !w->delete_asked) {
        w->delete_asked = true;
        w->delete_call = bh_client_delete(w->k->client, &bh_core_v1_pod_kind, w->pod->ns,
                                          w->pod->name, w->uid, 0, api_deleted, w);
    }
    return false;
}

/* ---- the turn ---- */

static void forget(struct pod_worker *w)
{
    struct bh_kubelet *k = w->k;

    (void)bh_map_del(&k->workers, w->uid);
    kl_worker_free(w);
}

static void step_done(struct pod_worker *w)
{
    w->busy = false;
    w->arena = bh_arena_free(w->arena);
    w->sandbox = (struct bh_cri_sandbox){0};
    if ((w->gone || !w->pod) && w->removed && !w->status_call && !w->delete_call) {
        forget(w);
        return;
    }
    if (w->again)
        poke(w);
    else if (!bh_timer_armed(&w->timer))
        bh_timer_start(&w->timer, RESYNC_MS);
    w->again = false;
}

static bool deadline_passed(struct pod_worker *w)
{
    const struct bh_core_v1_pod *pod = spec_of(w);
    int64_t left;

    if (!pod->spec.has_active_deadline_seconds)
        return false;
    left = (w->start_time.sec + pod->spec.active_deadline_seconds) * SECOND_NS -
           bh_loop_wall_ns(w->k->loop);
    if (left > 0) {
        poke_at(w, bh_loop_mono_ns(w->k->loop) + left);
        return false;
    }
    w->fail_reason = "DeadlineExceeded";
    w->fail_message = "Pod was active on the node longer than the specified deadline";
    return true;
}

static void decide(struct pod_worker *w, const struct bh_cri_container_vec *v)
{
    bool step;

    if (w->gone || !w->pod || w->pod->deleting || w->terminal || w->fail_reason ||
        phase_final(spec_of(w)) || deadline_passed(w)) {
        step = terminate(w, v);
    } else {
        (void)write_status(w, v);
        if (!w->sandbox_id && w->sandbox_not_before_ns > bh_loop_mono_ns(w->k->loop)) {
            poke_at(w, w->sandbox_not_before_ns);
            step = false;
        } else if (!w->sandbox_id) {
            make_sandbox(w);
            step = true;
        } else if (!w->sandbox.id.n || w->sandbox.state != BH_CRI_SANDBOX_READY) {
            bh_event(w->k->recorder, w->pod, "Normal", "SandboxChanged",
                     "Pod sandbox changed, it will be killed and re-created.");
            w->k->rt->ops->sandbox_remove(w->k->rt, bh_s(w->sandbox_id), sandbox_lost, w);
            step = true;
        } else if (devices_lost(w)) {
            (void)bh_dra_prepare(w->k->dra, w->pod, devices_recovered, w);
            step = true;
        } else {
            step = run_containers(w, v);
        }
    }
    if (!step)
        step_done(w);
}

static void containers_seen(void *arg, const struct bh_err *err,
                            const struct bh_cri_container_vec *v)
{
    static const struct bh_cri_container_vec none = {NULL, 0};
    struct pod_worker *w = arg;

    if (err && err->code != BH_E_NOT_FOUND) {
        bh_log(BH_WARN, "containers not listed", BH_STR("pod_uid", w->uid),
               BH_CSTR("error", err->msg));
        poke_at(w, bh_loop_mono_ns(w->k->loop) + SECOND_NS);
        step_done(w);
        return;
    }
    decide(w, err ? &none : v);
}

static void sandbox_seen(void *arg, const struct bh_err *err, const struct bh_cri_sandbox_vec *v)
{
    struct pod_worker *w = arg;

    if (err && err->code != BH_E_NOT_FOUND) {
        poke_at(w, bh_loop_mono_ns(w->k->loop) + SECOND_NS);
        step_done(w);
        return;
    }
    if (!err && v->n) {
        const struct bh_cri_sandbox *s = &v->p[0];

        w->sandbox = *s; /* what it points to is copied where it is used beyond this call */
        w->sandbox.id = bh_str_dup(w->arena, s->id);
        w->sandbox.ips.p = bh_new_n(w->arena, struct bh_str, s->ips.n + 1);
        for (size_t i = 0; i < s->ips.n; i++)
            w->sandbox.ips.p[i] = bh_str_dup(w->arena, s->ips.p[i]);
        w->sandbox.labels = w->sandbox.annotations = (struct bh_str_map){0};
        w->sandbox.name = w->sandbox.ns = w->sandbox.uid = (struct bh_str){0};
    }
    w->k->rt->ops->container_list(w->k->rt, bh_s(w->sandbox_id), (struct bh_str){0},
                                  containers_seen, w);
}

static void turn(void *arg)
{
    static const struct bh_cri_container_vec none = {NULL, 0};
    struct pod_worker *w = arg;

    if (w->busy || !w->started)
        return;
    bh_timer_stop(&w->timer);
    w->busy = true;
    w->again = false;
    w->arena = bh_arena_new(0);
    if (w->sandbox_id)
        w->k->rt->ops->sandbox_list(w->k->rt, bh_s(w->sandbox_id), sandbox_seen, w);
    else
        decide(w, &none);
}

/* ---- what the agent says ---- */

static struct pod_worker *worker_get(struct bh_kubelet *k, struct bh_str uid)
{
    struct pod_worker *w = bh_map_get(&k->workers, uid);

    if (w)
        return w;
    w = bh_calloc(1, sizeof(*w));
    w->k = k;
    w->uid = (struct bh_str){bh_strdup_c(uid), uid.n};
    w->started = k->adopted;
    bh_timer_init(&w->timer, k->loop, turn, w);
    (void)bh_map_put(&k->workers, uid, w);
    return w;
}

void kl_pod_update(struct bh_kubelet *k, struct bh_obj *o)
{
    struct pod_worker *w = worker_get(k, o->uid);
    const struct bh_core_v1_pod *pod = bh_obj_struct(o);
    bool first = !w->pod;

    (void)bh_obj_unref(w->pod);
    w->pod = bh_obj_ref(o);
    w->started = true; /* pods are taken from the API only after adoption */
    if (first) {
        w->start_time =
            bh_time_is_zero(pod->status.start_time) ? wall_now(w) : pod->status.start_time;
        w->was_terminal = phase_final(pod);
        w->terminal = w->was_terminal;
    }
    poke(w);
}

void kl_pod_gone(struct bh_kubelet *k, struct bh_str uid)
{
    struct pod_worker *w = bh_map_get(&k->workers, uid);

    if (!w)
        return;
    w->gone = true;
    poke(w);
}

void kl_pod_adopt(struct bh_kubelet *k, const struct bh_cri_sandbox *s)
{
    struct pod_worker *w;

    if (!s->uid.n)
        return;
    w = worker_get(k, s->uid);
    /* Of several sandboxes the newest counts; the older ones are dead and go with the pod. */
    if (w->sandbox_id && w->sandbox_attempt > s->attempt)
        return;
    bh_free(w->sandbox_id);
    w->sandbox_id = bh_strdup_c(s->id);
    w->sandbox_attempt = s->attempt;
    w->has_attempt = true;
    w->adopted = true;
}

void kl_pod_adopt_dir(struct bh_kubelet *k, struct bh_str uid)
{
    (void)worker_get(k, uid); /* it finds no sandbox and, without a pod, takes the rest away */
}

void kl_pod_poke(struct bh_kubelet *k, struct bh_str uid)
{
    struct pod_worker *w = bh_map_get(&k->workers, uid);

    if (w)
        poke(w);
}

void kl_workers_start(struct bh_kubelet *k)
{
    void *v;

    for (size_t it = 0; bh_map_next(&k->workers, &it, NULL, &v);) {
        struct pod_worker *w = v;

        w->started = true;
        poke(w);
    }
}

void kl_worker_free(struct pod_worker *w)
{
    bh_timer_stop(&w->timer);
    bh_client_cancel(w->k->client, w->status_call);
    bh_client_cancel(w->k->client, w->delete_call);
    w->refs = pod_refs_free(w->refs);
    if (w->volumes)
        w->volumes->w = NULL;
    for (size_t i = 0; i < w->n_slots; i++) {
        set_wait(&w->slots[i], NULL, NULL);
        bh_free((void *)(uintptr_t)w->slots[i].name.p);
    }
    bh_free(w->slots);
    (void)bh_obj_unref(w->pod);
    (void)bh_obj_unref(w->starting_pod);
    (void)bh_arena_free(w->arena);
    bh_free((void *)(uintptr_t)w->starting_image.p);
    bh_free(w->created_id);
    bh_free(w->sandbox_id);
    bh_free(w->status);
    bh_free(w->sending);
    bh_free((void *)(uintptr_t)w->uid.p);
    bh_free(w);
}

struct bh_obj *kl_worker_active_pod(const struct pod_worker *w)
{
    return w->pod && !w->gone && !w->terminal ? w->pod : NULL;
}

struct bh_obj *kl_worker_pod(const struct pod_worker *w)
{
    return w->pod;
}
