/* Metadata and the small types of meta/v1: names, labels, annotations, owners, finalizers,
 * selectors, conditions. */
#include "apiserver/validate/validate_int.h"

#include "base/buf.h"
#include "data/json.h"

#include <string.h>

#define ANNOTATIONS_BYTES_MAX (256u << 10) /* upstream: all keys and values of one object */
#define CONDITION_REASON_MAX  1024u
#define CONDITION_MESSAGE_MAX (32u << 10)
#define MANAGER_BYTES_MAX     128u

void bh_v_check_as(struct bh_field_errs *e, const struct bh_fpath *at, bh_name_check check,
                   struct bh_str tested, struct bh_str shown)
{
    struct bh_str_vec all = bh_names_all(e->a, check, tested);

    for (size_t i = 0; i < all.n; i++)
        bh_fe_invalid(e, at, shown, "%.*s", BH_SF(all.p[i]));
}

void bh_v_check(struct bh_field_errs *e, const struct bh_fpath *at, bh_name_check check,
                struct bh_str s)
{
    char buf[BH_NAMES_BUF];

    if (check(s, buf))
        bh_v_check_as(e, at, check, s, s);
}

struct bh_str_vec bh_v_declared_faults(struct bh_arena *a, bh_name_check check, struct bh_str s)
{
    struct bh_str_vec v = bh_names_all(a, check, s);

    for (size_t i = 0; i < v.n; i++)
        if (bh_str_starts(v.p[i], BH_S("must be no more than ")) &&
            bh_str_ends(v.p[i], BH_S(" characters")))
            v.p[i] =
                bh_str_fmt(a, "%.*s bytes", (int)(v.p[i].n - sizeof(" characters") + 1), v.p[i].p);
    return v;
}

void bh_v_check_declared(struct bh_field_errs *e, const struct bh_fpath *at, bh_name_check check,
                         struct bh_str s)
{
    struct bh_str_vec v = bh_v_declared_faults(e->a, check, s);

    for (size_t i = 0; i < v.n; i++)
        bh_fe_invalid(e, at, s, "%.*s", BH_SF(v.p[i]));
}

bool bh_v_fits(bh_name_check check, struct bh_str s)
{
    char buf[BH_NAMES_BUF];

    return check(s, buf) == NULL;
}

bool bh_v_one_of(struct bh_str s, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bh_str_eqc(s, words[i]))
            return true;
    return false;
}

void bh_v_not_supported(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str bad,
                        const char *const *supported, size_t n)
{
    struct bh_str *v = bh_new_n(e->a, struct bh_str, n);

    for (size_t i = 0; i < n; i++)
        v[i] = bh_s(supported[i]);
    bh_fe_not_supported(e, at, bad, v, n);
}

bool bh_v_has(const struct bh_str_vec *v, struct bh_str s)
{
    for (size_t i = 0; i < v->n; i++)
        if (bh_str_eq(v->p[i], s))
            return true;
    return false;
}

struct bh_str bh_v_lower(struct bh_arena *a, struct bh_str s)
{
    char *p = bh_arena_alloc(a, s.n + 1);

    for (size_t i = 0; i < s.n; i++)
        p[i] = s.p[i] >= 'A' && s.p[i] <= 'Z' ? (char)(s.p[i] - 'A' + 'a') : s.p[i];
    return (struct bh_str){p, s.n};
}

size_t bh_v_count(struct bh_str s, char c)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++)
        n += s.p[i] == c;
    return n;
}

struct bh_quantity bh_v_qty(struct bh_str s)
{
    struct bh_quantity q = {0};

    if (bh_quantity_parse(s, &q, NULL) < 0)
        return (struct bh_quantity){0};
    return q;
}

void bh_v_nonnegative(struct bh_field_errs *e, const struct bh_fpath *at, int64_t v)
{
    if (v < 0)
        bh_fe_invalid_i64(e, at, v, "must be greater than or equal to 0");
}

