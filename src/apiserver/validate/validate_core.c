/* Small kinds of the core group, and Lease: namespaces, nodes, configuration, events. The tables of
 * the core group. */
#include "apiserver/validate/validate_int.h"

#include "api/gen/coordination_v1.h"
#include "base/buf.h"
#include "data/json.h"

#include <string.h>

#define DATA_BYTES_MAX (1u << 20) /* upstream: all values of a ConfigMap or Secret */
#define EVENT_WORD_MAX 128u
#define EVENT_NOTE_MAX 1024u
#define NAME_LABEL     "kubernetes.io/metadata.name"

static const struct bh_fpath *const meta_at =
    &(const struct bh_fpath){.name = BH_S_INIT("metadata"), .kind = BH_FP_NAME};
static const struct bh_fpath *const spec_at =
    &(const struct bh_fpath){.name = BH_S_INIT("spec"), .kind = BH_FP_NAME};
static const struct bh_fpath *const status_at =
    &(const struct bh_fpath){.name = BH_S_INIT("status"), .kind = BH_FP_NAME};

static bool maps_equal(const struct bh_str_map *x, const struct bh_str_map *y)
{
    if (x->n != y->n)
        return false;
    for (size_t i = 0; i < x->n; i++)
        if (!bh_str_eq(x->p[i].key, y->p[i].key) || !bh_str_eq(x->p[i].value, y->p[i].value))
            return false;
    return true;
}

static void frozen(struct bh_field_errs *e, const char *name)
{
    bh_fe_forbidden(e, BH_FPS(NULL, bh_s(name)), "field is immutable when `immutable` is set");
}

/* ---- ConfigMap ---- */

static void config_map(struct bh_field_errs *e, const struct bh_core_v1_config_map *c)
{
    const struct bh_fpath *data = BH_FP(NULL, "data"), *binary = BH_FP(NULL, "binaryData");
    size_t total = 0;

    bh_v_meta(e, meta_at, &c->metadata, true, bh_check_dns1123_subdomain, BH_VM_KUBE);
    for (size_t i = 0; i < c->data.n; i++) {
        struct bh_str key = c->data.p[i].key;

        bh_v_check(e, BH_FPK(data, key), bh_check_config_map_key, key);
        if (bh_str_map_get(&c->binary_data, key))
            bh_fe_invalid(e, BH_FPK(data, key), key, "duplicate of key present in binaryData");
        total += c->data.p[i].value.n;
    }
    for (size_t i = 0; i < c->binary_data.n; i++) {
        bh_v_check(e, BH_FPK(binary, c->binary_data.p[i].key), bh_check_config_map_key,
                   c->binary_data.p[i].key);
        total += c->binary_data.p[i].value.n;
    }
    if (total > DATA_BYTES_MAX) /* the field without a name is the whole object */
        bh_fe_too_long(e, BH_FPS(NULL, BH_S("[]")), DATA_BYTES_MAX);
}

static void config_map_create(const struct bh_rules_env *env, const void *obj,
                              struct bh_field_errs *e)
{
    (void)env;
    config_map(e, obj);
}

static void config_map_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                              const void *prev, struct bh_field_errs *e)
{
    const struct bh_core_v1_config_map *c = obj, *old = prev;

    (void)env;
    (void)sub;
    bh_v_meta_update(e, meta_at, &c->metadata, &old->metadata, BH_VM_KUBE);
    if (old->has_immutable && old->immutable) {
        if (!c->has_immutable || !c->immutable)
            frozen(e, "immutable");
        if (!maps_equal(&c->data, &old->data))
            frozen(e, "data");
        if (!maps_equal(&c->binary_data, &old->binary_data))
            frozen(e, "binaryData");
    }
    config_map(e, c);
}

/* ---- Secret ---- */

static void secret_json(struct bh_field_errs *e, const struct bh_core_v1_secret *s, const char *key)
{
    const struct bh_fpath *at = BH_FPK(BH_FP(NULL, "data"), bh_s(key));
    const struct bh_str *v = bh_str_map_get(&s->data, bh_s(key));
    struct bh_err err = {0};

    if (!v)
        bh_fe_required(e, at, NULL);
    else if (bh_json_check(*v, &err) < 0)
        bh_fe_invalid(e, at, BH_S("<secret contents redacted>"), "%s", err.msg);
}

static void secret_required(struct bh_field_errs *e, const char *key)
{
    bh_fe_required(e, BH_FPK(BH_FP(NULL, "data"), bh_s(key)), NULL);
}

