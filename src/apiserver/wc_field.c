/* Values of selectable fields, read from the object's JSON: a scan of the bytes costs less than
 * decoding the object, and leaves no decoded struct behind. */
#include "api/types.h"
#include "apiserver/watch_cache.h"
#include "base/arena.h"
#include "data/json.h"

/* Steps into the member called name of the object at the cursor; false when it is not there. */
static bool step(struct bh_json_rd *r, struct bh_str name)
{
    struct bh_str key;

    if (bh_json_peek(r) != BH_JSON_OBJ || bh_json_enter(r, NULL) < 0)
        return false;
    while (bh_json_next_key(r, &key, NULL) > 0) {
        if (bh_str_eq(key, name))
            return true;
        if (bh_json_skip(r, NULL, NULL) < 0)
            return false;
    }
    return false;
}

/* What an absent field counts as: by its type in the schema. */
static struct bh_str zero_of(const struct bh_type *t, struct bh_str path)
{
    while (path.n > 0 && t) {
        struct bh_str name = bh_str_cut(&path, '.');
        const struct bh_field *f = bh_type_field(t, name);

        if (!f)
            break;
        if (path.n == 0) {
            switch (f->type) {
            case BH_T_BOOL:
                return BH_S("false");
            case BH_T_INT32:
            case BH_T_INT64:
            case BH_T_UINT32:
                return BH_S("0");
            default:
                break;
            }
        }
        t = f->msg;
    }
    return BH_S("");
}

/* Where a selectable field stands in the object, without a leading dot. */
static struct bh_str path_of(const struct bh_kind *k, struct bh_str field)
{
    for (uint32_t i = 0; i < k->n_selectable; i++)
        if (bh_str_eq(k->selectable[i], field)) {
            struct bh_str p = k->select_paths[i];

            return bh_str_starts(p, BH_S(".")) ? bh_str_sub(p, 1, p.n) : p;
        }
    return field;
}

struct bh_str bh_wc_field(const struct bh_obj *o, struct bh_str field, struct bh_arena *a)
{
    struct bh_str path, full, name, v = BH_S("");
    struct bh_json_rd r;
    bool b;

    if (bh_str_eqc(field, "metadata.name"))
        return o->name;
    if (bh_str_eqc(field, "metadata.namespace"))
        return o->ns;
    path = full = path_of(o->kind, field);
    bh_json_rd_init(&r, o->json, a);
    while (path.n > 0) {
        name = bh_str_cut(&path, '.');
        if (!step(&r, name))
            return zero_of(o->kind->type, full);
    }
    switch (bh_json_peek(&r)) {
    case BH_JSON_STR:
        return bh_json_take_str(&r, &v, NULL) < 0 ? BH_S("") : v;
    case BH_JSON_NUM:
        return bh_json_take_num(&r, &v, NULL) < 0 ? BH_S("") : v;
    case BH_JSON_BOOL:
        if (bh_json_take_bool(&r, &b, NULL) < 0)
            return v;
        return b ? BH_S("true") : BH_S("false");
    default:
        return zero_of(o->kind->type, full);
    }
}
