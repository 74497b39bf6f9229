/* + - * / % on run-time kinds, with overflow as an error. */
#include "cel/cel_eval.h"

#include <string.h>

#define SEC_MIN (-62135596800)
#define SEC_MAX 253402300799
#define NS      1000000000

static struct bh_cel_value overflow(struct bh_cel_run *run)
{
    return bh_cel_error(run, "integer overflow");
}

/* Whether values of this kind can stand on the left of the operator at all. */
static bool has_op(uint32_t kind, enum cel_op op)
{
    switch (kind) {
    case BH_CEL_INT:
    case BH_CEL_UINT:
        return true;
    case BH_CEL_DOUBLE:
        return op != OP_MOD;
    case BH_CEL_STRING:
    case BH_CEL_BYTES:
    case BH_CEL_LIST:
        return op == OP_ADD;
    case BH_CEL_TIMESTAMP:
    case BH_CEL_DURATION:
        return op == OP_ADD || op == OP_SUB;
    default:
        return false;
    }
}

/* Upstream names the operator only for values that know neither it nor any method. */
static struct bh_cel_value no_op(struct bh_cel_run *run, enum cel_op op, uint32_t kind)
{
    const char *name = op == OP_ADD   ? "_+_"
                       : op == OP_SUB ? "_-_"
                       : op == OP_MUL ? "_*_"
                       : op == OP_DIV ? "_/_"
                                      : "_%_";

    if (kind == BH_CEL_ERROR || has_op(kind, op) || kind == BH_CEL_STRING ||
        kind == BH_CEL_TIMESTAMP || kind == BH_CEL_DURATION)
        return cel_err_overload(run);
    return bh_cel_error(run, "no such overload: %s", name);
}

static struct bh_cel_value int_op(struct bh_cel_run *run, enum cel_op op, int64_t a, int64_t b)
{
    int64_t r = 0;

    if ((op == OP_DIV || op == OP_MOD) && b == 0)
        return bh_cel_error(run, op == OP_DIV ? "division by zero" : "modulus by zero");
    if ((op == OP_DIV || op == OP_MOD) && a == INT64_MIN && b == -1)
        return overflow(run);
    switch (op) {
    case OP_ADD:
        if (__builtin_add_overflow(a, b, &r))
            return overflow(run);
        break;
    case OP_SUB:
        if (__builtin_sub_overflow(a, b, &r))
            return overflow(run);
        break;
    case OP_MUL:
        if (__builtin_mul_overflow(a, b, &r))
            return overflow(run);
        break;
    case OP_DIV:
        r = a / b;
        break;
    default:
        r = a % b;
        break;
    }
    return bh_cel_int(r);
}

static struct bh_cel_value uint_op(struct bh_cel_run *run, enum cel_op op, uint64_t a, uint64_t b)
{
    uint64_t r = 0;
    bool bad = false;

    if ((op == OP_DIV || op == OP_MOD) && b == 0)
        return bh_cel_error(run, op == OP_DIV ? "division by zero" : "modulus by zero");
    if (op == OP_ADD)
        bad = __builtin_add_overflow(a, b, &r);
    else if (op == OP_SUB)
        bad = __builtin_sub_overflow(a, b, &r);
    else if (op == OP_MUL)
        bad = __builtin_mul_overflow(a, b, &r);
    else
        r = op == OP_DIV ? a / b : a % b;
    return bad ? bh_cel_error(run, "unsigned integer overflow") : bh_cel_uint(r);
}

static struct bh_cel_value double_op(struct bh_cel_run *run, enum cel_op op, double a, double b)
{
    switch (op) {
    case OP_ADD:
        return bh_cel_double(a + b);
    case OP_SUB:
        return bh_cel_double(a - b);
    case OP_MUL:
        return bh_cel_double(a * b);
    case OP_DIV:
        return bh_cel_double(a / b);
    default:
        return no_op(run, op, BH_CEL_DOUBLE);
    }
}

/* t + ns (or t - ns when minus). */
static struct bh_cel_value time_shift(struct bh_cel_run *run, const struct bh_cel_time *t,
                                      int64_t ns, bool minus)
{
    __int128 total = (__int128)t->sec * NS + t->nsec + (minus ? -(__int128)ns : (__int128)ns);
    __int128 sec = total / NS, nsec = total % NS;

    if (nsec < 0) {
        nsec += NS;
        sec--;
    }
    if (sec < SEC_MIN || sec > SEC_MAX)
        return bh_cel_error(run, "timestamp overflow");
    return cel_time_value(run->a, (int64_t)sec, (int32_t)nsec, t->offset_sec);
}

static struct bh_cel_value time_diff(struct bh_cel_run *run, const struct bh_cel_time *a,
                                     const struct bh_cel_time *b)
{
    __int128 d = (__int128)(a->sec - b->sec) * NS + (a->nsec - b->nsec);

    if (d > INT64_MAX || d < INT64_MIN)
        return overflow(run);
    return (struct bh_cel_value){.kind = BH_CEL_DURATION, .i = (int64_t)d};
}