/* ---- labels, annotations ---- */

void bh_v_label_name(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s)
{
    bh_v_check(e, at, bh_check_qualified_name, s);
}

void bh_v_labels(struct bh_field_errs *e, const struct bh_fpath *at, const struct bh_str_map *m)
{
    for (size_t i = 0; i < m->n; i++) {
        bh_v_label_name(e, at, m->p[i].key);
        bh_v_check(e, at, bh_check_label_value, m->p[i].value);
    }
}

void bh_v_annotations(struct bh_field_errs *e, const struct bh_fpath *at,
                      const struct bh_str_map *m)
{
    size_t total = 0;

    for (size_t i = 0; i < m->n; i++) {
        struct bh_str k = m->p[i].key;

        /* A qualified name, but the case of letters does not matter. */
        if (!bh_v_fits(bh_check_qualified_name, k))
            bh_v_check_as(e, at, bh_check_qualified_name, bh_v_lower(e->a, k), k);
        total += k.n + m->p[i].value.n;
    }
    if (total > ANNOTATIONS_BYTES_MAX)
        bh_fe_too_long(e, at, ANNOTATIONS_BYTES_MAX);
}

/* ---- owners, finalizers, managers ---- */

static void owner(struct bh_field_errs *e, const struct bh_fpath *at,
                  const struct bh_meta_v1_owner_reference *o)
{
    ptrdiff_t slash = bh_str_chr(o->api_version, '/', 0);
    struct bh_str version =
        slash < 0 ? o->api_version : bh_str_sub(o->api_version, (size_t)slash + 1, SIZE_MAX);

    /* With two slashes it is no version at all. */
    if (version.n == 0 || bh_str_chr(version, '/', 0) >= 0)
        bh_fe_invalid(e, BH_FP(at, "apiVersion"), o->api_version, "version must not be empty");
    if (o->kind.n == 0)
        bh_fe_invalid(e, BH_FP(at, "kind"), o->kind, "must not be empty");
    if (o->name.n == 0)
        bh_fe_invalid(e, BH_FP(at, "name"), o->name, "must not be empty");
    if (o->uid.n == 0)
        bh_fe_invalid(e, BH_FP(at, "uid"), o->uid, "must not be empty");
    if (bh_str_eqc(o->api_version, "v1") && bh_str_eqc(o->kind, "Event"))
        bh_fe_invalid_text(e, at, bh_v_json(e->a, &bh_meta_v1_owner_reference_type, o),
                           "/v1, Kind=Event is disallowed from being an owner");
}

static void owners(struct bh_field_errs *e, const struct bh_fpath *at,
                   const struct bh_meta_v1_object_meta *m)
{
    const struct bh_meta_v1_owner_reference *first = NULL;

    for (size_t i = 0; i < m->owner_references.n; i++) {
        const struct bh_meta_v1_owner_reference *o = &m->owner_references.p[i];

        owner(e, at, o);
        if (!o->has_controller || !o->controller)
            continue;
        if (!first) {
            first = o;
            continue;
        }
        struct bh_buf b = {.max = 1u << 20};
        bh_buf_addc(&b, '[');
        for (size_t k = 0; k < m->owner_references.n; k++) {
            if (k)
                bh_buf_addc(&b, ',');
            bh_msg_encode_json(&bh_meta_v1_owner_reference_type, &m->owner_references.p[k], &b);
        }
        bh_buf_addc(&b, ']');
        bh_fe_invalid_text(
            e, at, bh_buf_str(&b),
            "Only one reference can have Controller set to true. Found \"true\" in references for "
            "%.*s/%.*s and %.*s/%.*s",
            BH_SF(first->kind), BH_SF(first->name), BH_SF(o->kind), BH_SF(o->name));
        bh_buf_done(&b);
    }
}

