/* string.format: clauses, their printed forms, and the static check of literal calls.
 *
 * The output is what upstream's pinned version prints: %f groups thousands, %e is the locale's
 * scientific form.
 */
#include "cel/cel_eval.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define TEXT_MAX      ((size_t)64 << 20)
#define PRECISION_MAX 1000 /* digits asked for; a double has no more than 1074 */
#define NEST_MAX      512  /* depth of a printed value */

struct clause {
    char verb;
    int precision; /* -1: default */
};

/* Parses the clause at s[*i] (past the '%'). NULL, or why not; *ret_at is where. */
static const char *parse_clause(struct bh_arena *a, struct bh_str s, size_t *i, struct clause *ret)
{
    uint32_t r;
    size_t k;

    ret->precision = -1;
    if (*i < s.n && s.p[*i] == '.') {
        ret->precision = 0;
        for ((*i)++; *i < s.n && s.p[*i] >= '0' && s.p[*i] <= '9'; (*i)++)
            if (ret->precision <= PRECISION_MAX)
                ret->precision = ret->precision * 10 + (s.p[*i] - '0');
        if (ret->precision > PRECISION_MAX)
            return "precision is too large";
    }
    if (*i >= s.n)
        return "unexpected end of string";
    if (!strchr("sdfebxXo", s.p[*i])) {
        k = cel_rune(s.p + *i, s.n - *i, &r);
        return bh_str_fmt(
                   a, "could not parse formatting clause: unrecognized formatting clause \"%.*s\"",
                   (int)k, s.p + *i)
            .p;
    }
    ret->verb = s.p[(*i)++];
    return NULL;
}

static const char *type_word(struct bh_cel_value v)
{
    switch (v.kind) {
    case BH_CEL_NULL:
        return "null_type";
    default:
        return bh_cel_type_name(v).p;
    }
}

static void add_hex(struct bh_buf *b, struct bh_cel_value v, bool upper)
{
    const char *d = upper ? "0123456789ABCDEF" : "0123456789abcdef";

    for (size_t i = 0; i < v.n; i++) {
        bh_buf_addc(b, d[(uint8_t)v.s[i] >> 4]);
        bh_buf_addc(b, d[(uint8_t)v.s[i] & 15]);
    }
}

static void add_base(struct bh_buf *b, struct bh_cel_value v, unsigned shift, bool upper)
{
    const char *d = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    bool minus = v.kind == BH_CEL_INT && v.i < 0;
    uint64_t u = minus ? 0 - v.u : v.u;
    char buf[80];
    size_t k = sizeof(buf);

    do {
        buf[--k] = d[u & ((1u << shift) - 1)];
        u >>= shift;
    } while (u);
    if (minus)
        buf[--k] = '-';
    bh_buf_add(b, buf + k, sizeof(buf) - k);
}

/* Thousands in groups, as the en_US locale prints. */
static void add_fixed(struct bh_buf *b, double d, int precision)
{
    char buf[1500];
    const char *p = buf;
    size_t whole;

    if (isnan(d) || isinf(d)) {
        bh_buf_addz(b, isnan(d) ? "NaN" : d > 0 ? "\u221e" : "-\u221e");
        return;
    }
    (void)snprintf(buf, sizeof(buf), "%.*f", precision, d);
    if (*p == '-')
        bh_buf_addc(b, *p++);
    whole = strcspn(p, ".");
    for (size_t i = 0; p[i]; i++) {
        if (i && i < whole && (whole - i) % 3 == 0)
            bh_buf_addc(b, ',');
        bh_buf_addc(b, p[i]);
    }
}

static void add_scientific(struct bh_buf *b, double d)
{
    static const char *const super[] = {"\u2070", "\u00b9", "\u00b2", "\u00b3", "\u2074",
                                        "\u2075", "\u2076", "\u2077", "\u2078", "\u2079"};
    char buf[64], *e;

    if (isnan(d) || isinf(d)) {
        bh_buf_addz(b, isnan(d) ? "NaN" : d > 0 ? "\u221e" : "-\u221e");
        return;
    }
    (void)snprintf(buf, sizeof(buf), "%.6e", d);
    e = strchr(buf, 'e');
    bh_buf_add(b, buf, (size_t)(e - buf));
    bh_buf_addz(b, "\u202f\u00d7\u202f10");
    for (e++; *e; e++) {
        if (*e == '-')
            bh_buf_addz(b, "\u207b");
        else if (*e >= '0' && *e <= '9')
            bh_buf_addz(b, super[*e - '0']);
    }
}

