/* Lists: the Kubernetes library, upstream's lists library, sets, includes. */
#include "cel/cel_eval.h"

#include <string.h>

#define INCLUDES_MAX 48 /* elements that includes() looks at */

static struct bh_cel_value at(struct bh_cel_run *run, struct bh_cel_value l, size_t i)
{
    return cel_list_at(run, l, i);
}

static bool comparable(struct bh_cel_value v)
{
    return (v.kind >= BH_CEL_BOOL && v.kind <= BH_CEL_BYTES) || v.kind == BH_CEL_TIMESTAMP ||
           v.kind == BH_CEL_DURATION;
}

CEL_FN(cel_f_is_sorted)
{
    struct bh_cel_value prev = bh_cel_null(), next, c;

    for (size_t i = 0; i < args[0].list->n; i++) {
        next = at(run, args[0], i);
        if (!comparable(next))
            return cel_err_overload_fn(run, "isSorted", args, n);
        if (i) {
            c = cel_compare(run, prev, next);
            if (c.kind == BH_CEL_ERROR)
                return c;
            if (c.i > 0)
                return bh_cel_bool(false);
        }
        prev = next;
    }
    return bh_cel_bool(true);
}

CEL_FN(cel_f_sum)
{
    struct bh_cel_value acc, v;

    if (args[0].list->n == 0)
        return bh_cel_int(0);
    acc = at(run, args[0], 0);
    for (size_t i = 0; i < args[0].list->n; i++) {
        v = at(run, args[0], i);
        if (v.kind != BH_CEL_INT && v.kind != BH_CEL_UINT && v.kind != BH_CEL_DOUBLE &&
            v.kind != BH_CEL_DURATION)
            return cel_err_overload_fn(run, "sum", args, n);
        if (i)
            acc = cel_arith(run, OP_ADD, acc, v);
        if (acc.kind == BH_CEL_ERROR)
            return acc;
    }
    return acc;
}

/* A comparison with NaN keeps the earlier element. */
static struct bh_cel_value extreme(struct bh_cel_run *run, const struct bh_cel_value *args,
                                   unsigned n, int want, const char *name)
{
    struct bh_cel_value best, v, c;

    if (args[0].list->n == 0)
        return bh_cel_error(run, "%s called on empty list", name);
    best = at(run, args[0], 0);
    if (!comparable(best))
        return cel_err_overload_fn(run, name, args, n);
    for (size_t i = 1; i < args[0].list->n; i++) {
        v = at(run, args[0], i);
        if (v.kind != best.kind && !(v.kind >= BH_CEL_INT && v.kind <= BH_CEL_DOUBLE &&
                                     best.kind >= BH_CEL_INT && best.kind <= BH_CEL_DOUBLE))
            return cel_err_overload(run);
        c = cel_compare(run, v, best);
        if (c.kind == BH_CEL_INT && c.i == want)
            best = v;
    }
    return best;
}

CEL_FN(cel_f_min)
{
    return extreme(run, args, n, -1, "min");
}

CEL_FN(cel_f_max)
{
    return extreme(run, args, n, 1, "max");
}

static bool same(struct bh_cel_run *run, struct bh_cel_value a, struct bh_cel_value b)
{
    struct bh_cel_value r = cel_equal(run, a, b);

    return r.kind == BH_CEL_BOOL && r.b;
}

CEL_FN(cel_f_index_of_list)
{
    (void)n;
    for (size_t i = 0; i < args[0].list->n; i++)
        if (same(run, at(run, args[0], i), args[1]))
            return bh_cel_int((int64_t)i);
    return bh_cel_int(-1);
}

CEL_FN(cel_f_last_index_of_list)
{
    (void)n;
    for (size_t i = args[0].list->n; i > 0; i--)
        if (same(run, at(run, args[0], i - 1), args[1]))
            return bh_cel_int((int64_t)i - 1);
    return bh_cel_int(-1);
}

