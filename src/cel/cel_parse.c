/* The parser: recursive descent over nested expressions, whose depth is counted, loops over
 * operator chains.
 *
 * Error texts follow upstream's generated parser where a user would notice: the position, and the
 * words of the first message. Recovery is not attempted: the first syntax error ends the parse.
 */
#include "cel/cel_lex.h"

#include <string.h>

#include "base/buf.h"
#include "data/json.h"

struct parser {
    struct cel_compiler *c;
    struct cel_token t, next; /* current and the one after */
    uint32_t pos;
    unsigned depth; /* nested expressions */
    /* What closes the brackets that are open; each but the last holds an expression. */
    enum cel_tok closers[BH_CEL_DEPTH_MAX + 2];
    unsigned closers_n;
    bool failed;
};

/* What may stand at a place, as upstream's parser lists it. */
#define EXPECTED_REST                                                                              \
    "'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
#define EXPECTED_LIST  "{'[', ']', '{', '(', '.', ',', '-', '!', '?', " EXPECTED_REST
#define EXPECTED_MAP   "{'[', '{', '}', '(', '.', ',', '-', '!', '?', " EXPECTED_REST
#define EXPECTED_INDEX "{'[', '{', '(', '.', '-', '!', '?', " EXPECTED_REST
#define EXPECTED_ARGS  "{'[', '{', '(', ')', '.', '-', '!', " EXPECTED_REST
#define EXPECTED_PRIMARY                                                                           \
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, "       \
    "STRING, "                                                                                     \
    "BYTES, IDENTIFIER}"

static struct cel_ast *parse_expr(struct parser *p);

static void advance(struct parser *p)
{
    p->t = p->next;
    if (p->t.kind == T_ERROR) {
        p->failed = true;
        return;
    }
    if (p->t.kind != T_EOF)
        p->next = cel_lex(p->c, &p->pos);
    if (p->next.kind == T_ERROR)
        p->failed = true;
}

/* A part of the source as messages show it. */
static const char *source_text(struct parser *p, uint32_t from, uint32_t to)
{
    struct bh_str s = bh_str_sub(p->c->src, from, to);
    BH_AUTO_BUF b = {0};

    for (size_t i = 0; i < s.n; i++)
        switch (s.p[i]) {
        case '\n':
            bh_buf_addz(&b, "\\n");
            break;
        case '\r':
            bh_buf_addz(&b, "\\r");
            break;
        case '\t':
            bh_buf_addz(&b, "\\t");
            break;
        default:
            bh_buf_addc(&b, s.p[i]);
        }
    return bh_str_dup(p->c->a, bh_buf_str(&b)).p;
}

static const char *token_text(struct parser *p, struct cel_token t)
{
    return t.kind == T_EOF ? "<EOF>" : source_text(p, t.pos, t.end);
}

static struct cel_ast *fail(struct parser *p)
{
    p->failed = true;
    return NULL;
}

static bool starts_primary(enum cel_tok k)
{
    return (k >= T_IDENT && k <= T_NULL) || k == T_LBRACKET || k == T_LBRACE || k == T_LPAREN ||
           k == T_DOT || k == T_MINUS || k == T_NOT;
}

static struct cel_ast *unexpected(struct parser *p, const char *expecting, bool extraneous)
{
    if (!p->failed)
        cel_issue_add(p->c, p->t.pos, "Syntax error: %s input '%s' expecting %s",
                      extraneous ? "extraneous" : "mismatched", token_text(p, p->t), expecting);
    return fail(p);
}

/* No way leads on from what begins at from with the current token. */
static struct cel_ast *no_viable(struct parser *p, uint32_t from)
{
    if (!p->failed)
        cel_issue_add(p->c, p->t.pos, "Syntax error: no viable alternative at input '%s'",
                      source_text(p, from, p->t.kind == T_EOF ? p->t.pos : p->t.end));
    return fail(p);
}

