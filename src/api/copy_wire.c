/* Structs to structs as if through JSON: what the encoder leaves out is absent, what the decoder
 * rounds is rounded. In process this stands for both. */
#include "api/engine_int.h"
#include "data/json.h"
#include "data/quantity.h"

/* Short strings share blocks: an arena rounds each allocation up. */
#define POOL_BYTES 512

struct cw {
    struct bh_arena *a;
    char *p;
    size_t left;
};

static void copy_msg(struct cw *c, const struct bh_type *t, void *dst, const void *src);

static char *room(struct cw *c, size_t n)
{
    char *p;

    if (n > POOL_BYTES / 4)
        return bh_arena_alloc(c->a, n);
    if (n > c->left) {
        c->p = bh_arena_alloc(c->a, POOL_BYTES);
        c->left = POOL_BYTES;
    }
    p = c->p;
    c->p += n;
    c->left -= n;
    return p;
}

static bool is_ascii(struct bh_str s)
{
    unsigned char any = 0;

    for (size_t i = 0; i < s.n; i++)
        any |= (unsigned char)s.p[i];
    return any < 0x80;
}

static struct bh_str copy_str(struct cw *c, struct bh_str s)
{
    if (!is_ascii(s)) { /* invalid UTF-8 is replaced on the way */
        BH_AUTO_BUF b = {0};
        struct bh_json_rd r;
        struct bh_str back;

        bh_json_write_str(&b, s);
        bh_json_rd_init(&r, bh_buf_str(&b), c->a);
        if (bh_json_take_str(&r, &back, NULL) == 0)
            return bh_str_dup(c->a, back);
    }
    char *p = room(c, s.n + 1);

    if (s.n)
        memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    return (struct bh_str){p, s.n};
}

static struct bh_str copy_quantity(struct cw *c, struct bh_str s)
{
    struct bh_str out = {NULL, 0};

    if (s.n == 0)
        s = BH_S("0");
    if (bh_quantity_canonical(c->a, s, &out, NULL) < 0)
        return copy_str(c, s);
    return out.p >= s.p && out.p <= s.p + s.n ? copy_str(c, out) : out;
}

static struct bh_str copy_raw(struct cw *c, struct bh_str s)
{
    size_t i = 0;

    while (i < s.n && (unsigned char)s.p[i] > ' ')
        i++;
    if (i < s.n) {
        BH_AUTO_BUF b = {.max = s.n + 1};

        bh_json_compact(&b, s);
        return bh_str_dup(c->a, bh_buf_str(&b));
    }
    char *p = room(c, s.n + 1);

    memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    return (struct bh_str){p, s.n};
}

struct bh_time bh_time_wire(struct bh_time t, bool micro)
{
    if (bh_time_is_zero(t))
        return t;
    t.nsec = micro ? t.nsec - t.nsec % 1000 : 0;
    if (bh_time_is_zero(t))
        t.nsec = 1; /* the epoch itself */
    return t;
}

/* One value of the element type. dst is zeroed. */
static void copy_elem(struct cw *c, const struct bh_field *f, void *dst, const void *src)
{
    const struct bh_str *s = src;
    const struct bh_intstr *is = src;

    switch ((enum bh_ftype)f->type) {
    case BH_T_STRING:
        *(struct bh_str *)dst = copy_str(c, *s);
        break;
    case BH_T_BYTES:
        if (s->p) {
            char *p = room(c, s->n + 1);

            if (s->n)
                memcpy(p, s->p, s->n);
            p[s->n] = '\0';
            *(struct bh_str *)dst = (struct bh_str){p, s->n};
        }
        break;
    case BH_T_RAW:
        if (s->n && !bh_str_eqc(*s, "null"))
            *(struct bh_str *)dst = copy_raw(c, *s);
        break;
    case BH_T_QUANTITY:
        *(struct bh_str *)dst = copy_quantity(c, *s);
        break;
    case BH_T_TIME:
    case BH_T_MICROTIME:
        *(struct bh_time *)dst =
            bh_time_wire(*(const struct bh_time *)src, f->type == BH_T_MICROTIME);
        break;
    case BH_T_INTORSTR:
        if (is->is_str)
            *(struct bh_intstr *)dst = (struct bh_intstr){.is_str = true, .s = copy_str(c, is->s)};
        else
            *(struct bh_intstr *)dst = (struct bh_intstr){.i = is->i};
        break;
    case BH_T_MESSAGE:
        copy_msg(c, f->msg, dst, src);
        break;
    case BH_T_BOOL:
    case BH_T_INT32:
    case BH_T_INT64:
    case BH_T_UINT32:
    case BH_T_DOUBLE:
        memcpy(dst, src, f->elem_size);
        break;
    }
}

static void copy_vec(struct cw *c, const struct bh_field *f, struct bh_vec *dst,
                     const struct bh_vec *src)
{
    if (!src->p)
        return;
    dst->p = bh_arena_alloc_n(c->a, src->n, f->elem_size);
    dst->n = src->n;
    for (size_t i = 0; i < src->n; i++) {
        void *d = bh_at(dst->p, i * f->elem_size);
        const void *s = bh_cat(src->p, i * f->elem_size);

        if (f->shape == BH_MAP)
            *(struct bh_str *)d = copy_str(c, *(const struct bh_str *)s);
        copy_elem(c, f, bh_at(d, f->value_off), bh_cat(s, f->value_off));
        if (f->shape == BH_MAP && f->type == BH_T_BYTES &&
            !((struct bh_str *)bh_at(d, f->value_off))->p)
            ((struct bh_str *)bh_at(d, f->value_off))->p = "";
    }
}

static void copy_field(struct cw *c, const struct bh_field *f, void *dst, const void *src)
{
    void *d = bh_at(dst, f->off);
    const void *s = bh_cat(src, f->off);

    if (f->shape != BH_ONE) {
        copy_vec(c, f, d, s);
    } else if (bh_is_ptr_msg(f)) {
        if (*(const void *const *)s) {
            *(void **)d = bh_arena_alloc(c->a, f->msg->size);
            copy_msg(c, f->msg, *(void **)d, *(const void *const *)s);
        }
    } else if (f->off_has == UINT32_MAX) {
        copy_elem(c, f, d, s);
    } else if (bh_get_has(src, f)) {
        *bh_has(dst, f) = true;
        copy_elem(c, f, d, s);
    }
}

static void copy_msg(struct cw *c, const struct bh_type *t, void *dst, const void *src)
{
    if (t->flags & BH_M_BARE) {
        copy_field(c, bh_bare_field(t), dst, src);
        return;
    }
    for (uint32_t i = 0; i < t->n_fields; i++) {
        const struct bh_field *f = &t->fields[i];

        if (f->flags & BH_F_INLINE)
            copy_msg(c, f->msg, bh_at(dst, f->off), bh_cat(src, f->off));
        else if ((f->flags & BH_F_ALWAYS) || !bh_field_none(f, src))
            copy_field(c, f, dst, src);
    }
}

void *bh_msg_dup_wire(const struct bh_type *t, const void *src, struct bh_arena *a)
{
    struct cw c = {.a = a};
    void *dst = bh_arena_alloc(a, t->size);

    copy_msg(&c, t, dst, src);
    return dst;
}