static void secret_of_type(struct bh_field_errs *e, const struct bh_core_v1_secret *s)
{
    const struct bh_str *v;

    if (bh_str_eqc(s->type, "kubernetes.io/service-account-token")) {
        v = bh_str_map_get(&s->metadata.annotations, BH_S("kubernetes.io/service-account.name"));
        if (!v || v->n == 0)
            bh_fe_required(
                e,
                BH_FPK(BH_FP(meta_at, "annotations"), BH_S("kubernetes.io/service-account.name")),
                NULL);
    } else if (bh_str_eqc(s->type, "kubernetes.io/dockercfg")) {
        secret_json(e, s, ".dockercfg");
    } else if (bh_str_eqc(s->type, "kubernetes.io/dockerconfigjson")) {
        secret_json(e, s, ".dockerconfigjson");
    } else if (bh_str_eqc(s->type, "kubernetes.io/basic-auth")) {
        if (bh_str_map_get(&s->data, BH_S("username")) ||
            bh_str_map_get(&s->data, BH_S("password")))
            return;
        secret_required(e, "username");
        secret_required(e, "password");
    } else if (bh_str_eqc(s->type, "kubernetes.io/ssh-auth")) {
        v = bh_str_map_get(&s->data, BH_S("ssh-privatekey"));
        if (!v || v->n == 0)
            secret_required(e, "ssh-privatekey");
    } else if (bh_str_eqc(s->type, "kubernetes.io/tls")) {
        if (!bh_str_map_get(&s->data, BH_S("tls.crt")))
            secret_required(e, "tls.crt");
        if (!bh_str_map_get(&s->data, BH_S("tls.key")))
            secret_required(e, "tls.key");
    }
}

static void secret(struct bh_field_errs *e, const struct bh_core_v1_secret *s)
{
    const struct bh_fpath *data = BH_FP(NULL, "data");
    size_t total = 0;

    bh_v_meta(e, meta_at, &s->metadata, true, bh_check_dns1123_subdomain, BH_VM_KUBE);
    for (size_t i = 0; i < s->data.n; i++) {
        bh_v_check(e, BH_FPK(data, s->data.p[i].key), bh_check_config_map_key, s->data.p[i].key);
        total += s->data.p[i].value.n;
    }
    if (total > DATA_BYTES_MAX)
        bh_fe_too_long(e, data, DATA_BYTES_MAX);
    secret_of_type(e, s);
}

static void secret_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    (void)env;
    secret(e, obj);
}

static void secret_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                          const void *prev, struct bh_field_errs *e)
{
    const struct bh_core_v1_secret *s = obj, *old = prev;

    (void)env;
    (void)sub;
    bh_v_meta_update(e, meta_at, &s->metadata, &old->metadata, BH_VM_KUBE);
    bh_v_immutable_str(e, BH_FP(NULL, "type"), s->type, old->type);
    if (old->has_immutable && old->immutable) {
        if (!s->has_immutable || !s->immutable)
            frozen(e, "immutable");
        if (!maps_equal(&s->data, &old->data))
            frozen(e, "data");
    }
    secret(e, s);
}

static void default_secret(const struct bh_rules_env *env, void *obj)
{
    struct bh_core_v1_secret *s = obj;

    for (size_t i = 0; i < s->string_data.n; i++)
        bh_str_map_put(env->a, &s->data, s->string_data.p[i].key, s->string_data.p[i].value);
    s->string_data = (struct bh_str_map){0};
}

/* Whether key and certificate belong together is left to whoever uses them: only what holds neither
 * is told. */
static void secret_warn(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                        const void *old, struct bh_str_vec *out)
{
    static const char *const parts[][2] = {{"tls.crt", "certificate"}, {"tls.key", "key"}};
    const struct bh_core_v1_secret *s = obj;

    (void)sub;
    (void)old;
    if (!bh_str_eqc(s->type, "kubernetes.io/tls"))
        return;
    for (size_t i = 0; i < BH_COUNT(parts); i++) {
        const struct bh_str *v = bh_str_map_get(&s->data, bh_s(parts[i][0]));

        if (v && bh_str_find(*v, BH_S("-----BEGIN ")) >= 0)
            continue;
        bh_v_warn(env, out, "tls: failed to find any PEM data in %s input", parts[i][1]);
        return;
    }
}

/* ---- ServiceAccount ---- */

