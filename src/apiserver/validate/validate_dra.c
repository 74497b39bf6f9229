/* Checks that claims, slices, classes and taint rules share: names, taints, configuration,
 * references to requests. */
#include "apiserver/validate/validate_dra.h"

#include "data/codec.h"
#include "data/json.h"

#include <string.h>

#define ID_BYTES_MAX 32u

bool bh_v_size(struct bh_field_errs *e, const struct bh_fpath *at, size_t n, size_t max)
{
    if (n <= max)
        return true;
    bh_fe_too_many(e, at, n, max);
    return false;
}

void bh_v_driver_name(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s)
{
    if (s.n == 0) {
        bh_fe_required(e, at, NULL);
        return;
    }
    if (s.n > BH_DRA_DRIVER_BYTES_MAX)
        bh_fe_too_long(e, at, BH_DRA_DRIVER_BYTES_MAX);
    bh_v_check_as(e, at, bh_check_dns1123_subdomain, bh_v_lower(e->a, s), s);
}

void bh_v_pool_name(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s)
{
    struct bh_str rest = s;

    if (s.n == 0) {
        bh_fe_required(e, at, NULL);
        return;
    }
    if (s.n > BH_DRA_POOL_BYTES_MAX)
        bh_fe_too_long(e, at, BH_DRA_POOL_BYTES_MAX);
    do
        bh_v_check(e, at, bh_check_dns1123_subdomain, bh_str_cut(&rest, '/'));
    while (rest.p);
}

