/* Label and field selectors: the parsers are upstream's state machines, so that every malformed
 * text gets the same words. */
#include "data/selector.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "data/json.h"
#include "data/names.h"

/* ---- Tokens ---- */

enum token {
    T_END,
    T_IDENT,
    T_COMMA,
    T_OPEN,
    T_CLOSE,
    T_NOT,
    T_EQ,
    T_EQ2,
    T_NE,
    T_GT,
    T_LT,
    T_IN,
    T_NOT_IN,
    T_ERROR
};

struct lexer {
    struct bh_arena *a;
    struct bh_str text;
    size_t at;
    enum token tok; /* the next token */
    struct bh_str lit;
};

static const struct {
    const char *text;
    enum token tok;
} symbols[] = {
    {")", T_CLOSE}, {",", T_COMMA}, {"!", T_NOT}, {"==", T_EQ2}, {"=", T_EQ},
    {">", T_GT},    {"<", T_LT},    {"!=", T_NE}, {"(", T_OPEN},
};

static bool special(char c)
{
    return c && strchr("=!(),><", c);
}
static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static enum token symbol(struct bh_str s)
{
    for (size_t i = 0; i < BH_COUNT(symbols); i++)
        if (bh_str_eqc(s, symbols[i].text))
            return symbols[i].tok;
    return T_ERROR;
}

/* The longest symbol at the position; what begins none is an error token. */
static void scan_symbol(struct lexer *l)
{
    size_t from = l->at, to = from + 1;
    enum token t = symbol(bh_str_sub(l->text, from, to));

    if (to < l->text.n && special(l->text.p[to])) {
        enum token two = symbol(bh_str_sub(l->text, from, to + 1));

        if (two != T_ERROR) {
            t = two;
            to++;
        }
    }
    l->tok = t;
    l->lit = bh_str_sub(l->text, from, to);
    l->at = to;
}

static void scan(struct lexer *l)
{
    size_t from;

    while (l->at < l->text.n && blank(l->text.p[l->at]))
        l->at++;
    if (l->at == l->text.n || l->text.p[l->at] == '\0') {
        l->tok = T_END;
        l->lit = (struct bh_str){"", 0};
        return;
    }
    if (special(l->text.p[l->at])) {
        scan_symbol(l);
        return;
    }
    from = l->at;
    while (l->at < l->text.n && l->text.p[l->at] && !special(l->text.p[l->at]) &&
           !blank(l->text.p[l->at]))
        l->at++;
    l->lit = bh_str_sub(l->text, from, l->at);
    l->tok = bh_str_eqc(l->lit, "in") ? T_IN : bh_str_eqc(l->lit, "notin") ? T_NOT_IN : T_IDENT;
}

/* Where values are expected, the operator words are identifiers. */
static enum token look(const struct lexer *l)
{
    return l->tok == T_IN || l->tok == T_NOT_IN ? T_IDENT : l->tok;
}

static enum token take(struct lexer *l, struct bh_str *ret_lit)
{
    enum token t = look(l);

    *ret_lit = l->lit;
    scan(l);
    return t;
}

static int unexpected(struct bh_str lit, const char *rest, struct bh_err *err)
{
    return bh_err_set(err, BH_E_BAD_REQUEST, "found '%.*s'%s", BH_SF(lit), rest);
}

/* ---- Requirements ---- */

static void join_msgs(struct bh_buf *b, struct bh_str_vec msgs)
{
    for (size_t i = 0; i < msgs.n; i++) {
        if (i)
            bh_buf_addz(b, "; ");
        bh_buf_adds(b, msgs.p[i]);
    }
}

/* One field error of a requirement: "path: Invalid value: value: text". Several are joined as
 * upstream's aggregate. */
struct faults {
    struct bh_buf text;
    size_t n;
};

static void fault(struct faults *f, const char *path)
{
    if (f->n++)
        bh_buf_addz(&f->text, ", ");
    bh_buf_addf(&f->text, "%s: Invalid value: ", path);
}