static void service_account_create(const struct bh_rules_env *env, const void *obj,
                                   struct bh_field_errs *e)
{
    const struct bh_core_v1_service_account *s = obj;

    (void)env;
    bh_v_meta(e, meta_at, &s->metadata, true, bh_check_dns1123_subdomain, BH_VM_KUBE);
}

static void service_account_update(const struct bh_rules_env *env, struct bh_str sub,
                                   const void *obj, const void *prev, struct bh_field_errs *e)
{
    const struct bh_core_v1_service_account *s = obj, *old = prev;

    (void)sub;
    bh_v_meta_update(e, meta_at, &s->metadata, &old->metadata, BH_VM_KUBE);
    service_account_create(env, s, e);
}

/* Of the references to secrets only the names are kept. */
static void service_account_prepare_create(const struct bh_rules_env *env, void *obj)
{
    struct bh_core_v1_service_account *s = obj;
    struct bh_core_v1_object_reference_vec v = {0};

    if (s->secrets.n == 0)
        return;
    v.p = bh_new_n(env->a, struct bh_core_v1_object_reference, s->secrets.n);
    v.n = s->secrets.n;
    for (size_t i = 0; i < v.n; i++)
        v.p[i].name = s->secrets.p[i].name;
    s->secrets = v;
}

static void service_account_prepare_update(const struct bh_rules_env *env, struct bh_str sub,
                                           void *obj, const void *old)
{
    (void)sub;
    (void)old;
    service_account_prepare_create(env, obj);
}

/* ---- Namespace ---- */

static void label_name(const struct bh_rules_env *env, struct bh_meta_v1_object_meta *m)
{
    struct bh_str_map copy = {0};

    if (m->name.n == 0)
        return;
    for (size_t i = 0; i < m->labels.n; i++)
        bh_str_map_put(env->a, &copy, m->labels.p[i].key, m->labels.p[i].value);
    bh_str_map_put(env->a, &copy, BH_S(NAME_LABEL), m->name);
    m->labels = copy;
}

static void default_namespace(const struct bh_rules_env *env, void *obj)
{
    label_name(env, &((struct bh_core_v1_namespace *)obj)->metadata);
}

static void namespace_prepare_create(const struct bh_rules_env *env, void *obj)
{
    struct bh_core_v1_namespace *n = obj;
    struct bh_str *p;

    n->status = (struct bh_core_v1_namespace_status){.phase = BH_S_INIT("Active")};
    label_name(env, &n->metadata);
    if (bh_v_has(&n->spec.finalizers, BH_S("kubernetes")))
        return;
    p = bh_new_n(env->a, struct bh_str, n->spec.finalizers.n + 1);
    if (n->spec.finalizers.n)
        memcpy(p, n->spec.finalizers.p, n->spec.finalizers.n * sizeof(*p));
    p[n->spec.finalizers.n] = BH_S("kubernetes");
    n->spec.finalizers.p = p;
    n->spec.finalizers.n++;
}

static void namespace_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                     const void *prev)
{
    struct bh_core_v1_namespace *n = obj;
    const struct bh_core_v1_namespace *old = prev;

    label_name(env, &n->metadata);
    if (!bh_str_eqc(sub, "status"))
        n->status = old->status;
    if (!bh_str_eqc(sub, "finalize"))
        n->spec.finalizers = old->spec.finalizers;
}

static void namespace_create(const struct bh_rules_env *env, const void *obj,
                             struct bh_field_errs *e)
{
    const struct bh_core_v1_namespace *n = obj;

    (void)env;
    bh_v_meta(e, meta_at, &n->metadata, false, bh_check_dns1123_label, BH_VM_KUBE);
    for (size_t i = 0; i < n->spec.finalizers.n; i++)
        bh_v_finalizer(e, BH_FP(spec_at, "finalizers"), n->spec.finalizers.p[i]);
}

