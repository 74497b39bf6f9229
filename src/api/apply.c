/* Server-side apply over managedFields: merge, give up, conflict. */
#include "api/apply.h"

#include "api/fset_int.h"

#include <stdlib.h>
#include <string.h>

#define LAST_APPLIED          "kubectl.kubernetes.io/last-applied-configuration"
#define ANNOTATIONS_BYTES_MAX (256 * 1024)

/* One object in the versions that somebody owned fields through. */
struct versioned {
    struct bh_str version;
    const struct bh_type *t;
    struct bh_jv doc;
};

static bool in_version(const struct bh_apply *u, const struct versioned *from, struct bh_str to,
                       struct versioned *ret)
{
    if (bh_str_eq(from->version, to)) {
        *ret = *from;
        return true;
    }
    ret->version = to;
    return u->convert &&
           u->convert->fn(u->convert->arg, from->version, &from->doc, to, &ret->t, &ret->doc);
}

/* An applier is one whatever version it speaks. */
static bool is_self(const struct bh_apply *u, const struct bh_manager *m)
{
    return bh_str_eq(m->operation, u->self.operation) && bh_str_eq(m->manager, u->self.manager) &&
           bh_str_eq(m->subresource, u->self.subresource);
}

static const struct bh_fset *set_named(const struct versioned *v, struct bh_arena *a)
{
    return bh_fset_with_named(v->t, bh_fset_of_jv(v->t, &v->doc, a), a);
}

/* ---- what the applier no longer sends ---- */

/* Puts back into *pruned, out of merged, what somebody owns in one version. */
static void keep_owned(const struct bh_apply *u, const struct bh_managers *m, struct bh_str version,
                       struct versioned *merged, struct versioned *pruned, struct bh_arena *a)
{
    const struct bh_fset *owned = NULL;
    struct versioned mv, pv;

    for (size_t i = 0; i < m->n; i++)
        if (bh_str_eq(m->p[i].api_version, version))
            owned = bh_fset_union(a, owned, m->p[i].set);
    if (!in_version(u, merged, version, &mv) || !in_version(u, pruned, version, &pv))
        return;
    const struct bh_fset *gone =
        bh_fset_difference(a, set_named(&mv, a),
                           bh_fset_union(a, set_named(&pv, a), bh_fset_with_named(mv.t, owned, a)));

    *merged = mv;
    *pruned = pv;
    pruned->doc = bh_typed_remove(mv.t, &mv.doc, gone, a);
}

static bool before(const struct bh_managers *m, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (bh_str_eq(m->p[k].api_version, m->p[i].api_version))
            return true;
    return false;
}

/* Takes out of *obj what the applier owned before and nobody owns now. last: its former entry. */
static void prune(const struct bh_apply *u, const struct bh_managers *m,
                  const struct bh_manager *last, struct versioned *obj, struct bh_arena *a)
{
    struct versioned merged, pruned, all, back;

    if (bh_fset_empty(last->set) || !in_version(u, obj, last->api_version, &merged))
        return;
    all = pruned = merged;
    const struct bh_fset *owned = bh_fset_with_named(merged.t, last->set, a);

    pruned.doc = bh_typed_remove(merged.t, &merged.doc, owned, a);
    keep_owned(u, m, last->api_version, &merged, &pruned, a);
    for (size_t i = 0; i < m->n; i++)
        if (!bh_str_eq(m->p[i].api_version, last->api_version) && !before(m, i))
            keep_owned(u, m, m->p[i].api_version, &merged, &pruned, a);
    if (!in_version(u, &pruned, last->api_version, &back))
        return;
    /* Only what was the applier's own goes. */
    const struct bh_fset *gone = bh_fset_intersection(
        a, bh_fset_difference(a, set_named(&all, a), set_named(&back, a)), owned);

    all.doc = bh_typed_remove(all.t, &all.doc, gone, a);
    if (in_version(u, &all, u->self.api_version, &back))
        *obj = back;
}

/* ---- whose it was ---- */

struct compared {
    struct bh_str version;
    bool known;
    struct bh_fset_diff d;
};

struct compare {
    const struct bh_apply *u;
    struct versioned live, now;
    struct compared *p;
    size_t n;
};

static const struct compared *compare_in(struct compare *c, struct bh_str version,
                                         struct bh_arena *a)
{
    struct versioned l, r;