static void fault_list(struct faults *f, struct bh_str_vec values, const char *text)
{
    fault(f, "values");
    bh_buf_addc(&f->text, '[');
    for (size_t i = 0; i < values.n; i++) {
        if (i)
            bh_buf_addc(&f->text, ',');
        bh_json_write_str(&f->text, values.p[i]);
    }
    bh_buf_addf(&f->text, "]: %s", text);
}

static void check_operator(struct faults *f, enum bh_label_op op, struct bh_str_vec values)
{
    int64_t v;

    switch (op) {
    case BH_LABEL_IN:
    case BH_LABEL_NOT_IN:
        if (!values.n)
            fault_list(f, values, "for 'in', 'notin' operators, values set can't be empty");
        break;
    case BH_LABEL_EQ:
    case BH_LABEL_EQ2:
    case BH_LABEL_NE:
        if (values.n != 1)
            fault_list(f, values, "exact-match compatibility requires one single value");
        break;
    case BH_LABEL_EXISTS:
    case BH_LABEL_NOT_EXISTS:
        if (values.n)
            fault_list(f, values, "values set must be empty for exists and does not exist");
        break;
    case BH_LABEL_GT:
    case BH_LABEL_LT:
        if (values.n != 1)
            fault_list(f, values, "for 'Gt', 'Lt' operators, exactly one value is required");
        if (values.n == 1 && !bh_str_i64(values.p[0], INT64_MIN, INT64_MAX, &v)) {
            fault(f, "values[0]");
            bh_json_write_str_plain(&f->text, values.p[0]);
            bh_buf_addz(&f->text, ": for 'Gt', 'Lt' operators, the value must be an integer");
        }
        break;
    }
}

static int by_bytes(const void *x, const void *y)
{
    const struct bh_str *a = x, *b = y;

    return bh_str_cmp(*a, *b);
}

/* Sorted, without duplicates, in the arena. */
static struct bh_str_vec value_set(struct bh_arena *a, struct bh_str_vec v)
{
    struct bh_str_vec set = {NULL, 0};

    if (!v.n)
        return set;
    set.p = bh_new_n(a, struct bh_str, v.n);
    memcpy(set.p, v.p, v.n * sizeof(*v.p));
    qsort(set.p, v.n, sizeof(*set.p), by_bytes);
    for (size_t i = 0; i < v.n; i++)
        if (!set.n || !bh_str_eq(set.p[set.n - 1], set.p[i]))
            set.p[set.n++] = set.p[i];
    return set;
}

static int check_requirement(struct bh_arena *a, struct bh_str key, enum bh_label_op op,
                             struct bh_str_vec values, struct bh_err *err)
{
    struct faults f = {{0}, 0};
    struct bh_str_vec msgs = bh_names_all(a, bh_check_qualified_name, key);
    int r = 0;

    if (msgs.n) {
        fault(&f, "key");
        bh_json_write_str_plain(&f.text, key);
        bh_buf_addz(&f.text, ": ");
        join_msgs(&f.text, msgs);
    }
    check_operator(&f, op, values);
    for (size_t i = 0; i < values.n; i++) {
        msgs = bh_names_all(a, bh_check_label_value, values.p[i]);
        if (!msgs.n)
            continue;
        fault(&f, bh_str_fmt(a, "values[%zu][%.*s]", i, BH_SF(key)).p);
        bh_json_write_str_plain(&f.text, values.p[i]);
        bh_buf_addz(&f.text, ": ");
        join_msgs(&f.text, msgs);
    }
    if (f.n > 1)
        r = bh_err_set(err, BH_E_BAD_REQUEST, "[%s]", bh_buf_cstr(&f.text));
    else if (f.n)
        r = bh_err_set(err, BH_E_BAD_REQUEST, "%s", bh_buf_cstr(&f.text));
    bh_buf_done(&f.text);
    return r;
}

