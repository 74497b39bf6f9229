/* Copies against the way through text, for every kind, with values drawn at random. */
#include "api/engine_int.h"
#include "api/image.h"
#include "base/test.h"

#include <stdio.h>

struct draw {
    struct bh_arena *a;
    uint64_t state;
};

static uint32_t next(struct draw *d)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(d->state >> 33);
}

static struct bh_str draw_str(struct draw *d)
{
    static const char *const pool[] = {"",
                                       "a",
                                       "some text",
                                       "k8s.io/x",
                                       "<&>\"\\\n",
                                       "\xc3\xa4\xe2\x82\xac",
                                       "bad \xff\xfe utf-8",
                                       "\xed\xa0\x80"};

    return bh_str_dup(d->a, bh_s(pool[next(d) % BH_COUNT(pool)]));
}

static void draw_msg(struct draw *d, const struct bh_type *t, void *obj, int depth);

static void draw_elem(struct draw *d, const struct bh_field *f, void *p, int depth)
{
    static const char *const quantities[] = {"", "1", "1000m", "0.5", "1Gi", "1024Mi", "100e3"};
    static const char *const raws[] = {"", "{}", "{\"f:a\":{}}", "[ 1, 2 ]", "null", "\"x y\""};

    switch ((enum bh_ftype)f->type) {
    case BH_T_STRING:
        *(struct bh_str *)p = draw_str(d);
        break;
    case BH_T_BYTES:
        if (next(d) % 3)
            *(struct bh_str *)p = draw_str(d);
        break;
    case BH_T_RAW:
        *(struct bh_str *)p = bh_str_dup(d->a, bh_s(raws[next(d) % BH_COUNT(raws)]));
        break;
    case BH_T_QUANTITY:
        *(struct bh_str *)p = bh_str_dup(d->a, bh_s(quantities[next(d) % BH_COUNT(quantities)]));
        break;
    case BH_T_BOOL:
        *(bool *)p = next(d) % 2;
        break;
    case BH_T_INT32:
        *(int32_t *)p = (int32_t)next(d) % 3;
        break;
    case BH_T_UINT32:
        *(uint32_t *)p = next(d) % 3;
        break;
    case BH_T_INT64:
        *(int64_t *)p = next(d) % 3 - 1;
        break;
    case BH_T_DOUBLE:
        *(double *)p = next(d) % 4 / 8.0;
        break;
    case BH_T_TIME:
    case BH_T_MICROTIME:
        *(struct bh_time *)p = (struct bh_time[]){
            {0, 0}, {0, 1}, {0, 5000}, {1700000000, 0}, {1700000000, 123456789}}[next(d) % 5];
        break;
    case BH_T_INTORSTR:
        *(struct bh_intstr *)p = next(d) % 2 ? (struct bh_intstr){.is_str = true, .s = draw_str(d)}
                                             : (struct bh_intstr){.i = (int32_t)(next(d) % 3)};
        break;
    case BH_T_MESSAGE:
        draw_msg(d, f->msg, p, depth + 1);
        break;
    }
}

static void draw_vec(struct draw *d, const struct bh_field *f, struct bh_vec *v, int depth)
{
    size_t n = next(d) % 4;

    if (n == 3) /* absent */
        return;
    v->p = bh_arena_alloc_n(d->a, n, f->elem_size);
    v->n = n;
    for (size_t i = 0; i < n; i++) {
        void *e = bh_at(v->p, i * f->elem_size);

        if (f->shape == BH_MAP) /* sorted */
            *(struct bh_str *)e = i ? BH_S("k\xc3\xa4") : BH_S("a.b/c");
        draw_elem(d, f, bh_at(e, f->value_off), depth);
    }
}

static void draw_msg(struct draw *d, const struct bh_type *t, void *obj, int depth)
{
    for (uint32_t i = 0; i < t->n_fields; i++) {
        const struct bh_field *f = &t->fields[i];
        void *p = bh_at(obj, f->off);

        if (f->type == BH_T_MESSAGE && depth > 5)
            continue;
        if (f->flags & BH_F_INLINE)
            draw_msg(d, f->msg, p, depth);
        else if (next(d) % 2 && !(t->flags & BH_M_BARE))
            continue;
        else if (f->shape != BH_ONE)
            draw_vec(d, f, p, depth);
        else if (bh_is_ptr_msg(f))
            draw_msg(d, f->msg, *(void **)p = bh_arena_alloc(d->a, f->msg->size), depth + 1);
        else {
            if (bh_has(obj, f))
                *bh_has(obj, f) = true;
            draw_elem(d, f, p, depth);
        }
    }
}

