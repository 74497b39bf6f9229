/* NodeSelector: terms are ORed, requirements ANDed; the operators of label selectors plus Gt and
 * Lt. */
#include "dra/node_selector.h"

#include "api/gen/core_v1.h"
#include "data/names.h"

enum op { OP_IN, OP_NOT_IN, OP_EXISTS, OP_DOES_NOT_EXIST, OP_GT, OP_LT, OP_BAD };

static enum op op_of(struct bh_str s)
{
    static const char *const names[] = {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"};

    for (size_t i = 0; i < BH_COUNT(names); i++)
        if (bh_str_eqc(s, names[i]))
            return (enum op)i;
    return OP_BAD;
}

static bool has_value(const struct bh_str_vec *v, struct bh_str s)
{
    for (size_t i = 0; i < v->n; i++)
        if (bh_str_eq(v->p[i], s))
            return true;
    return false;
}

/* Keys and values have to be such as labels can have: a number below zero is none, also for Gt. */
static int words_check(const struct bh_core_v1_node_selector_requirement *r, struct bh_err *err)
{
    char buf[BH_NAMES_BUF];
    const char *fault = bh_check_qualified_name(r->key, buf);

    if (fault)
        return bh_err_set(err, BH_E_INVALID, "key: Invalid value: \"%.*s\": %s", BH_SF(r->key),
                          fault);
    for (size_t i = 0; i < r->values.n; i++) {
        fault = bh_check_label_value(r->values.p[i], buf);
        if (fault)
            return bh_err_set(err, BH_E_INVALID, "values[%zu]: Invalid value: \"%.*s\": %s", i,
                              BH_SF(r->values.p[i]), fault);
    }
    return 0;
}

/* Faults that do not depend on the node. */
static int req_check(const struct bh_core_v1_node_selector_requirement *r, bool field,
                     struct bh_err *err)
{
    enum op op = op_of(r->operator);
    int64_t n;

    if (!field && op != OP_BAD && words_check(r, err) < 0)
        return -BH_E_INVALID;
    if (field) {
        if (op != OP_IN && op != OP_NOT_IN)
            return bh_err_set(err, BH_E_INVALID, "\"%.*s\" is not a valid node selector operator",
                              BH_SF(r->operator));
        if (r->values.n != 1)
            return bh_err_set(
                err, BH_E_INVALID,
                "unexpected number of value (%zu) for node field selector operator \"%.*s\"",
                r->values.n, BH_SF(r->operator));
        return 0;
    }
    switch (op) {
    case OP_IN:
    case OP_NOT_IN:
        if (r->values.n == 0)
            return bh_err_set(err, BH_E_INVALID,
                              "values: Invalid value: null: for 'in', 'notin' operators, values "
                              "set can't be empty");
        return 0;
    case OP_EXISTS:
    case OP_DOES_NOT_EXIST:
        if (r->values.n != 0)
            return bh_err_set(
                err, BH_E_INVALID,
                "values: Invalid value: values set must be empty for exists and does not exist");
        return 0;
    case OP_GT:
    case OP_LT:
        if (r->values.n != 1)
            return bh_err_set(
                err, BH_E_INVALID,
                "values: Invalid value: for 'Gt', 'Lt' operators, exactly one value is required");
        if (!bh_str_i64(r->values.p[0], INT64_MIN, INT64_MAX, &n))
            return bh_err_set(err, BH_E_INVALID,
                              "values[0]: Invalid value: \"%.*s\": for 'Gt', 'Lt' operators, the "
                              "value must be an integer",
                              BH_SF(r->values.p[0]));
        return 0;
    default:
        return bh_err_set(err, BH_E_INVALID, "\"%.*s\" is not a valid node selector operator",
                          BH_SF(r->operator));
    }
}

static bool label_matches(const struct bh_core_v1_node_selector_requirement *r,
                          const struct bh_str_map *labels)
{
    const struct bh_str *v = bh_str_map_get(labels, r->key);
    int64_t have, want;

    switch (op_of(r->operator)) {
    case OP_IN:
        return v && has_value(&r->values, *v);
    case OP_NOT_IN:
        return !v || !has_value(&r->values, *v);
    case OP_EXISTS:
        return v != NULL;
    case OP_DOES_NOT_EXIST:
        return v == NULL;
    case OP_GT:
    case OP_LT:
        /* A label that is no number never compares. */
        if (!v || !bh_str_i64(*v, INT64_MIN, INT64_MAX, &have) ||
            !bh_str_i64(r->values.p[0], INT64_MIN, INT64_MAX, &want))
            return false;
        return op_of(r->operator) == OP_GT ? have > want : have < want;
    default:
        return false;
    }
}

/* metadata.name is the only field a node has here; others read as empty, as upstream. */
static bool field_matches(const struct bh_core_v1_node_selector_requirement *r,
                          struct bh_str node_name)
{
    struct bh_str v = bh_str_eqc(r->key, "metadata.name") ? node_name : BH_S("");
    bool in = bh_str_eq(r->values.p[0], v);

    return op_of(r->operator) == OP_IN ? in : !in;
}

static int term_check(const struct bh_core_v1_node_selector_term *t, struct bh_err *err)
{
    int r = 0;

    for (size_t i = 0; i < t->match_expressions.n && r == 0; i++)
        r = req_check(&t->match_expressions.p[i], false, err);
    for (size_t i = 0; i < t->match_fields.n && r == 0; i++)
        r = req_check(&t->match_fields.p[i], true, err);
    return r;
}

int bh_node_selector_term_match(const struct bh_core_v1_node_selector_term *t,
                                struct bh_str node_name, const struct bh_str_map *labels,
                                struct bh_err *err)
{
    int r;

    if (t->match_expressions.n == 0 && t->match_fields.n == 0)
        return 0;
    r = term_check(t, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < t->match_expressions.n; i++)
        if (!label_matches(&t->match_expressions.p[i], labels))
            return 0;
    for (size_t i = 0; i < t->match_fields.n; i++)
        if (!field_matches(&t->match_fields.p[i], node_name))
            return 0;
    return 1;
}

int bh_node_selector_match(const struct bh_core_v1_node_selector *sel, struct bh_str node_name,
                           const struct bh_str_map *labels, struct bh_err *err)
{
    int worst = 0;

    for (size_t i = 0; i < sel->node_selector_terms.n; i++) {
        int r = bh_node_selector_term_match(&sel->node_selector_terms.p[i], node_name, labels,
                                            worst < 0 ? NULL : err);

        if (r > 0)
            return 1;
        if (r < 0 && worst == 0)
            worst = r;
    }
    return worst;
}

int bh_node_selector_check(const struct bh_core_v1_node_selector *sel, struct bh_err *err)
{
    int r = 0;

    for (size_t i = 0; i < sel->node_selector_terms.n && r == 0; i++)
        r = term_check(&sel->node_selector_terms.p[i], err);
    return r;
}