static void open_bracket(struct parser *p, enum cel_tok closer)
{
    if (p->closers_n < BH_COUNT(p->closers))
        p->closers[p->closers_n++] = closer;
    advance(p);
}

static const struct binop *binop_of(enum cel_tok t);

/* Whether the token may follow the bracket that is being closed: then that one is missed. */
static bool may_follow_bracket(const struct parser *p, enum cel_tok k)
{
    enum cel_tok around = p->closers_n > 1 ? p->closers[p->closers_n - 2] : T_EOF;

    return k == around || (k == T_COMMA && around != T_EOF) || binop_of(k) || k == T_AND ||
           k == T_OR || k == T_QUESTION || k == T_DOT || k == T_LBRACKET;
}

/* Takes a token of this kind, or reports what ANTLR's inline recovery would say. */
static bool expect(struct parser *p, enum cel_tok k, const char *text)
{
    if (p->failed)
        return false;
    if (p->t.kind == k) {
        if (p->closers_n && (k == T_RPAREN || k == T_RBRACKET || k == T_RBRACE))
            p->closers_n--;
        advance(p);
        return !p->failed;
    }
    if (p->next.kind != k && (k == T_RPAREN || k == T_RBRACKET || k == T_RBRACE) &&
        may_follow_bracket(p, p->t.kind))
        cel_issue_add(p->c, p->t.pos, "Syntax error: missing %s at '%s'", text,
                      token_text(p, p->t));
    else
        unexpected(p, text, p->next.kind == k);
    p->failed = true;
    return false;
}

/* Where an expression may begin, or one of these two tokens may stand: reports anything else. */
static bool may_begin(struct parser *p, enum cel_tok end, enum cel_tok or, const char *expecting)
{
    enum cel_tok k = p->t.kind, n = p->next.kind;

    if (p->failed)
        return false;
    if (starts_primary(k) || k == end || k == or || k == T_QUESTION)
        return true;
    unexpected(p, expecting, starts_primary(n) || n == end || n == or || n == T_QUESTION);
    return false;
}

/* The end of a list or map after one of its items, or a comma before the next one. */
static bool expect_end(struct parser *p, enum cel_tok end, const char *text, bool items)
{
    const char *expecting = end == T_RBRACKET ? "{']', ','}" : "{'}', ','}";

    if (p->failed || p->t.kind == end || !items)
        return expect(p, end, text);
    unexpected(p, expecting, p->next.kind == end || p->next.kind == T_COMMA);
    return false;
}

/* A colon that was forgotten is missed where the next expression begins. */
static bool expect_colon(struct parser *p)
{
    if (p->failed || p->t.kind == T_COLON || p->next.kind == T_COLON || !starts_primary(p->t.kind))
        return expect(p, T_COLON, "':'");
    cel_issue_add(p->c, p->t.pos, "Syntax error: missing ':' at '%s'", token_text(p, p->t));
    p->failed = true;
    return false;
}

struct cel_ast *cel_ast_new(struct cel_compiler *c, enum cel_ast_kind k, uint32_t pos)
{
    struct cel_ast *e = bh_new(c->a, struct cel_ast);

    e->kind = (uint8_t)k;
    e->pos = pos;
    e->height = 1;
    return e;
}

struct cel_ast *cel_ast_ident(struct cel_compiler *c, struct bh_str name, uint32_t pos)
{
    struct cel_ast *e = cel_ast_new(c, AST_IDENT, pos);

    e->name = name;
    return e;
}

struct cel_ast *cel_ast_const(struct cel_compiler *c, struct bh_cel_value v, uint32_t pos)
{
    struct cel_ast *e = cel_ast_new(c, AST_CONST, pos);

    e->val = v;
    return e;
}

static void measure_child(struct cel_ast *e, const struct cel_ast *k)
{
    if (k->height >= e->height)
        e->height = (uint16_t)(k->height + 1);
    if (k->links > e->links)
        e->links = k->links;
}