/* What Go's uuid.Validate says; NULL: a UUID in one of its four forms. */
static const char *uuid_fault(struct bh_str s, struct bh_arena *a)
{
    struct bh_str core = s;
    size_t hex = 0;

    switch (s.n) {
    case 36:
        break;
    case 36 + 9:
        if (!bh_str_eq_nocase(bh_str_sub(s, 0, 9), BH_S("urn:uuid:")))
            return bh_str_fmt(a, "invalid urn prefix: \"%.*s\"", 9, s.p).p;
        core = bh_str_sub(s, 9, s.n);
        break;
    case 36 + 2:
        if (s.p[0] != '{' || s.p[s.n - 1] != '}')
            return "invalid bracketed UUID format";
        core = bh_str_sub(s, 1, 37);
        break;
    case 32:
        break;
    default:
        return bh_str_fmt(a, "invalid UUID length: %zu", s.n).p;
    }
    for (size_t i = 0; i < core.n; i++) {
        char c = core.p[i];

        hex += (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    }
    if (hex != 32)
        return "invalid UUID format";
    if (core.n == 36 && !bh_is_uuid(core))
        return "invalid UUID format";
    return NULL;
}

void bh_v_uid(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s)
{
    const char *fault = uuid_fault(s, e->a);

    if (fault)
        bh_fe_invalid(e, at, s, "error validating uid: %s", fault);
    else if (s.n != 36 || !bh_str_eq(s, bh_v_lower(e->a, s)))
        bh_fe_invalid(e, at, s,
                      "uid must be in RFC 4122 normalized form, "
                      "`xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase "
                      "hexadecimal characters");
}

void bh_v_device_taint(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str key,
                       struct bh_str value, struct bh_str effect, bool check_effect)
{
    bh_v_label_name(e, BH_FP(at, "key"), key);
    if (value.n)
        bh_v_check(e, BH_FP(at, "value"), bh_check_label_value, value);
    if (!check_effect)
        return;
    if (effect.n == 0)
        bh_fe_required(e, BH_FP(at, "effect"), NULL);
    else if (!BH_V_ONE_OF(effect, "NoExecute", "NoSchedule", "None"))
        BH_V_NOT_SUPPORTED(e, BH_FP(at, "effect"), effect, "NoExecute", "NoSchedule", "None");
}

static void identifier(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s)
{
    if (s.n > ID_BYTES_MAX)
        bh_fe_too_long(e, at, ID_BYTES_MAX);
    bh_v_check(e, at, bh_check_c_identifier, s);
}

void bh_v_qualified_key(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s)
{
    struct bh_str rest = s, domain;

    switch (bh_v_count(s, '/')) {
    case 0:
        identifier(e, at, s);
        return;
    case 1:
        domain = bh_str_cut(&rest, '/');
        if (domain.n == 0)
            bh_fe_invalid(e, at, BH_S(""), "the domain must not be empty");
        else
            bh_v_driver_name(e, at, domain);
        if (rest.n == 0)
            bh_fe_invalid(e, at, BH_S(""), "the name must not be empty");
        else
            identifier(e, at, rest);
        return;
    default:
        return; /* upstream does not look at names with more slashes */
    }
}

static void condition_names(struct bh_field_errs *e, const struct bh_fpath *at,
                            const struct bh_str_vec *v)
{
    if (!bh_v_size(e, at, v->n, BH_DRA_BINDING_CONDITIONS_MAX))
        return;
    for (size_t i = 0; i < v->n; i++)
        bh_v_label_name(e, BH_FPI(at, i), v->p[i]);
}

static bool seen_before(const struct bh_str_vec *v, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (bh_str_eq(v->p[k], v->p[i]))
            return true;
    return false;
}

void bh_v_binding_conditions(struct bh_field_errs *e, const struct bh_fpath *at,
                             const struct bh_str_vec *conditions, const struct bh_str_vec *failures)
{
    const struct bh_fpath *cat = BH_FP(at, "bindingConditions"),
                          *fat = BH_FP(at, "bindingFailureConditions");

    condition_names(e, cat, conditions);
    condition_names(e, fat, failures);
    for (size_t i = 0; i < conditions->n; i++)
        if (seen_before(conditions, i))
            bh_fe_duplicate(e, BH_FPI(cat, i), conditions->p[i]);
    for (size_t i = 0; i < failures->n; i++) {
        if (seen_before(failures, i))
            bh_fe_duplicate(e, BH_FPI(fat, i), failures->p[i]);
        if (bh_v_has(conditions, failures->p[i]))
            bh_fe_invalid(e, BH_FPI(fat, i), failures->p[i],
                          "bindingFailureConditions must not overlap with bindingConditions");
    }
    if (conditions->n == 0 && failures->n)
        bh_fe_invalid_text(e, cat, bh_v_json_strs(e->a, conditions),
                           "bindingConditions are required to use bindingFailureConditions");
    if (failures->n == 0 && conditions->n)
        bh_fe_invalid_text(e, fat, bh_v_json_strs(e->a, failures),
                           "bindingFailureConditions are required to use bindingConditions");
}

void bh_v_raw_object(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str raw,
                     bool stored, size_t max)
{
    struct bh_json_rd r;
    struct bh_err err = {0};

    if (raw.n == 0) {
        bh_fe_required(e, at, NULL);
        return;
    }
    if (!stored && raw.n > max) {
        bh_fe_too_long(e, at, max);
        return;
    }
    if (bh_json_check(raw, &err) < 0) {
        bh_fe_invalid(e, at, BH_S("<value omitted>"), "error parsing data as JSON: %s", err.msg);
        return;
    }
    bh_json_rd_init(&r, raw, e->a);
    switch (bh_json_peek(&r)) {
    case BH_JSON_OBJ:
        return;
    case BH_JSON_NULL:
        bh_fe_required(e, at, NULL);
        return;
    default:
        bh_fe_invalid(e, at, BH_S("<value omitted>"), "must be a valid JSON object");
    }
}

void bh_v_device_configuration(struct bh_field_errs *e, const struct bh_fpath *at,
                               const struct bh_resource_v1_device_configuration *c, bool stored)
{
    const struct bh_fpath *opaque = BH_FP(at, "opaque");

    if (!c->opaque) {
        bh_fe_required(e, opaque, NULL);
        return;
    }
    bh_v_driver_name(e, BH_FP(opaque, "driver"), c->opaque->driver);
    bh_v_raw_object(e, BH_FP(opaque, "parameters"), c->opaque->parameters, stored,
                    BH_DRA_PARAMETERS_BYTES_MAX);
}

/* ---- references to requests ---- */

#define REF_DETAIL                                                                                 \
    "must be the name of a request in the claim or the name of a request and a subrequest "        \
    "separated by '/'"

static bool request_exists(const struct bh_resource_v1_device_claim *claim, struct bh_str name)
{
    struct bh_str sub = name, main = bh_str_cut(&sub, '/');
    const struct bh_resource_v1_device_request *found = NULL;

    for (size_t i = 0; i < claim->requests.n; i++)
        if (bh_str_eq(claim->requests.p[i].name, main))
            found = &claim->requests.p[i];
    if (!found || !sub.p)
        return found != NULL;
    for (size_t i = 0; i < found->first_available.n; i++)
        if (bh_str_eq(found->first_available.p[i].name, sub))
            return true;
    return false;
}

void bh_v_request_ref(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str name,
                      const struct bh_resource_v1_device_claim *claim)
{
    struct bh_str rest = name;

    if (bh_v_count(name, '/') > 1) {
        bh_fe_invalid(e, at, name, REF_DETAIL);
        return;
    }
    do
        bh_v_check(e, at, bh_check_dns1123_label, bh_str_cut(&rest, '/'));
    while (rest.p);
    if (!request_exists(claim, name))
        bh_fe_invalid(e, at, name, REF_DETAIL);
}

void bh_v_request_refs(struct bh_field_errs *e, const struct bh_fpath *at,
                       const struct bh_str_vec *refs,
                       const struct bh_resource_v1_device_claim *claim)
{
    if (!bh_v_size(e, at, refs->n, BH_DRA_ITEMS_MAX))
        return;
    for (size_t i = 0; i < refs->n; i++)
        bh_v_request_ref(e, BH_FPI(at, i), refs->p[i], claim);
    for (size_t i = 0; i < refs->n; i++)
        if (seen_before(refs, i))
            bh_fe_duplicate(e, BH_FPI(at, i), refs->p[i]);
}