int bh_label_selector_add(struct bh_arena *a, struct bh_label_selector *sel, struct bh_str key,
                          enum bh_label_op op, struct bh_str_vec values, struct bh_err *err)
{
    struct bh_str_vec set = value_set(a, values);
    struct bh_label_req *p;
    size_t i;
    int r = check_requirement(a, key, op, set, err);

    if (r < 0)
        return r;
    if (sel->n >= BH_SELECTOR_REQS_MAX)
        return bh_err_set(err, BH_E_BAD_REQUEST, "selector has more than %d requirements",
                          BH_SELECTOR_REQS_MAX);
    /* Sorted by key, in order of arrival within one key. */
    i = sel->n;
    while (i && bh_str_cmp(sel->reqs[i - 1].key, key) > 0)
        i--;
    p = bh_new_n(a, struct bh_label_req, sel->n + 1);
    if (i)
        memcpy(p, sel->reqs, i * sizeof(*p));
    if (sel->n > i)
        memcpy(p + i + 1, sel->reqs + i, (sel->n - i) * sizeof(*p));
    p[i] = (struct bh_label_req){key, op, set};
    sel->reqs = p;
    sel->n++;
    return 0;
}

/* ---- The label parser ---- */

struct values {
    struct bh_str *p;
    size_t n, cap;
};

static int add_value(struct lexer *l, struct values *v, struct bh_str s, struct bh_err *err)
{
    if (v->n == BH_SELECTOR_VALUES_MAX)
        return bh_err_set(err, BH_E_BAD_REQUEST, "more than %d values in a requirement",
                          BH_SELECTOR_VALUES_MAX);
    bh_arena_grow(l->a, &v->p, &v->cap, v->n + 1, sizeof(*v->p));
    v->p[v->n++] = s;
    return 0;
}

static int parse_list(struct lexer *l, struct values *v, struct bh_err *err)
{
    const struct bh_str empty = {"", 0};
    struct bh_str lit;
    int r = 0;

    while (r >= 0) {
        switch (take(l, &lit)) {
        case T_IDENT:
            r = add_value(l, v, lit, err);
            if (r >= 0 && look(l) == T_CLOSE)
                return 0;
            if (r >= 0 && look(l) != T_COMMA)
                return unexpected(l->lit, ", expected: ',' or ')'", err);
            break;
        case T_COMMA: /* "(,", ",)" and ",," stand for empty values */
            if (!v->n)
                r = add_value(l, v, empty, err);
            if (r >= 0 && look(l) == T_CLOSE)
                return add_value(l, v, empty, err);
            if (r >= 0 && look(l) == T_COMMA) {
                (void)take(l, &lit);
                r = add_value(l, v, empty, err);
            }
            break;
        default:
            return unexpected(lit, ", expected: ',', or identifier", err);
        }
    }
    return r;
}

static int parse_set(struct lexer *l, struct values *v, struct bh_err *err)
{
    struct bh_str lit;
    int r;

    if (take(l, &lit) != T_OPEN)
        return unexpected(lit, " expected: '('", err);
    switch (look(l)) {
    case T_IDENT:
    case T_COMMA:
        lit = l->lit;
        r = parse_list(l, v, err);
        if (r < 0)
            return r;
        if (look(l) != T_CLOSE)
            return unexpected(lit, ", expected: ')'", err);
        (void)take(l, &lit);
        return 0;
    case T_CLOSE: /* nothing in between is one empty value */
        (void)take(l, &lit);
        return add_value(l, v, (struct bh_str){"", 0}, err);
    default:
        return unexpected(l->lit, ", expected: ',', ')' or identifier", err);
    }
}

static int parse_exact(struct lexer *l, struct values *v, struct bh_err *err)
{
    struct bh_str lit;

    if (look(l) == T_END || look(l) == T_COMMA)
        return add_value(l, v, (struct bh_str){"", 0}, err);
    if (take(l, &lit) != T_IDENT)
        return unexpected(lit, ", expected: identifier", err);
    return add_value(l, v, lit, err);
}