bool cel_ast_measure(struct cel_compiler *c, struct cel_ast *e)
{
    bool link = e->kind == AST_SELECT ||
                (e->kind == AST_CALL &&
                 (e->member || (e->op >= OP_ADD && e->op <= OP_MOD) ||
                  (e->op >= OP_EQ && e->op <= OP_GE) || e->op == OP_IN || e->op == OP_INDEX ||
                  e->op == OP_OPT_INDEX || e->op == OP_OPT_SELECT || e->op == OP_COND));

    e->height = 1;
    e->links = 0;
    for (uint32_t i = 0; i < e->n; i++)
        measure_child(e, e->args[i]);
    if (e->kind == AST_MAP)
        for (uint32_t i = e->n; i < 2 * e->n; i++)
            measure_child(e, e->args[i]);
    if (e->fold) {
        measure_child(e, e->fold->range);
        measure_child(e, e->fold->init);
        measure_child(e, e->fold->cond);
        measure_child(e, e->fold->step);
        measure_child(e, e->fold->result);
    }
    if (link && ++e->links > BH_CEL_DEPTH_MAX) {
        cel_issue_add(c, CEL_POS_NONE, "max recursion depth exceeded");
        return false;
    }
    if (e->height > CEL_AST_HEIGHT_MAX) {
        cel_issue_add(c, CEL_POS_NONE, "max recursion depth exceeded");
        return false;
    }
    return true;
}

struct cel_ast *cel_ast_call(struct cel_compiler *c, const char *fn, bool member,
                             struct cel_ast **args, uint32_t n, uint32_t pos)
{
    struct cel_ast *e = cel_ast_new(c, AST_CALL, pos);
    const struct cel_func *f;

    e->name = bh_s(fn);
    e->member = member;
    e->args = bh_arena_memdup(c->a, args, n * sizeof(*args));
    e->n = n;
    f = cel_func_find(e->name, c->env->flags);
    e->op = f ? (uint8_t)f->id : OP_OTHER;
    return e;
}

static struct cel_ast *checked(struct parser *p, struct cel_ast *e)
{
    if (!cel_ast_measure(p->c, e))
        return fail(p);
    return e;
}

static struct cel_ast *op2(struct parser *p, const char *fn, struct cel_ast *a, struct cel_ast *b,
                           uint32_t pos)
{
    return checked(p, cel_ast_call(p->c, fn, false, (struct cel_ast *[]){a, b}, 2, pos));
}

struct bh_str cel_ast_qualified(struct bh_arena *a, const struct cel_ast *e, bool *ret_leading_dot)
{
    BH_AUTO_BUF b = {.max = 4096};
    const struct cel_ast *chain[BH_CEL_DEPTH_MAX + 1];
    size_t n = 0;

    for (; e->kind == AST_SELECT && !e->test_only; e = e->args[0])
        chain[n++] = e;
    if (e->kind != AST_IDENT)
        return (struct bh_str){NULL, 0};
    *ret_leading_dot = e->leading_dot;
    if (n == 0)
        return e->name;
    bh_buf_adds(&b, e->name);
    while (n > 0) {
        bh_buf_addc(&b, '.');
        bh_buf_adds(&b, chain[--n]->name);
    }
    return bh_str_dup(a, bh_buf_str(&b));
}

/* ---- literals
 * --------------------------------------------------------------------------------------------------
 */

static struct cel_ast *number(struct parser *p, bool minus, uint32_t pos)
{
    struct bh_str s = bh_str_sub(p->c->src, p->t.pos, p->t.end);
    enum cel_tok kind = p->t.kind;
    uint64_t v = 0;
    bool hex = s.n > 2 && s.p[0] == '0' && s.p[1] == 'x', bad = false;
    unsigned base = hex ? 16 : 10;
    struct bh_cel_value val;

