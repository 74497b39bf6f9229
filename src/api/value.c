/* What is done to values without any wire: emptiness, equality, copies, feature gates. */
#include "api/engine_int.h"
#include "data/quantity.h"

struct bh_str bh_go_elem(const struct bh_field *f)
{
    ptrdiff_t to = f->shape == BH_LIST || f->shape == BH_MAP ? bh_str_chr(f->go_type, ']', 0) : -1;

    if (f->shape == BH_MAP && to < 0)
        return BH_S("resource.Quantity"); /* a type with a name: v1.ResourceList */
    return bh_str_sub(f->go_type, (size_t)(to + 1), f->go_type.n);
}

bool bh_elem_is_zero(const struct bh_field *f, const void *p)
{
    const struct bh_intstr *is;

    switch ((enum bh_ftype)f->type) {
    case BH_T_STRING:
    case BH_T_BYTES:
    case BH_T_RAW:
    case BH_T_QUANTITY:
        return ((const struct bh_str *)p)->n == 0;
    case BH_T_BOOL:
        return !*(const bool *)p;
    case BH_T_INT32:
    case BH_T_UINT32:
        return *(const uint32_t *)p == 0;
    case BH_T_INT64:
        return *(const int64_t *)p == 0;
    case BH_T_DOUBLE:
        return !(*(const double *)p > 0 || *(const double *)p < 0);
    case BH_T_TIME:
    case BH_T_MICROTIME:
        return bh_time_is_zero(*(const struct bh_time *)p);
    case BH_T_INTORSTR:
        is = p;
        return !is->is_str && is->i == 0;
    case BH_T_MESSAGE:
        return bh_msg_is_empty(f->msg, p);
    }
    return true;
}

bool bh_field_is_empty(const struct bh_field *f, const void *obj)
{
    const void *p = bh_cat(obj, f->off);

    if (f->shape != BH_ONE)
        return ((const struct bh_vec *)p)->n == 0;
    if (f->off_has != UINT32_MAX)
        return !bh_get_has(obj, f);
    if (bh_is_ptr_msg(f))
        return *(const void *const *)p == NULL;
    return bh_elem_is_zero(f, p);
}

bool bh_field_is_set(const struct bh_field *f, const void *obj)
{
    const void *p = bh_cat(obj, f->off);

    if (f->shape != BH_ONE)
        return ((const struct bh_vec *)p)->p != NULL;
    return !bh_field_is_empty(f, obj);
}

bool bh_msg_is_empty(const struct bh_type *t, const void *obj)
{
    for (uint32_t i = 0; i < t->n_fields; i++)
        if (bh_field_is_set(&t->fields[i], obj))
            return false;
    return true;
}

/* ---- equality ---- */

static bool quantity_equal(struct bh_str a, struct bh_str b)
{
    struct bh_quantity x, y;

    if (bh_str_eq(a, b))
        return true;
    return bh_quantity_parse(a.n ? a : BH_S("0"), &x, NULL) == 0 &&
           bh_quantity_parse(b.n ? b : BH_S("0"), &y, NULL) == 0 && bh_quantity_cmp(x, y) == 0;
}

bool bh_elem_equal(const struct bh_field *f, const void *a, const void *b)
{
    const struct bh_intstr *x, *y;

    switch ((enum bh_ftype)f->type) {
    case BH_T_STRING:
    case BH_T_BYTES:
    case BH_T_RAW:
        return bh_str_eq(*(const struct bh_str *)a, *(const struct bh_str *)b);
    case BH_T_QUANTITY:
        return quantity_equal(*(const struct bh_str *)a, *(const struct bh_str *)b);
    case BH_T_BOOL:
        return *(const bool *)a == *(const bool *)b;
    case BH_T_INT32:
    case BH_T_UINT32:
        return *(const uint32_t *)a == *(const uint32_t *)b;
    case BH_T_INT64:
        return *(const int64_t *)a == *(const int64_t *)b;
    case BH_T_DOUBLE:
        return memcmp(a, b, sizeof(double)) == 0;
    case BH_T_TIME:
    case BH_T_MICROTIME:
        return bh_time_cmp(*(const struct bh_time *)a, *(const struct bh_time *)b) == 0;
    case BH_T_INTORSTR:
        x = a;
        y = b;
        return x->is_str == y->is_str && (x->is_str ? bh_str_eq(x->s, y->s) : x->i == y->i);
    case BH_T_MESSAGE:
        return bh_msg_equal(f->msg, a, b);
    }
    return false;
}