static void add_quoted(struct bh_buf *b, struct bh_str s)
{
    uint32_t r;

    bh_buf_addc(b, '"');
    for (size_t i = 0; i < s.n;) {
        size_t k = cel_rune(s.p + i, s.n - i, &r);
        static const char from[] = "\a\b\f\n\r\t\v\\\"", to[] = "abfnrtv\\\"";
        const char *esc = r && r < 0x80 ? strchr(from, (int)r) : NULL;

        if (esc)
            bh_buf_addf(b, "\\%c", to[esc - from]);
        else if (k == 1 && (uint8_t)s.p[i] >= 0x80)
            bh_buf_addf(b, "\\x%02x", (uint8_t)s.p[i]);
        else if (r < 0x20 || r == 0x7f)
            bh_buf_addf(b, "\\x%02x", r);
        else
            bh_buf_add(b, s.p + i, k);
        i += k;
    }
    bh_buf_addc(b, '"');
}

static bool add_value(struct bh_cel_run *run, struct bh_buf *b, struct bh_cel_value v, bool inner,
                      unsigned depth);

struct pair {
    struct bh_str key;
    struct bh_cel_value v;
};

static int pair_cmp(const void *x, const void *y)
{
    return bh_str_cmp(((const struct pair *)x)->key, ((const struct pair *)y)->key);
}

/* {k:v, k2:v2}, sorted by the printed key. */
static bool add_map(struct bh_cel_run *run, struct bh_buf *b, const struct bh_cel_map *m,
                    unsigned depth)
{
    struct pair *ps = bh_new_n(run->a, struct pair, m->n);

    for (size_t i = 0; i < m->n; i++) {
        struct bh_cel_value k;
        BH_AUTO_BUF kb = {.max = TEXT_MAX};

        cel_map_at(run, m, i, &k, &ps[i].v);
        if (k.kind != BH_CEL_STRING && k.kind != BH_CEL_BOOL && k.kind != BH_CEL_INT &&
            k.kind != BH_CEL_UINT)
            return false;
        if (!add_value(run, &kb, k, true, depth))
            return false;
        ps[i].key = bh_str_dup(run->a, bh_buf_str(&kb));
    }
    if (m->n)
        qsort(ps, m->n, sizeof(*ps), pair_cmp);
    bh_buf_addc(b, '{');
    for (size_t i = 0; i < m->n; i++) {
        bh_buf_addf(b, "%s", i ? ", " : "");
        bh_buf_adds(b, ps[i].key);
        bh_buf_addc(b, ':');
        if (!add_value(run, b, ps[i].v, true, depth))
            return false;
    }
    bh_buf_addc(b, '}');
    return true;
}

/* %s of a value; inside lists and maps strings are quoted and numbers printed differently. False:
 * no such form. */
static bool add_value(struct bh_cel_run *run, struct bh_buf *b, struct bh_cel_value v, bool inner,
                      unsigned depth)
{
    if (depth == 0)
        return false;
    switch (v.kind) {
    case BH_CEL_STRING:
        if (inner)
            add_quoted(b, bh_cel_as_str(v));
        else
            bh_buf_adds(b, bh_cel_as_str(v));
        return true;
    case BH_CEL_BYTES:
        if (inner) {
            bh_buf_addc(b, 'b');
            add_quoted(b, bh_cel_as_str(v));
        } else {
            bh_buf_adds(b, bh_cel_as_str(v));
        }
        return true;
    case BH_CEL_BOOL:
        bh_buf_addz(b, v.b ? "true" : "false");
        return true;
    case BH_CEL_NULL:
        bh_buf_addz(b, "null");
        return true;
    case BH_CEL_INT:
        bh_buf_add_i64(b, v.i);
        return true;
    case BH_CEL_UINT:
        bh_buf_add_u64(b, v.u);
        return true;
    case BH_CEL_DOUBLE:
        if (!inner)
            bh_buf_adds(b, cel_double_text(run->a, v.d));
        else if (isnan(v.d) || isinf(v.d))
            bh_buf_addf(b, "\"%s\"", isnan(v.d) ? "NaN" : v.d > 0 ? "+Inf" : "-Inf");
        else
            bh_buf_addf(b, "%.6f", v.d);
        return true;
    case BH_CEL_TYPE:
        bh_buf_adds(b, v.type->name);
        return true;
    case BH_CEL_TIMESTAMP:
        bh_buf_addf(b, inner ? "timestamp(\"%.*s\")" : "%.*s",
                    BH_SF(cel_time_text(run->a, v.time)));
        return true;
    case BH_CEL_DURATION:
        bh_buf_addf(b, inner ? "duration(\"%.*s\")" : "%.*s",
                    BH_SF(cel_duration_text(run->a, v.i)));
        return true;
    case BH_CEL_LIST:
        bh_buf_addc(b, '[');
        for (size_t i = 0; i < v.list->n; i++) {
            if (i)
                bh_buf_addz(b, ", ");
            if (!add_value(run, b, cel_list_at(run, v, i), true, depth - 1) || b->overflow)
                return false;
        }
        bh_buf_addc(b, ']');
        return true;
    case BH_CEL_MAP:
        return add_map(run, b, v.map, depth - 1);
    default:
        return false;
    }
}

