/* The volume binder: what a volume needs. */
#include "controllers/volume_binder.h"

static bool annotated(const struct bh_core_v1_persistent_volume *v, const char *key)
{
    return bh_str_map_get(&v->metadata.annotations, bh_s(key)) != NULL;
}

static bool phase_is(const struct bh_core_v1_persistent_volume *v, const char *phase)
{
    return bh_str_eqc(v->status.phase, phase);
}

/* ---- reclaiming ---- */

static void failed(struct binder_work *w, const char *reason, struct bh_str text)
{
    struct bh_core_v1_persistent_volume v = *binder_pv_of(w);

    if (phase_is(&v, "Failed")) {
        binder_done(w, true);
        return;
    }
    w->reason = reason;
    w->text = text;
    w->about_pv = true;
    v.status.phase = BH_S("Failed");
    v.status.message = text;
    binder_put_pv(w, &v, "status", NULL);
}

/* A volume that a driver made, or that a driver stands for, is deleted by that driver. Nothing is
 * removed from a node's disk by us. */
static void delete_volume(struct binder_work *w)
{
    const struct bh_core_v1_persistent_volume *v = binder_pv_of(w);
    const struct bh_str *by = bh_str_map_get(&v->metadata.annotations, BH_S(BH_VOL_PROVISIONED_BY));

    if (by && by->n && !bh_str_starts(*by, BH_S("kubernetes.io/")))
        binder_done(w, true);
    else if (by && by->n)
        failed(w, "VolumeFailedDelete",
               bh_str_fmt(w->a, "no volume plugin matched name: %.*s", BH_SF(*by)));
    else if (annotated(v, "pv.kubernetes.io/migrated-to") || v->spec.persistent_volume_source.csi)
        binder_done(w, true);
    else if (v->spec.persistent_volume_source.host_path)
        failed(w, "VolumeFailedDelete",
               bh_str_fmt(w->a,
                          "host_path deleter only supports /tmp/.+ but received provided %.*s",
                          BH_SF(v->spec.persistent_volume_source.host_path->path)));
    else
        failed(w, "VolumeFailedDelete",
               bh_str_fmt(w->a,
                          "error getting deleter volume plugin for volume \"%.*s\": no deletable "
                          "volume plugin matched",
                          BH_SF(w->pv->name)));
}

static void reclaim(struct binder_work *w)
{
    const struct bh_core_v1_persistent_volume *v = binder_pv_of(w);
    struct bh_str policy = v->spec.persistent_volume_reclaim_policy;

    if (bh_str_eqc(policy, "Retain"))
        binder_done(w, true);
    else if (bh_str_eqc(policy, "Delete"))
        delete_volume(w);
    else if (bh_str_eqc(policy, "Recycle"))
        failed(w, "VolumeFailedRecycle", BH_S("No recycler plugin found for the volume!"));
    else
        failed(w, "VolumeUnknownReclaimPolicy",
               BH_S("Volume has unrecognized PersistentVolumeReclaimPolicy"));
}

static void released(struct binder_work *w)
{
    const struct bh_core_v1_persistent_volume *v = binder_pv_of(w);

    if (phase_is(v, "Released") || phase_is(v, "Failed"))
        reclaim(w);
    else
        binder_pv_phase(w, "Released", reclaim);
}

/* ---- giving a volume back ---- */

static void available(struct binder_work *w)
{
    binder_pv_phase(w, "Available", NULL);
}

/* A reference of ours goes; one that somebody wrote keeps the name and waits for its claim. */
static void unbind(struct binder_work *w)
{
    struct bh_core_v1_persistent_volume v = *binder_pv_of(w);
    struct bh_str_map left = {0};

    if (!annotated(&v, BH_VOL_BY_CONTROLLER)) {
        v.spec.claim_ref = bh_arena_memdup(w->a, v.spec.claim_ref, sizeof(*v.spec.claim_ref));
        v.spec.claim_ref->uid = (struct bh_str){NULL, 0};
        binder_put_pv(w, &v, "", available);
        return;
    }
    v.spec.claim_ref = NULL;
    for (size_t i = 0; i < v.metadata.annotations.n; i++)
        if (!bh_str_eqc(v.metadata.annotations.p[i].key, BH_VOL_BY_CONTROLLER))
            bh_str_map_put(w->a, &left, v.metadata.annotations.p[i].key,
                           v.metadata.annotations.p[i].value);
    v.metadata.annotations = left;
    binder_put_pv(w, &v, "", available);
}

/* ---- one volume ---- */

static void mode_differs(struct binder_work *w)
{
    bh_event(w->b->recorder, w->pv, "Warning", "VolumeMismatch",
             "Cannot bind PersistentVolume to requested PersistentVolumeClaim \"%.*s\" due to "
             "incompatible volumeMode.",
             BH_SF(w->pvc->name));
    bh_event(w->b->recorder, w->pvc, "Warning", "VolumeMismatch",
             "Cannot bind PersistentVolume \"%.*s\" to requested PersistentVolumeClaim due to "
             "incompatible volumeMode.",
             BH_SF(w->pv->name));
    binder_done(w, true);
}

/* w->pvc is the claim that the volume is given to, or NULL when that is gone for certain. */
static void with_claim(struct binder_work *w)
{
    const struct bh_core_v1_persistent_volume *v = binder_pv_of(w);
    const struct bh_core_v1_persistent_volume_claim *c = w->pvc ? binder_pvc_of(w) : NULL;

    if (!c || !bh_str_eq(c->metadata.uid, v->spec.claim_ref->uid)) {
        released(w);
    } else if (!c->spec.volume_name.n) {
        if (!bh_pv_mode_fits(v, c)) {
            mode_differs(w);
            return;
        }
        bh_workqueue_add(w->b->queue,
                         bh_str_fmt(w->a, "c/%.*s/%.*s", BH_SF(w->pvc->ns), BH_SF(w->pvc->name)));
        binder_done(w, true);
    } else if (bh_str_eq(c->spec.volume_name, w->pv->name)) {
        binder_pv_phase(w, "Bound", NULL);
    } else if (annotated(v, BH_VOL_PROVISIONED_BY) &&
               bh_str_eqc(v->spec.persistent_volume_reclaim_policy, "Delete")) {
        released(w); /* made for the claim, which took another one */
    } else {
        unbind(w);
    }
}

void binder_sync_volume(struct binder_work *w)
{
    const struct bh_core_v1_persistent_volume *v = binder_pv_of(w);
    const struct bh_core_v1_object_reference *r = v->spec.claim_ref;
    struct bh_obj *claim;

    if (!r || !r->uid.n) {
        binder_pv_phase(w, "Available", NULL);
        return;
    }
    claim = binder_pvc(w->b, r->namespace, r->name);
    if (claim && bh_str_eq(claim->uid, r->uid)) {
        binder_take_pvc(w, claim);
        with_claim(w);
    } else if (phase_is(v, "Released") || phase_is(v, "Failed")) {
        with_claim(w);
    } else {
        binder_ask_claim(w, with_claim); /* we may have heard of it later than of the volume */
    }
}