static void managers(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_meta_v1_object_meta *m)
{
    for (size_t i = 0; i < m->managed_fields.n; i++) {
        const struct bh_meta_v1_managed_fields_entry *f = &m->managed_fields.p[i];
        const struct bh_fpath *ix = BH_FPI(at, i);

        if (!BH_V_ONE_OF(f->operation, "Apply", "Update"))
            bh_fe_invalid(e, BH_FP(ix, "operation"), f->operation, "must be `Apply` or `Update`");
        if (f->fields_type.n && !bh_str_eqc(f->fields_type, "FieldsV1"))
            bh_fe_invalid(e, BH_FP(ix, "fieldsType"), f->fields_type, "must be `FieldsV1`");
        if (f->manager.n > MANAGER_BYTES_MAX)
            bh_fe_too_long(e, BH_FP(ix, "manager"), MANAGER_BYTES_MAX);
        for (size_t k = 0; k < f->manager.n; k++) {
            unsigned char c = (unsigned char)f->manager.p[k];

            if (c >= 0x20 && c != 0x7f)
                continue;
            bh_fe_invalid(e, BH_FP(ix, "manager"), f->manager,
                          "invalid character U+%04X (at position %zu)", c, k);
            break;
        }
        if (f->subresource.n > 256)
            bh_fe_too_long(e, BH_FP(ix, "subresource"), 256);
    }
}

static void finalizers(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_meta_v1_object_meta *m)
{
    for (size_t i = 0; i < m->finalizers.n; i++)
        bh_v_check(e, at, bh_check_qualified_name, m->finalizers.p[i]);
    if (bh_v_has(&m->finalizers, BH_S("orphan")) &&
        bh_v_has(&m->finalizers, BH_S("foregroundDeletion")))
        bh_fe_invalid_text(e, at, bh_v_json_strs(e->a, &m->finalizers),
                           "finalizer orphan and foregroundDeletion cannot be both set");
}

static void known_finalizer(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s)
{
    if (bh_str_chr(s, '/', 0) < 0 && !BH_V_ONE_OF(s, "kubernetes", "orphan", "foregroundDeletion"))
        bh_fe_invalid(e, at, s,
                      "name is neither a standard finalizer name nor is it fully qualified");
}

void bh_v_finalizer(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s)
{
    bh_v_check(e, at, bh_check_qualified_name, s);
    known_finalizer(e, at, s);
}

static void kube_finalizers(struct bh_field_errs *e, const struct bh_fpath *at,
                            const struct bh_meta_v1_object_meta *m)
{
    for (size_t i = 0; i < m->finalizers.n; i++)
        known_finalizer(e, BH_FPI(BH_FP(at, "finalizers"), i), m->finalizers.p[i]);
}

/* ---- ObjectMeta ---- */

/* A generateName is checked as if the suffix were there: upstream puts a letter for its last two
 * bytes when it ends in a dash. */
static void generate_name(struct bh_field_errs *e, const struct bh_fpath *at, bh_name_check check,
                          struct bh_str s)
{
    struct bh_str tested = s;

    if (s.n > 1 && s.p[s.n - 1] == '-') {
        char *p = bh_arena_memdup(e->a, s.p, s.n);

        p[s.n - 2] = 'a';
        tested = (struct bh_str){p, s.n - 1};
    }
    bh_v_check_as(e, BH_FP(at, "generateName"), check, check == bh_v_any_name ? s : tested, s);
}

static void meta_name(struct bh_field_errs *e, const struct bh_fpath *at,
                      const struct bh_meta_v1_object_meta *m, bh_name_check check, unsigned flags)
{
    if (m->name.n == 0)
        bh_fe_required(e, BH_FP(at, "name"), "name or generateName is required");
    else if ((flags & BH_VM_LONG_NAME) && m->name.n > 253)
        bh_fe_invalid(e, BH_FP(at, "name"), m->name, "must be no more than 253 bytes");
    else
        bh_v_check(e, BH_FP(at, "name"), check, m->name);
}