/* NULL when this kind suits the verb; else the message that upstream gives. */
static const char *clause_error(struct bh_arena *a, char verb, struct bh_cel_value v)
{
    const char *what = NULL;
    struct bh_str s = bh_cel_as_str(v);

    switch (verb) {
    case 's':
        if (v.kind <= BH_CEL_TYPE)
            return NULL;
        what = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, "
               "lists, types, durations, "
               "and timestamps";
        break;
    case 'd':
        if (v.kind == BH_CEL_INT || v.kind == BH_CEL_UINT)
            return NULL;
        what = "decimal clause can only be used on integers";
        break;
    case 'f':
    case 'e':
        if (v.kind == BH_CEL_DOUBLE)
            return NULL;
        if (v.kind == BH_CEL_STRING &&
            (bh_str_eqc(s, "NaN") || bh_str_eqc(s, "Infinity") || bh_str_eqc(s, "-Infinity")))
            return NULL;
        what = verb == 'f' ? "fixed-point clause can only be used on doubles"
                           : "scientific clause can only be used on doubles";
        break;
    case 'b':
        if (v.kind == BH_CEL_INT || v.kind == BH_CEL_UINT || v.kind == BH_CEL_BOOL)
            return NULL;
        what = "only integers and bools can be formatted as binary";
        break;
    case 'o':
        if (v.kind == BH_CEL_INT || v.kind == BH_CEL_UINT)
            return NULL;
        what = "octal clause can only be used on integers";
        break;
    default:
        if (v.kind == BH_CEL_INT || v.kind == BH_CEL_UINT || v.kind == BH_CEL_STRING ||
            v.kind == BH_CEL_BYTES)
            return NULL;
        what = "only integers, byte buffers, and strings can be formatted as hex";
        break;
    }
    return bh_str_fmt(a, "error during formatting: %s, was given %s", what, type_word(v)).p;
}

static double as_double(struct bh_cel_value v)
{
    if (v.kind == BH_CEL_DOUBLE)
        return v.d;
    return v.s[0] == 'N' ? NAN : v.s[0] == '-' ? -INFINITY : INFINITY;
}

static const char *add_clause(struct bh_cel_run *run, struct bh_buf *b, struct clause c,
                              struct bh_cel_value v)
{
    const char *why = clause_error(run->a, c.verb, v);

    if (why)
        return why;
    switch (c.verb) {
    case 's':
        if (!add_value(run, b, v, false, NEST_MAX))
            return "error during formatting: no string form of a value inside a list or map";
        break;
    case 'd':
        (void)add_value(run, b, v, false, 1);
        break;
    case 'f':
        add_fixed(b, as_double(v), c.precision < 0 ? 6 : c.precision);
        break;
    case 'e':
        add_scientific(b, as_double(v));
        break;
    case 'b':
        if (v.kind == BH_CEL_BOOL)
            bh_buf_addc(b, v.b ? '1' : '0');
        else
            add_base(b, v, 1, false);
        break;
    case 'o':
        add_base(b, v, 3, false);
        break;
    default:
        if (v.kind == BH_CEL_STRING || v.kind == BH_CEL_BYTES)
            add_hex(b, v, c.verb == 'X');
        else
            add_base(b, v, 4, c.verb == 'X');
        break;
    }
    return NULL;
}