static bool vec_equal(const struct bh_field *f, const struct bh_vec *a, const struct bh_vec *b)
{
    if (a->n != b->n)
        return false;
    if (a->p == b->p)
        return true;
    for (size_t i = 0; i < a->n; i++) {
        const void *x = bh_cat(a->p, i * f->elem_size), *y = bh_cat(b->p, i * f->elem_size);

        if (f->shape == BH_MAP && !bh_str_eq(*(const struct bh_str *)x, *(const struct bh_str *)y))
            return false;
        if (!bh_elem_equal(f, bh_cat(x, f->value_off), bh_cat(y, f->value_off)))
            return false;
    }
    return true;
}

bool bh_field_equal(const struct bh_field *f, const void *a, const void *b)
{
    const void *x = bh_cat(a, f->off), *y = bh_cat(b, f->off);

    if (f->shape != BH_ONE)
        return vec_equal(f, x, y);
    if (bh_is_ptr_msg(f)) {
        const void *p = *(const void *const *)x, *q = *(const void *const *)y;

        return p == q || (p && q && bh_msg_equal(f->msg, p, q));
    }
    if (f->off_has != UINT32_MAX) {
        if (bh_get_has(a, f) != bh_get_has(b, f))
            return false;
        if (!bh_get_has(a, f))
            return true;
    }
    return bh_elem_equal(f, x, y);
}

bool bh_msg_equal(const struct bh_type *t, const void *a, const void *b)
{
    if (a == b)
        return true;
    for (uint32_t i = 0; i < t->n_fields; i++)
        if (!bh_field_equal(&t->fields[i], a, b))
            return false;
    return true;
}

/* ---- copying ---- */

static void copy_elem(const struct bh_field *f, void *dst, const void *src, struct bh_arena *a)
{
    switch ((enum bh_ftype)f->type) {
    case BH_T_STRING:
    case BH_T_BYTES:
    case BH_T_RAW:
    case BH_T_QUANTITY:
        if (((const struct bh_str *)src)->p)
            *(struct bh_str *)dst = bh_str_dup(a, *(const struct bh_str *)src);
        break;
    case BH_T_INTORSTR:
        if (((const struct bh_intstr *)src)->is_str)
            ((struct bh_intstr *)dst)->s = bh_str_dup(a, ((const struct bh_intstr *)src)->s);
        break;
    case BH_T_MESSAGE:
        bh_msg_copy(f->msg, dst, src, a);
        break;
    default: /* the bytes were copied with the struct around them */
        break;
    }
}

static bool is_flat(const struct bh_field *f)
{
    return f->shape == BH_LIST && f->type >= BH_T_BOOL && f->type <= BH_T_MICROTIME;
}

static void copy_vec(const struct bh_field *f, struct bh_vec *dst, const struct bh_vec *src,
                     struct bh_arena *a)
{
    if (!src->p)
        return;
    dst->p = bh_arena_alloc_n(a, src->n, f->elem_size);
    if (src->n)
        memcpy(dst->p, src->p, src->n * f->elem_size);
    if (is_flat(f))
        return;
    for (size_t i = 0; i < src->n; i++) {
        void *d = bh_at(dst->p, i * f->elem_size);
        const void *s = bh_cat(src->p, i * f->elem_size);

        if (f->shape == BH_MAP)
            *(struct bh_str *)d = bh_str_dup(a, *(const struct bh_str *)s);
        copy_elem(f, bh_at(d, f->value_off), bh_cat(s, f->value_off), a);
    }
}

