/* Node selectors, operator by operator. */
#include "dra/node_selector.h"

#include "api/gen/core_v1.h"
#include "base/test.h"

static struct bh_str_pair pairs[] = {{BH_S_INIT("rack"), BH_S_INIT("7")},
                                     {BH_S_INIT("zone"), BH_S_INIT("a")}};
static const struct bh_str_map labels = {pairs, 2};

static int expr(const char *key, const char *op, struct bh_str_vec values)
{
    struct bh_core_v1_node_selector_requirement r = {bh_s(key), bh_s(op), values};
    struct bh_core_v1_node_selector_term t = {.match_expressions = {&r, 1}};

    return bh_node_selector_term_match(&t, BH_S("n1"), &labels, NULL);
}

static int field(const char *key, const char *op, const char *value)
{
    struct bh_str v = bh_s(value);
    struct bh_core_v1_node_selector_requirement r = {bh_s(key), bh_s(op), {&v, 1}};
    struct bh_core_v1_node_selector_term t = {.match_fields = {&r, 1}};

    return bh_node_selector_term_match(&t, BH_S("n1"), &labels, NULL);
}

BH_TEST(node_selector_operators)
{
    struct bh_str a[] = {BH_S("b"), BH_S("a")}, seven = BH_S("7"), six = BH_S("6"),
                  word = BH_S("six"), odd = BH_S("a b"), below = BH_S("-3");
    struct bh_str_vec none = {NULL, 0}, ab = {a, 2}, b = {a, 1};

    BH_EQ(expr("zone", "In", ab), 1);
    BH_EQ(expr("zone", "In", b), 0);
    BH_EQ(expr("no", "In", b), 0);
    BH_EQ(expr("zone", "NotIn", ab), 0);
    BH_EQ(expr("zone", "NotIn", b), 1);
    BH_EQ(expr("no", "NotIn", b), 1);
    BH_EQ(expr("zone", "Exists", none), 1);
    BH_EQ(expr("no", "Exists", none), 0);
    BH_EQ(expr("zone", "DoesNotExist", none), 0);
    BH_EQ(expr("no", "DoesNotExist", none), 1);
    BH_EQ(expr("rack", "Gt", (struct bh_str_vec){&six, 1}), 1);
    BH_EQ(expr("rack", "Gt", (struct bh_str_vec){&seven, 1}), 0);
    BH_EQ(expr("rack", "Lt", (struct bh_str_vec){&seven, 1}), 0);
    BH_EQ(expr("zone", "Gt", (struct bh_str_vec){&six, 1}), 0); /* the label is no number */
    BH_EQ(expr("rack", "Gt", (struct bh_str_vec){&word, 1}), -BH_E_INVALID);
    BH_EQ(expr("rack", "Gt", ab), -BH_E_INVALID);
    BH_EQ(expr("zone", "In", none), -BH_E_INVALID);
    BH_EQ(expr("zone", "Exists", ab), -BH_E_INVALID);
    BH_EQ(expr("zone", "Near", ab), -BH_E_INVALID);
    /* What no label can be called is no requirement. */
    BH_EQ(expr("a zone!", "Exists", none), -BH_E_INVALID);
    BH_EQ(expr("zone", "NotIn", (struct bh_str_vec){&odd, 1}), -BH_E_INVALID);
    BH_EQ(expr("rack", "Gt", (struct bh_str_vec){&below, 1}), -BH_E_INVALID);
    BH_EQ(field("metadata.name", "In", "n1"), 1);
    BH_EQ(field("metadata.name", "In", "n2"), 0);
    BH_EQ(field("metadata.name", "NotIn", "n2"), 1);
    BH_EQ(field("metadata.uid", "In", "n1"), 0);
    BH_EQ(field("metadata.name", "Exists", "n1"), -BH_E_INVALID);
}

BH_TEST(
    node_selector_terms) /* ORed; a term with a fault counts only when no other selects the node */
{
    struct bh_str a = BH_S("a"), b = BH_S("b");
    struct bh_core_v1_node_selector_requirement in_a = {BH_S("zone"), BH_S("In"), {&a, 1}},
                                                in_b = {BH_S("zone"), BH_S("In"), {&b, 1}},
                                                bad = {BH_S("zone"), BH_S("Near"), {&b, 1}};
    struct bh_core_v1_node_selector_term terms[] = {{.match_expressions = {&bad, 1}},
                                                    {.match_expressions = {&in_b, 1}},
                                                    {{NULL, 0}, {NULL, 0}},
                                                    {.match_expressions = {&in_a, 1}}};
    struct bh_core_v1_node_selector sel = {{terms, 4}};
    struct bh_err err = {0};

    BH_EQ(bh_node_selector_match(&sel, BH_S("n1"), &labels, &err), 1);
    BH_EQ(bh_node_selector_check(&sel, &err), -BH_E_INVALID);
    sel.node_selector_terms.n = 3;
    BH_EQ(bh_node_selector_match(&sel, BH_S("n1"), &labels, &err), -BH_E_INVALID);
    sel.node_selector_terms.p = terms + 1;
    sel.node_selector_terms.n = 2;
    BH_EQ(bh_node_selector_match(&sel, BH_S("n1"), &labels, &err), 0);
    BH_EQ(bh_node_selector_check(&sel, &err), 0);
    sel.node_selector_terms.n = 0;
    BH_EQ(bh_node_selector_match(&sel, BH_S("n1"), &labels, &err), 0);
}