static void namespace_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                             const void *prev, struct bh_field_errs *e)
{
    const struct bh_core_v1_namespace *n = obj, *old = prev;
    bool dying = !bh_time_is_zero(n->metadata.deletion_timestamp);

    if (sub.n == 0)
        namespace_create(env, obj, e);
    bh_v_meta_update(e, meta_at, &n->metadata, &old->metadata, BH_VM_KUBE);
    if (bh_str_eqc(sub, "finalize")) {
        for (size_t i = 0; i < n->spec.finalizers.n; i++)
            bh_v_finalizer(e, BH_FPI(BH_FP(spec_at, "finalizers"), i), n->spec.finalizers.p[i]);
    } else if (bh_str_eqc(sub, "status")) {
        if (!dying && !bh_str_eqc(n->status.phase, "Active"))
            bh_fe_invalid(e, BH_FP(status_at, "Phase"), n->status.phase,
                          "may only be 'Active' if `deletionTimestamp` is empty");
        else if (dying && !bh_str_eqc(n->status.phase, "Terminating"))
            bh_fe_invalid(e, BH_FP(status_at, "Phase"), n->status.phase,
                          "may only be 'Terminating' if `deletionTimestamp` is not empty");
    }
}

/* ---- Node ---- */

static void taint(struct bh_field_errs *e, const struct bh_fpath *at,
                  const struct bh_core_v1_taint *t)
{
    bh_v_label_name(e, BH_FP(at, "key"), t->key);
    bh_v_check(e, BH_FP(at, "value"), bh_check_label_value, t->value);
    if (t->effect.n == 0)
        bh_fe_required(e, BH_FP(at, "effect"), NULL);
    else if (!BH_V_ONE_OF(t->effect, "NoSchedule", "PreferNoSchedule", "NoExecute"))
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "effect"), t->effect, "NoSchedule", "PreferNoSchedule",
                           "NoExecute");
}

static void taints(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_core_v1_taint_vec *v)
{
    for (size_t i = 0; i < v->n; i++) {
        taint(e, BH_FPI(at, i), &v->p[i]);
        for (size_t k = 0; k < i; k++) {
            if (!bh_str_eq(v->p[k].key, v->p[i].key) || !bh_str_eq(v->p[k].effect, v->p[i].effect))
                continue;
            bh_fe_add(
                e, BH_FE_DUPLICATE, BH_FPI(at, i),
                bh_str_fmt(e->a,
                           "Duplicate value: %.*s: taints must be unique by key and effect pair",
                           BH_SF(bh_v_go_json(e->a, &bh_core_v1_taint_type, &v->p[i]))));
            break;
        }
    }
}

static bool integer_resource(struct bh_arena *a, struct bh_str name)
{
    return BH_V_ONE_OF(name, "pods", "resourcequotas", "services", "replicationcontrollers",
                       "secrets", "configmaps", "persistentvolumeclaims", "services.nodeports",
                       "services.loadbalancers") ||
           bh_v_is_extended_resource(a, name);
}

void bh_v_resource_value(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str name,
                         struct bh_str value)
{
    struct bh_quantity q = bh_v_qty(value);

    if (bh_quantity_sign(q) < 0)
        bh_fe_invalid(e, at, value, "must be greater than or equal to 0");
    if (integer_resource(e->a, name) && bh_quantity_milli_value(q) % 1000 != 0)
        bh_fe_invalid(e, at, value, "must be an integer");
}

static void node_resources(struct bh_field_errs *e, const struct bh_core_v1_node *n)
{
    const struct bh_fpath *cap = BH_FP(status_at, "capacity"),
                          *alloc = BH_FP(status_at, "allocatable");

    for (size_t i = 0; i < n->status.capacity.n; i++)
        bh_v_resource_value(e, BH_FPS(cap, n->status.capacity.p[i].key),
                            n->status.capacity.p[i].key, n->status.capacity.p[i].value);
    for (size_t i = 0; i < n->status.allocatable.n; i++)
        bh_v_resource_value(e, BH_FPS(alloc, n->status.allocatable.p[i].key),
                            n->status.allocatable.p[i].key, n->status.allocatable.p[i].value);
}

/* MyFeature or MyFeature/mySubFeature: letters, digits and slashes. */
static bool feature_ok(struct bh_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool upper = c >= 'A' && c <= 'Z',
             word = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');

        if (i == 0 ? !upper : c == '/' ? i + 1 == s.n || s.p[i - 1] == '/' : !word)
            return false;
    }
    return s.n > 0;
}

