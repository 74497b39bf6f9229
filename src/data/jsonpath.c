/* Simple JSONPath: a flat list of steps, each of which maps a list of values to the next list. */
#include "data/jsonpath.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum step_kind { S_KEY, S_WILD, S_RECURSE, S_SLICE, S_UNION, S_FILTER };
enum filter_op { F_EXISTS, F_EQ, F_NE, F_LT, F_LE, F_GT, F_GE };

struct step {
    enum step_kind kind;
    struct bh_str key; /* KEY; of a UNION: one of its keys */
    int64_t from, to, stride;
    bool has_from, has_to, index; /* SLICE; index: a single element */
    struct step *parts;           /* UNION: keys and indices; FILTER: the path on the left */
    size_t n_parts;
    enum filter_op op;
    struct bh_jv literal; /* FILTER: the right side, or */
    struct step *right;   /* its path below the current element */
    size_t n_right;
};

struct bh_jsonpath {
    struct step *steps;
    size_t n;
};

/* ---- Compiling ---- */

struct compiler {
    struct bh_arena *a;
    struct bh_str text;
    size_t at;
    size_t n; /* steps so far, in all lists */
    struct bh_err *err;
};

struct list {
    struct step *p;
    size_t n, cap;
};

static int bad(struct compiler *c, const char *what)
{
    return bh_err_set(c->err, BH_E_BAD_REQUEST, "invalid JSONPath \"%.*s\": %s", BH_SF(c->text),
                      what);
}

static int add_step(struct compiler *c, struct list *l, struct step s)
{
    if (c->n++ >= BH_JSONPATH_STEPS_MAX)
        return bad(c, "too many steps");
    bh_arena_grow(c->a, &l->p, &l->cap, l->n + 1, sizeof(*l->p));
    l->p[l->n++] = s;
    return 0;
}

static char peek(const struct compiler *c)
{
    return c->at < c->text.n ? c->text.p[c->at] : '\0';
}

static void blanks(struct compiler *c)
{
    while (peek(c) == ' ' || peek(c) == '\t')
        c->at++;
}

static bool accept(struct compiler *c, char want)
{
    if (c->at == c->text.n || c->text.p[c->at] != want)
        return false;
    c->at++;
    return true;
}

/* A name ends at a character that begins something else; a backslash takes the next one literally.
 */
static struct bh_str name(struct compiler *c)
{
    char *out = bh_arena_alloc(c->a, c->text.n - c->at + 1);
    size_t n = 0;

    for (; c->at < c->text.n; c->at++) {
        char ch = c->text.p[c->at];

        if (ch == '\\' && c->at + 1 < c->text.n)
            ch = c->text.p[++c->at];
        else if (strchr(".[]{}()=!<>,|@$ \t'\"", ch))
            break;
        out[n++] = ch;
    }
    return (struct bh_str){out, n};
}

static int quoted(struct compiler *c, struct bh_str *ret)
{
    char q = c->text.p[c->at++];
    char *out = bh_arena_alloc(c->a, c->text.n - c->at + 1);
    size_t n = 0;

    while (c->at < c->text.n && c->text.p[c->at] != q) {
        if (c->text.p[c->at] == '\\' && c->at + 1 < c->text.n)
            c->at++;
        out[n++] = c->text.p[c->at++];
    }
    if (!accept(c, q))
        return bad(c, "unterminated string");
    *ret = (struct bh_str){out, n};
    return 0;
}

/* An optional integer. */
static int integer(struct compiler *c, bool *ret_has, int64_t *ret)
{
    size_t from = c->at;

    if (peek(c) == '-' || peek(c) == '+')
        c->at++;
    while (peek(c) >= '0' && peek(c) <= '9')
        c->at++;
    *ret_has = c->at > from;
    if (!*ret_has)
        return 0;
    if (!bh_str_i64(bh_str_sub(c->text, from, c->at), INT32_MIN, INT32_MAX, ret))
        return bad(c, "bad index");
    return 0;
}