void bh_v_meta(struct bh_field_errs *e, const struct bh_fpath *at,
               const struct bh_meta_v1_object_meta *m, bool namespaced, bh_name_check check,
               unsigned flags)
{
    if (m->generate_name.n && !(flags & BH_VM_LONG_NAME))
        generate_name(e, at, check, m->generate_name);
    meta_name(e, at, m, check, flags);
    if (!namespaced) {
        if (m->namespace.n)
            bh_fe_forbidden(e, BH_FP(at, "namespace"), "not allowed on this type");
    } else if (m->namespace.n == 0) {
        bh_fe_required(e, BH_FP(at, "namespace"), NULL);
    } else {
        bh_v_check(e, BH_FP(at, "namespace"), bh_check_dns1123_label, m->namespace);
    }
    bh_v_nonnegative(e, BH_FP(at, "generation"), m->generation);
    bh_v_labels(e, BH_FP(at, "labels"), &m->labels);
    bh_v_annotations(e, BH_FP(at, "annotations"), &m->annotations);
    owners(e, BH_FP(at, "ownerReferences"), m);
    finalizers(e, BH_FP(at, "finalizers"), m);
    managers(e, BH_FP(at, "managedFields"), m);
    if (flags & BH_VM_KUBE)
        kube_finalizers(e, at, m);
}

static void no_new_finalizers(struct bh_field_errs *e, const struct bh_fpath *at,
                              const struct bh_meta_v1_object_meta *m,
                              const struct bh_meta_v1_object_meta *old)
{
    struct bh_buf b = {.max = 1u << 20};
    struct bh_str_map extra = {0}; /* a sorted set */

    for (size_t i = 0; i < m->finalizers.n; i++)
        if (!bh_v_has(&old->finalizers, m->finalizers.p[i]))
            bh_str_map_put(e->a, &extra, m->finalizers.p[i], BH_S(""));
    if (extra.n == 0)
        return;
    bh_buf_addz(&b, "[]string{");
    for (size_t i = 0; i < extra.n; i++) {
        if (i)
            bh_buf_addz(&b, ", ");
        bh_go_quote(&b, extra.p[i].key);
    }
    bh_buf_addc(&b, '}');
    bh_fe_forbidden(
        e, BH_FP(at, "finalizers"),
        "no new finalizers can be added if the object is being deleted, found new finalizers %.*s",
        BH_SF(bh_buf_str(&b)));
    bh_buf_done(&b);
}

static struct bh_str time_json(struct bh_arena *a, struct bh_time t)
{
    struct bh_buf b = {.max = 64};
    struct bh_str s;

    if (bh_time_is_zero(t))
        return BH_S("null");
    bh_enc_time(&b, t, false);
    s = bh_str_dup(a, bh_buf_str(&b));
    bh_buf_done(&b);
    return s;
}

static void immutable_time(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_time now,
                           struct bh_time old)
{
    if (now.sec != old.sec || bh_time_is_zero(now) != bh_time_is_zero(old))
        bh_fe_invalid_text(e, at, time_json(e->a, now), BH_V_IMMUTABLE);
}