    if (kind == T_DOUBLE) {
        double d;

        /* JSON wants a digit before the point. */
        if (!bh_json_num_double(s.p[0] == '.' ? bh_str_fmt(p->c->a, "0%.*s", BH_SF(s)) : s, &d)) {
            cel_issue_add(p->c, pos, "invalid double literal");
            return fail(p);
        }
        val = bh_cel_double(minus ? -d : d);
    } else {
        for (size_t i = hex ? 2 : 0; i < s.n; i++) {
            unsigned digit = s.p[i] >= 'a' && s.p[i] <= 'f'   ? (unsigned)(s.p[i] - 'a' + 10)
                             : s.p[i] >= 'A' && s.p[i] <= 'F' ? (unsigned)(s.p[i] - 'A' + 10)
                                                              : (unsigned)(s.p[i] - '0');

            if (s.p[i] == 'u' || s.p[i] == 'U')
                break;
            bad |= __builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, digit, &v);
        }
        if (kind == T_UINT) {
            val = bh_cel_uint(v);
            bad |= minus;
        } else {
            bad |= v > (uint64_t)INT64_MAX + (minus ? 1 : 0);
            val = bh_cel_int((int64_t)(minus ? 0 - v : v));
        }
        if (bad) {
            cel_issue_add(p->c, pos,
                          kind == T_UINT ? "invalid uint literal" : "invalid int literal");
            return fail(p);
        }
    }
    advance(p);
    return cel_ast_const(p->c, val, pos);
}

struct items {
    struct cel_ast **v;
    size_t n, cap;
    bool *opt;
    size_t opt_cap;
    bool any_opt;
};

static void items_add(struct parser *p, struct items *it, struct cel_ast *e, bool opt)
{
    bh_arena_grow(p->c->a, &it->v, &it->cap, it->n + 1, sizeof(*it->v));
    bh_arena_grow(p->c->a, &it->opt, &it->opt_cap, it->n + 1, sizeof(*it->opt));
    it->v[it->n] = e;
    it->opt[it->n] = opt;
    it->any_opt |= opt;
    it->n++;
}

static struct cel_ast *list(struct parser *p)
{
    struct cel_ast *e = cel_ast_new(p->c, AST_LIST, p->t.pos);
    struct items it = {0};
    bool comma = false;

    open_bracket(p, T_RBRACKET);
    if (!may_begin(p, T_RBRACKET, T_COMMA, EXPECTED_LIST))
        return NULL;
    while (!p->failed && p->t.kind != T_RBRACKET) {
        bool opt = p->t.kind == T_QUESTION;
        struct cel_ast *x;

        if (p->t.kind == T_COMMA && it.n == 0) { /* [,] is an empty list */
            advance(p);
            break;
        }
        if (comma && !opt && !starts_primary(p->t.kind))
            break;
        if (opt)
            advance(p);
        x = parse_expr(p);
        if (!x)
            return NULL;
        items_add(p, &it, x, opt);
        comma = p->t.kind == T_COMMA;
        if (!comma)
            break;
        advance(p);
    }
    if (!expect_end(p, T_RBRACKET, "']'", it.n && !comma))
        return NULL;
    e->args = it.v;
    e->n = (uint32_t)it.n;
    e->opt = it.any_opt ? it.opt : NULL;
    return checked(p, e);
}

static struct cel_ast *map(struct parser *p)
{
    struct cel_ast *e = cel_ast_new(p->c, AST_MAP, p->t.pos);
    struct items it = {0};
    struct cel_ast *k, *v;
    uint32_t *colon = NULL;
    size_t colon_cap = 0;
    bool *opts = NULL;
    size_t opts_cap = 0, n = 0;
    bool comma = false;