CEL_FN(cel_f_format)
{
    struct bh_str s = bh_cel_as_str(args[0]);
    BH_AUTO_BUF b = {.max = TEXT_MAX};
    const char *why = NULL;
    size_t next = 0;

    (void)n;
    for (size_t i = 0; i < s.n && !why;) {
        struct clause c = {0};

        if (s.p[i] != '%') {
            bh_buf_addc(&b, s.p[i++]);
            continue;
        }
        i++;
        if (i < s.n && s.p[i] == '%') {
            bh_buf_addc(&b, '%');
            i++;
            continue;
        }
        why = parse_clause(run->a, s, &i, &c);
        if (!why && next >= args[1].list->n)
            why = bh_str_fmt(run->a, "index %zu out of range", next).p;
        if (!why)
            why = add_clause(run, &b, c, cel_list_at(run, args[1], next++));
    }
    if (b.overflow || cel_overgrown(run))
        return cel_halt(run);
    if (why)
        return bh_cel_error(run, "%s", why);
    return cel_str_copy(run->a, bh_buf_str(&b));
}

/* ---- static check
 * ---------------------------------------------------------------------------------------------------------
 */

/* A stand-in value of this type, to ask whether the clause takes it; false for dyn and the like,
 * which may be anything. */
static bool sample(const struct bh_cel_type *t, struct bh_cel_value *ret)
{
    static const struct {
        uint8_t tk, kind;
    } map[] = {{TK_NULL, BH_CEL_NULL},         {TK_BOOL, BH_CEL_BOOL},
               {TK_INT, BH_CEL_INT},           {TK_UINT, BH_CEL_UINT},
               {TK_DOUBLE, BH_CEL_DOUBLE},     {TK_STRING, BH_CEL_STRING},
               {TK_BYTES, BH_CEL_BYTES},       {TK_LIST, BH_CEL_LIST},
               {TK_MAP, BH_CEL_MAP},           {TK_TIMESTAMP, BH_CEL_TIMESTAMP},
               {TK_DURATION, BH_CEL_DURATION}, {TK_TYPE, BH_CEL_TYPE},
               {TK_OPAQUE, BH_CEL_OPTIONAL}};

    *ret = (struct bh_cel_value){0};
    for (size_t i = 0; i < BH_COUNT(map); i++)
        if (map[i].tk == t->kind) {
            ret->kind = map[i].kind;
            return true;
        }
    return false;
}

bool cel_format_check(struct cel_compiler *c, struct cel_ast *call)
{
    struct cel_ast *list = call->args[1];
    struct bh_str s;
    uint32_t next = 0;

    if (call->args[0]->kind != AST_CONST || call->args[0]->val.kind != BH_CEL_STRING ||
        list->kind != AST_LIST)
        return true;
    s = bh_cel_as_str(call->args[0]->val);
    for (size_t i = 0; i < s.n;) {
        struct cel_ast *arg;
        struct bh_cel_value v;
        struct clause cl = {0};
        const char *why;

        if (s.p[i++] != '%')
            continue;
        if (i < s.n && s.p[i] == '%') {
            i++;
            continue;
        }
        why = parse_clause(c->a, s, &i, &cl);
        if (!why && next >= list->n)
            why = bh_str_fmt(c->a, "index %u out of range", next).p;
        if (why) {
            cel_issue_add(c, call->pos, "%s", why);
            return false;
        }
        arg = list->args[next++];
        if (arg->type->kind == TK_OBJECT) {
            cel_issue_add(c, arg->pos,
                          "error during formatting: string clause can only be used on strings, "
                          "bools, bytes, ints, "
                          "doubles, maps, lists, types, durations, and timestamps, was given %s",
                          cel_type_msg(c->a, arg->type).p);
            return false;
        }
        if (!sample(arg->type, &v))
            continue;
        /* A string may spell a number that has no literal: that shows at run time only. */
        if (v.kind == BH_CEL_STRING && (cl.verb == 'f' || cl.verb == 'e'))
            continue;
        if (arg->kind == AST_CONST)
            v = arg->val;
        why = clause_error(c->a, cl.verb, v);
        if (why) {
            cel_issue_add(c, arg->pos, "%s", why);
            return false;
        }
    }
    if (next < list->n) {
        cel_issue_add(c, call->pos,
                      "too many arguments supplied to string.format (expected %u, got %u)", next,
                      list->n);
        return false;
    }
    return true;
}
