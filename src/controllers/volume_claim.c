/* The volume binder: what a claim needs. */
#include <string.h>

#include "controllers/volume_binder.h"

static const struct bh_storage_v1_storage_class *class_of(const struct binder *b,
                                                          struct bh_str name)
{
    struct bh_obj *o = name.n ? bh_informer_get(b->classes, (struct bh_str){NULL, 0}, name) : NULL;

    return o ? bh_obj_struct(o) : NULL;
}

static bool has_class(const struct bh_core_v1_persistent_volume_claim *c)
{
    return c->spec.has_storage_class_name ||
           bh_str_map_get(&c->metadata.annotations, BH_S(BH_VOL_CLASS));
}

static bool delayed(const struct binder *b, const struct bh_core_v1_persistent_volume_claim *c)
{
    const struct bh_storage_v1_storage_class *k = class_of(b, bh_pvc_class(c));

    return k && bh_str_eqc(k->volume_binding_mode, "WaitForFirstConsumer");
}

static bool annotated(const struct bh_meta_v1_object_meta *m, const char *key)
{
    return bh_str_map_get(&m->annotations, bh_s(key)) != NULL;
}

/* ---- status ---- */

static bool same_strs(const struct bh_str_vec *a, const struct bh_str_vec *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!bh_str_eq(a->p[i], b->p[i]))
            return false;
    return true;
}

/* What a bound claim has is what its volume has. */
static bool take_over(struct bh_core_v1_persistent_volume_claim_status *s, bool was_pending,
                      const struct bh_core_v1_persistent_volume *v, bool to_phase)
{
    bool dirty = to_phase;

    if (!same_strs(&s->access_modes, &v->spec.access_modes)) {
        s->access_modes = v->spec.access_modes;
        dirty = true;
    }
    if (to_phase &&
        (!bh_str_map_get(&s->capacity, BH_S("storage")) ||
         bh_quantity_cmp(bh_vol_storage(&s->capacity), bh_vol_storage(&v->spec.capacity)) != 0))
        s->capacity = v->spec.capacity;
    if (to_phase && was_pending) {
        s->has_current_volume_attributes_class_name = v->spec.has_volume_attributes_class_name;
        s->current_volume_attributes_class_name = v->spec.volume_attributes_class_name;
    }
    return dirty;
}

/* Ends the work with the claim in this phase; of: the volume that it has (NULL: none). */
static void claim_phase(struct binder_work *w, const char *phase,
                        const struct bh_core_v1_persistent_volume *of)
{
    struct bh_core_v1_persistent_volume_claim c = *binder_pvc_of(w);
    bool other = !bh_str_eqc(c.status.phase, phase), dirty = other,
         was_pending = bh_str_eqc(c.status.phase, "Pending");

    c.status.phase = bh_s(phase);
    if (of) {
        dirty = take_over(&c.status, was_pending, of, other);
    } else if (c.status.access_modes.n || c.status.capacity.n ||
               c.status.has_current_volume_attributes_class_name) {
        c.status.access_modes = (struct bh_str_vec){0};
        c.status.capacity = (struct bh_str_map){0};
        c.status.has_current_volume_attributes_class_name = false;
        c.status.current_volume_attributes_class_name = (struct bh_str){0};
        dirty = true;
    }
    if (dirty)
        binder_put_pvc(w, &c, "status", NULL);
    else
        binder_done(w, true);
}

/* Lost is told once, when it becomes so. */
static void lost(struct binder_work *w, const char *reason, const char *text)
{
    if (bh_str_eqc(binder_pvc_of(w)->status.phase, "Lost")) {
        binder_done(w, true);
        return;
    }
    w->reason = reason;
    w->text = bh_s(text);
    w->about_pv = false;
    claim_phase(w, "Lost", NULL);
}

/* ---- bind ---- */

static void bind_claim_status(struct binder_work *w)
{
    claim_phase(w, "Bound", binder_pv_of(w));
}

