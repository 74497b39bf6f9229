/* Claims for persistent volumes. */
#include "apiserver/validate/validate_storage.h"

#include "base/buf.h"

static const struct bh_fpath *const meta_at =
    &(const struct bh_fpath){.name = BH_S_INIT("metadata"), .kind = BH_FP_NAME};
static const struct bh_fpath *const spec_at =
    &(const struct bh_fpath){.name = BH_S_INIT("spec"), .kind = BH_FP_NAME};
static const struct bh_fpath *const status_at =
    &(const struct bh_fpath){.name = BH_S_INIT("status"), .kind = BH_FP_NAME};

/* ---- what may be written where ---- */

static bool gate_on(void *arg, struct bh_str name)
{
    const struct bh_rules_env *env = arg;

    return env->gate ? env->gate(env->arg, name) : bh_gate_default(name);
}

/* A source in another namespace is left out as a whole where that is not allowed. */
static void drop_foreign(const struct bh_rules_env *env,
                         struct bh_core_v1_persistent_volume_claim_spec *s,
                         const struct bh_core_v1_persistent_volume_claim_spec *old)
{
    if (!bh_rules_gate(env, "CrossNamespaceVolumeDataSource") && s->data_source_ref &&
        s->data_source_ref->has_namespace && s->data_source_ref->namespace.n &&
        !(old && old->data_source_ref))
        s->data_source_ref = NULL;
}

/* Once, anything but a claim or a snapshot was ignored in dataSource; it still is. */
static void drop_unknown(struct bh_core_v1_persistent_volume_claim_spec *s,
                         const struct bh_core_v1_persistent_volume_claim_spec *old)
{
    const struct bh_core_v1_typed_local_object_reference *d = s->data_source;
    struct bh_str group;

    if (!d || s->data_source_ref || (old && (old->data_source || old->data_source_ref)))
        return;
    group = d->has_api_group ? d->api_group : BH_S("");
    if (!(bh_str_eqc(d->kind, "PersistentVolumeClaim") && group.n == 0) &&
        !(bh_str_eqc(d->kind, "VolumeSnapshot") && bh_str_eqc(group, "snapshot.storage.k8s.io")))
        s->data_source = NULL;
}

/* Both fields say the same: one that is not set follows from the other. */
static void both_sources(struct bh_arena *a, struct bh_core_v1_persistent_volume_claim_spec *s)
{
    const struct bh_core_v1_typed_local_object_reference *d = s->data_source;
    const struct bh_core_v1_typed_object_reference *r = s->data_source_ref;

    if (d && !r) {
        s->data_source_ref = bh_new(a, struct bh_core_v1_typed_object_reference);
        *s->data_source_ref = (struct bh_core_v1_typed_object_reference){
            .api_group = d->api_group,
            .has_api_group = d->has_api_group,
            .kind = d->kind,
            .name = d->name,
        };
    } else if (r && !d && !(r->has_namespace && r->namespace.n)) {
        s->data_source = bh_new(a, struct bh_core_v1_typed_local_object_reference);
        *s->data_source = (struct bh_core_v1_typed_local_object_reference){
            .api_group = r->api_group,
            .has_api_group = r->has_api_group,
            .kind = r->kind,
            .name = r->name,
        };
    }
}

static void prepare_spec(const struct bh_rules_env *env,
                         struct bh_core_v1_persistent_volume_claim_spec *s,
                         const struct bh_core_v1_persistent_volume_claim_spec *old)
{
    if (!bh_rules_gate(env, "VolumeAttributesClass") &&
        !(old && old->has_volume_attributes_class_name)) {
        s->has_volume_attributes_class_name = false;
        s->volume_attributes_class_name = (struct bh_str){0};
    }
    drop_foreign(env, s, old);
    drop_unknown(s, old);
    both_sources(env->a, s);
}

void bh_v_pvc_prepare_create(const struct bh_rules_env *env, void *obj)
{
    struct bh_core_v1_persistent_volume_claim *c = obj;

    c->status = (struct bh_core_v1_persistent_volume_claim_status){.phase = BH_S("Pending")};
    prepare_spec(env, &c->spec, NULL);
}

void bh_v_pvc_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                             const void *prev)
{
    struct bh_core_v1_persistent_volume_claim *c = obj;
    const struct bh_core_v1_persistent_volume_claim *old = prev;

    if (bh_str_eqc(sub, "status")) {
        c->spec = old->spec;
        bh_msg_drop_gated(&bh_core_v1_persistent_volume_claim_status_type, &c->status, &old->status,
                          gate_on, (void *)(uintptr_t)env);
        return;
    }
    c->status = old->status;
    prepare_spec(env, &c->spec, &old->spec);
}

/* ---- validation ---- */

static void pvc(struct bh_field_errs *e, const struct bh_core_v1_persistent_volume_claim *c,
                unsigned stored)
{
    bh_v_meta(e, meta_at, &c->metadata, true, bh_check_dns1123_subdomain, BH_VM_KUBE);
    bh_v_claim_spec(e, spec_at, &c->spec, stored);
}

