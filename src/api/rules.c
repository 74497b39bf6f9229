/* Static defaults and the rules that single fields state. */
#include "api/engine_int.h"
#include "data/json.h"

/* ---- defaults ---- */

static void set_default(const struct bh_field *f, void *obj, struct bh_arena *a)
{
    struct bh_err err = {0};
    int rc = bh_field_decode_json(f, f->def, obj, a, &err);

    bh_assert(rc == 0); /* the schema's own text */
}

void bh_msg_default(const struct bh_type *t, void *obj, struct bh_arena *a)
{
    if (!(t->flags & BH_M_HAS_DEFAULTS))
        return;
    for (uint32_t i = 0; i < t->n_fields; i++) {
        const struct bh_field *f = &t->fields[i];
        void *p = bh_at(obj, f->off);

        if (f->def.p && !bh_field_is_set(f, obj))
            set_default(f, obj, a);
        if (f->type != BH_T_MESSAGE || !(f->msg->flags & BH_M_HAS_DEFAULTS))
            continue;
        if (f->shape == BH_ONE) {
            if (bh_is_ptr_msg(f))
                p = *(void **)p;
            if (p)
                bh_msg_default(f->msg, p, a);
            continue;
        }
        struct bh_vec *v = p;

        for (size_t k = 0; k < v->n; k++)
            bh_msg_default(f->msg, bh_at(v->p, k * f->elem_size + f->value_off), a);
    }
}

/* ---- validation ---- */

static bool int_of(const struct bh_field *f, const void *p, int64_t *ret)
{
    switch ((enum bh_ftype)f->type) {
    case BH_T_INT32:
        *ret = *(const int32_t *)p;
        return true;
    case BH_T_UINT32:
        *ret = *(const uint32_t *)p;
        return true;
    case BH_T_INT64:
        *ret = *(const int64_t *)p;
        return true;
    default:
        return false;
    }
}

static void check_bounds(const struct bh_field *f, int64_t v, const struct bh_fpath *at,
                         struct bh_field_errs *errs)
{
    bool low = (f->flags & BH_F_HAS_MIN) && v < f->min,
         high = (f->flags & BH_F_HAS_MAX) && v > f->max;

    if (!low && !high)
        return;
    if ((f->flags & BH_F_HAS_MIN) && (f->flags & BH_F_HAS_MAX))
        bh_fe_invalid_i64(errs, at, v, "must be between %lld and %lld, inclusive",
                          (long long)f->min, (long long)f->max);
    else if (low)
        bh_fe_invalid_i64(errs, at, v, "must be greater than or equal to %lld", (long long)f->min);
    else
        bh_fe_invalid_i64(errs, at, v, "must be less than or equal to %lld", (long long)f->max);
}

/* One string: enum, length, format. Empty ones are left to `required`. */
static void check_string(const struct bh_field *f, struct bh_str s, const struct bh_fpath *at,
                         struct bh_field_errs *errs)
{
    if (!s.n)
        return;
    if (f->n_enums) {
        uint32_t i = 0;

        while (i < f->n_enums && !bh_str_eq(f->enums[i], s))
            i++;
        if (i == f->n_enums)
            bh_fe_not_supported(errs, at, s, f->enums, f->n_enums);
    }
    if (f->max_len && s.n > f->max_len) {
        bh_fe_too_long(errs, at, f->max_len);
        return;
    }
    const char *why = f->format_fn ? f->format_fn(s, errs->a) : NULL;

    if (why)
        bh_fe_invalid(errs, at, s, "%s", why);
}

/* One value of the element type, which is a scalar. */
static void check_scalar(const struct bh_field *f, const void *p, const struct bh_fpath *at,
                         struct bh_field_errs *errs)
{
    int64_t v;

    if (f->type == BH_T_STRING)
        check_string(f, *(const struct bh_str *)p, at, errs);
    else if ((f->flags & (BH_F_HAS_MIN | BH_F_HAS_MAX)) && int_of(f, p, &v))
        check_bounds(f, v, at, errs);
}

static bool has_scalar_rules(const struct bh_field *f)
{
    return f->n_enums || f->max_len || f->format_fn || (f->flags & (BH_F_HAS_MIN | BH_F_HAS_MAX));
}