void bh_v_meta_update(struct bh_field_errs *e, const struct bh_fpath *at,
                      const struct bh_meta_v1_object_meta *m,
                      const struct bh_meta_v1_object_meta *old, unsigned flags)
{
    if (!bh_time_is_zero(old->deletion_timestamp))
        no_new_finalizers(e, at, m, old);
    if (m->resource_version.n == 0)
        bh_fe_invalid(e, BH_FP(at, "resourceVersion"), m->resource_version,
                      "must be specified for an update");
    if (m->generation < old->generation)
        bh_fe_invalid_i64(e, BH_FP(at, "generation"), m->generation, "must not be decremented");
    bh_v_immutable_str(e, BH_FP(at, "name"), m->name, old->name);
    bh_v_immutable_str(e, BH_FP(at, "namespace"), m->namespace, old->namespace);
    bh_v_immutable_str(e, BH_FP(at, "uid"), m->uid, old->uid);
    immutable_time(e, BH_FP(at, "creationTimestamp"), m->creation_timestamp,
                   old->creation_timestamp);
    immutable_time(e, BH_FP(at, "deletionTimestamp"), m->deletion_timestamp,
                   old->deletion_timestamp);
    if (m->has_deletion_grace_period_seconds != old->has_deletion_grace_period_seconds)
        bh_fe_invalid_text(
            e, BH_FP(at, "deletionGracePeriodSeconds"),
            m->has_deletion_grace_period_seconds
                ? bh_str_fmt(e->a, "%lld", (long long)m->deletion_grace_period_seconds)
                : BH_S("null"),
            BH_V_IMMUTABLE);
    else if (m->deletion_grace_period_seconds != old->deletion_grace_period_seconds)
        bh_fe_invalid_i64(e, BH_FP(at, "deletionGracePeriodSeconds"),
                          m->deletion_grace_period_seconds, BH_V_IMMUTABLE);
    bh_v_labels(e, BH_FP(at, "labels"), &m->labels);
    bh_v_annotations(e, BH_FP(at, "annotations"), &m->annotations);
    owners(e, BH_FP(at, "ownerReferences"), m);
    managers(e, BH_FP(at, "managedFields"), m);
    if (flags & BH_VM_KUBE)
        kube_finalizers(e, at, m);
}

void bh_v_template_meta(struct bh_field_errs *e, const struct bh_fpath *at,
                        const struct bh_meta_v1_object_meta *m)
{
    /* Upstream lower-cases only the first letter of the Go names here: uID. */
    const struct {
        const char *name;
        bool set;
    } other[] = {
        {"name", m->name.n > 0},
        {"generateName", m->generate_name.n > 0},
        {"namespace", m->namespace.n > 0},
        {"selfLink", m->self_link.n > 0},
        {"uID", m->uid.n > 0},
        {"resourceVersion", m->resource_version.n > 0},
        {"generation", m->generation != 0},
        {"creationTimestamp", !bh_time_is_zero(m->creation_timestamp)},
        {"deletionTimestamp", !bh_time_is_zero(m->deletion_timestamp)},
        {"deletionGracePeriodSeconds", m->has_deletion_grace_period_seconds},
        {"ownerReferences", m->owner_references.p != NULL},
        {"finalizers", m->finalizers.p != NULL},
        {"managedFields", m->managed_fields.p != NULL},
    };

    bh_v_annotations(e, BH_FP(at, "annotations"), &m->annotations);
    bh_v_labels(e, BH_FP(at, "labels"), &m->labels);
    for (size_t i = 0; i < BH_COUNT(other); i++)
        if (other[i].set)
            bh_fe_forbidden(e, BH_FPS(at, bh_s(other[i].name)), "cannot be set");
}

void bh_v_reset_meta_for_status(struct bh_meta_v1_object_meta *m,
                                const struct bh_meta_v1_object_meta *old)
{
    m->deletion_timestamp = old->deletion_timestamp;
    m->generation = old->generation;
    m->self_link = old->self_link;
    m->labels = old->labels;
    m->annotations = old->annotations;
    m->finalizers = old->finalizers;
    m->owner_references = old->owner_references;
}

void bh_v_immutable_str(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str now,
                        struct bh_str old)
{
    if (!bh_str_eq(now, old))
        bh_fe_invalid(e, at, now, BH_V_IMMUTABLE);
}

void bh_v_immutable_msg(struct bh_field_errs *e, const struct bh_fpath *at, const struct bh_type *t,
                        const void *now, const void *old)
{
    if (!bh_msg_equal(t, now, old))
        bh_fe_invalid_text(e, at, bh_v_go_json(e->a, t, now), BH_V_IMMUTABLE);
}

/* ---- selectors ---- */