static int compile_steps(struct compiler *c, struct list *l, bool in_filter);

static int filter_right(struct compiler *c, struct step *s)
{
    struct list path = {0};
    size_t from;
    int r;

    blanks(c);
    if (peek(c) == '\'' || peek(c) == '"') {
        s->literal.kind = BH_JSON_STR;
        return quoted(c, &s->literal.s);
    }
    if (accept(c, '@')) {
        r = compile_steps(c, &path, true);
        s->right = path.p;
        s->n_right = path.n;
        return r;
    }
    from = c->at;
    while (c->at < c->text.n && !strchr(" )\t", peek(c)))
        c->at++;
    return bh_jv_parse(c->a, bh_str_sub(c->text, from, c->at), NULL, &s->literal, NULL) < 0
               ? bad(c, "bad value in filter")
               : 0;
}

static enum filter_op filter_operator(struct compiler *c)
{
    static const struct {
        const char *text;
        enum filter_op op;
    } ops[] = {{"==", F_EQ}, {"!=", F_NE}, {"<=", F_LE}, {">=", F_GE}, {"<", F_LT}, {">", F_GT}};

    for (size_t i = 0; i < BH_COUNT(ops); i++) {
        if (bh_str_starts(bh_str_sub(c->text, c->at, c->text.n), bh_s(ops[i].text))) {
            c->at += strlen(ops[i].text);
            return ops[i].op;
        }
    }
    return F_EXISTS;
}

/* Behind "[?": a parenthesis, a path, an operator and a value. Filters do not nest, so this
 * recursion is one deep. */
static int compile_filter(struct compiler *c, struct list *l)
{
    struct step s = {.kind = S_FILTER};
    struct list path = {0};
    int r;

    if (!accept(c, '('))
        return bad(c, "filter without parenthesis");
    blanks(c);
    if (!accept(c, '@'))
        return bad(c, "a filter begins with @");
    r = compile_steps(c, &path, true);
    if (r < 0)
        return r;
    s.parts = path.p;
    s.n_parts = path.n;
    blanks(c);
    s.op = filter_operator(c);
    if (s.op != F_EXISTS) {
        r = filter_right(c, &s);
        if (r < 0)
            return r;
    }
    blanks(c);
    if (!accept(c, ')') || !accept(c, ']'))
        return bad(c, "unterminated filter");
    return add_step(c, l, s);
}

/* One entry of a bracket: a quoted key, an index or a slice. */
static int bracket_part(struct compiler *c, struct step *s)
{
    bool has_stride = false;
    int r;

    blanks(c);
    *s = (struct step){.kind = S_SLICE, .stride = 1};
    if (peek(c) == '\'' || peek(c) == '"') {
        s->kind = S_KEY;
        r = quoted(c, &s->key);
        blanks(c);
        return r;
    }
    r = integer(c, &s->has_from, &s->from);
    if (r >= 0 && accept(c, ':')) {
        r = integer(c, &s->has_to, &s->to);
        if (r >= 0 && accept(c, ':'))
            r = integer(c, &has_stride, &s->stride);
        if (r >= 0 && s->stride <= 0)
            return bad(c, "step must be > 0");
        blanks(c);
        return r;
    }
    if (r >= 0 && !s->has_from)
        return bad(c, "bad subscript");
    s->index = true;
    blanks(c);
    return r;
}

static int compile_bracket(struct compiler *c, struct list *l, bool in_filter)
{
    struct list parts = {0};
    struct step s;
    int r;

    if (accept(c, '?'))
        return in_filter ? bad(c, "filters do not nest") : compile_filter(c, l);
    if (accept(c, '*'))
        return accept(c, ']') ? add_step(c, l, (struct step){.kind = S_WILD})
                              : bad(c, "unterminated array");
    do {
        r = bracket_part(c, &s);
        if (r >= 0)
            r = add_step(c, &parts, s);
        if (r < 0)
            return r;
    } while (accept(c, ','));
    if (!accept(c, ']'))
        return bad(c, "unterminated array");
    if (parts.n == 1)
        return add_step(c, l, parts.p[0]);
    return add_step(c, l, (struct step){.kind = S_UNION, .parts = parts.p, .n_parts = parts.n});
}