static void check_vec(const struct bh_field *f, const struct bh_vec *v, const struct bh_fpath *at,
                      struct bh_field_errs *errs)
{
    bool deep =
        f->type == BH_T_MESSAGE ? (f->msg->flags & BH_M_HAS_RULES) != 0 : has_scalar_rules(f);

    if (f->max_items && v->n > f->max_items)
        bh_fe_too_many(errs, at, v->n, f->max_items);
    for (size_t i = 0; deep && i < v->n; i++) {
        const void *e = bh_cat(v->p, i * f->elem_size), *p = bh_cat(e, f->value_off);
        struct bh_fpath here = {.up = at, .index = (int64_t)i, .kind = BH_FP_INDEX};

        if (f->shape == BH_MAP) {
            here.name = *(const struct bh_str *)e;
            here.kind = BH_FP_KEY;
        }
        if (f->type == BH_T_MESSAGE)
            bh_msg_validate(f->msg, p, &here, errs);
        else
            check_scalar(f, p, &here, errs);
    }
}

void bh_msg_validate(const struct bh_type *t, const void *obj, const struct bh_fpath *at,
                     struct bh_field_errs *errs)
{
    if (!(t->flags & BH_M_HAS_RULES))
        return;
    for (uint32_t i = 0; i < t->n_fields; i++) {
        const struct bh_field *f = &t->fields[i];
        const void *p = bh_cat(obj, f->off);
        /* inline and bare messages have no name of their own in the path */
        struct bh_fpath here = {.up = at, .name = f->json, .kind = BH_FP_NAME};
        const struct bh_fpath *path =
            (f->flags & BH_F_INLINE) || (t->flags & BH_M_BARE) ? at : &here;

        if ((f->flags & BH_F_REQUIRED) && bh_field_is_empty(f, obj)) {
            bh_fe_required(errs, path, NULL);
            continue;
        }
        if (f->shape != BH_ONE) {
            check_vec(f, p, path, errs);
        } else if (f->type == BH_T_MESSAGE) {
            const void *m = bh_msg_at(f, p);

            if (m)
                bh_msg_validate(f->msg, m, path, errs);
        } else if (has_scalar_rules(f) && !(f->off_has != UINT32_MAX && !bh_get_has(obj, f))) {
            check_scalar(f, p, path, errs);
        }
    }
}

static void immutable_error(const struct bh_field *f, const void *obj, const struct bh_fpath *at,
                            struct bh_field_errs *errs)
{
    if (f->type == BH_T_STRING && f->shape == BH_ONE &&
        !(f->off_has != UINT32_MAX && !bh_get_has(obj, f))) {
        bh_fe_invalid(errs, at, *(const struct bh_str *)bh_cat(obj, f->off), "field is immutable");
        return;
    }
    BH_AUTO_BUF b = {0};

    bh_field_encode_json(f, obj, &b);
    bh_fe_invalid_text(errs, at, bh_buf_str(&b), "field is immutable");
}

void bh_msg_validate_update(const struct bh_type *t, const void *obj, const void *old,
                            const struct bh_fpath *at, struct bh_field_errs *errs)
{
    if (!(t->flags & BH_M_HAS_RULES))
        return;
    for (uint32_t i = 0; i < t->n_fields; i++) {
        const struct bh_field *f = &t->fields[i];
        struct bh_fpath here = {.up = at, .name = f->json, .kind = BH_FP_NAME};
        const struct bh_fpath *path = (f->flags & BH_F_INLINE) ? at : &here;

        if (f->flags & BH_F_IMMUTABLE) {
            if (!bh_field_equal(f, obj, old))
                immutable_error(f, obj, path, errs);
            continue;
        }
        if (f->type != BH_T_MESSAGE || f->shape != BH_ONE)
            continue; /* items of lists have no identity here: what binds them is a rule between
                         fields */
        const void *m = bh_msg_at(f, bh_cat(obj, f->off)), *o = bh_msg_at(f, bh_cat(old, f->off));

        if (m && o)
            bh_msg_validate_update(f->msg, m, o, path, errs);
    }
}
