/* Values by path: "spec.containers[0].name", "metadata.labels[app]". */
#include "api/engine_int.h"

/* The next step of a path: a name up to '.' or '[', or what stands in brackets. */
struct step {
    struct bh_str text;
    bool bracket;
};

static bool next_step(struct bh_str *path, struct step *ret)
{
    struct bh_str s = *path;
    size_t i;

    if (s.n && s.p[0] == '.')
        s = bh_str_sub(s, 1, s.n);
    if (!s.n)
        return false;
    ret->bracket = s.p[0] == '[';
    if (!ret->bracket) {
        for (i = 0; i < s.n && s.p[i] != '.' && s.p[i] != '['; i++)
            ;
        ret->text = bh_str_sub(s, 0, i);
        *path = bh_str_sub(s, i, s.n);
        return i > 0;
    }
    char q = s.n > 1 && (s.p[1] == '\'' || s.p[1] == '"') ? s.p[1] : 0;
    size_t from = q ? 2 : 1;

    for (i = from; i < s.n && s.p[i] != (q ? q : ']'); i++)
        ;
    ret->text = bh_str_sub(s, from, i);
    i += q ? 1 : 0;
    if (i >= s.n || s.p[i] != ']')
        return false;
    *path = bh_str_sub(s, i + 1, s.n);
    return true;
}

/* From a list or map at ref into one of its elements. */
static bool into_element(struct bh_ref *ref, struct bh_str key)
{
    const struct bh_field *f = ref->f;
    const struct bh_vec *v = ref->p;
    int64_t i = 0;

    if (f->shape == BH_LIST) {
        if (!v->n || !bh_str_i64(key, 0, (int64_t)v->n - 1, &i))
            return false;
    } else {
        while ((size_t)i < v->n &&
               !bh_str_eq(*(const struct bh_str *)bh_cat(v->p, (size_t)i * f->elem_size), key))
            i++;
        if ((size_t)i == v->n)
            return false;
    }
    ref->elem = true;
    ref->p = bh_cat(v->p, (size_t)i * f->elem_size + f->value_off);
    return true;
}

bool bh_path_get(const struct bh_type *t, const void *obj, struct bh_str path, struct bh_ref *ret)
{
    struct bh_ref at = {.p = obj};
    struct step s;

    while (path.n && !bh_str_eqc(path, ".")) {
        if (!next_step(&path, &s))
            return false;
        if (at.f && at.f->shape != BH_ONE && !at.elem) {
            if (!into_element(&at, s.text))
                return false;
            t = at.f->type == BH_T_MESSAGE ? at.f->msg : NULL;
            continue;
        }
        const struct bh_field_ref *r = t && !s.bracket ? bh_type_find(t, s.text) : NULL;

        if (!r)
            return false;
        const void *in = bh_cat(at.p, r->base);

        at = (struct bh_ref){.f = r->f, .p = bh_cat(in, r->f->off)};
        if (r->f->off_has != UINT32_MAX && !bh_get_has(in, r->f))
            return false;
        t = NULL;
        if (r->f->shape != BH_ONE) {
            if (!((const struct bh_vec *)at.p)->p)
                return false;
        } else if (r->f->type == BH_T_MESSAGE) {
            t = r->f->msg;
            if (path.n && bh_is_ptr_msg(r->f))
                at.p = *(const void *const *)at.p;
            if (!at.p || (bh_is_ptr_msg(r->f) && !path.n && !*(const void *const *)at.p))
                return false;
        }
    }
    *ret = at;
    return true;
}

struct bh_str bh_path_text(const struct bh_type *t, const void *obj, struct bh_str path,
                           struct bh_arena *a)
{
    struct bh_ref r;

    if (!bh_path_get(t, obj, path, &r) || !r.f)
        return BH_S("");
    bool scalar = r.elem || r.f->shape == BH_ONE;

    if (scalar && (r.f->type == BH_T_STRING || r.f->type == BH_T_QUANTITY))
        return *(const struct bh_str *)r.p;
    if (scalar && (r.f->type == BH_T_TIME || r.f->type == BH_T_MICROTIME) &&
        bh_time_is_zero(*(const struct bh_time *)r.p))
        return BH_S("");
    BH_AUTO_BUF b = {0};

    bh_ref_encode_json(&r, &b);
    struct bh_str s = bh_buf_str(&b);

    if (s.n >= 2 && s.p[0] == '"') /* times and strings out of int-or-string: without the quotes */
        s = bh_str_sub(s, 1, s.n - 1);
    return bh_str_dup(a, s);
}