    open_bracket(p, T_RBRACE);
    if (!may_begin(p, T_RBRACE, T_COMMA, EXPECTED_MAP))
        return NULL;
    while (!p->failed && p->t.kind != T_RBRACE) {
        bool opt = p->t.kind == T_QUESTION;

        if (p->t.kind == T_COMMA && n == 0) {
            advance(p);
            break;
        }
        if (comma && !opt && !starts_primary(p->t.kind))
            break;
        if (opt)
            advance(p);
        k = parse_expr(p);
        if (!k)
            return NULL;
        bh_arena_grow(p->c->a, &colon, &colon_cap, n + 1, sizeof(*colon));
        bh_arena_grow(p->c->a, &opts, &opts_cap, n + 1, sizeof(*opts));
        colon[n] = p->t.pos;
        opts[n] = opt;
        if (!expect_colon(p))
            return NULL;
        v = parse_expr(p);
        if (!v)
            return NULL;
        items_add(p, &it, k, opt);
        items_add(p, &it, v, opt);
        n++;
        comma = p->t.kind == T_COMMA;
        if (!comma)
            break;
        advance(p);
    }
    if (!expect_end(p, T_RBRACE, "'}'", n && !comma))
        return NULL;
    e->args = it.v;
    e->n = (uint32_t)n;
    e->opt = it.any_opt ? opts : NULL;
    e->field_pos = colon;
    return checked(p, e);
}

static bool is_field_name(enum cel_tok k)
{
    return k == T_IDENT || k == T_QUOTED;
}

/* Takes the name of a field; any: where a message may also end, or its first field be optional. */
static bool field_name(struct parser *p, bool any)
{
    enum cel_tok n = p->next.kind;

    if (p->failed)
        return false;
    if (p->t.kind == T_QUOTED) {
        cel_issue_add(p->c, p->t.pos, "unsupported syntax: '`'");
        return fail(p);
    }
    if (p->t.kind == T_IDENT) {
        advance(p);
        return !p->failed;
    }
    unexpected(p,
               any ? "{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}" : "{IDENTIFIER, ESC_IDENTIFIER}",
               is_field_name(n) || (any && (n == T_RBRACE || n == T_COMMA || n == T_QUESTION)));
    return false;
}

static struct cel_ast *construct(struct parser *p, struct bh_str name)
{
    struct cel_ast *e = cel_ast_new(p->c, AST_STRUCT, p->t.pos);
    struct items it = {0};
    struct bh_str *fields = NULL;
    uint32_t *colon = NULL;
    size_t fields_cap = 0, colon_cap = 0;
    bool comma = false;

    e->name = name;
    open_bracket(p, T_RBRACE);
    while (!p->failed && p->t.kind != T_RBRACE) {
        bool opt = p->t.kind == T_QUESTION;
        struct cel_ast *v;

        if (p->t.kind == T_COMMA && it.n == 0) {
            advance(p);
            break;
        }
        if (comma && !opt && !is_field_name(p->t.kind))
            break;
        if (opt)
            advance(p);
        bh_arena_grow(p->c->a, &fields, &fields_cap, it.n + 1, sizeof(*fields));
        bh_arena_grow(p->c->a, &colon, &colon_cap, it.n + 1, sizeof(*colon));
        fields[it.n] = bh_str_sub(p->c->src, p->t.pos, p->t.end);
        if (!field_name(p, !opt))
            return NULL;
        colon[it.n] = p->t.pos;
        if (!expect_colon(p))
            return NULL;
        v = parse_expr(p);
        if (!v)
            return NULL;
        items_add(p, &it, v, opt);
        comma = p->t.kind == T_COMMA;
        if (!comma)
            break;
        advance(p);
    }
    if (!expect_end(p, T_RBRACE, "'}'", it.n && !comma))
        return NULL;
    e->args = it.v;
    e->n = (uint32_t)it.n;
    e->opt = it.any_opt ? it.opt : NULL;
    e->fields = fields;
    e->field_pos = colon;
    return checked(p, e);
}

/* ---- members and operators
 * --------------------------------------------------------------------------------------- */

