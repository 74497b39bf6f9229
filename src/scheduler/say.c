/* What becomes of a pod that found no node, told in its condition and by an event; once per text.
 */
#include "data/json.h"
#include "data/time_fmt.h"
#include "scheduler/sched_int.h"

static const struct bh_core_v1_pod_condition *condition(const struct bh_core_v1_pod *p)
{
    for (size_t i = 0; i < p->status.conditions.n; i++)
        if (bh_str_eqc(p->status.conditions.p[i].type, "PodScheduled"))
            return &p->status.conditions.p[i];
    return NULL;
}

static bool stands(const struct spod *pod, const char *reason, struct bh_str message)
{
    const struct bh_core_v1_pod_condition *k = condition(pod->p);

    return k && bh_str_eqc(k->status, "False") && bh_str_eqc(k->reason, reason) &&
           bh_str_eq(k->message, message);
}

/* Whether the pod's status names the node that room is made on, or none when that is so. */
static bool nomination_told(const struct spod *pod)
{
    return bh_str_eq(pod->nominated ? pod->nominated->name : BH_S(""),
                     pod->p->status.nominated_node_name);
}

static void patch(struct bh_scheduler *s, const struct spod *pod, const char *reason,
                  struct bh_str message, bool condition_too)
{
    BH_AUTO_BUF b = {.max = 16u << 10};
    const struct bh_core_v1_pod_condition *k = condition(pod->p);
    char buf[BH_TIME_BUF];
    struct bh_time now = {bh_loop_wall_ns(s->loop) / 1000000000, 0};

    if (k && bh_str_eqc(k->status, "False") && !bh_time_is_zero(k->last_transition_time))
        now = k->last_transition_time;
    bh_buf_addf(&b, "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":{", BH_SF(pod->obj->uid));
    if (condition_too) {
        bh_buf_addf(&b,
                    "\"conditions\":[{\"type\":\"PodScheduled\",\"observedGeneration\":%lld,"
                    "\"status\":\"False\",\"lastProbeTime\":null,\"lastTransitionTime\":\"%.*s\","
                    "\"reason\":\"%s\",\"message\":",
                    (long long)pod->p->metadata.generation, BH_SF(bh_time_fmt(now, buf)), reason);
        bh_json_write_str(&b, message);
        bh_buf_addz(&b, "}]");
    }
    if (!nomination_told(pod) && pod->nominated)
        bh_buf_addf(&b, "%s\"nominatedNodeName\":\"%.*s\"", condition_too ? "," : "",
                    BH_SF(pod->nominated->name));
    else if (!nomination_told(pod))
        bh_buf_addf(&b, "%s\"nominatedNodeName\":null", condition_too ? "," : "");
    bh_buf_addz(&b, "}}");
    (void)bh_client_patch(s->client, &bh_core_v1_pod_kind, pod->obj->ns, pod->obj->name, "status",
                          BH_PATCH_STRATEGIC, bh_buf_str(&b), NULL, NULL);
}

void sched_say(struct bh_scheduler *s, struct spod *pod, const char *reason, struct bh_str message,
               bool event)
{
    uint64_t h = bh_str_hash(message) * 31 + bh_str_hash(bh_s(reason));

    if (s->opts.observe)
        return;
    if (pod->nominated)
        h = h * 31 + bh_str_hash(pod->nominated->name);
    h = h ? h : 1;
    if (h == pod->said)
        return;
    pod->said = h;
    if (stands(pod, reason, message) && nomination_told(pod))
        return; /* an earlier life of ours said so */
    patch(s, pod, reason, message, true);
    if (event)
        bh_event(sched_recorder(s, pod), pod->obj, "Warning", "FailedScheduling", "%.*s",
                 BH_SF(message));
}

/* The place of a pod went to a more important one; its status no longer names the node. */
void sched_unnominate(struct bh_scheduler *s, struct spod *pod)
{
    sched_denominate(s, pod);
    pod->said = 0;
    if (!nomination_told(pod) && !s->opts.observe)
        patch(s, pod, "", (struct bh_str){NULL, 0}, false);
}