void bh_msg_copy(const struct bh_type *t, void *dst, const void *src, struct bh_arena *a)
{
    if (dst != src)
        memcpy(dst, src, t->size);
    for (uint32_t i = 0; i < t->n_fields; i++) {
        const struct bh_field *f = &t->fields[i];
        void *d = bh_at(dst, f->off);
        const void *s = bh_cat(src, f->off);

        if (f->shape != BH_ONE)
            copy_vec(f, d, s, a);
        else if (bh_is_ptr_msg(f))
            *(void **)d =
                *(const void *const *)s ? bh_msg_dup(f->msg, *(const void *const *)s, a) : NULL;
        else
            copy_elem(f, d, s, a);
    }
}

void *bh_msg_dup(const struct bh_type *t, const void *src, struct bh_arena *a)
{
    void *dst = bh_arena_alloc(a, t->size);

    bh_msg_copy(t, dst, src, a);
    return dst;
}

void bh_msg_forget_empty(const struct bh_type *t, void *obj)
{
    for (uint32_t i = 0; i < t->n_fields; i++) {
        const struct bh_field *f = &t->fields[i];
        void *p = bh_at(obj, f->off);

        if (f->shape == BH_ONE && f->type == BH_T_MESSAGE) {
            if (bh_is_ptr_msg(f))
                p = *(void **)p;
            if (p)
                bh_msg_forget_empty(f->msg, p);
        }
        if (f->shape == BH_ONE)
            continue;
        struct bh_vec *v = p;

        if (v->n == 0)
            v->p = NULL;
        for (size_t k = 0; f->type == BH_T_MESSAGE && k < v->n; k++)
            bh_msg_forget_empty(f->msg, bh_at(v->p, k * f->elem_size + f->value_off));
    }
}

/* ---- feature gates ---- */

struct gates {
    bool (*on)(void *arg, struct bh_str gate);
    void *arg;
};

/* Whether any of the old value's elements below sets f: upstream keeps a gated field of a list's
 * items while any old item uses it. */
static bool used_in(const struct bh_field *f, const struct bh_type *in, const struct bh_type *t,
                    const void *old)
{
    if (!old)
        return false;
    for (uint32_t i = 0; i < t->n_fields; i++) {
        const struct bh_field *g = &t->fields[i];
        const void *p = bh_cat(old, g->off);

        if (t == in && g == f && bh_field_is_set(f, old))
            return true;
        if (g->type != BH_T_MESSAGE || !(g->msg->flags & BH_M_HAS_GATES))
            continue;
        if (g->shape == BH_ONE) {
            if (used_in(f, in, g->msg, bh_msg_at(g, p)))
                return true;
            continue;
        }
        const struct bh_vec *v = p;

        for (size_t k = 0; k < v->n; k++)
            if (used_in(f, in, g->msg, bh_cat(v->p, k * g->elem_size + g->value_off)))
                return true;
    }
    return false;
}

static void drop(const struct bh_type *t, void *obj, const struct bh_type *top, const void *old,
                 const struct gates *g)
{
    for (uint32_t i = 0; i < t->n_fields; i++) {
        const struct bh_field *f = &t->fields[i];
        void *p = bh_at(obj, f->off);

        if (f->gate.n && bh_field_is_set(f, obj) && !g->on(g->arg, f->gate) &&
            !used_in(f, t, top, old)) {
            memset(p, 0,
                   f->shape != BH_ONE ? sizeof(struct bh_vec)
                   : bh_is_ptr_msg(f) ? sizeof(void *)
                                      : f->elem_size);
            if (bh_has(obj, f))
                *bh_has(obj, f) = false;
        }
        if (f->type != BH_T_MESSAGE || !(f->msg->flags & BH_M_HAS_GATES))
            continue;
        if (f->shape == BH_ONE) {
            if (bh_is_ptr_msg(f))
                p = *(void **)p;
            if (p)
                drop(f->msg, p, top, old, g);
            continue;
        }
        struct bh_vec *v = p;

        for (size_t k = 0; k < v->n; k++)
            drop(f->msg, bh_at(v->p, k * f->elem_size + f->value_off), top, old, g);
    }
}

void bh_msg_drop_gated(const struct bh_type *t, void *obj, const void *old,
                       bool (*on)(void *arg, struct bh_str gate), void *arg)
{
    struct gates g = {on, arg};

    if (t->flags & BH_M_HAS_GATES)
        drop(t, obj, t, old, &g);
}