static int parse_operator(struct lexer *l, enum bh_label_op *ret, struct bh_err *err)
{
    struct bh_str lit = l->lit;
    enum token t = l->tok;

    scan(l);
    switch (t) {
    case T_IN:
        *ret = BH_LABEL_IN;
        return 0;
    case T_NOT_IN:
        *ret = BH_LABEL_NOT_IN;
        return 0;
    case T_EQ:
        *ret = BH_LABEL_EQ;
        return 0;
    case T_EQ2:
        *ret = BH_LABEL_EQ2;
        return 0;
    case T_NE:
        *ret = BH_LABEL_NE;
        return 0;
    case T_GT:
        *ret = BH_LABEL_GT;
        return 0;
    case T_LT:
        *ret = BH_LABEL_LT;
        return 0;
    default:
        return unexpected(lit, ", expected: in, notin, =, ==, !=, gt, lt", err);
    }
}

static int parse_key(struct lexer *l, struct bh_str *ret_key, bool *ret_not, struct bh_err *err)
{
    struct bh_str lit;
    struct bh_str_vec msgs;
    enum token t = take(l, &lit);

    *ret_not = t == T_NOT;
    if (t == T_NOT)
        t = take(l, &lit);
    if (t != T_IDENT)
        return unexpected(lit, ", expected: identifier", err);
    msgs = bh_names_all(l->a, bh_check_qualified_name, lit);
    if (msgs.n) {
        BH_AUTO_BUF b = {0};

        bh_buf_addz(&b, "<nil>: Invalid value: ");
        bh_json_write_str_plain(&b, lit);
        bh_buf_addz(&b, ": ");
        join_msgs(&b, msgs);
        return bh_err_set(err, BH_E_BAD_REQUEST, "%s", bh_buf_cstr(&b));
    }
    *ret_key = lit;
    return 0;
}

static int parse_requirement(struct lexer *l, struct bh_label_selector *sel, struct bh_err *err)
{
    struct values v = {0};
    enum bh_label_op op = BH_LABEL_EXISTS;
    struct bh_str key;
    bool not ;
    int r = parse_key(l, &key, &not, err);

    if (r < 0)
        return r;
    if (not )
        op = BH_LABEL_NOT_EXISTS;
    else if (look(l) != T_END && look(l) != T_COMMA) {
        r = parse_operator(l, &op, err);
        if (r >= 0)
            r = op == BH_LABEL_IN || op == BH_LABEL_NOT_IN ? parse_set(l, &v, err)
                                                           : parse_exact(l, &v, err);
        if (r < 0)
            return r;
    }
    return bh_label_selector_add(l->a, sel, key, op, (struct bh_str_vec){v.p, v.n}, err);
}

int bh_label_selector_parse(struct bh_arena *a, struct bh_str text, struct bh_label_selector *ret,
                            struct bh_err *err)
{
    struct lexer l = {.a = a, .text = text};
    struct bh_label_selector sel = {NULL, 0, false};
    struct bh_str lit;
    int r;

    scan(&l);
    while (look(&l) == T_IDENT || look(&l) == T_NOT) {
        r = parse_requirement(&l, &sel, err);
        if (r < 0)
            return bh_err_wrap(err, "unable to parse requirement");
        switch (take(&l, &lit)) {
        case T_END:
            *ret = sel;
            return 0;
        case T_COMMA:
            if (look(&l) != T_IDENT && look(&l) != T_NOT)
                return unexpected(l.lit, ", expected: identifier after ','", err);
            break;
        default:
            return unexpected(lit, ", expected: ',' or 'end of string'", err);
        }
    }
    if (look(&l) != T_END)
        return unexpected(l.lit, ", expected: !, identifier, or 'end of string'", err);
    *ret = sel;
    return 0;
}

struct bh_label_selector bh_label_selector_from_map(struct bh_arena *a, const struct bh_str_map *m)
{
    struct bh_label_selector sel = {NULL, m->n, false};