static void node_features(struct bh_field_errs *e, const struct bh_str_vec *v)
{
    const struct bh_fpath *at = BH_FP(status_at, "declaredFeatures");

    for (size_t i = 0; i < v->n; i++) {
        if (v->p[i].n > 253)
            bh_fe_invalid(e, BH_FPI(at, i), v->p[i],
                          "invalid feature name \"%.*s\": must be no more than 253 characters",
                          BH_SF(v->p[i]));
        else if (!feature_ok(v->p[i]))
            bh_fe_invalid(e, BH_FPI(at, i), v->p[i],
                          "invalid feature name \"%.*s\": must start with an UpperCamelCase "
                          "segment, with subsequent "
                          "segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), "
                          "and contain only "
                          "alphanumeric characters and slashes",
                          BH_SF(v->p[i]));
        if (i + 1 == v->n)
            break;
        if (bh_str_eq(v->p[i], v->p[i + 1]))
            bh_fe_duplicate(e, BH_FPI(at, i + 1), v->p[i + 1]);
        else if (bh_str_cmp(v->p[i], v->p[i + 1]) > 0)
            bh_fe_invalid(e, BH_FPI(at, i + 1), v->p[i + 1], "list must be sorted alphabetically");
    }
}

static void node_cidrs(struct bh_field_errs *e, const struct bh_str_vec *v)
{
    const struct bh_fpath *at = BH_FP(spec_at, "podCIDRs");
    struct bh_ip ip;
    unsigned bits;
    bool v4 = false, v6 = false;

    for (size_t i = 0; i < v->n; i++) {
        bh_v_check(e, BH_FPI(at, i), bh_check_cidr, v->p[i]);
        if (bh_cidr_parse(v->p[i], &ip, &bits)) {
            v4 = v4 || !ip.v6;
            v6 = v6 || ip.v6;
        }
    }
    if (v->n > 2 || (v->n > 1 && !(v4 && v6)))
        bh_fe_invalid_text(e, at, bh_v_json_strs(e->a, v),
                           "may specify no more than one CIDR for each IP family");
}

static void node(struct bh_field_errs *e, const struct bh_core_v1_node *n)
{
    bh_v_meta(e, meta_at, &n->metadata, false, bh_v_node_name, BH_VM_KUBE);
    taints(e, BH_FP(meta_at, "taints"), &n->spec.taints);
    node_resources(e, n);
    node_features(e, &n->status.declared_features);
    node_cidrs(e, &n->spec.pod_cidrs);
}

static void node_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    (void)env;
    node(e, obj);
}

static void node_addresses(struct bh_field_errs *e, const struct bh_core_v1_node_address_vec *v)
{
    for (size_t i = 0; i < v->n; i++)
        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(v->p[k].type, v->p[i].type) &&
                bh_str_eq(v->p[k].address, v->p[i].address)) {
                bh_fe_duplicate_text(e, BH_FPI(BH_FP(status_at, "addresses"), i),
                                     bh_v_go_json(e->a, &bh_core_v1_node_address_type, &v->p[i]));
                break;
            }
}

static void node_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                        const void *prev, struct bh_field_errs *e)
{
    const struct bh_core_v1_node *n = obj, *old = prev;
    const struct bh_str_vec *was = &old->spec.pod_cidrs, *is = &n->spec.pod_cidrs;
    const struct bh_fpath *cidrs = BH_FP(spec_at, "podCIDRs");

    (void)env;
    if (sub.n == 0)
        node(e, n);
    bh_v_meta_update(e, meta_at, &n->metadata, &old->metadata, BH_VM_KUBE);
    node_resources(e, n);
    node_features(e, &n->status.declared_features);
    node_addresses(e, &n->status.addresses);
    if (was->n && was->n != is->n)
        bh_fe_forbidden(e, cidrs, "node updates may not change podCIDR except from \"\" to valid");
    for (size_t i = 0; was->n == is->n && i < was->n; i++)
        if (!bh_str_eq(was->p[i], is->p[i]))
            bh_fe_forbidden(e, cidrs,
                            "node updates may not change podCIDR except from \"\" to valid");
    if (old->spec.provider_id.n && !bh_str_eq(old->spec.provider_id, n->spec.provider_id))
        bh_fe_forbidden(e, BH_FP(spec_at, "providerID"),
                        "node updates may not change providerID except from \"\" to valid");
    taints(e, BH_FP(meta_at, "taints"), &n->spec.taints);
    if (!bh_str_eq(n->spec.external_id, old->spec.external_id))
        bh_fe_forbidden(e, BH_FP(spec_at, "externalID"), "may not be updated");
}

static bool gate_on(void *arg, struct bh_str name)
{
    const struct bh_rules_env *env = arg;

    return env->gate ? env->gate(env->arg, name) : bh_gate_default(name);
}

