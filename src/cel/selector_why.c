/* Why a device does not match a selector: which of the parts joined by && is false, and what the
 * device has where that part looks.
 *
 * The text is split by its tokens, not by the tree, because people are to see what they wrote. A
 * part that holds || or ?: is not split further. Each part and each place
 * (`device.attributes["d"].x`) is compiled once and evaluated per device.
 */
#include "base/buf.h"
#include "cel/cel_lex.h"
#include "cel/device_env.h"

#define PARTS_MAX  64 /* a selector with more is explained as one */
#define PLACES_MAX 8  /* told of one part */

struct place {
    struct bh_str text;
    struct bh_cel_program *p;
};

struct part {
    uint32_t pos, end; /* bytes of the expression */
    struct bh_cel_selector *sel;
    struct place places[PLACES_MAX];
    size_t places_n;
};

struct bh_cel_why {
    struct bh_arena *a;
    struct bh_str expr;
    struct part *parts;
    size_t n;
};

struct tokens {
    struct cel_token *p;
    size_t n, cap;
};

static bool opens(enum cel_tok k)
{
    return k == T_LPAREN || k == T_LBRACKET || k == T_LBRACE;
}

static bool closes(enum cel_tok k)
{
    return k == T_RPAREN || k == T_RBRACKET || k == T_RBRACE;
}

static void tokens_read(struct bh_arena *a, struct bh_str expr, struct tokens *t)
{
    struct cel_compiler c = {.a = a, .env = bh_cel_device_env(), .src = expr};
    uint32_t pos = 0;

    for (;;) {
        struct cel_token x = cel_lex(&c, &pos);

        if (x.kind == T_EOF || x.kind == T_ERROR)
            return;
        bh_arena_grow(a, &t->p, &t->cap, t->n + 1, sizeof(*t->p));
        t->p[t->n++] = x;
    }
}

/* ---- places ---- */

static struct bh_str token_text(const struct bh_cel_why *w, struct cel_token t)
{
    return bh_str_sub(w->expr, t.pos, t.end);
}

/* Where the chain `device.x["y"].z` that begins at i ends: a method at its end does not belong to
 * it. */
static size_t chain_end(const struct tokens *t, size_t i, size_t hi)
{
    for (i++; i < hi;) {
        if (t->p[i].kind == T_DOT && i + 1 < hi && t->p[i + 1].kind == T_IDENT &&
            !(i + 2 < hi && t->p[i + 2].kind == T_LPAREN))
            i += 2;
        else if (t->p[i].kind == T_LBRACKET && i + 2 < hi &&
                 (t->p[i + 1].kind == T_STRING || t->p[i + 1].kind == T_INT) &&
                 t->p[i + 2].kind == T_RBRACKET)
            i += 3;
        else
            return i;
    }
    return i;
}

static void places_find(struct bh_cel_why *w, const struct tokens *t, size_t lo, size_t hi,
                        struct part *part)
{
    for (size_t i = lo; i < hi && part->places_n < PLACES_MAX;) {
        size_t end = i + 1;
        struct place *x = &part->places[part->places_n];
        struct bh_err err;
        bool again = false;

        if (t->p[i].kind == T_IDENT && bh_str_eqc(token_text(w, t->p[i]), "device") &&
            !(i > lo && t->p[i - 1].kind == T_DOT))
            end = chain_end(t, i, hi);
        if (end > i + 1) {
            x->text = bh_str_sub(w->expr, t->p[i].pos, t->p[end - 1].end);
            for (size_t k = 0; k < part->places_n; k++)
                again = again || bh_str_eq(part->places[k].text, x->text);
            if (!again &&
                bh_cel_compile(bh_cel_device_env(), x->text, w->a, &x->p, NULL, &err) == 0)
                part->places_n++;
        }
        i = end;
    }
}

/* ---- parts ---- */

struct range {
    size_t lo, hi;
};

/* Takes away parentheses around all of it. */
static void strip(const struct tokens *t, struct range *r)
{
    while (r->hi - r->lo > 2 && t->p[r->lo].kind == T_LPAREN) {
        size_t depth = 0, i = r->lo;

        for (; i < r->hi; i++) {
            depth += opens(t->p[i].kind);
            depth -= closes(t->p[i].kind);
            if (depth == 0)
                break;
        }
        if (i + 1 != r->hi)
            return;
        r->lo++;
        r->hi--;
    }
}