void bh_v_pvc_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    (void)env;
    pvc(e, obj, 0);
}

static struct bh_str class_annotation(const struct bh_core_v1_persistent_volume_claim *c, bool *has)
{
    const struct bh_str *v = bh_str_map_get(&c->metadata.annotations, BH_S(BH_V_CLASS_ANNOTATION));

    *has = v != NULL;
    return v ? *v : BH_S("");
}

/* The class may move from its old annotation into the spec, and may be named where there was none.
 * True: in m the class counts as it was. */
static bool class_given(struct bh_field_errs *e, const struct bh_core_v1_persistent_volume_claim *c,
                        const struct bh_core_v1_persistent_volume_claim *old)
{
    bool had, has;
    struct bh_str was = class_annotation(old, &had), is = class_annotation(c, &has);
    struct bh_str name = c->spec.storage_class_name;

    if (had && !old->spec.has_storage_class_name && c->spec.has_storage_class_name &&
        bh_str_eq(name, was) && (!has || bh_str_eq(is, was)))
        return true;
    if (!bh_str_eq(is, was))
        bh_fe_invalid(e, BH_FPS(BH_FP(meta_at, "annotations"), BH_S(BH_V_CLASS_ANNOTATION)), is,
                      BH_V_IMMUTABLE);
    return c->spec.has_storage_class_name && !old->spec.has_storage_class_name &&
           (!had || bh_str_eq(name, was));
}

static void put_storage(struct bh_arena *a, struct bh_str_map *m, const struct bh_str_map *old)
{
    const struct bh_str *v = bh_str_map_get(old, BH_S("storage"));
    struct bh_str_map copy = {0};

    for (size_t i = 0; i < m->n; i++)
        bh_str_map_put(a, &copy, m->p[i].key, m->p[i].value);
    bh_str_map_put(a, &copy, BH_S("storage"), v ? *v : BH_S("0"));
    *m = copy;
}

/* What may change is made equal in a copy; all else has to be as it was. */
static void spec_kept(struct bh_field_errs *e, const struct bh_core_v1_persistent_volume_claim *c,
                      const struct bh_core_v1_persistent_volume_claim *old)
{
    const struct bh_type *t = &bh_core_v1_persistent_volume_claim_spec_type;
    struct bh_core_v1_persistent_volume_claim_spec m = c->spec, o = old->spec;
    struct bh_buf b = {.max = 4096};

    both_sources(e->a, &o);
    if (o.volume_name.n == 0)
        o.volume_name = m.volume_name;
    if (class_given(e, c, old)) {
        m.has_storage_class_name = o.has_storage_class_name;
        m.storage_class_name = o.storage_class_name;
    }
    if (bh_str_eqc(c->status.phase, "Bound")) {
        if (m.resources.requests.n)
            put_storage(e->a, &m.resources.requests, &o.resources.requests);
        m.has_volume_attributes_class_name = o.has_volume_attributes_class_name;
        m.volume_attributes_class_name = o.volume_attributes_class_name;
    }
    if (bh_msg_equal(t, &m, &o))
        return;
    for (uint32_t i = 0; i < t->n_fields; i++)
        if (!bh_field_equal(&t->fields[i], &m, &o))
            bh_buf_addf(&b, "%sspec.%.*s", b.n ? ", " : "", BH_SF(t->fields[i].json));
    bh_fe_forbidden(e, spec_at,
                    "spec is immutable after creation except resources.requests and "
                    "volumeAttributesClassName for bound claims\nchanged: %.*s",
                    BH_SF(bh_buf_str(&b)));
    bh_buf_done(&b);
}

static struct bh_quantity storage_of(const struct bh_str_map *m)
{
    const struct bh_str *v = bh_str_map_get(m, BH_S("storage"));

    return v ? bh_v_qty(*v) : bh_quantity_i64(0, BH_Q_DECIMAL_SI);
}

static void attributes_class_kept(struct bh_field_errs *e,
                                  const struct bh_core_v1_persistent_volume_claim *c,
                                  const struct bh_core_v1_persistent_volume_claim *old)
{
    const struct bh_fpath *at = BH_FP(spec_at, "volumeAttributesClassName");
    bool has = c->spec.has_volume_attributes_class_name,
         had = old->spec.has_volume_attributes_class_name;

    if ((has == had && (!has || bh_str_eq(c->spec.volume_attributes_class_name,
                                          old->spec.volume_attributes_class_name))) ||
        !old->status.has_current_volume_attributes_class_name)
        return;
    if (!has)
        bh_fe_forbidden(e, at,
                        "update to nil is forbidden when status.currentVolumeAttributesClassName "
                        "is not nil");
    else if (c->spec.volume_attributes_class_name.n == 0)
        bh_fe_forbidden(e, at,
                        "update to empty string is forbidden when "
                        "status.currentVolumeAttributesClassName is not nil");
}

/* ---- status ---- */

static void resource_key(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str key)
{
    size_t before = e->n + e->dropped;

    bh_v_check(e, at, bh_check_qualified_name, key);
    if (e->n + e->dropped == before && bh_v_is_native_resource(key) && !bh_str_eqc(key, "storage"))
        BH_V_NOT_SUPPORTED(e, at, key, "storage");
}

