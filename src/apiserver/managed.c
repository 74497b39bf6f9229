/* metadata.managedFields: every write passes bh_managed_keep(). */
#include "api/fieldpath.h"
#include "api/gen/meta_v1.h"
#include "apiserver/convert.h"
#include "apiserver/scale.h"
#include "apiserver/write.h"

#include <string.h>

#define MANAGER_BYTES_MAX 128

static bool is_printable(struct bh_str s)
{
    size_t i = 0;

    while (i < s.n && (unsigned char)s.p[i] >= 0x20 && (unsigned char)s.p[i] < 0x7f)
        i++;
    return i == s.n;
}

struct bh_str bh_manager_of(struct bh_rq *rq)
{
    struct bh_str ua = rq->user_agent, m;
    BH_AUTO_BUF b = {0};

    if (rq->field_manager.n > 0)
        return rq->field_manager;
    m = bh_str_cut(&ua, '/');
    if (m.n > 0 && m.n <= MANAGER_BYTES_MAX && is_printable(m))
        return m;
    /* What cannot be printed is left out, and no character is cut in two. */
    for (size_t i = 0, n; i < m.n; i += n) {
        n = 1;
        while (i + n < m.n && ((unsigned char)m.p[i + n] & 0xc0) == 0x80)
            n++;
        if ((unsigned char)m.p[i] < 0x20 || m.p[i] == 0x7f)
            continue;
        if (b.n + n > MANAGER_BYTES_MAX)
            break;
        bh_buf_add(&b, m.p + i, n);
    }
    return b.n > 0 ? bh_str_dup(rq->a, bh_buf_str(&b)) : BH_S("unknown");
}

/* An object mostly comes back with the entries that were stored: their text is our own. */
static bool is_among(const struct bh_meta_v1_managed_fields_entry_vec *stored, struct bh_str text)
{
    for (size_t i = 0; i < stored->n; i++)
        if (bh_str_eq(stored->p[i].fields_v_1, text))
            return true;
    return false;
}

/* Entries to sets. A malformed entry is -BH_E_BAD_REQUEST: the caller then takes the stored ones.
 * Text that stands in a stored entry is read where it matters. */
static int decode_entries(struct bh_arena *a, const struct bh_meta_v1_managed_fields_entry_vec *v,
                          const struct bh_meta_v1_managed_fields_entry_vec *stored,
                          struct bh_managers *ret)
{
    ret->p = bh_new_n(a, struct bh_manager, v->n + 2);
    ret->n = 0;
    for (size_t i = 0; i < v->n; i++) {
        const struct bh_meta_v1_managed_fields_entry *e = &v->p[i];
        struct bh_manager *m = &ret->p[ret->n++];

        if (!(bh_str_eqc(e->operation, "Update") || bh_str_eqc(e->operation, "Apply")) ||
            e->api_version.n == 0 || !bh_str_eqc(e->fields_type, "FieldsV1"))
            return -BH_E_BAD_REQUEST;
        *m = (struct bh_manager){.manager = e->manager,
                                 .operation = e->operation,
                                 .api_version = e->api_version,
                                 .subresource = e->subresource,
                                 .time = e->time};
        if (stored == v || (stored && is_among(stored, e->fields_v_1)))
            m->text = e->fields_v_1.n > 0 ? e->fields_v_1 : BH_S("{}");
        else if (bh_fset_decode(e->fields_v_1.n > 0 ? e->fields_v_1 : BH_S("{}"), a, &m->set,
                                NULL) < 0)
            return -BH_E_BAD_REQUEST;
    }
    return 0;
}

int bh_managed_decode(struct bh_arena *a, const struct bh_meta_v1_managed_fields_entry_vec *v,
                      struct bh_managers *ret)
{
    return decode_entries(a, v, NULL, ret);
}

/* Back into the struct, sorted. */
int bh_managed_store(struct bh_rq *rq, struct bh_managers *m, struct bh_meta_v1_object_meta *meta)
{
    struct bh_meta_v1_managed_fields_entry_vec *v = &meta->managed_fields;

    memset(v, 0, sizeof(*v));
    if (m->n == 0)
        return 0;
    bh_managers_sort(m);
    v->p = bh_new_n(rq->a, struct bh_meta_v1_managed_fields_entry, m->n);
    v->n = m->n;
    for (size_t i = 0; i < m->n; i++)
        v->p[i] =
            (struct bh_meta_v1_managed_fields_entry){.manager = m->p[i].manager,
                                                     .operation = m->p[i].operation,
                                                     .api_version = m->p[i].api_version,
                                                     .time = m->p[i].time,
                                                     .fields_type = BH_S("FieldsV1"),
                                                     .fields_v_1 = bh_manager_text(&m->p[i], rq->a),
                                                     .subresource = m->p[i].subresource};
    return 0;
}

static bool is_reset(const struct bh_meta_v1_managed_fields_entry_vec *v)
{
    if (v->n == 0)
        return v->p != NULL;
    return v->n == 1 && v->p[0].manager.n + v->p[0].operation.n + v->p[0].api_version.n +
                                v->p[0].fields_type.n + v->p[0].fields_v_1.n +
                                v->p[0].subresource.n ==
                            0;
}

static bool has_sub(const struct bh_kind *k, const char *name)
{
    return bh_kind_sub(k, bh_s(name)) != NULL;
}