static void bind_claim(struct binder_work *w)
{
    struct bh_core_v1_persistent_volume_claim c = *binder_pvc_of(w);
    bool dirty = false;

    if (!bh_str_eq(c.spec.volume_name, w->pv->name)) {
        c.spec.volume_name = w->pv->name;
        if (!annotated(&c.metadata, BH_VOL_BY_CONTROLLER))
            c.metadata.annotations =
                binder_with(w->a, &c.metadata.annotations, BH_VOL_BY_CONTROLLER, BH_S("yes"));
        dirty = true;
    }
    if (!annotated(&c.metadata, BH_VOL_BIND_COMPLETED)) {
        c.metadata.annotations =
            binder_with(w->a, &c.metadata.annotations, BH_VOL_BIND_COMPLETED, BH_S("yes"));
        dirty = true;
    }
    if (dirty)
        binder_put_pvc(w, &c, "", bind_claim_status);
    else
        bind_claim_status(w);
}

static void bind_volume_phase(struct binder_work *w)
{
    binder_pv_phase(w, "Bound", bind_claim);
}

void binder_bind(struct binder_work *w)
{
    struct bh_core_v1_persistent_volume v = *binder_pv_of(w);
    const struct bh_core_v1_persistent_volume_claim *c = binder_pvc_of(w);
    struct bh_core_v1_object_reference *r = v.spec.claim_ref;
    bool dirty = false;

    if (!bh_pv_ref_is(r, c) && !annotated(&v.metadata, BH_VOL_BY_CONTROLLER)) {
        v.metadata.annotations =
            binder_with(w->a, &v.metadata.annotations, BH_VOL_BY_CONTROLLER, BH_S("yes"));
        dirty = true;
    }
    if (!bh_pv_ref_is(r, c) || !bh_str_eq(r->uid, c->metadata.uid)) {
        v.spec.claim_ref = bh_new(w->a, struct bh_core_v1_object_reference);
        *v.spec.claim_ref = bh_pvc_reference(c);
        dirty = true;
    }
    if (dirty)
        binder_put_pv(w, &v, "", bind_volume_phase);
    else
        bind_volume_phase(w);
}

/* ---- the search for a volume ---- */

/* Volumes with the fewest access modes come first: one that can do more is kept for who needs it.
 */
static struct bh_obj *best_match(struct binder_work *w, bool later)
{
    const struct bh_core_v1_persistent_volume_claim *c = binder_pvc_of(w);
    struct bh_obj *best = NULL;

    for (size_t modes = c->spec.access_modes.n; !best && modes <= 4; modes++) {
        struct bh_pv_search s;
        struct bh_obj *o;

        bh_pv_search_init(&s, w->a, c, false, later);
        for (size_t it = 0; (o = bh_informer_next(w->b->pvs, &it)) && !s.done;) {
            struct bh_obj *now = binder_pv(w->b, o->name);
            const struct bh_core_v1_persistent_volume *v = bh_obj_struct(now), *was = s.best;

            if (v->spec.access_modes.n != modes || !bh_pv_access_fits(v, c))
                continue;
            bh_pv_search_offer(&s, v, v->spec.claim_ref, true);
            if (s.best != was)
                best = now;
        }
        if (!s.best)
            best = NULL;
    }
    return best;
}

/* Names of the pods that have no node yet and want the claim: "a" or "a,b"; *n tells how many. */
static struct bh_str waiting_pods(struct binder_work *w, size_t *n)
{
    struct bh_str names = {NULL, 0};
    struct bh_obj *o;

    for (size_t it = 0; (o = bh_informer_next(w->b->pods, &it));) {
        const struct bh_core_v1_pod *p = bh_obj_struct(o);

        if (!bh_str_eq(o->ns, w->pvc->ns) || p->spec.node_name.n || ctl_pod_done(p))
            continue;
        for (size_t i = 0; i < p->spec.volumes.n; i++)
            if (bh_str_eq(bh_pod_volume_claim(w->a, o->name, &p->spec.volumes.p[i]),
                          w->pvc->name)) {
                names =
                    bh_str_fmt(w->a, "%.*s%s%.*s", BH_SF(names), (*n)++ ? "," : "", BH_SF(o->name));
                break;
            }
    }
    return names;
}