static bool same_msg(const struct bh_type *t, const void *x, const void *y);

static bool same_elem(const struct bh_field *f, const void *x, const void *y)
{
    if (f->type == BH_T_MESSAGE)
        return same_msg(f->msg, x, y);
    if (f->type == BH_T_QUANTITY)
        return bh_str_eq(*(const struct bh_str *)x, *(const struct bh_str *)y);
    return bh_elem_equal(f, x, y);
}

/* Equal to the last bit that a reader can see: absent and empty differ. */
static bool same_field(const struct bh_field *f, const void *x, const void *y)
{
    const void *p = bh_cat(x, f->off), *q = bh_cat(y, f->off);

    if (f->shape != BH_ONE) {
        const struct bh_vec *v = p, *w = q;
        bool same = v->n == w->n && !v->p == !w->p;

        for (size_t i = 0; same && i < v->n; i++) {
            const void *e = bh_cat(v->p, i * f->elem_size), *g = bh_cat(w->p, i * f->elem_size);

            same = (f->shape != BH_MAP ||
                    bh_str_eq(*(const struct bh_str *)e, *(const struct bh_str *)g)) &&
                   same_elem(f, bh_cat(e, f->value_off), bh_cat(g, f->value_off));
        }
        return same;
    }
    if (bh_is_ptr_msg(f)) {
        const void *m = *(const void *const *)p, *n = *(const void *const *)q;

        return m && n ? same_msg(f->msg, m, n) : m == n;
    }
    if (f->off_has != UINT32_MAX && bh_get_has(x, f) != bh_get_has(y, f))
        return false;
    return same_elem(f, p, q);
}

static bool same_msg(const struct bh_type *t, const void *x, const void *y)
{
    for (uint32_t i = 0; i < t->n_fields; i++)
        if (!same_field(&t->fields[i], x, y)) {
            fprintf(stderr, "%.*s.%.*s\n", BH_SF(t->name), BH_SF(t->fields[i].json));
            return false;
        }
    return true;
}

/* The struct that is made while src is encoded, beside a text whose start then changes. */
static bool same_image(const struct bh_kind *k, const void *src, struct bh_image *im,
                       const void *want)
{
    BH_AUTO_BUF b = {0};
    BH_AUTO_FREE void *made = NULL;
    size_t moving;

    bh_kind_encode_image(k, src, &b, im);
    moving = b.n / 3;
    made = bh_image_place(im, b.p, moving);
    memset(b.p, '#', moving);
    return same_msg(k->type, made, want);
}

BH_TEST(a_wire_copy_is_what_text_gives)
{
    size_t n;
    const struct bh_kind *const *kinds = bh_kinds(&n);
    struct bh_image im = {0};

    for (size_t i = 0; i < n; i++)
        for (uint64_t seed = 0; seed < 12; seed++) {
            BH_AUTO_ARENA a = bh_arena_new(0);
            struct draw d = {a, seed * 7919 + i};
            void *src = bh_arena_alloc(a, kinds[i]->type->size), *copy,
                 *text = bh_arena_alloc(a, kinds[i]->type->size);
            BH_AUTO_BUF b = {0};
            struct bh_err err = {0};

            draw_msg(&d, kinds[i]->type, src, 0);
            bh_msg_encode_json(kinds[i]->type, src, &b);
            if (bh_msg_decode_json(kinds[i]->type, bh_buf_str(&b), text, a, NULL, &err) < 0) {
                bh_test_fail(__FILE__, __LINE__, "%.*s: %s", BH_SF(kinds[i]->kind), err.msg);
                continue;
            }
            copy = bh_msg_dup_wire(kinds[i]->type, src, a);
            if (!same_msg(kinds[i]->type, copy, text))
                bh_test_fail(__FILE__, __LINE__, "%.*s, seed %llu: the copy differs",
                             BH_SF(kinds[i]->kind), (unsigned long long)seed);
            if (!same_image(kinds[i], src, &im, text))
                bh_test_fail(__FILE__, __LINE__, "%.*s, seed %llu: the image differs",
                             BH_SF(kinds[i]->kind), (unsigned long long)seed);
        }
    bh_image_done(&im);
}