    for (size_t i = 0; i < c->n; i++)
        if (bh_str_eq(c->p[i].version, version))
            return &c->p[i];
    struct compared *out = &c->p[c->n++];

    *out = (struct compared){.version = version};
    out->known = in_version(c->u, &c->live, version, &l) && in_version(c->u, &c->now, version, &r);
    if (!out->known)
        return out;
    bh_fset_compare_jv(l.t, &l.doc, &r.doc, a, &out->d);
    if (c->u->reset) {
        out->d.removed = bh_fset_recursive_difference(a, out->d.removed, c->u->reset);
        out->d.modified = bh_fset_recursive_difference(a, out->d.modified, c->u->reset);
        out->d.added = bh_fset_recursive_difference(a, out->d.added, c->u->reset);
    }
    return out;
}

static int conflict_cmp(const void *x, const void *y)
{
    const struct bh_manager *p = &((const struct bh_conflict *)x)->by,
                            *q = &((const struct bh_conflict *)y)->by;
    int c = bh_str_cmp(p->manager, q->manager);

    if (c == 0)
        c = bh_str_cmp(p->operation, q->operation);
    if (c == 0)
        c = bh_str_cmp(p->api_version, q->api_version);
    return c ? c : bh_str_cmp(p->subresource, q->subresource);
}

/* What the change takes from the other owners. */
static void settle(struct bh_managers *m, struct compare *c, struct bh_arena *a,
                   struct bh_apply_result *ret)
{
    struct bh_conflict *conflicts = bh_new_n(a, struct bh_conflict, m->n + 1);
    struct bh_fset **left = bh_new_n(a, struct bh_fset *, m->n + 1);
    size_t n = 0;

    for (size_t i = 0; i < m->n; i++) {
        struct bh_manager *e = &m->p[i];

        left[i] = e->set;
        if (is_self(c->u, e))
            continue;
        const struct compared *in = compare_in(c, e->api_version, a);

        if (!in->known) {
            left[i] = NULL;
            continue;
        }
        struct bh_fset *taken =
            bh_fset_intersection(a, e->set, bh_fset_union(a, in->d.modified, in->d.added));

        if (!bh_fset_empty(taken))
            conflicts[n++] = (struct bh_conflict){*e, taken};
        left[i] = bh_fset_difference(a, bh_fset_difference(a, e->set, taken), in->d.removed);
    }
    if (n > 0 && !c->u->force) {
        qsort(conflicts, n, sizeof(*conflicts), conflict_cmp);
        ret->conflicts = conflicts;
        ret->n_conflicts = n;
        return;
    }
    for (size_t i = 0; i < m->n; i++)
        m->p[i].set = left[i];
}

/* ---- all of it ---- */

/* An object that nobody owns yet belongs, up to now, to a manager of this name. */
static int adopt(struct bh_managers *m, const struct bh_apply *u, struct bh_arena *a,
                 struct bh_err *err)
{
    struct bh_managed_update first = {.t = u->t,
                                      .old_doc = bh_jv_text(a, u->empty, 0),
                                      .new_doc = bh_jv_text(a, u->live, 0),
                                      .self = u->self,
                                      .reset = u->reset};

    if (m->n > 0 || bh_jv_eq(u->empty, u->live))
        return 0;
    first.self.manager = BH_S("before-first-apply");
    first.self.operation = BH_S("Update");
    return bh_managers_update(m, &first, a, NULL, err);
}

/* The applier's entry, made when there is none. */
static struct bh_manager *own_entry(struct bh_managers *m, const struct bh_apply *u)
{
    size_t i = 0;

    while (i < m->n && !is_self(u, &m->p[i]))
        i++;
    if (i == m->n) {
        m->p[m->n] = u->self;
        m->p[m->n].time = (struct bh_time){0, 0};
        m->p[m->n++].set = NULL;
    }
    return &m->p[i];
}

static void drop_empty(struct bh_managers *m)
{
    size_t n = 0;

    for (size_t i = 0; i < m->n; i++)
        if (!bh_fset_empty(m->p[i].set))
            m->p[n++] = m->p[i];
    m->n = n;
}

int bh_apply_run(struct bh_managers *m, const struct bh_apply *u, struct bh_arena *a,
                 struct bh_apply_result *ret, struct bh_err *err)
{
    struct versioned now = {u->self.api_version, u->t, {0}}, live = now;
    struct bh_managers all = {bh_new_n(a, struct bh_manager, m->n + 2), m->n};
    struct bh_manager last, *self;
    int r;