/* Arguments after '(' up to and with ')'. */
static bool arguments(struct parser *p, struct items *it)
{
    open_bracket(p, T_RPAREN);
    if (p->t.kind == T_RPAREN)
        return expect(p, T_RPAREN, "')'");
    if (p->t.kind == T_QUESTION || !may_begin(p, T_RPAREN, T_RPAREN, EXPECTED_ARGS)) {
        if (!p->failed)
            unexpected(p, EXPECTED_ARGS, starts_primary(p->next.kind));
        return false;
    }
    for (;;) {
        struct cel_ast *x = parse_expr(p);

        if (!x)
            return false;
        items_add(p, it, x, false);
        if (p->t.kind != T_COMMA)
            break;
        advance(p);
    }
    return expect(p, T_RPAREN, "')'");
}

/* dot: the name begins with one, so it means no macro. */
static struct cel_ast *call(struct parser *p, struct cel_ast *target, struct bh_str name, bool dot,
                            uint32_t pos)
{
    struct items it = {0};
    struct cel_ast *e;
    bool done = false;

    if (target)
        items_add(p, &it, target, false);
    if (!arguments(p, &it))
        return NULL;
    e = dot ? NULL
            : cel_macro(p->c, target, name, target ? it.v + 1 : it.v,
                        (uint32_t)it.n - (target ? 1 : 0), pos, &done);
    if (done) /* after an issue the parse goes on, to find what stands further left */
        return e ? e : cel_ast_const(p->c, bh_cel_null(), pos);
    e = cel_ast_call(p->c, bh_str_dup(p->c->a, name).p, target != NULL, it.v, (uint32_t)it.n, pos);
    e->leading_dot = dot;
    return checked(p, e);
}

static struct cel_ast *identifier(struct parser *p)
{
    bool dot = p->t.kind == T_DOT;
    uint32_t pos = p->t.pos;
    struct bh_str name;
    struct cel_ast *e;

    if (dot)
        advance(p);
    if (p->failed)
        return NULL;
    if (p->t.kind != T_IDENT)
        return no_viable(p, pos);
    if (dot)
        pos = p->t.pos;
    name = bh_str_sub(p->c->src, p->t.pos, p->t.end);
    if (cel_reserved_name(name)) {
        cel_issue_add(p->c, p->t.pos, "reserved identifier: %.*s", BH_SF(name));
        return fail(p);
    }
    advance(p);
    if (p->t.kind == T_LPAREN) {
        e = call(p, NULL, name, dot, p->t.pos);
    } else {
        e = cel_ast_ident(p->c, name, pos);
        e->leading_dot = dot;
    }
    return e;
}

static struct cel_ast *primary(struct parser *p)
{
    uint32_t pos = p->t.pos;
    struct bh_cel_value v;
    struct cel_ast *e;

    if (p->failed)
        return NULL;
    switch (p->t.kind) {
    case T_MINUS: /* after '!' or before a number */
        advance(p);
        if (p->t.kind != T_INT && p->t.kind != T_UINT && p->t.kind != T_DOUBLE)
            return no_viable(p, pos);
        return p->failed ? NULL : number(p, true, pos);
    case T_INT:
    case T_UINT:
    case T_DOUBLE:
        return number(p, false, pos);
    case T_STRING:
    case T_BYTES:
        if (!cel_unescape(p->c, p->t, &v))
            return fail(p);
        advance(p);
        return cel_ast_const(p->c, v, pos);
    case T_TRUE:
    case T_FALSE:
        v = bh_cel_bool(p->t.kind == T_TRUE);
        advance(p);
        return cel_ast_const(p->c, v, pos);
    case T_NULL:
        advance(p);
        return cel_ast_const(p->c, bh_cel_null(), pos);
    case T_LPAREN:
        open_bracket(p, T_RPAREN);
        e = parse_expr(p);
        return e && expect(p, T_RPAREN, "')'") ? e : NULL;
    case T_LBRACKET:
        return list(p);
    case T_LBRACE:
        return map(p);
    case T_IDENT:
    case T_DOT:
        return identifier(p);
    default:
        return unexpected(p, EXPECTED_PRIMARY, starts_primary(p->next.kind));
    }
}