/* A view of two lists one after the other: adding must not copy, or an expression could double a
 * list for free. */
struct rope {
    struct bh_cel_list l;
    struct bh_cel_value left, right;
};

static struct bh_cel_value rope_at(struct bh_cel_run *run, const struct bh_cel_list *l, size_t i);
static const struct bh_cel_list_ops rope_ops = {.at = rope_at};

static struct bh_cel_value rope_at(struct bh_cel_run *run, const struct bh_cel_list *l, size_t i)
{
    struct bh_cel_value v = {.kind = BH_CEL_LIST, .list = l};

    while (!v.list->v && v.list->ops == &rope_ops) {
        const struct rope *r = v.list->data;

        if (i < r->left.list->n) {
            v = r->left;
        } else {
            i -= r->left.list->n;
            v = r->right;
        }
    }
    return cel_list_at(run, v, i);
}

struct bh_cel_value cel_concat(struct bh_cel_run *run, struct bh_cel_value a, struct bh_cel_value b)
{
    size_t n = a.list->n + b.list->n;
    struct rope *r;

    if (a.list->ops && a.list->ops->add)
        return a.list->ops->add(run, a.list, b.list);
    if (a.list->n == 0)
        return b;
    if (b.list->n == 0)
        return a;
    if (n > CEL_LIST_LEN_MAX)
        return cel_halt(run);
    if (n <= 16 && a.list->v && b.list->v) {
        struct bh_cel_value *v = bh_new_n(run->a, struct bh_cel_value, n);
        struct cel_list_builder out = {v, n, n};

        memcpy(v, a.list->v, a.list->n * sizeof(*v));
        memcpy(v + a.list->n, b.list->v, b.list->n * sizeof(*v));
        return cel_list_done(run->a, &out);
    }
    r = bh_new(run->a, struct rope);
    r->left = a;
    r->right = b;
    r->l.n = n;
    r->l.ops = &rope_ops;
    r->l.data = r;
    return (struct bh_cel_value){.kind = BH_CEL_LIST, .list = &r->l};
}

static struct bh_cel_value bytes_add(struct bh_cel_run *run, struct bh_cel_value a,
                                     struct bh_cel_value b)
{
    size_t n = (size_t)a.n + b.n;
    char *p;

    if (n > UINT32_MAX / 2 || cel_overgrown(run))
        return cel_halt(run);
    p = bh_arena_alloc(run->a, n + 1);
    if (a.n)
        memcpy(p, a.s, a.n);
    if (b.n)
        memcpy(p + a.n, b.s, b.n);
    return (struct bh_cel_value){.kind = a.kind, .n = (uint32_t)n, .s = p};
}

static struct bh_cel_value mixed(struct bh_cel_run *run, enum cel_op op, struct bh_cel_value a,
                                 struct bh_cel_value b)
{
    if (a.kind == BH_CEL_TIMESTAMP && b.kind == BH_CEL_DURATION && (op == OP_ADD || op == OP_SUB))
        return time_shift(run, a.time, b.i, op == OP_SUB);
    if (a.kind == BH_CEL_DURATION && b.kind == BH_CEL_TIMESTAMP && op == OP_ADD)
        return time_shift(run, b.time, a.i, false);
    return no_op(run, op, a.kind);
}

struct bh_cel_value cel_arith(struct bh_cel_run *run, enum cel_op op, struct bh_cel_value a,
                              struct bh_cel_value b)
{
    struct bh_cel_value r;

    if (a.kind != b.kind)
        return mixed(run, op, a, b);
    switch (a.kind) {
    case BH_CEL_INT:
        return int_op(run, op, a.i, b.i);
    case BH_CEL_UINT:
        return uint_op(run, op, a.u, b.u);
    case BH_CEL_DOUBLE:
        return double_op(run, op, a.d, b.d);
    case BH_CEL_STRING:
    case BH_CEL_BYTES:
        return op == OP_ADD ? bytes_add(run, a, b) : no_op(run, op, a.kind);
    case BH_CEL_LIST:
        return op == OP_ADD ? cel_concat(run, a, b) : no_op(run, op, a.kind);
    case BH_CEL_TIMESTAMP:
        return op == OP_SUB ? time_diff(run, a.time, b.time) : no_op(run, op, a.kind);
    case BH_CEL_DURATION:
        if (op != OP_ADD && op != OP_SUB)
            return no_op(run, op, a.kind);
        r = int_op(run, op, a.i, b.i);
        if (r.kind == BH_CEL_INT)
            r.kind = BH_CEL_DURATION;
        return r;
    default:
        return no_op(run, op, a.kind);
    }
}