static void say_waits(struct binder_work *w)
{
    size_t n = 0;
    struct bh_str names = waiting_pods(w, &n);

    if (n)
        bh_event(w->b->recorder, w->pvc, "Normal", "WaitForPodScheduled",
                 "waiting for pod%s %.*s to be scheduled", n > 1 ? "s" : "", BH_SF(names));
    else
        bh_event(w->b->recorder, w->pvc, "Normal", "WaitForFirstConsumer",
                 "waiting for first consumer to be created before binding");
}

/* ---- provisioning: by others ---- */

static void say_external(struct binder_work *w)
{
    const struct bh_storage_v1_storage_class *k = class_of(w->b, bh_pvc_class(binder_pvc_of(w)));

    if (k)
        bh_event(w->b->recorder, w->pvc, "Normal", "ExternalProvisioning",
                 "Waiting for a volume to be created either by the external provisioner '%.*s' or "
                 "manually by the system administrator. If volume creation is delayed, please "
                 "verify that the provisioner is running and correctly registered.",
                 BH_SF(k->provisioner));
    binder_done(w, true);
}

static void provision(struct binder_work *w)
{
    struct bh_core_v1_persistent_volume_claim c = *binder_pvc_of(w);
    struct bh_str name = bh_pvc_class(&c);
    const struct bh_storage_v1_storage_class *k = class_of(w->b, name);
    const struct bh_str *told;

    if (!k) {
        bh_event(w->b->recorder, w->pvc, "Warning", "ProvisioningFailed",
                 "storageclass.storage.k8s.io \"%.*s\" not found", BH_SF(name));
        binder_done(w, true);
        return;
    }
    if (bh_str_starts(k->provisioner, BH_S("kubernetes.io/"))) { /* none is built in */
        bh_event(w->b->recorder, w->pvc, "Warning", "ProvisioningFailed",
                 "no volume plugin matched name: %.*s", BH_SF(k->provisioner));
        binder_done(w, true);
        return;
    }
    told = bh_str_map_get(&c.metadata.annotations, BH_S(BH_VOL_PROVISIONER));
    if (told && bh_str_eq(*told, k->provisioner)) {
        say_external(w);
        return;
    }
    c.metadata.annotations =
        binder_with(w->a, &c.metadata.annotations, "volume.beta.kubernetes.io/storage-provisioner",
                    k->provisioner);
    c.metadata.annotations =
        binder_with(w->a, &c.metadata.annotations, BH_VOL_PROVISIONER, k->provisioner);
    binder_put_pvc(w, &c, "", say_external);
}

/* ---- the default class, for claims that were made before there was one ---- */

static bool marked(const struct bh_storage_v1_storage_class *k)
{
    static const char *const marks[] = {"storageclass.kubernetes.io/is-default-class",
                                        "storageclass.beta.kubernetes.io/is-default-class"};

    for (size_t i = 0; i < BH_COUNT(marks); i++) {
        const struct bh_str *v = bh_str_map_get(&k->metadata.annotations, bh_s(marks[i]));

        if (v && bh_str_eqc(*v, "true"))
            return true;
    }
    return false;
}

static bool give_default_class(struct binder_work *w)
{
    struct bh_core_v1_persistent_volume_claim c = *binder_pvc_of(w);
    const struct bh_storage_v1_storage_class *best = NULL;
    struct bh_obj *o;

    if (has_class(&c))
        return false;
    for (size_t it = 0; (o = bh_informer_next(w->b->classes, &it));) {
        const struct bh_storage_v1_storage_class *k = bh_obj_struct(o);
        int64_t newer =
            best ? k->metadata.creation_timestamp.sec - best->metadata.creation_timestamp.sec : 1;

        if (marked(k) &&
            (newer > 0 || (newer == 0 && bh_str_cmp(k->metadata.name, best->metadata.name) < 0)))
            best = k;
    }
    if (!best)
        return false;
    c.spec.has_storage_class_name = true;
    c.spec.storage_class_name = best->metadata.name;
    binder_put_pvc(w, &c, "", NULL);
    return true;
}

/* ---- one claim ---- */

