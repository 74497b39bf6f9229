/* Pods that ask for the same: when one failed, its likes fail in the same way until something
 * happens that may help. Ten thousand pods that do not fit then cost one attempt.
 */
#include <string.h>

#include "api/engine.h"
#include "scheduler/sched_int.h"

#define KINDS_MAX 1024 /* remembered; then all are forgotten */

static void add(uint64_t *h, uint64_t v)
{
    *h = (*h ^ v) * 0x9e3779b97f4a7c15u;
    *h ^= *h >> 29;
}

/* What other pods on the nodes decide over is not remembered: neighbours, spreading, ports,
 * volumes. Nor are claims that have devices already. */
static uint64_t kind_of(struct bh_scheduler *s, const struct spod *pod)
{
    struct bh_core_v1_pod_spec spec = pod->p->spec;
    BH_AUTO_BUF b = {.max = 1u << 20};
    uint64_t h = 1;

    if (pod->terms || pod->has_pvc || pod->has_disks || pod->ports_n ||
        spec.topology_spread_constraints.n || pod->nominated || s->terms_pods)
        return 0;
    memset(&spec.resource_claims, 0, sizeof(spec.resource_claims));
    bh_msg_encode_json(&bh_core_v1_pod_spec_type, &spec, &b);
    for (size_t i = 0; i < pod->p->spec.resource_claims.n; i++) {
        const struct bh_resource_v1_resource_claim *c;
        struct bh_str name;
        struct bh_obj *o = sched_claim_named(pod->p, i, &name)
                               ? bh_informer_get(s->inf_claims, pod->obj->ns, name)
                               : NULL;

        if (!o)
            return 0;
        c = bh_obj_struct(o);
        if (c->status.allocation || bh_dra_is_reserved(s->model, o->uid))
            return 0;
        bh_msg_encode_json(&bh_resource_v1_resource_claim_spec_type, &c->spec, &b);
    }
    if (b.overflow)
        return 0;
    add(&h, bh_str_hash(bh_buf_str(&b)));
    add(&h, b.n);
    return h ? h : 1;
}

static struct bh_str key_of(const uint64_t *kind)
{
    return (struct bh_str){(const char *)kind, sizeof(*kind)};
}

const struct failure *sched_failure(struct bh_scheduler *s, const struct spod *pod)
{
    const struct failure *f;
    uint64_t kind;

    if (s->failures_epoch != s->epoch)
        return NULL; /* nobody failed since something happened */
    kind = kind_of(s, pod);
    f = kind ? bh_map_get(&s->failures, key_of(&kind)) : NULL;
    return f && f->epoch == s->epoch ? f : NULL;
}

void sched_failures_done(struct bh_scheduler *s)
{
    size_t it = 0;
    void *v;

    while (bh_map_next(&s->failures, &it, NULL, &v)) {
        struct failure *f = v;

        bh_free((void *)(uintptr_t)f->message.p);
        bh_free(f);
    }
    bh_map_done(&s->failures);
}

uint64_t sched_failure_note(struct bh_scheduler *s, const struct spod *pod, uint32_t rejected_by,
                            struct bh_str message)
{
    uint64_t kind = kind_of(s, pod);
    struct failure *f;

    if (!kind)
        return 0;
    if (s->failures.n >= KINDS_MAX)
        sched_failures_done(s);
    f = bh_map_get(&s->failures, key_of(&kind));
    if (!f) {
        f = bh_calloc(1, sizeof(*f));
        (void)bh_map_put(&s->failures, key_of(&kind), f);
    }
    bh_free((void *)(uintptr_t)f->message.p);
    s->failures_epoch = s->epoch;
    *f = (struct failure){s->epoch, kind, rejected_by, {bh_strdup_c(message), message.n}};
    return kind;
}