static int compile_name(struct compiler *c, struct list *l)
{
    struct bh_str key;

    if (accept(c, '*'))
        return add_step(c, l, (struct step){.kind = S_WILD});
    key = name(c);
    if (!key.n)
        return bad(c, "empty name");
    return add_step(c, l, (struct step){.kind = S_KEY, .key = key});
}

/* Steps up to the end, or up to what cannot continue a path (in a filter). */
static int compile_steps(struct compiler *c, struct list *l, bool in_filter)
{
    int r = 0;

    while (r >= 0 && c->at < c->text.n) {
        if (accept(c, '[')) {
            r = compile_bracket(c, l, in_filter);
        } else if (accept(c, '.')) {
            if (accept(c, '.')) {
                r = add_step(c, l, (struct step){.kind = S_RECURSE});
                if (r >= 0 && peek(c) != '[')
                    r = compile_name(c, l);
            } else if (peek(c) != '[' && (c->at < c->text.n || l->n)) {
                r = compile_name(c, l);
            }
        } else if (in_filter) {
            break;
        } else {
            return bad(c, "unexpected character");
        }
    }
    return r;
}

int bh_jsonpath_compile(struct bh_arena *a, struct bh_str text, const struct bh_jsonpath **ret,
                        struct bh_err *err)
{
    struct compiler c = {.a = a, .text = bh_str_trim(text), .err = err};
    struct list l = {0};
    struct bh_jsonpath *jp;
    int r = 0;

    if (c.text.n && c.text.p[0] == '{') {
        if (c.text.p[c.text.n - 1] != '}')
            return bad(&c, "unclosed action");
        c.text = bh_str_trim(bh_str_sub(c.text, 1, c.text.n - 1));
    }
    if (!accept(&c, '$') && !accept(&c, '@') && c.text.n && peek(&c) != '.' && peek(&c) != '[')
        r = compile_name(&c, &l);
    if (r >= 0)
        r = compile_steps(&c, &l, false);
    if (r < 0)
        return r;
    jp = bh_new(a, struct bh_jsonpath);
    *jp = (struct bh_jsonpath){l.p, l.n};
    *ret = jp;
    return 0;
}

/* ---- Evaluation ---- */

struct refs {
    const struct bh_jv **p;
    size_t n, cap;
};

static void add(struct bh_arena *a, struct refs *r, const struct bh_jv *v)
{
    if (!v || r->n == BH_JSONPATH_RESULTS_MAX)
        return;
    bh_arena_grow(a, &r->p, &r->cap, r->n + 1, sizeof(*r->p));
    r->p[r->n++] = v;
}

static void slice(struct bh_arena *a, const struct step *s, const struct bh_jv *v, struct refs *out)
{
    int64_t n, from, to;

    if (v->kind != BH_JSON_ARR)
        return;
    n = (int64_t)v->n_items;
    from = s->has_from ? s->from : 0;
    from = from < 0 ? from + n : from;
    if (s->index) {
        if (from >= 0 && from < n)
            add(a, out, &v->items[from]);
        return;
    }
    to = s->has_to ? s->to : n;
    to = to < 0 ? to + n : to;
    to = to > n ? n : to;
    for (int64_t i = from < 0 ? 0 : from; i < to; i += s->stride)
        add(a, out, &v->items[i]);
}

static void children(struct bh_arena *a, const struct bh_jv *v, struct refs *out)
{
    if (v->kind == BH_JSON_ARR)
        for (size_t i = 0; i < v->n_items; i++)
            add(a, out, &v->items[i]);
    if (v->kind == BH_JSON_OBJ)
        for (size_t i = 0; i < v->n_members; i++)
            add(a, out, &v->members[i].v);
}