static void without_volume(struct binder_work *w)
{
    const struct bh_core_v1_persistent_volume_claim *c = binder_pvc_of(w);
    bool later = delayed(w->b, c);
    struct bh_obj *pv = best_match(w, later);

    if (pv) {
        binder_take_pv(w, pv);
        binder_bind(w);
        return;
    }
    if (give_default_class(w))
        return;
    if (later && !annotated(&c->metadata, BH_VOL_SELECTED_NODE)) {
        say_waits(w);
    } else if (bh_pvc_class(c).n) {
        provision(w);
        return;
    } else {
        bh_event(w->b->recorder, w->pvc, "Normal", "FailedBinding",
                 "no persistent volumes available for this claim and no storage class is set");
    }
    claim_phase(w, "Pending", NULL);
}

/* Why the volume that the claim asks for by name will not do; NULL: it will. */
static const char *mismatch(const struct bh_core_v1_persistent_volume *v,
                            const struct bh_core_v1_persistent_volume_claim *c)
{
    struct bh_str wants = c->spec.has_volume_attributes_class_name
                              ? c->spec.volume_attributes_class_name
                              : (struct bh_str){NULL, 0};
    struct bh_str has = v->spec.has_volume_attributes_class_name
                            ? v->spec.volume_attributes_class_name
                            : (struct bh_str){NULL, 0};

    if (bh_quantity_value(bh_vol_storage(&v->spec.capacity)) <
        bh_quantity_value(bh_vol_storage(&c->spec.resources.requests)))
        return "requested PV is too small";
    if (!bh_str_eq(bh_pv_class(v), bh_pvc_class(c)))
        return "storageClassName does not match";
    if (!bh_str_eq(wants, has))
        return "volumeAttributesClassName does not match";
    if (!bh_pv_mode_fits(v, c))
        return "incompatible volumeMode";
    return bh_pv_access_fits(v, c) ? NULL : "incompatible accessMode";
}

static void unbound_with_name(struct binder_work *w)
{
    const struct bh_core_v1_persistent_volume_claim *c = binder_pvc_of(w);
    const struct bh_core_v1_persistent_volume *v;
    struct bh_str why;

    binder_take_pv(w, binder_pv(w->b, c->spec.volume_name));
    if (!w->pv) {
        claim_phase(w, "Pending", NULL);
        return;
    }
    v = binder_pv_of(w);
    if (bh_pv_ref_is(v->spec.claim_ref, c)) {
        binder_bind(w);
        return;
    }
    if (v->spec.claim_ref) {
        bh_event(w->b->recorder, w->pvc, "Warning", "FailedBinding",
                 "volume \"%.*s\" already bound to a different claim.", BH_SF(w->pv->name));
        claim_phase(w, "Pending", NULL);
        return;
    }
    why = w->pv->deleting
              ? bh_str_fmt(w->a, "the volume is marked for deletion \"%.*s\"", BH_SF(w->pv->name))
              : bh_s(mismatch(v, c) ? mismatch(v, c) : "");
    if (!why.n) {
        binder_bind(w);
        return;
    }
    bh_event(w->b->recorder, w->pvc, "Warning", "VolumeMismatch",
             "Cannot bind to requested volume \"%.*s\": %.*s", BH_SF(w->pv->name), BH_SF(why));
    claim_phase(w, "Pending", NULL);
}

static void bound(struct binder_work *w)
{
    const struct bh_core_v1_persistent_volume_claim *c = binder_pvc_of(w);
    const struct bh_core_v1_object_reference *r;

    if (!c->spec.volume_name.n) {
        lost(w, "ClaimLost",
             "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!");
        return;
    }
    binder_take_pv(w, binder_pv(w->b, c->spec.volume_name));
    if (!w->pv) {
        lost(w, "ClaimLost",
             "Bound claim has lost its PersistentVolume. Data on the volume is lost!");
        return;
    }
    r = binder_pv_of(w)->spec.claim_ref;
    if (!r || bh_str_eq(r->uid, c->metadata.uid))
        binder_bind(w);
    else
        lost(w, "ClaimMisbound",
             "Two claims are bound to the same volume, this one is bound incorrectly");
}

void binder_sync_claim(struct binder_work *w)
{
    const struct bh_core_v1_persistent_volume_claim *c = binder_pvc_of(w);

    if (annotated(&c->metadata, BH_VOL_BIND_COMPLETED))
        bound(w);
    else if (c->spec.volume_name.n)
        unbound_with_name(w);
    else
        without_volume(w);
}