static struct cel_ast *select_field(struct parser *p, struct cel_ast *e)
{
    uint32_t dot = p->t.pos;
    struct bh_str name;
    bool opt = false;
    struct cel_ast *s;

    advance(p);
    if (!p->failed && p->t.kind == T_QUESTION) {
        opt = true;
        advance(p);
    }
    if (p->failed)
        return NULL;
    name = bh_str_sub(p->c->src, p->t.pos, p->t.end);
    if (p->t.kind == T_TRUE || p->t.kind == T_FALSE || p->t.kind == T_NULL) {
        if (!opt)
            return unexpected(p, "IDENTIFIER", p->next.kind == T_IDENT);
    } else if (!opt && !is_field_name(p->t.kind)) {
        return no_viable(p, dot);
    }
    if (!field_name(p, false))
        return NULL;
    if (opt)
        return op2(p, "_?._", e, cel_ast_const(p->c, bh_cel_str(name), dot), dot);
    if (p->t.kind == T_LPAREN)
        return call(p, e, name, false, p->t.pos);
    s = cel_ast_new(p->c, AST_SELECT, dot);
    s->name = name;
    s->args = bh_new(p->c->a, struct cel_ast *);
    s->args[0] = e;
    s->n = 1;
    return checked(p, s);
}

static struct cel_ast *member(struct parser *p)
{
    /* A constructor's name is a chain that was not wrapped in parentheses. */
    bool plain = p->t.kind == T_IDENT || p->t.kind == T_DOT;
    struct cel_ast *e = primary(p);

    while (e && !p->failed) {
        if (p->t.kind == T_DOT) {
            e = select_field(p, e);
        } else if (p->t.kind == T_LBRACKET) {
            uint32_t pos = p->t.pos;
            struct cel_ast *i;
            bool opt;

            open_bracket(p, T_RBRACKET);
            if (!may_begin(p, T_QUESTION, T_QUESTION, EXPECTED_INDEX))
                return NULL;
            opt = p->t.kind == T_QUESTION;
            if (opt)
                advance(p);
            i = parse_expr(p);
            if (!i || !expect(p, T_RBRACKET, "']'"))
                return NULL;
            e = op2(p, opt ? "_[?_]" : "_[_]", e, i, pos);
            plain = false;
        } else if (p->t.kind == T_LBRACE && plain) {
            bool dot = false;
            struct bh_str name = cel_ast_qualified(p->c->a, e, &dot);

            if (!name.p)
                break;
            e = construct(p, name);
            plain = false;
        } else {
            break;
        }
    }
    return p->failed ? NULL : e;
}

static struct cel_ast *unary(struct parser *p)
{
    enum cel_tok k = p->t.kind;
    uint32_t first = p->t.pos, pos = first;
    unsigned run = 0;
    struct cel_ast *e;

    if (k != T_NOT && k != T_MINUS)
        return member(p);
    if (k == T_MINUS &&
        (p->next.kind == T_INT || p->next.kind == T_UINT || p->next.kind == T_DOUBLE))
        return member(p);
    while (!p->failed && p->t.kind == k) {
        run++;
        pos = k == T_MINUS ? p->t.pos : pos;
        advance(p);
    }
    if (!p->failed && k == T_MINUS && (p->t.kind == T_NOT || !starts_primary(p->t.kind)))
        return no_viable(p, pos);
    if (!p->failed && k == T_NOT && !starts_primary(p->t.kind))
        return unexpected(p, EXPECTED_PRIMARY, true);
    pos = first;
    e = p->failed ? NULL : member(p);
    if (!e || run % 2 == 0)
        return e;
    return checked(p, cel_ast_call(p->c, k == T_NOT ? "!_" : "-_", false, &e, 1, pos));
}

struct binop {
    enum cel_tok t;
    int level;
    const char *fn;
};