    sel.reqs = bh_new_n(a, struct bh_label_req, m->n);
    for (size_t i = 0; i < m->n; i++) {
        struct bh_str *v = bh_new(a, struct bh_str);

        *v = m->p[i].value;
        sel.reqs[i] = (struct bh_label_req){m->p[i].key, BH_LABEL_EQ, {v, 1}};
    }
    return sel;
}

/* ---- Matching and printing ---- */

static bool in_set(struct bh_str_vec set, struct bh_str s)
{
    size_t lo = 0, hi = set.n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = bh_str_cmp(set.p[mid], s);

        if (c == 0)
            return true;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return false;
}

static bool match_one(const struct bh_label_req *r, const struct bh_str_map *labels)
{
    const struct bh_str *v = bh_str_map_get(labels, r->key);
    int64_t have, want;

    switch (r->op) {
    case BH_LABEL_EQ:
    case BH_LABEL_EQ2:
    case BH_LABEL_IN:
        return v && in_set(r->values, *v);
    case BH_LABEL_NE:
    case BH_LABEL_NOT_IN:
        return !v || !in_set(r->values, *v);
    case BH_LABEL_EXISTS:
        return v != NULL;
    case BH_LABEL_NOT_EXISTS:
        return v == NULL;
    case BH_LABEL_GT:
    case BH_LABEL_LT:
        if (!v || r->values.n != 1 || !bh_str_i64(*v, INT64_MIN, INT64_MAX, &have) ||
            !bh_str_i64(r->values.p[0], INT64_MIN, INT64_MAX, &want))
            return false;
        return r->op == BH_LABEL_GT ? have > want : have < want;
    }
    return false;
}

bool bh_label_selector_match(const struct bh_label_selector *sel, const struct bh_str_map *labels)
{
    if (sel->nothing)
        return false;
    for (size_t i = 0; i < sel->n; i++)
        if (!match_one(&sel->reqs[i], labels))
            return false;
    return true;
}

bool bh_label_selector_empty(const struct bh_label_selector *sel)
{
    return !sel->nothing && sel->n == 0;
}

struct bh_str bh_label_selector_str(struct bh_arena *a, const struct bh_label_selector *sel)
{
    static const char *const ops[] = {"=", "==", "!=", " in (", " notin (", "", "", ">", "<"};
    BH_AUTO_BUF b = {0};

    for (size_t i = 0; i < sel->n; i++) {
        const struct bh_label_req *r = &sel->reqs[i];

        if (i)
            bh_buf_addc(&b, ',');
        if (r->op == BH_LABEL_NOT_EXISTS)
            bh_buf_addc(&b, '!');
        bh_buf_adds(&b, r->key);
        bh_buf_addz(&b, ops[r->op]);
        for (size_t j = 0; j < r->values.n; j++) {
            if (j)
                bh_buf_addc(&b, ',');
            bh_buf_adds(&b, r->values.p[j]);
        }
        if (r->op == BH_LABEL_IN || r->op == BH_LABEL_NOT_IN)
            bh_buf_addc(&b, ')');
    }
    return bh_str_dup(a, bh_buf_str(&b));
}

/* ---- Field selectors ---- */

/* The end of the term that begins at from: the next comma without a backslash before it. */
static size_t term_end(struct bh_str s, size_t from)
{
    for (size_t i = from; i < s.n; i++) {
        if (s.p[i] == '\\')
            i++;
        else if (s.p[i] == ',')
            return i;
    }
    return s.n;
}

