/* From the object form of a selector to the parsed one. */
#include "api/label_selector.h"

#include "api/gen/meta_v1.h"

static bool op_of(struct bh_str s, enum bh_label_op *ret)
{
    static const struct {
        const char *name;
        enum bh_label_op op;
    } table[] = {{"In", BH_LABEL_IN},
                 {"NotIn", BH_LABEL_NOT_IN},
                 {"Exists", BH_LABEL_EXISTS},
                 {"DoesNotExist", BH_LABEL_NOT_EXISTS}};

    for (size_t i = 0; i < BH_COUNT(table); i++)
        if (bh_str_eqc(s, table[i].name)) {
            *ret = table[i].op;
            return true;
        }
    return false;
}

bool bh_label_selector_of(struct bh_arena *a, const struct bh_meta_v1_label_selector *s,
                          struct bh_label_selector *ret)
{
    bool ok = true;

    *ret = (struct bh_label_selector){0};
    if (!s) {
        ret->nothing = true;
        return true;
    }
    *ret = bh_label_selector_from_map(a, &s->match_labels);
    for (size_t i = 0; i < s->match_expressions.n; i++) {
        const struct bh_meta_v1_label_selector_requirement *r = &s->match_expressions.p[i];
        enum bh_label_op op = BH_LABEL_IN;

        ok = ok && op_of(r->operator, & op) &&
             bh_label_selector_add(a, ret, r->key, op, r->values, NULL) == 0;
    }
    ret->nothing = !ok;
    return ok;
}
