/* From source to program: the phases in order, and how issues are shown. */
#include "cel/cel_int.h"

#include <stdlib.h>

#include "base/buf.h"
#include "cel/re2_shim.h"

#define SOURCE_BYTES_MAX                                                                           \
    (4u * CEL_CODE_POINTS_MAX) /* as many bytes as the code points can take                        \
                                */

void cel_issue_add(struct cel_compiler *c, uint32_t pos, const char *fmt, ...)
{
    va_list ap;

    c->issues_seen++;
    if (c->nissues >= CEL_ISSUES_MAX)
        return;
    bh_arena_grow(c->a, &c->issues, &c->issues_cap, c->nissues + 1, sizeof(*c->issues));
    va_start(ap, fmt);
    c->issues[c->nissues].text = bh_str_vfmt(c->a, fmt, ap);
    va_end(ap);
    c->issues[c->nissues].pos = pos;
    c->issues[c->nissues].seq = (uint32_t)c->nissues;
    c->nissues++;
}

static int issue_cmp(const void *a, const void *b)
{
    const struct cel_issue *x = a, *y = b;
    /* An issue without a position comes first, as its line is -1. */
    uint32_t px = x->pos == CEL_POS_NONE ? 0 : x->pos + 1,
             py = y->pos == CEL_POS_NONE ? 0 : y->pos + 1;

    if (px != py)
        return px < py ? -1 : 1;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* " | source line" and " | ....^"; upstream uses full-width dots under what is not ASCII. */
static void caret(struct bh_buf *b, struct bh_str src, uint32_t start, uint32_t pos)
{
    uint32_t end = start, i = start, r;

    while (end < src.n && src.p[end] != '\n')
        end++;
    bh_buf_addz(b, "\n | ");
    for (uint32_t k = start; k < end; k++)
        bh_buf_addc(b, src.p[k] == '\t' ? ' ' : src.p[k]);
    bh_buf_addz(b, "\n | ");
    while (i < pos && i < end) {
        size_t n = cel_rune(src.p + i, end - i, &r);

        bh_buf_addz(b, n > 1 ? "\xef\xbc\x8e" : ".");
        i += (uint32_t)n;
    }
    bh_buf_addz(b, i < end && cel_rune(src.p + i, end - i, &r) > 1 ? "\xef\xbc\xbe" : "^");
}

void cel_issue_report(struct cel_compiler *c, struct bh_cel_issue *ret)
{
    BH_AUTO_BUF b = {.max = 8u << 20};

    qsort(c->issues, c->nissues, sizeof(*c->issues), issue_cmp);
    for (size_t i = 0; i < c->nissues; i++) {
        const struct cel_issue *x = &c->issues[i];
        uint32_t line = 1, start = 0, col;

        if (i)
            bh_buf_addc(&b, '\n');
        if (x->pos == CEL_POS_NONE) {
            bh_buf_addf(&b, "ERROR: <input>:-1:0: %.*s", BH_SF(x->text));
            line = col = 0;
        } else {
            for (uint32_t k = 0; k < x->pos && k < c->src.n; k++)
                if (c->src.p[k] == '\n') {
                    line++;
                    start = k + 1;
                }
            /* In a source without any text there is neither a column nor a line to show. */
            col = c->src.n ? (uint32_t)cel_runes(c->src.p + start, x->pos - start) + 1 : 0;
            bh_buf_addf(&b, "ERROR: <input>:%u:%u: %.*s", line, col, BH_SF(x->text));
            if (c->src.n)
                caret(&b, c->src, start, x->pos);
        }
        if (i == 0) {
            ret->line = line;
            ret->col = col;
            ret->text = x->text;
        }
    }
    if (c->issues_seen > c->nissues)
        bh_buf_addf(&b, "\n\n%zu more issues", c->issues_seen - c->nissues);
    ret->full = bh_str_dup(c->a, bh_buf_str(&b));
}

/* Runs the phases up to the plan; false with issues. */
static bool phases(struct cel_compiler *c, struct bh_cel_program *p, bool *ret_program)
{
    struct cel_ast *root = cel_parse(c);

    if (!root || c->nissues)
        return false;
    if (c->unchecked)
        cel_resolve_unchecked(c, root);
    else
        cel_check(c, root);
    if (c->nissues)
        return false;
    if (!c->unchecked) {
        cel_validate(c, root);
        if (c->nissues)
            return false;
        p->cost = cel_estimate(c, root);
        p->type = root->type;
    }
    *ret_program = true;
    return cel_plan(c, root, p) == 0;
}

/* Types of results refer to types of the environment; the program keeps its own copy. */
static const struct bh_cel_type *copy_type(struct bh_arena *a, const struct bh_cel_type *t)
{
    struct bh_cel_type *n = bh_arena_memdup(a, t, sizeof(*t));

    n->name = bh_str_dup(a, t->name);
    n->fields = NULL;
    n->nfields = 0;
    for (unsigned i = 0; i < t->np; i++)
        n->p[i] = copy_type(a, t->p[i]);
    return n;
}

static int compile(const struct bh_cel_env *e, struct bh_str src, struct bh_arena *a,
                   bool unchecked, struct bh_cel_program **ret, struct bh_cel_issue *ret_issue,
                   struct bh_err *err)
{
    struct bh_cel_issue issue = {0};
    struct bh_arena *pa = bh_arena_new(0);
    BH_AUTO_ARENA scratch = bh_arena_new(0);
    struct bh_cel_program *p = bh_new(pa, struct bh_cel_program);
    struct cel_compiler c = {.a = scratch, .env = e, .src = src, .unchecked = unchecked};
    bool ok;

    p->arena = pa;
    p->text = bh_str_dup(pa, src);
    if (src.n > SOURCE_BYTES_MAX) {
        cel_issue_add(&c, CEL_POS_NONE,
                      "expression code point size exceeds limit: size: %zu, limit %u", src.n,
                      CEL_CODE_POINTS_MAX);
        ok = false;
    } else {
        c.src = p->text;
        ok = phases(&c, p, &issue.program);
    }
    if (ok) {
        if (p->type)
            p->type = copy_type(pa, p->type);
        *ret = p;
        return 0;
    }
    bh_assert(c.nissues > 0);
    cel_issue_report(&c, &issue);
    issue.text = bh_str_dup(a, issue.text);
    issue.full = bh_str_dup(a, issue.full);
    if (ret_issue)
        *ret_issue = issue;
    (void)bh_cel_program_free(p);
    if (!issue.line)
        return bh_err_set(err, BH_E_INVALID, "-1:0: %.*s", BH_SF(issue.text));
    return bh_err_set(err, BH_E_INVALID, "%u:%u: %.*s", issue.line, issue.col, BH_SF(issue.text));
}

int bh_cel_compile(const struct bh_cel_env *e, struct bh_str src, struct bh_arena *a,
                   struct bh_cel_program **ret, struct bh_cel_issue *ret_issue, struct bh_err *err)
{
    return compile(e, src, a, false, ret, ret_issue, err);
}

int bh_cel_compile_unchecked(const struct bh_cel_env *e, struct bh_str src, struct bh_arena *a,
                             struct bh_cel_program **ret, struct bh_cel_issue *ret_issue,
                             struct bh_err *err)
{
    return compile(e, src, a, true, ret, ret_issue, err);
}

struct bh_cel_program *bh_cel_program_free(struct bh_cel_program *p)
{
    if (!p)
        return NULL;
    for (size_t i = 0; i < p->nregexes; i++)
        bh_re2_free(p->regexes[i]);
    (void)bh_arena_free(p->arena);
    return NULL;
}

const struct bh_cel_type *bh_cel_program_type(const struct bh_cel_program *p)
{
    return p->type;
}

struct bh_str bh_cel_program_text(const struct bh_cel_program *p)
{
    return p->text;
}

uint64_t bh_cel_program_cost_max(const struct bh_cel_program *p)
{
    return p->cost.max;
}

uint64_t bh_cel_program_cost_min(const struct bh_cel_program *p)
{
    return p->cost.min;
}

bool bh_cel_program_uses(const struct bh_cel_program *p, size_t slot)
{
    return slot < p->nvars && p->uses[slot];
}