/* A node is made with its status; the configuration source was a feature that is gone. */
static void node_prepare_create(const struct bh_rules_env *env, void *obj)
{
    struct bh_core_v1_node *n = obj;

    n->spec.config_source = NULL;
    n->status.config = NULL;
    bh_msg_drop_gated(&bh_core_v1_node_type, n, NULL, gate_on, (void *)(uintptr_t)env);
}

static void node_prepare_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                                const void *prev)
{
    struct bh_core_v1_node *n = obj;
    const struct bh_core_v1_node *old = prev;

    if (bh_str_eqc(sub, "status")) {
        n->spec = old->spec;
        if (!old->status.config)
            n->status.config = NULL;
    } else {
        n->status = old->status;
        if (!old->spec.config_source)
            n->spec.config_source = NULL;
    }
    bh_msg_drop_gated(&bh_core_v1_node_type, n, old, gate_on, (void *)(uintptr_t)env);
}

static void default_node(const struct bh_rules_env *env, void *obj)
{
    struct bh_core_v1_node *n = obj;
    struct bh_str_vec *v = &n->spec.pod_cidrs;

    /* The older field wins, and shows the first of the newer one. */
    if (n->spec.pod_cidr.n && (v->n == 0 || !bh_str_eq(v->p[0], n->spec.pod_cidr))) {
        v->p = bh_arena_memdup(env->a, &n->spec.pod_cidr, sizeof(n->spec.pod_cidr));
        v->n = 1;
    }
    n->spec.pod_cidr = v->n ? v->p[0] : (struct bh_str){0};
    if (!n->status.allocatable.p && n->status.capacity.p)
        n->status.allocatable = n->status.capacity;
}

/* ---- Event ---- */

static void event_word(struct bh_field_errs *e, const char *name, struct bh_str s)
{
    const struct bh_fpath *at = BH_FPS(NULL, bh_s(name));

    if (s.n == 0)
        bh_fe_required(e, at, NULL);
    if (s.n > EVENT_WORD_MAX)
        bh_fe_invalid(e, at, BH_S(""), "can have at most %u characters", EVENT_WORD_MAX);
}

static void event_namespace(struct bh_field_errs *e, const struct bh_core_v1_event *v)
{
    struct bh_str of = v->involved_object.namespace, ns = v->metadata.namespace;
    bool old_form = bh_time_is_zero(v->event_time), bad;

    if (of.n)
        bad = old_form && !bh_str_eq(of, ns);
    else
        bad = ns.n && !bh_str_eqc(ns, "default") && (old_form || !bh_str_eqc(ns, "kube-system"));
    if (!of.n && !old_form && ns.n == 0)
        bad = true;
    if (bad)
        bh_fe_invalid(e, BH_FP(BH_FP(NULL, "involvedObject"), "namespace"), of,
                      "does not match event.namespace");
}

static bool strict_events(const struct bh_rules_env *env)
{
    return bh_str_eqc(env->api_version, "events.k8s.io/v1");
}

/* What held for events before events.k8s.io/v1, and holds for all. */
static void event_basics(const struct bh_rules_env *env, struct bh_field_errs *e,
                         const struct bh_core_v1_event *v)
{
    event_namespace(e, v);
    if (!bh_time_is_zero(v->event_time)) {
        const struct bh_fpath *controller = BH_FPS(
            NULL, strict_events(env) ? BH_S("reportingController") : BH_S("reportingComponent"));

        if (v->reporting_component.n == 0)
            bh_fe_required(e, controller, NULL);
        bh_v_check(e, controller, bh_check_qualified_name, v->reporting_component);
        event_word(e, "reportingInstance", v->reporting_instance);
        event_word(e, "action", v->action);
        event_word(e, "reason", v->reason);
        if (v->message.n > EVENT_NOTE_MAX)
            bh_fe_invalid(e, BH_FP(NULL, "message"), BH_S(""), "can have at most %u characters",
                          EVENT_NOTE_MAX);
    }
    bh_v_check(e, BH_FP(NULL, "namespace"), bh_check_dns1123_subdomain, v->metadata.namespace);
}

static void event_series(struct bh_field_errs *e, const struct bh_core_v1_event *v)
{
    if (!v->series)
        return;
    if (v->series->count < 2)
        bh_fe_invalid(e, BH_FP(NULL, "series.count"), BH_S(""), "should be at least 2");
    if (bh_time_is_zero(v->series->last_observed_time))
        bh_fe_required(e, BH_FP(NULL, "series.lastObservedTime"), NULL);
}

