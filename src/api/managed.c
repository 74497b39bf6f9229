/* metadata.managedFields: entries to sets and back, and what an update does to them. */
#include "api/engine.h"
#include "api/fset_int.h"

#include <stdlib.h>
#include <string.h>

int bh_managers_decode(struct bh_str json, struct bh_arena *a, struct bh_managers *ret,
                       struct bh_err *err)
{
    struct bh_jv v;
    int rc = 0;

    *ret = (struct bh_managers){0};
    if (!json.n)
        return 0;
    rc = bh_jv_parse(a, bh_str_dup(a, json), NULL, &v, err);
    if (rc < 0 || v.kind == BH_JSON_NULL)
        return rc;
    if (v.kind != BH_JSON_ARR)
        return bh_err_set(err, BH_E_BAD_REQUEST, "managedFields is no list");
    ret->p = bh_new_n(a, struct bh_manager, v.n_items + 1);
    for (size_t i = 0; i < v.n_items; i++) {
        const struct bh_jv *e = &v.items[i], *fields = bh_jv_getc(e, "fieldsV1");
        struct bh_manager *m = &ret->p[ret->n++];
        struct bh_str time = bh_jv_get_str(e, "time");

        m->manager = bh_jv_get_str(e, "manager");
        m->operation = bh_jv_get_str(e, "operation");
        m->api_version = bh_jv_get_str(e, "apiVersion");
        m->subresource = bh_jv_get_str(e, "subresource");
        if (!bh_str_eqc(m->operation, "Apply") && !bh_str_eqc(m->operation, "Update"))
            return bh_err_set(err, BH_E_BAD_REQUEST, "invalid operation type: %.*s",
                              BH_SF(m->operation));
        if (!bh_str_eqc(bh_jv_get_str(e, "fieldsType"), "FieldsV1"))
            return bh_err_set(err, BH_E_BAD_REQUEST, "unsupported fieldsType");
        if (!m->api_version.n)
            return bh_err_set(err, BH_E_BAD_REQUEST, "apiVersion must not be empty");
        if (time.n)
            rc = bh_time_parse(time, &m->time, err);
        if (rc == 0 && fields)
            rc = bh_fset_decode(bh_jv_text(a, fields, BH_JSON_PLAIN), a, &m->set, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int entry_cmp(const void *x, const void *y)
{
    const struct bh_manager *p = x, *q = y;
    int c = bh_str_cmp(p->operation, q->operation);

    if (c == 0)
        c = p->time.sec < q->time.sec ? -1 : p->time.sec > q->time.sec;
    if (c == 0)
        c = bh_str_cmp(p->manager, q->manager);
    if (c == 0)
        c = bh_str_cmp(p->api_version, q->api_version);
    return c ? c : bh_str_cmp(p->subresource, q->subresource);
}

static void put_member(struct bh_buf *out, const char *name, struct bh_str v, bool *first)
{
    if (!v.n)
        return;
    bh_buf_addz(out, *first ? "\"" : ",\"");
    *first = false;
    bh_buf_addz(out, name);
    bh_buf_addz(out, "\":");
    bh_json_write_str(out, v);
}

void bh_managers_sort(struct bh_managers *m)
{
    if (m->n > 1)
        qsort(m->p, m->n, sizeof(m->p[0]), entry_cmp);
}

static void put_fields(const struct bh_manager *e, struct bh_buf *out)
{
    if (e->text.p)
        bh_buf_adds(out, e->text);
    else
        bh_fset_encode(e->set, out);
}

struct bh_str bh_manager_text(const struct bh_manager *m, struct bh_arena *a)
{
    BH_AUTO_BUF b = {0};

    if (m->text.p)
        return m->text;
    bh_buf_reserve(&b, 1024);
    bh_fset_encode(m->set, &b);
    return bh_str_dup(a, bh_buf_str(&b));
}

void bh_managers_encode(struct bh_managers *m, struct bh_buf *out)
{
    bh_managers_sort(m);
    bh_buf_addc(out, '[');
    for (size_t i = 0; i < m->n; i++) {
        const struct bh_manager *e = &m->p[i];
        bool first = true;

        bh_buf_addz(out, i ? ",{" : "{");
        put_member(out, "manager", e->manager, &first);
        put_member(out, "operation", e->operation, &first);
        put_member(out, "apiVersion", e->api_version, &first);
        if (!bh_time_is_zero(e->time)) {
            bh_buf_addz(out, ",\"time\":");
            bh_enc_time(out, e->time, false);
        }
        bh_buf_addz(out, ",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":");
        put_fields(e, out);
        put_member(out, "subresource", e->subresource, &first);
        bh_buf_addc(out, '}');
    }
    bh_buf_addc(out, ']');
}

/* ---- updates ---- */

/* The set of an entry that came as text. Text that was ours once is never malformed. */
static struct bh_fset *set_of(struct bh_manager *e, struct bh_arena *a)
{
    if (!e->set && e->text.p && bh_fset_decode(e->text, a, &e->set, NULL) < 0)
        e->set = NULL;
    return e->set;
}

static void set_set(struct bh_manager *e, struct bh_fset *set)
{
    e->set = set;
    e->text = (struct bh_str){NULL, 0};
}

static bool has_field(struct bh_str text, struct bh_str name)
{
    char key[128];

    if (name.n > sizeof(key) - 4)
        return true;
    memcpy(key, "\"f:", 3);
    memcpy(key + 3, name.p, name.n);
    key[3 + name.n] = '"';
    return bh_str_find(text, (struct bh_str){key, name.n + 4}) >= 0;
}

/* Whether the text may hold anything of a set, by the names of its upper two levels. Names that
 * need escapes are looked for as they are, which is why anything but a plain one counts as held. */
static bool plain(const struct bh_pe *pe)
{
    if (pe->kind != BH_PE_FIELD)
        return false;
    for (size_t i = 0; i < pe->name.n; i++)
        if ((unsigned char)pe->name.p[i] <= ' ' || (unsigned char)pe->name.p[i] >= 0x7f ||
            strchr("\"\\<>&", pe->name.p[i]))
            return false;
    return true;
}

static bool may_hold(struct bh_str text, const struct bh_fset *s)
{
    for (size_t i = 0; s && i < s->n; i++) {
        const struct bh_fnode *n = &s->p[i];

        if (!plain(&n->pe))
            return true;
        if (!has_field(text, n->pe.name))
            continue;
        if (n->member)
            return true;
        for (size_t k = 0; n->below && k < n->below->n; k++)
            if (!plain(&n->below->p[k].pe) || has_field(text, n->below->p[k].pe.name))
                return true;
    }
    return false;
}

static bool is_update(const struct bh_manager *m)
{
    return bh_str_eqc(m->operation, "Update");
}

static bool same_manager(const struct bh_manager *x, const struct bh_manager *y)
{
    return bh_str_eq(x->manager, y->manager) && bh_str_eq(x->operation, y->operation) &&
           bh_str_eq(x->api_version, y->api_version) && bh_str_eq(x->subresource, y->subresource);
}

/* *ret_known: false when the documents cannot be had in that version. */
static int diff_in(const struct bh_managed_update *u, struct bh_str version, struct bh_arena *a,
                   struct bh_fset_diff *ret, bool *ret_known, struct bh_err *err)
{
    const struct bh_type *t = u->t;
    struct bh_str o = u->old_doc, n = u->new_doc;

    *ret_known = bh_str_eq(version, u->self.api_version) || !u->convert ||
                 u->convert->fn(u->convert->arg, version, &t, &o, &n);
    if (!*ret_known)
        return 0;
    int rc = 0;

    if (u->old_obj && u->new_obj && t == u->t)
        bh_fset_compare_structs(t, u->old_obj, u->new_obj, a, ret);
    else
        rc = bh_fset_compare(t, o, n, a, ret, err);
    if (rc < 0 || !u->reset)
        return rc;
    ret->removed = bh_fset_recursive_difference(a, ret->removed, u->reset);
    ret->modified = bh_fset_recursive_difference(a, ret->modified, u->reset);
    ret->added = bh_fset_recursive_difference(a, ret->added, u->reset);
    return 0;
}

static bool same_group(struct bh_str x, struct bh_str y)
{
    struct bh_str gx = bh_str_chr(x, '/', 0) < 0 ? BH_S("") : bh_str_cut(&x, '/');
    struct bh_str gy = bh_str_chr(y, '/', 0) < 0 ? BH_S("") : bh_str_cut(&y, '/');

    return bh_str_eq(gx, gy);
}

static void drop_empty(struct bh_managers *m)
{
    size_t n = 0;

    for (size_t i = 0; i < m->n; i++)
        if (!bh_fset_empty(m->p[i].set) ||
            (!m->p[i].set && m->p[i].text.p && !bh_str_eqc(m->p[i].text, "{}")))
            m->p[n++] = m->p[i];
    m->n = n;
}

static void append(struct bh_managers *m, struct bh_manager e, struct bh_arena *a)
{
    struct bh_manager *p = bh_new_n(a, struct bh_manager, m->n + 1);

    if (m->n)
        memcpy(p, m->p, m->n * sizeof(*p));
    p[m->n++] = e;
    m->p = p;
}

static void remove_at(struct bh_managers *m, size_t i)
{
    memmove(&m->p[i], &m->p[i + 1], (m->n - i - 1) * sizeof(m->p[0]));
    m->n--;
}

/* The oldest updater after the skip oldest ones; m->n when there are not so many. */
static size_t oldest(const struct bh_managers *m, size_t skip)
{
    size_t best = m->n;

    for (size_t i = 0; i < m->n; i++) {
        size_t rank = 0;

        if (!is_update(&m->p[i]))
            continue;
        for (size_t k = 0; k < m->n; k++)
            if (k != i && is_update(&m->p[k]) && entry_cmp(&m->p[k], &m->p[i]) < 0)
                rank++;
        if (rank == skip)
            best = i;
    }
    return best;
}

#define ANCIENT "ancient-changes"

/* Merges the oldest updaters, those of one version together, until few enough are left. */
static void cap_updaters(struct bh_managers *m, struct bh_arena *a)
{
    size_t updaters = 0, skip = 0;

    for (size_t i = 0; i < m->n; i++)
        updaters += is_update(&m->p[i]);
    while (updaters > BH_UPDATERS_MAX && skip < updaters) {
        size_t i = oldest(m, skip), first = m->n;

        if (i >= m->n)
            return;
        /* the oldest one of this version met before */
        for (size_t s = 0; s < skip && first == m->n; s++) {
            size_t k = oldest(m, s);

            if (bh_str_eq(m->p[k].api_version, m->p[i].api_version))
                first = k;
        }
        if (first == m->n) {
            skip++;
            continue;
        }
        m->p[first].manager = BH_S(ANCIENT);
        m->p[first].subresource = BH_S("");
        set_set(&m->p[first], bh_fset_union(a, set_of(&m->p[first], a), set_of(&m->p[i], a)));
        m->p[first].time = m->p[i].time; /* the later of the two */
        remove_at(m, i);
        updaters--;
    }
}

int bh_managers_update(struct bh_managers *m, const struct bh_managed_update *u, struct bh_arena *a,
                       bool *ret_changed, struct bh_err *err)
{
    struct bh_fset_diff d, other;
    struct bh_str other_version = {NULL, 0};
    bool changed = false, known;
    int rc = diff_in(u, u->self.api_version, a, &d, &known, err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < m->n; i++) {
        struct bh_manager *e = &m->p[i];
        const struct bh_fset_diff *in = &d;

        if (!same_group(e->api_version, u->self.api_version)) {
            set_set(e, NULL); /* upstream drops what it cannot convert */
            changed = true;
            continue;
        }
        if (u->convert && !bh_str_eq(e->api_version, u->self.api_version)) {
            if (!bh_str_eq(e->api_version, other_version)) {
                rc = diff_in(u, e->api_version, a, &other, &known, err);
                if (rc < 0)
                    return rc;
                other_version = e->api_version;
            }
            if (!known) {
                set_set(e, NULL);
                changed = true;
                continue;
            }
            in = &other;
        }
        struct bh_fset *taken =
            bh_fset_union(a, bh_fset_union(a, in->modified, in->added), in->removed);
        if (!e->set && e->text.p && !may_hold(e->text, taken))
            continue;
        struct bh_fset *left = bh_fset_difference(a, set_of(e, a), taken);

        if (!bh_fset_equal(left, e->set)) {
            set_set(e, left);
            changed = true;
        }
    }
    /* What was removed and added at once (an item that has become two of one key) stays. */
    struct bh_fset *mine = bh_fset_strip_meta(a, bh_fset_union(a, d.modified, d.added));

    if (!bh_fset_empty(mine)) {
        size_t i = 0;

        while (i < m->n && !same_manager(&m->p[i], &u->self))
            i++;
        if (i == m->n) {
            struct bh_manager e = u->self;

            set_set(&e, NULL);
            append(m, e, a);
        }
        set_set(&m->p[i], bh_fset_union(a, set_of(&m->p[i], a), mine));
        m->p[i].time = u->self.time;
        changed = true;
    }
    drop_empty(m);
    cap_updaters(m, a);
    if (ret_changed)
        *ret_changed = changed;
    return 0;
}