static void selector_requirement(struct bh_field_errs *e, const struct bh_fpath *at,
                                 const struct bh_meta_v1_label_selector_requirement *r,
                                 bool allow_bad_values)
{
    if (BH_V_ONE_OF(r->operator, "In", "NotIn")) {
        if (r->values.n == 0)
            bh_fe_required(e, BH_FP(at, "values"),
                           "must be specified when `operator` is 'In' or 'NotIn'");
    } else if (BH_V_ONE_OF(r->operator, "Exists", "DoesNotExist")) {
        if (r->values.n)
            bh_fe_forbidden(e, BH_FP(at, "values"),
                            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
    } else {
        bh_fe_invalid(e, BH_FP(at, "operator"), r->operator, "not a valid selector operator");
    }
    bh_v_label_name(e, BH_FP(at, "key"), r->key);
    for (size_t i = 0; !allow_bad_values && i < r->values.n; i++)
        bh_v_check(e, BH_FPI(BH_FP(at, "values"), i), bh_check_label_value, r->values.p[i]);
}

void bh_v_label_selector(struct bh_field_errs *e, const struct bh_fpath *at,
                         const struct bh_meta_v1_label_selector *s, bool allow_bad_values)
{
    if (!s)
        return;
    bh_v_labels(e, BH_FP(at, "matchLabels"), &s->match_labels);
    for (size_t i = 0; i < s->match_expressions.n; i++)
        selector_requirement(e, BH_FPI(BH_FP(at, "matchExpressions"), i),
                             &s->match_expressions.p[i], allow_bad_values);
}

static void node_requirement(struct bh_field_errs *e, const struct bh_fpath *at,
                             const struct bh_core_v1_node_selector_requirement *r,
                             bool allow_bad_values)
{
    if (BH_V_ONE_OF(r->operator, "In", "NotIn")) {
        if (r->values.n == 0)
            bh_fe_required(e, BH_FP(at, "values"),
                           "must be specified when `operator` is 'In' or 'NotIn'");
    } else if (BH_V_ONE_OF(r->operator, "Exists", "DoesNotExist")) {
        if (r->values.n)
            bh_fe_forbidden(e, BH_FP(at, "values"),
                            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
    } else if (BH_V_ONE_OF(r->operator, "Gt", "Lt")) {
        if (r->values.n != 1)
            bh_fe_required(e, BH_FP(at, "values"),
                           "must be specified single value when `operator` is 'Lt' or 'Gt'");
    } else {
        bh_fe_invalid(e, BH_FP(at, "operator"), r->operator, "not a valid selector operator");
    }
    bh_v_label_name(e, BH_FP(at, "key"), r->key);
    for (size_t i = 0; !allow_bad_values && i < r->values.n; i++)
        bh_v_check(e, BH_FPI(BH_FP(at, "values"), i), bh_check_label_value, r->values.p[i]);
}

static void node_field_requirement(struct bh_field_errs *e, const struct bh_fpath *at,
                                   const struct bh_core_v1_node_selector_requirement *r)
{
    if (!BH_V_ONE_OF(r->operator, "In", "NotIn"))
        bh_fe_invalid(e, BH_FP(at, "operator"), r->operator, "not a valid selector operator");
    else if (r->values.n != 1)
        bh_fe_required(
            e, BH_FP(at, "values"),
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector");
    if (!bh_str_eqc(r->key, "metadata.name")) {
        bh_fe_invalid(e, BH_FP(at, "key"), r->key, "not a valid field selector key");
        return;
    }
    for (size_t i = 0; i < r->values.n; i++)
        bh_v_check(e, BH_FPI(BH_FP(at, "values"), i), bh_v_node_name, r->values.p[i]);
}

void bh_v_node_selector_term(struct bh_field_errs *e, const struct bh_fpath *at,
                             const struct bh_core_v1_node_selector_term *t, bool allow_bad_values)
{
    for (size_t i = 0; i < t->match_expressions.n; i++)
        node_requirement(e, BH_FPI(BH_FP(at, "matchExpressions"), i), &t->match_expressions.p[i],
                         allow_bad_values);
    for (size_t i = 0; i < t->match_fields.n; i++)
        node_field_requirement(e, BH_FPI(BH_FP(at, "matchFields"), i), &t->match_fields.p[i]);
}

void bh_v_node_selector(struct bh_field_errs *e, const struct bh_fpath *at,
                        const struct bh_core_v1_node_selector *s, bool allow_bad_values)
{
    const struct bh_fpath *terms = BH_FP(at, "nodeSelectorTerms");

    if (s->node_selector_terms.n == 0)
        bh_fe_required(e, terms, "must have at least one node selector term");
    for (size_t i = 0; i < s->node_selector_terms.n; i++)
        bh_v_node_selector_term(e, BH_FPI(terms, i), &s->node_selector_terms.p[i],
                                allow_bad_values);
}

/* ---- conditions ---- */

/* [A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])? */
static bool reason_ok(struct bh_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool alpha = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool word = alpha || (c >= '0' && c <= '9') || c == '_';

        if (i == 0 ? !alpha : i + 1 == s.n ? !word : !(word || c == ',' || c == ':'))
            return false;
    }
    return s.n > 0;
}

static void condition(struct bh_field_errs *e, const struct bh_fpath *at,
                      const struct bh_meta_v1_condition *c)
{
    bh_v_label_name(e, BH_FP(at, "type"), c->type);
    if (!BH_V_ONE_OF(c->status, "False", "True", "Unknown"))
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "status"), c->status, "False", "True", "Unknown");
    if (c->observed_generation < 0)
        bh_fe_invalid_i64(e, BH_FP(at, "observedGeneration"), c->observed_generation,
                          "must be greater than or equal to zero");
    if (bh_time_is_zero(c->last_transition_time))
        bh_fe_required(e, BH_FP(at, "lastTransitionTime"), NULL);
    if (c->reason.n == 0)
        bh_fe_required(e, BH_FP(at, "reason"), NULL);
    else if (!reason_ok(c->reason))
        bh_fe_invalid(e, BH_FP(at, "reason"), c->reason,
                      "a condition reason must start with alphabetic character, optionally "
                      "followed by a string of "
                      "alphanumeric characters or '_,:', and must end with an alphanumeric "
                      "character or '_' (e.g. "
                      "'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or "
                      "'ReasonA:ReasonB', regex used "
                      "for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')");
    if (c->reason.n > CONDITION_REASON_MAX)
        bh_fe_too_long(e, BH_FP(at, "reason"), CONDITION_REASON_MAX);
    if (c->message.n > CONDITION_MESSAGE_MAX)
        bh_fe_too_long(e, BH_FP(at, "message"), CONDITION_MESSAGE_MAX);
}