static void event_unset(struct bh_field_errs *e, bool set, const char *name)
{
    if (set)
        bh_fe_invalid(e, BH_FPS(NULL, bh_s(name)), BH_S(""), "needs to be unset");
}

static void event_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    const struct bh_core_v1_event *v = obj;

    event_basics(env, e, v);
    if (!strict_events(env))
        return;
    bh_v_meta(e, meta_at, &v->metadata, true, bh_check_dns1123_subdomain, BH_VM_KUBE);
    event_series(e, v);
    if (bh_time_is_zero(v->event_time))
        bh_fe_required(e, BH_FP(NULL, "eventTime"), NULL);
    if (!BH_V_ONE_OF(v->type, "Normal", "Warning"))
        bh_fe_invalid(e, BH_FP(NULL, "type"), BH_S(""), "has invalid value: %.*s", BH_SF(v->type));
    event_unset(e, !bh_time_is_zero(v->first_timestamp), "firstTimestamp");
    event_unset(e, !bh_time_is_zero(v->last_timestamp), "lastTimestamp");
    event_unset(e, v->count != 0, "count");
    event_unset(e, v->source.component.n || v->source.host.n, "source");
}

static void event_time_kept(struct bh_field_errs *e, const char *name, struct bh_time now,
                            struct bh_time old, bool micro)
{
    struct bh_buf b = {.max = 64};

    if (now.sec == old.sec && (!micro || now.nsec / 1000 == old.nsec / 1000))
        return;
    if (bh_time_is_zero(now))
        bh_buf_addz(&b, "null");
    else
        bh_enc_time(&b, now, micro);
    bh_fe_invalid_text(e, BH_FPS(NULL, bh_s(name)), bh_buf_str(&b), BH_V_IMMUTABLE);
    bh_buf_done(&b);
}

static bool related_equal(const struct bh_core_v1_object_reference *x,
                          const struct bh_core_v1_object_reference *y)
{
    if (!x || !y)
        return x == y;
    return bh_msg_equal(&bh_core_v1_object_reference_type, x, y);
}

static void event_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                         const void *prev, struct bh_field_errs *e)
{
    const struct bh_core_v1_event *v = obj, *old = prev;
    bool same_series = (v->series && old->series)
                           ? bh_msg_equal(&bh_core_v1_event_series_type, v->series, old->series)
                           : v->series == old->series;

    (void)sub;
    event_basics(env, e, v);
    if (!strict_events(env))
        return;
    bh_v_meta_update(e, meta_at, &v->metadata, &old->metadata, BH_VM_KUBE);
    if (!same_series)
        event_series(e, v);
    bh_v_immutable_msg(e, BH_FP(NULL, "involvedObject"), &bh_core_v1_object_reference_type,
                       &v->involved_object, &old->involved_object);
    bh_v_immutable_str(e, BH_FP(NULL, "reason"), v->reason, old->reason);
    bh_v_immutable_str(e, BH_FP(NULL, "message"), v->message, old->message);
    bh_v_immutable_msg(e, BH_FP(NULL, "source"), &bh_core_v1_event_source_type, &v->source,
                       &old->source);
    event_time_kept(e, "firstTimestamp", v->first_timestamp, old->first_timestamp, false);
    event_time_kept(e, "lastTimestamp", v->last_timestamp, old->last_timestamp, false);
    if (v->count != old->count)
        bh_fe_invalid_i64(e, BH_FP(NULL, "count"), v->count, BH_V_IMMUTABLE);
    bh_v_immutable_str(e, BH_FP(NULL, "reason"), v->reason, old->reason);
    bh_v_immutable_str(e, BH_FP(NULL, "type"), v->type, old->type);
    event_time_kept(e, "eventTime", v->event_time, old->event_time, true);
    bh_v_immutable_str(e, BH_FP(NULL, "action"), v->action, old->action);
    if (!related_equal(v->related, old->related))
        bh_fe_invalid_text(e, BH_FP(NULL, "related"),
                           bh_v_go_json(e->a, &bh_core_v1_object_reference_type, v->related),
                           BH_V_IMMUTABLE);
    bh_v_immutable_str(e, BH_FP(NULL, "reportingController"), v->reporting_component,
                       old->reporting_component);
    bh_v_immutable_str(e, BH_FP(NULL, "reportingInstance"), v->reporting_instance,
                       old->reporting_instance);
}

/* Events have neither status nor gates; nothing is reset. */
static void nothing_create(const struct bh_rules_env *env, void *obj)
{
    (void)env;
    (void)obj;
}