static struct bh_cel_value copy_range(struct bh_cel_run *run, struct bh_cel_value l, size_t from,
                                      size_t to)
{
    struct bh_cel_value *v;
    struct cel_list_builder b;

    if (cel_overgrown(run))
        return cel_halt(run);
    v = bh_new_n(run->a, struct bh_cel_value, to - from);
    b = (struct cel_list_builder){v, to - from, to - from};
    for (size_t i = from; i < to; i++)
        v[i - from] = at(run, l, i);
    return cel_list_done(run->a, &b);
}

CEL_FN(cel_f_slice)
{
    long long a = args[1].i, b = args[2].i, len = (long long)args[0].list->n;

    (void)n;
    if (a < 0 || b < 0)
        return bh_cel_error(run, "cannot slice(%lld, %lld), negative indexes not supported", a, b);
    if (a > b)
        return bh_cel_error(
            run, "cannot slice(%lld, %lld), start index must be less than or equal to end index", a,
            b);
    if (b > len)
        return bh_cel_error(run, "cannot slice(%lld, %lld), list is length %lld", a, b, len);
    return copy_range(run, args[0], (size_t)a, (size_t)b);
}

/* Lists inside lists, down to level; an explicit stack, as values may nest deeply. */
static struct bh_cel_value flatten(struct bh_cel_run *run, struct bh_cel_value l, int64_t level)
{
    struct frame {
        struct bh_cel_value l;
        size_t i;
    } *st = NULL;
    size_t cap = 0, n = 0;
    struct cel_list_builder b = {0};

    bh_arena_grow(run->a, &st, &cap, 1, sizeof(*st));
    st[n++] = (struct frame){l, 0};
    while (n > 0) {
        struct frame *f = &st[n - 1];
        struct bh_cel_value v;

        if (f->i >= f->l.list->n) {
            n--;
            continue;
        }
        v = at(run, f->l, f->i++);
        if (v.kind == BH_CEL_LIST && (uint64_t)n <= (uint64_t)level) {
            bh_arena_grow(run->a, &st, &cap, n + 1, sizeof(*st));
            st[n++] = (struct frame){v, 0};
            continue;
        }
        cel_list_add(run->a, &b, v);
        if (b.n > CEL_LIST_LEN_MAX || (b.n % 4096 == 0 && cel_overgrown(run)))
            return cel_halt(run);
    }
    return cel_list_done(run->a, &b);
}

CEL_FN(cel_f_flatten)
{
    int64_t level = n == 2 ? args[1].i : 1;

    if (level < 0)
        return bh_cel_error(run, "level must be non-negative");
    return flatten(run, args[0], level);
}

CEL_FN(cel_f_range)
{
    struct bh_cel_value *v;
    struct cel_list_builder b;
    size_t len = args[0].i > 0 ? (size_t)args[0].i : 0;

    (void)n;
    /* The cost is charged afterwards; what it cannot pay for is not built. */
    if (len > run->limit - (run->cost < run->limit ? run->cost : run->limit) ||
        len > CEL_LIST_LEN_MAX || cel_overgrown(run)) {
        (void)cel_charge(run, len + 11);
        return cel_halt(run);
    }
    v = bh_new_n(run->a, struct bh_cel_value, len);
    b = (struct cel_list_builder){v, len, len};
    for (size_t i = 0; i < len; i++)
        v[i] = bh_cel_int((int64_t)i);
    return cel_list_done(run->a, &b);
}

CEL_FN(cel_f_reverse)
{
    size_t len = args[0].list->n;
    struct bh_cel_value *v;
    struct cel_list_builder b;

    (void)n;
    if (cel_overgrown(run))
        return cel_halt(run);
    v = bh_new_n(run->a, struct bh_cel_value, len);
    b = (struct cel_list_builder){v, len, len};
    for (size_t i = 0; i < len; i++)
        v[len - 1 - i] = at(run, args[0], i);
    return cel_list_done(run->a, &b);
}

CEL_FN(cel_f_distinct)
{
    struct cel_list_builder b = {0};

    (void)n;
    for (size_t i = 0; i < args[0].list->n; i++) {
        struct bh_cel_value v = at(run, args[0], i);
        bool seen = false;

        for (size_t k = 0; k < b.n && !seen; k++)
            seen = same(run, b.v[k], v);
        if (!seen)
            cel_list_add(run->a, &b, v);
    }
    return cel_list_done(run->a, &b);
}