void bh_v_conditions(struct bh_field_errs *e, const struct bh_fpath *at,
                     const struct bh_meta_v1_condition_vec *conditions)
{
    for (size_t i = 0; i < conditions->n; i++) {
        const struct bh_fpath *ix = BH_FPI(at, i);

        for (size_t k = 0; k < i; k++)
            if (bh_str_eq(conditions->p[k].type, conditions->p[i].type)) {
                bh_fe_duplicate(e, BH_FP(ix, "type"), conditions->p[i].type);
                break;
            }
        condition(e, ix, &conditions->p[i]);
    }
}

/* ---- resource names ---- */

bool bh_v_is_hugepages(struct bh_str name)
{
    return bh_str_starts(name, BH_S("hugepages-"));
}

bool bh_v_is_native_resource(struct bh_str name)
{
    return bh_str_chr(name, '/', 0) < 0 || bh_str_find(name, BH_S("kubernetes.io/")) >= 0;
}

bool bh_v_is_extended_resource(struct bh_arena *a, struct bh_str name)
{
    if (bh_v_is_native_resource(name) || bh_str_starts(name, BH_S("requests.")))
        return false;
    return bh_v_fits(bh_check_qualified_name, bh_str_fmt(a, "requests.%.*s", BH_SF(name)));
}