/* v and everything below it, parents before children, in document order. */
static void descend(struct bh_arena *a, const struct bh_jv *v, struct refs *out)
{
    struct refs stack = {0}, kids;

    add(a, &stack, v);
    while (stack.n && out->n < BH_JSONPATH_RESULTS_MAX) {
        v = stack.p[--stack.n];
        add(a, out, v);
        kids = (struct refs){0};
        children(a, v, &kids);
        while (kids.n)
            add(a, &stack, kids.p[--kids.n]);
    }
}

/* A path of keys and indices, as filters have. */
static const struct bh_jv *simple(struct bh_arena *a, const struct step *steps, size_t n,
                                  const struct bh_jv *v)
{
    for (size_t i = 0; v && i < n; i++) {
        struct refs found = {0};

        if (steps[i].kind == S_KEY) {
            v = bh_jv_get(v, steps[i].key);
            continue;
        }
        if (steps[i].kind == S_SLICE)
            slice(a, &steps[i], v, &found);
        else if (steps[i].kind == S_WILD)
            children(a, v, &found);
        v = found.n ? found.p[0] : NULL;
    }
    return v;
}

static bool passes(struct bh_arena *a, const struct step *f, const struct bh_jv *v)
{
    const struct bh_jv *left = simple(a, f->parts, f->n_parts, v);
    const struct bh_jv *right = f->n_right ? simple(a, f->right, f->n_right, v) : &f->literal;
    int c;

    if (f->op == F_EXISTS || !left || !right)
        return f->op == F_EXISTS && left;
    if (left->kind != right->kind)
        return f->op == F_NE;
    if (left->kind == BH_JSON_NUM) {
        double x, y;

        (void)bh_json_num_double(left->s, &x);
        (void)bh_json_num_double(right->s, &y);
        c = (x > y) - (x < y);
    } else {
        c = bh_jv_cmp(left, right);
    }
    switch (f->op) {
    case F_EQ:
        return c == 0;
    case F_NE:
        return c != 0;
    case F_LT:
        return c < 0;
    case F_LE:
        return c <= 0;
    case F_GT:
        return c > 0;
    default:
        return c >= 0;
    }
}

static void apply(struct bh_arena *a, const struct step *s, const struct bh_jv *v, struct refs *out)
{
    struct refs kids = {0};

    switch (s->kind) {
    case S_KEY:
        add(a, out, bh_jv_get(v, s->key));
        break;
    case S_WILD:
        children(a, v, out);
        break;
    case S_RECURSE:
        descend(a, v, out);
        break;
    case S_SLICE:
        slice(a, s, v, out);
        break;
    case S_UNION:
        for (size_t i = 0; i < s->n_parts; i++) {
            if (s->parts[i].kind == S_KEY)
                add(a, out, bh_jv_get(v, s->parts[i].key));
            else
                slice(a, &s->parts[i], v, out);
        }
        break;
    case S_FILTER:
        children(a, v, &kids);
        for (size_t i = 0; i < kids.n; i++)
            if (passes(a, s, kids.p[i]))
                add(a, out, kids.p[i]);
        break;
    }
}

struct bh_jv_refs bh_jsonpath_eval(struct bh_arena *a, const struct bh_jsonpath *jp,
                                   const struct bh_jv *root)
{
    struct refs cur = {0}, next;

    add(a, &cur, root);
    for (size_t i = 0; i < jp->n && cur.n; i++) {
        next = (struct refs){0};
        for (size_t k = 0; k < cur.n && next.n < BH_JSONPATH_RESULTS_MAX; k++)
            apply(a, &jp->steps[i], cur.p[k], &next);
        cur = next;
    }
    return (struct bh_jv_refs){cur.p, cur.n};
}

const struct bh_jv *bh_jsonpath_first(struct bh_arena *a, const struct bh_jsonpath *jp,
                                      const struct bh_jv *root)
{
    struct bh_jv_refs r = bh_jsonpath_eval(a, jp, root);

    return r.n ? r.p[0] : NULL;
}