    *ret = (struct bh_apply_result){0};
    ret->mistyped = bh_typed_check(u->t, u->patch, a);
    if (ret->mistyped.n > 0)
        return 0;
    if (m->n > 0)
        memcpy(all.p, m->p, m->n * sizeof(*all.p));
    r = adopt(&all, u, a, err);
    if (r < 0)
        return r;
    if (all.n != m->n) { /* room for one's own beside it */
        struct bh_manager *p = bh_new_n(a, struct bh_manager, all.n + 1);

        memcpy(p, all.p, all.n * sizeof(*p));
        all.p = p;
    }
    self = own_entry(&all, u);
    last = *self;
    self->api_version = u->self.api_version;
    self->set = bh_fset_recursive_difference(a, bh_fset_of_jv(u->t, u->patch, a), u->reset);
    live.doc = *u->live;
    now.doc = bh_typed_merge(u->t, u->live, u->patch, a);
    prune(u, &all, &last, &now, a);

    struct compare c = {.u = u, .live = live, .now = now};

    c.p = bh_new_n(a, struct compared, all.n + 1);
    settle(&all, &c, a, ret);
    if (ret->n_conflicts > 0)
        return 0;
    ret->unchanged = bh_jv_eq(&live.doc, &now.doc);
    ret->obj = ret->unchanged ? live.doc : now.doc;
    self->set = bh_fset_strip_meta(a, self->set);
    if (!ret->unchanged)
        self->time = u->self.time;
    drop_empty(&all);
    *m = all;
    return 0;
}

/* ---- kubectl ---- */

bool bh_apply_kubectl_allows(const struct bh_apply *u, struct bh_arena *a,
                             struct bh_apply_result *r)
{
    const struct bh_jv *meta = bh_jv_getc(u->live, "metadata");
    struct bh_str text = bh_jv_get_str(bh_jv_getc(meta, "annotations"), LAST_APPLIED);
    struct bh_conflict *left = bh_new_n(a, struct bh_conflict, r->n_conflicts + 1);
    struct bh_fset_diff d;
    struct bh_jv last;
    size_t n = 0;

    if (text.n == 0 || bh_jv_parse(a, text, NULL, &last, NULL) < 0 ||
        !bh_str_eq(bh_jv_get_str(&last, "apiVersion"), u->self.api_version) ||
        bh_typed_check(u->t, &last, a).n > 0)
        return false;
    bh_fset_compare_jv(u->t, &last, u->live, a, &d);
    const struct bh_fset *allowed =
        bh_fset_difference(a, bh_fset_of_jv(u->t, &last, a),
                           bh_fset_union(a, bh_fset_union(a, d.modified, d.added), d.removed));

    for (size_t i = 0; i < r->n_conflicts; i++) {
        left[n] = r->conflicts[i];
        left[n].set = bh_fset_difference(a, left[n].set, allowed);
        n += !bh_fset_empty(left[n].set);
    }
    r->conflicts = left;
    r->n_conflicts = n;
    return n == 0;
}

void bh_apply_kubectl_annotate(const struct bh_apply *u, struct bh_arena *a, struct bh_jv *obj)
{
    struct bh_jv *notes = bh_jv_getc(bh_jv_getc(obj, "metadata"), "annotations"), applied, *given;
    size_t bytes = 0;

    if (bh_jv_get_str(notes, LAST_APPLIED).n == 0)
        return;
    applied = bh_jv_copy(a, u->patch);
    given = bh_jv_getc(bh_jv_getc(&applied, "metadata"), "annotations");
    if (given && given->kind == BH_JSON_OBJ)
        (void)bh_jv_del(given, BH_S(LAST_APPLIED));
    struct bh_str text = bh_jv_text(a, &applied, BH_JSON_SORTED | BH_JSON_GO_NUMS);

    (void)bh_jv_setc(a, notes, LAST_APPLIED, bh_jv_str(bh_str_fmt(a, "%.*s\n", BH_SF(text))));
    for (size_t i = 0; i < notes->n_members; i++)
        bytes += notes->members[i].key.n +
                 (notes->members[i].v.kind == BH_JSON_STR ? notes->members[i].v.s.n : 0);
    if (bytes > ANNOTATIONS_BYTES_MAX)
        (void)bh_jv_del(notes, BH_S(LAST_APPLIED));
}