static int unescape(struct bh_arena *a, struct bh_str v, struct bh_str *ret, struct bh_err *err)
{
    char *out = bh_arena_alloc(a, v.n + 1);
    size_t n = 0;

    for (size_t i = 0; i < v.n; i++) {
        char c = v.p[i];

        if (c == ',' || c == '=')
            return bh_err_set(err, BH_E_BAD_REQUEST,
                              "invalid field selector: unescaped character in value: %d", c);
        if (c == '\\') {
            if (++i == v.n)
                return bh_err_set(err, BH_E_BAD_REQUEST,
                                  "invalid field selector: invalid escape sequence: \\");
            c = v.p[i];
            if (c != '\\' && c != ',' && c != '=')
                return bh_err_set(err, BH_E_BAD_REQUEST,
                                  "invalid field selector: invalid escape sequence: \\%c", c);
        }
        out[n++] = c;
    }
    *ret = (struct bh_str){out, n};
    return 0;
}

/* The operator at position i of the term, or NULL. */
static const char *field_operator(struct bh_str term, size_t i)
{
    static const char *const ops[] = {"!=", "==", "="};

    for (size_t k = 0; k < BH_COUNT(ops); k++)
        if (bh_str_starts(bh_str_sub(term, i, term.n), bh_s(ops[k])))
            return ops[k];
    return NULL;
}

static int parse_term(struct bh_arena *a, struct bh_str text, struct bh_str term,
                      struct bh_field_req *ret, struct bh_err *err)
{
    for (size_t i = 0; i < term.n; i++) {
        const char *op = field_operator(term, i);

        if (!op)
            continue;
        ret->field = bh_str_sub(term, 0, i);
        ret->ne = op[0] == '!';
        return unescape(a, bh_str_sub(term, i + strlen(op), term.n), &ret->value, err);
    }
    return bh_err_set(err, BH_E_BAD_REQUEST, "invalid selector: '%.*s'; can't understand '%.*s'",
                      BH_SF(text), BH_SF(term));
}

int bh_field_selector_parse(struct bh_arena *a, struct bh_str text, struct bh_field_selector *ret,
                            struct bh_err *err)
{
    struct bh_field_selector sel = {NULL, 0};
    struct bh_str *terms = NULL;
    size_t n = 0, cap = 0;

    for (size_t at = 0; at < text.n;) {
        size_t end = term_end(text, at);

        if (end > at) {
            if (n == BH_SELECTOR_REQS_MAX)
                return bh_err_set(err, BH_E_BAD_REQUEST, "selector has more than %d requirements",
                                  BH_SELECTOR_REQS_MAX);
            bh_arena_grow(a, &terms, &cap, n + 1, sizeof(*terms));
            terms[n++] = bh_str_sub(text, at, end);
        }
        at = end + 1;
    }
    if (n)
        qsort(terms, n, sizeof(*terms), by_bytes);
    sel.reqs = bh_new_n(a, struct bh_field_req, n);
    for (; sel.n < n; sel.n++) {
        int r = parse_term(a, text, terms[sel.n], &sel.reqs[sel.n], err);

        if (r < 0)
            return r;
    }
    *ret = sel;
    return 0;
}

bool bh_field_selector_match(const struct bh_field_selector *sel,
                             struct bh_str (*get)(void *arg, struct bh_str field), void *arg)
{
    for (size_t i = 0; i < sel->n; i++)
        if (bh_str_eq(get(arg, sel->reqs[i].field), sel->reqs[i].value) == sel->reqs[i].ne)
            return false;
    return true;
}

struct bh_str bh_field_selector_str(struct bh_arena *a, const struct bh_field_selector *sel)
{
    BH_AUTO_BUF b = {0};

    for (size_t i = 0; i < sel->n; i++) {
        const struct bh_field_req *r = &sel->reqs[i];

        if (i)
            bh_buf_addc(&b, ',');
        bh_buf_adds(&b, r->field);
        bh_buf_addz(&b, r->ne ? "!=" : "=");
        for (size_t j = 0; j < r->value.n; j++) {
            if (r->value.p[j] == '\\' || r->value.p[j] == ',' || r->value.p[j] == '=')
                bh_buf_addc(&b, '\\');
            bh_buf_addc(&b, r->value.p[j]);
        }
    }
    return bh_str_dup(a, bh_buf_str(&b));
}