/* The first && outside of all brackets; hi: there is none, or the range cannot be split. */
static size_t split_at(const struct tokens *t, struct range r)
{
    size_t depth = 0, at = r.hi;

    for (size_t i = r.lo; i < r.hi; i++) {
        enum cel_tok k = t->p[i].kind;

        depth += opens(k);
        depth -= closes(k);
        if (depth == 0 && (k == T_OR || k == T_QUESTION))
            return r.hi;
        if (depth == 0 && k == T_AND && at == r.hi)
            at = i;
    }
    return at;
}

static void part_add(struct bh_cel_why *w, const struct tokens *t, struct range r)
{
    struct part *x = &w->parts[w->n];
    struct bh_err err;

    if (r.lo >= r.hi)
        return;
    *x = (struct part){.pos = t->p[r.lo].pos, .end = t->p[r.hi - 1].end};
    if (bh_cel_selector_new(bh_str_sub(w->expr, x->pos, x->end), w->a, &x->sel, NULL, &err) < 0)
        return;
    places_find(w, t, r.lo, r.hi, x);
    w->n++;
}

struct bh_cel_why *bh_cel_why_new(struct bh_str expr)
{
    struct bh_cel_why *w = bh_calloc(1, sizeof(*w));
    struct range todo[PARTS_MAX];
    struct tokens t = {0};
    size_t n = 0;

    w->a = bh_arena_new(0);
    w->expr = bh_str_dup(w->a, expr);
    w->parts = bh_new_n(w->a, struct part, PARTS_MAX);
    tokens_read(w->a, w->expr, &t);
    todo[n++] = (struct range){0, t.n};
    while (n > 0) { /* the last one first, which is the leftmost */
        struct range r = todo[--n];
        size_t at;

        strip(&t, &r);
        at = split_at(&t, r);
        if (at == r.hi || n + w->n + 2 > PARTS_MAX) {
            part_add(w, &t, r);
            continue;
        }
        todo[n++] = (struct range){at + 1, r.hi};
        todo[n++] = (struct range){r.lo, at};
    }
    return w;
}

struct bh_cel_why *bh_cel_why_free(struct bh_cel_why *w)
{
    if (!w)
        return NULL;
    for (size_t i = 0; i < w->n; i++) {
        (void)bh_cel_selector_free(w->parts[i].sel);
        for (size_t k = 0; k < w->parts[i].places_n; k++)
            (void)bh_cel_program_free(w->parts[i].places[k].p);
    }
    (void)bh_arena_free(w->a);
    bh_free(w);
    return NULL;
}

static void value_text(struct bh_arena *a, struct bh_cel_value v, struct bh_buf *b)
{
    BH_AUTO_BUF j = {.max = 512};
    struct bh_str s;

    if (bh_cel_to_json(a, v, &j, NULL) < 0) {
        bh_buf_clear(&j);
        bh_cel_to_value_json(a, v, &j);
    }
    s = bh_buf_str(&j);
    if ((v.kind == BH_CEL_QUANTITY || v.kind == BH_CEL_SEMVER) && s.n > 2)
        s = bh_str_sub(s, 1, s.n - 1);
    bh_buf_adds(b, s);
}

bool bh_cel_why_find(const struct bh_cel_why *w, const struct bh_cel_device *d, struct bh_arena *a,
                     struct bh_cel_why_part *ret)
{
    BH_AUTO_BUF b = {.max = 4096};
    const struct part *x = NULL;
    struct bh_cel_value dev;
    struct bh_err err;

    for (size_t i = 0; i < w->n && !x; i++)
        if (bh_cel_selector_match(w->parts[i].sel, d, a, &err) == 0)
            x = &w->parts[i];
    if (!x)
        return false;
    bh_cel_device_value(d, a, &dev);
    for (size_t i = 0; i < x->places_n; i++) {
        struct bh_cel_result res;

        bh_buf_addf(&b, "%s%.*s ", i ? ", " : "", BH_SF(x->places[i].text));
        if (bh_cel_eval(x->places[i].p, &dev, 1, a, BH_CEL_COST_PER_CALL, &res, &err) < 0) {
            bh_buf_addz(&b, "is missing");
            continue;
        }
        bh_buf_addz(&b, "is ");
        value_text(a, res.value, &b);
    }
    *ret = (struct bh_cel_why_part){.at = x->pos,
                                    .text = bh_str_sub(w->expr, x->pos, x->end),
                                    .values = bh_str_dup(a, bh_buf_str(&b))};
    return true;
}