static const struct binop *binop_of(enum cel_tok t)
{
    static const struct binop ops[] = {
        {T_LT, 1, "_<_"},    {T_LE, 1, "_<=_"},  {T_GT, 1, "_>_"},    {T_GE, 1, "_>=_"},
        {T_EQ, 1, "_==_"},   {T_NE, 1, "_!=_"},  {T_IN, 1, "@in"},    {T_PLUS, 2, "_+_"},
        {T_MINUS, 2, "_-_"}, {T_STAR, 3, "_*_"}, {T_SLASH, 3, "_/_"}, {T_PERCENT, 3, "_%_"},
    };

    for (size_t i = 0; i < BH_COUNT(ops); i++)
        if (ops[i].t == t)
            return &ops[i];
    return NULL;
}

/* Relations, sums and products by precedence climbing: three levels of calls at most. */
static struct cel_ast *binary(struct parser *p, int level)
{
    struct cel_ast *e = level == 4 ? unary(p) : binary(p, level + 1);
    const struct binop *op;

    if (level == 4)
        return e;
    while (e && !p->failed && (op = binop_of(p->t.kind)) && op->level == level) {
        uint32_t pos = p->t.pos;
        struct cel_ast *r;

        advance(p);
        r = p->failed ? NULL : binary(p, level + 1);
        if (!r)
            return NULL;
        e = op2(p, op->fn, e, r, pos);
    }
    return e;
}

/* One n-ary node for a chain: upstream balances the chain into a tree, which evaluates alike. */
static struct cel_ast *logic(struct parser *p, enum cel_tok tok)
{
    struct items it = {0};
    struct cel_ast *e = tok == T_OR ? logic(p, T_AND) : binary(p, 1);
    uint32_t pos = p->t.pos;

    if (!e || p->t.kind != tok)
        return e;
    items_add(p, &it, e, false);
    while (p->t.kind == tok) {
        advance(p);
        e = p->failed ? NULL : tok == T_OR ? logic(p, T_AND) : binary(p, 1);
        if (!e)
            return NULL;
        items_add(p, &it, e, false);
    }
    return checked(
        p, cel_ast_call(p->c, tok == T_OR ? "_||_" : "_&&_", false, it.v, (uint32_t)it.n, pos));
}

static struct cel_ast *parse_expr(struct parser *p)
{
    struct cel_ast *e, *yes, *no;
    uint32_t pos;

    if (p->failed)
        return NULL;
    if (++p->depth > BH_CEL_DEPTH_MAX) {
        cel_issue_add(p->c, CEL_POS_NONE, "expression recursion limit exceeded: %d",
                      BH_CEL_DEPTH_MAX);
        return fail(p);
    }
    e = logic(p, T_OR);
    if (e && !p->failed && p->t.kind == T_QUESTION) {
        pos = p->t.pos;
        advance(p);
        yes = p->failed ? NULL : logic(p, T_OR);
        if (!yes || !expect_colon(p))
            return NULL;
        no = parse_expr(p);
        if (!no)
            return NULL;
        e = checked(p,
                    cel_ast_call(p->c, "_?_:_", false, (struct cel_ast *[]){e, yes, no}, 3, pos));
    }
    p->depth--;
    return p->failed ? NULL : e;
}

struct cel_ast *cel_parse(struct cel_compiler *c)
{
    struct parser p = {.c = c};
    struct cel_ast *e;

    if (cel_runes(c->src.p, c->src.n) > CEL_CODE_POINTS_MAX) {
        cel_issue_add(c, CEL_POS_NONE,
                      "expression code point size exceeds limit: size: %zu, limit %u",
                      cel_runes(c->src.p, c->src.n), CEL_CODE_POINTS_MAX);
        return NULL;
    }
    p.next = cel_lex(c, &p.pos);
    if (p.next.kind == T_ERROR)
        return NULL;
    advance(&p);
    e = parse_expr(&p);
    if (e && !p.failed && p.t.kind != T_EOF)
        return unexpected(&p, "<EOF>", p.next.kind == T_EOF && p.t.kind != T_EOF);
    return p.failed ? NULL : e;
}