/* JSON of obj (NULL: an empty object) in the version asked for, without managedFields. */
static int doc_of(struct bh_rq *rq, const struct bh_kind *hub, const void *obj, struct bh_str *ret)
{
    void *copy, *conv = NULL;
    struct bh_meta_v1_object_meta *m;
    BH_AUTO_BUF b = {0};
    int r;

    if (!obj) {
        bh_kind_encode_json(rq->kind, bh_arena_alloc(rq->a, rq->kind->type->size), &b);
        *ret = bh_str_dup(rq->a, bh_buf_str(&b));
        return 0;
    }
    copy = bh_arena_memdup(rq->a, obj, hub->type->size);
    m = bh_meta_of(hub, copy);
    memset(&m->managed_fields, 0, sizeof(m->managed_fields));
    r = bh_from_hub(rq, hub, copy, &conv);
    if (r < 0)
        return r;
    bh_kind_encode_json(rq->kind, conv, &b);
    *ret = bh_str_dup(rq->a, bh_buf_str(&b));
    return 0;
}

struct convert_arg {
    struct bh_rq *rq;
    const struct bh_kind *hub;
    const void *old, *now;
};

static bool convert_docs(void *arg, struct bh_str api_version, const struct bh_type **ret_t,
                         struct bh_str *ret_old, struct bh_str *ret_new)
{
    struct convert_arg *c = arg;
    const struct bh_kind *asked = c->rq->kind,
                         *k = bh_kind_by_api_version(api_version, c->hub->kind);
    bool ok;

    if (!k || k->resource.n == 0)
        return false;
    c->rq->kind = k;
    ok = doc_of(c->rq, c->hub, c->old, ret_old) == 0 && doc_of(c->rq, c->hub, c->now, ret_new) == 0;
    c->rq->kind = asked;
    *ret_t = k->type;
    return ok;
}

/* The object without its managedFields; what lies below is shared. */
static const void *bare_of(struct bh_rq *rq, const struct bh_kind *hub, const void *obj)
{
    void *copy =
        obj ? bh_arena_memdup(rq->a, obj, hub->type->size) : bh_arena_alloc(rq->a, hub->type->size);
    struct bh_meta_v1_object_meta *m = bh_meta_of(hub, copy);

    memset(&m->managed_fields, 0, sizeof(m->managed_fields));
    if (bh_scale_asked(rq))
        bh_scale_bare(hub, copy);
    return copy;
}

/* Equality forgives what ownership does not: an empty list in the place of an absent one. */
static bool none_differs(struct bh_rq *rq, const struct bh_kind *hub,
                         const struct bh_managed_update *u)
{
    struct bh_fset_diff d;

    bh_fset_compare_structs(hub->type, u->old_obj, u->new_obj, rq->a, &d);
    return bh_fset_empty(d.removed) && bh_fset_empty(d.modified) && bh_fset_empty(d.added);
}

/* What is compared: the structs themselves where the request speaks the stored version. */
static int compared(struct bh_rq *rq, const struct bh_kind *hub, const void *old, const void *obj,
                    struct bh_managed_update *u, bool *ret_same)
{
    int r;

    if (rq->kind == hub) {
        u->new_obj = bare_of(rq, hub, obj);
        u->old_obj = bare_of(rq, hub, old);
        *ret_same = bh_msg_equal(hub->type, u->old_obj, u->new_obj) && none_differs(rq, hub, u);
        return 0;
    }
    r = doc_of(rq, hub, obj, &u->new_doc);
    if (r == 0)
        r = doc_of(rq, hub, old, &u->old_doc);
    *ret_same = r == 0 && bh_str_eq(u->old_doc, u->new_doc);
    return r;
}

int bh_managed_keep(struct bh_rq *rq, const struct bh_kind *hub, void *obj, const void *old,
                    struct bh_str sub)
{
    struct bh_meta_v1_object_meta *m = bh_meta_of(hub, obj);
    const struct bh_meta_v1_object_meta *om = old ? bh_meta_const(hub, old) : NULL;
    struct bh_managers managers = {NULL, 0};
    struct convert_arg carg = {rq, hub, old, obj};
    struct bh_managed_convert conv = {convert_docs, &carg};
    struct bh_managed_update u = {.t = rq->kind->type,
                                  .self = {.manager = bh_manager_of(rq),
                                           .operation = BH_S("Update"),
                                           .api_version = rq->kind->api_version,
                                           .subresource = sub,
                                           .time = bh_scale_time(rq)},
                                  .convert = &conv};
    static const char *const reset[] = {"status"};
    bool given = sub.n == 0 && m->managed_fields.p, same;
    struct bh_err err = {0};
    int r;

    if (given && is_reset(&m->managed_fields)) {
        if (old)
            memset(&m->managed_fields, 0, sizeof(m->managed_fields));
        given = false;
        if (old)
            return 0;
    }
    if (!given ||
        decode_entries(rq->a, &m->managed_fields, om ? &om->managed_fields : NULL, &managers) < 0) {
        given = false;
        if (!om || decode_entries(rq->a, &om->managed_fields, &om->managed_fields, &managers) < 0)
            managers = (struct bh_managers){NULL, 0};
    }
    if (old && managers.n == 0) {
        /* An object whose tracking was switched off stays so. */
        memset(&m->managed_fields, 0, sizeof(m->managed_fields));
        return 0;
    }
    if (bh_scale_asked(rq) && !bh_scale_owned(rq, &managers)) {
        m->managed_fields = om->managed_fields;
        return 0;
    }
    r = compared(rq, hub, old, obj, &u, &same);
    if (r < 0)
        return r;
    if (old && !given && same) {
        m->managed_fields = om->managed_fields;
        return 0;
    }
    if (sub.n == 0 && has_sub(hub, "status") && !bh_rules_status_owned(hub)) {
        u.reset = bh_fset_of_paths(rq->a, reset, BH_COUNT(reset));
    }
    if (bh_managers_update(&managers, &u, rq->a, NULL, &err) < 0)
        return bh_fail_err(rq, &err);
    return bh_managed_store(rq, &managers, m);
}