static bool basic(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str value)
{
    int64_t v = bh_quantity_value(bh_v_qty(value));

    if (v < 0)
        bh_fe_invalid_i64(e, at, v, "must be a valid resource quantity");
    return v >= 0;
}

static void allocated(struct bh_field_errs *e,
                      const struct bh_core_v1_persistent_volume_claim_status *s)
{
    const struct bh_fpath *states = BH_FP(status_at, "allocatedResourceStatuses"),
                          *all = BH_FP(status_at, "allocatedResources");

    for (size_t i = 0; i < s->allocated_resource_statuses.n; i++) {
        const struct bh_str_pair *p = &s->allocated_resource_statuses.p[i];

        resource_key(e, states, p->key);
        if (!BH_V_ONE_OF(p->value, "ControllerResizeInProgress", "ControllerResizeInfeasible",
                         "NodeResizePending", "NodeResizeInProgress", "NodeResizeInfeasible"))
            BH_V_NOT_SUPPORTED(e, states, p->key, "ControllerResizeInProgress",
                               "ControllerResizeInfeasible", "NodeResizeInProgress",
                               "NodeResizeInfeasible", "NodeResizePending");
    }
    for (size_t i = 0; i < s->allocated_resources.n; i++) {
        const struct bh_str_pair *p = &s->allocated_resources.p[i];
        size_t before = e->n + e->dropped;

        resource_key(e, all, p->key);
        if (e->n + e->dropped == before && basic(e, BH_FPK(all, p->key), p->value))
            bh_v_resource_value(e, BH_FPK(all, p->key), BH_S("storage"), p->value);
    }
}

static void status_update(struct bh_field_errs *e,
                          const struct bh_core_v1_persistent_volume_claim *c,
                          const struct bh_core_v1_persistent_volume_claim *old)
{
    bh_v_meta_update(e, meta_at, &c->metadata, &old->metadata, BH_VM_KUBE);
    bh_v_version_given(e, &c->metadata);
    if (c->spec.access_modes.n == 0)
        bh_fe_required(e, BH_FP(BH_FP(NULL, "Spec"), "accessModes"), NULL);
    for (size_t i = 0; i < c->status.capacity.n; i++)
        (void)basic(e, BH_FPK(BH_FP(status_at, "capacity"), c->status.capacity.p[i].key),
                    c->status.capacity.p[i].value);
    allocated(e, &c->status);
}

static unsigned stored_faults(struct bh_arena *a,
                              const struct bh_core_v1_persistent_volume_claim_spec *old)
{
    struct bh_field_errs e = {.a = a};
    unsigned r = 0;

    bh_v_label_selector(&e, NULL, old->selector, false);
    if (e.n)
        r |= BH_V_OLD_SELECTOR;
    if ((old->data_source && old->data_source->has_api_group) ||
        (old->data_source_ref && old->data_source_ref->has_api_group))
        r |= BH_V_OLD_GROUP;
    return r;
}

void bh_v_pvc_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                     const void *prev, struct bh_field_errs *e)
{
    const struct bh_core_v1_persistent_volume_claim *c = obj, *old = prev;
    struct bh_quantity size = storage_of(&c->spec.resources.requests);

    (void)env;
    if (bh_str_eqc(sub, "status")) {
        status_update(e, c, old);
        return;
    }
    bh_v_meta_update(e, meta_at, &c->metadata, &old->metadata, BH_VM_KUBE);
    pvc(e, c, stored_faults(e->a, &old->spec));
    spec_kept(e, c, old);
    if (bh_quantity_cmp(size, storage_of(&old->spec.resources.requests)) < 0 &&
        bh_quantity_cmp(size, storage_of(&old->status.capacity)) <= 0)
        bh_fe_forbidden(e, BH_FP(BH_FP(BH_FP(spec_at, "resources"), "requests"), "storage"),
                        "field can not be less than status.capacity");
    bh_v_volume_mode_kept(e, c->spec.has_volume_mode, c->spec.volume_mode,
                          old->spec.has_volume_mode, old->spec.volume_mode);
    attributes_class_kept(e, c, old);
}

void bh_v_pvc_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                   const void *prev, struct bh_str_vec *out)
{
    const struct bh_core_v1_persistent_volume_claim *c = obj;
    const struct bh_fpath *at = BH_FP(spec_at, "resources");
    bool has;

    (void)prev;
    if (sub.n)
        return;
    (void)class_annotation(c, &has);
    if (has)
        bh_v_warn_at(env, out, BH_FPK(BH_FP(meta_at, "annotations"), BH_S(BH_V_CLASS_ANNOTATION)),
                     "deprecated since v1.8; use \"storageClassName\" attribute instead");
    bh_v_warn_whole_bytes(env, out, BH_FP(at, "requests"), &c->spec.resources.requests,
                          BH_S("storage"));
    bh_v_warn_whole_bytes(env, out, BH_FP(at, "limits"), &c->spec.resources.limits,
                          BH_S("storage"));
}