/* Merge sort of indexes by key: stable, and an order that contradicts itself does no harm. */
static struct bh_cel_value sort_by(struct bh_cel_run *run, struct bh_cel_value l,
                                   struct bh_cel_value keys)
{
    size_t n = l.list->n;
    struct bh_cel_value *k = bh_new_n(run->a, struct bh_cel_value, n), c;
    uint32_t *idx = bh_new_n(run->a, uint32_t, n), *tmp = bh_new_n(run->a, uint32_t, n), *x;
    struct cel_list_builder b = {0};

    for (size_t i = 0; i < n; i++) {
        k[i] = at(run, keys, i);
        idx[i] = (uint32_t)i;
        if (!comparable(k[i]))
            return bh_cel_error(run, "list elements must be comparable");
        if (k[i].kind != k[0].kind)
            return bh_cel_error(run, "list elements must have the same type");
    }
    for (size_t w = 1; w < n; w *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * w) {
            size_t mid = lo + w < n ? lo + w : n, hi = lo + 2 * w < n ? lo + 2 * w : n, i = lo,
                   j = mid, o = lo;

            while (i < mid && j < hi) {
                c = cel_compare(run, k[idx[i]], k[idx[j]]);
                tmp[o++] = c.kind == BH_CEL_INT && c.i > 0 ? idx[j++] : idx[i++];
            }
            while (i < mid)
                tmp[o++] = idx[i++];
            while (j < hi)
                tmp[o++] = idx[j++];
        }
        x = idx;
        idx = tmp;
        tmp = x;
    }
    for (size_t i = 0; i < n; i++)
        cel_list_add(run->a, &b, at(run, l, idx[i]));
    return cel_list_done(run->a, &b);
}

CEL_FN(cel_f_sort)
{
    (void)n;
    return sort_by(run, args[0], args[0]);
}

CEL_FN(cel_f_sort_by_keys)
{
    (void)n;
    if (args[0].list->n != args[1].list->n)
        return bh_cel_error(
            run,
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list");
    return sort_by(run, args[0], args[1]);
}

CEL_FN(cel_f_first)
{
    (void)n;
    return args[0].list->n ? cel_optional(run->a, at(run, args[0], 0)) : cel_optional_none();
}

CEL_FN(cel_f_last)
{
    (void)n;
    return args[0].list->n ? cel_optional(run->a, at(run, args[0], args[0].list->n - 1))
                           : cel_optional_none();
}

static bool has(struct bh_cel_run *run, struct bh_cel_value l, struct bh_cel_value x)
{
    for (size_t i = 0; i < l.list->n; i++)
        if (same(run, at(run, l, i), x))
            return true;
    return false;
}

static bool contains_all(struct bh_cel_run *run, struct bh_cel_value a, struct bh_cel_value b)
{
    for (size_t i = 0; i < b.list->n; i++)
        if (!has(run, a, at(run, b, i)))
            return false;
    return true;
}

CEL_FN(cel_f_sets_contains)
{
    (void)n;
    return bh_cel_bool(contains_all(run, args[0], args[1]));
}

CEL_FN(cel_f_sets_equivalent)
{
    (void)n;
    return bh_cel_bool(contains_all(run, args[0], args[1]) && contains_all(run, args[1], args[0]));
}

CEL_FN(cel_f_sets_intersects)
{
    (void)n;
    for (size_t i = 0; i < args[1].list->n; i++)
        if (has(run, args[0], at(run, args[1], i)))
            return bh_cel_bool(true);
    return bh_cel_bool(false);
}

CEL_FN(cel_f_includes)
{
    (void)n;
    if (args[0].kind != BH_CEL_LIST)
        return bh_cel_bool(same(run, args[0], args[1]));
    for (size_t i = 0; i < args[0].list->n; i++) {
        if (i == INCLUDES_MAX)
            return bh_cel_error(
                run, "'includes' function cannot be applied to lists longer than %d values",
                INCLUDES_MAX);
        if (same(run, at(run, args[0], i), args[1]))
            return bh_cel_bool(true);
    }
    return bh_cel_bool(false);
}