static void nothing_update(const struct bh_rules_env *env, struct bh_str sub, void *obj,
                           const void *old)
{
    (void)env;
    (void)sub;
    (void)obj;
    (void)old;
}

/* ---- Lease ---- */

static void lease_spec(struct bh_field_errs *e, const struct bh_coordination_v1_lease_spec *s)
{
    if (s->has_lease_duration_seconds && s->lease_duration_seconds <= 0)
        bh_fe_invalid_i64(e, BH_FP(spec_at, "leaseDurationSeconds"), s->lease_duration_seconds,
                          "must be greater than 0");
    if (s->has_lease_transitions && s->lease_transitions < 0)
        bh_fe_invalid_i64(e, BH_FP(spec_at, "leaseTransitions"), s->lease_transitions,
                          "must be greater than or equal to 0");
    if (s->has_strategy) {
        const struct bh_fpath *at = BH_FP(BH_FP(spec_at, "strategy"), "strategy");

        if (bh_str_chr(s->strategy, '/', 0) >= 0)
            bh_v_check(e, at, bh_check_qualified_name, s->strategy);
        else if (!bh_str_eqc(s->strategy, "OldestEmulationVersion"))
            BH_V_NOT_SUPPORTED(e, at, s->strategy, "OldestEmulationVersion");
    }
    if (s->has_preferred_holder && s->preferred_holder.n &&
        (!s->has_strategy || s->strategy.n == 0))
        bh_fe_forbidden(e, BH_FP(spec_at, "preferredHolder"),
                        "may only be specified if `strategy` is defined");
}

static void lease_create(const struct bh_rules_env *env, const void *obj, struct bh_field_errs *e)
{
    const struct bh_coordination_v1_lease *l = obj;

    (void)env;
    bh_v_meta(e, meta_at, &l->metadata, true, bh_check_dns1123_subdomain, 0);
    lease_spec(e, &l->spec);
}

static void lease_update(const struct bh_rules_env *env, struct bh_str sub, const void *obj,
                         const void *prev, struct bh_field_errs *e)
{
    const struct bh_coordination_v1_lease *l = obj, *old = prev;

    (void)env;
    (void)sub;
    bh_v_meta_update(e, meta_at, &l->metadata, &old->metadata, 0);
    lease_spec(e, &l->spec);
}

/* ---- tables ---- */

const struct bh_default_rule bh_defaults_core[] = {
    {"v1", "Secret", default_secret},
    {"v1", "Namespace", default_namespace},
    {"v1", "Node", default_node},
    {"v1", "Pod", bh_v_pod_default},
};
const size_t bh_defaults_core_n = BH_COUNT(bh_defaults_core);

const struct bh_rules bh_rules_core[] = {
    {.group = "",
     .kind = "ConfigMap",
     .validate_create = config_map_create,
     .validate_update = config_map_update},
    {.group = "",
     .kind = "Secret",
     .validate_create = secret_create,
     .validate_update = secret_update,
     .warn = secret_warn},
    {.group = "",
     .kind = "ServiceAccount",
     .prepare_create = service_account_prepare_create,
     .prepare_update = service_account_prepare_update,
     .validate_create = service_account_create,
     .validate_update = service_account_update},
    {.group = "",
     .kind = "Namespace",
     .prepare_create = namespace_prepare_create,
     .prepare_update = namespace_prepare_update,
     .validate_create = namespace_create,
     .validate_update = namespace_update},
    {.group = "",
     .kind = "Node",
     .prepare_create = node_prepare_create,
     .prepare_update = node_prepare_update,
     .validate_create = node_create,
     .validate_update = node_update},
    {.group = "",
     .kind = "Event",
     .prepare_create = nothing_create,
     .prepare_update = nothing_update,
     .validate_create = event_create,
     .validate_update = event_update,
     .create_on_update = true},
    {.group = "coordination.k8s.io",
     .kind = "Lease",
     .validate_create = lease_create,
     .validate_update = lease_update,
     .no_unconditional_update = true,
     .create_on_update = true},
    {.group = "",
     .kind = "Pod",
     .prepare_create = bh_v_pod_prepare_create,
     .prepare_update = bh_v_pod_prepare_update,
     .validate_create = bh_v_pod_create,
     .validate_update = bh_v_pod_update,
     .warn = bh_v_pod_warn},
};
const size_t bh_rules_core_n = BH_COUNT(bh_rules_core);
