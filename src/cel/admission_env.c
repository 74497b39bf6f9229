/* The admission environment and composed variables. */
#include "cel/admission_env.h"

#include "cel/authz_env.h"
#include "cel/cel_int.h"

#define NEST_HEIGHT_MAX (2 * CEL_AST_HEIGHT_MAX) /* of variables that read each other, together */
#define NEST_PER_READ   16u  /* what one more evaluation takes, in the same measure */
#define VARIABLES_MAX   1024 /* of one policy; far more than a stored object can hold usefully */

struct variable {
    struct bh_str name;
    struct bh_cel_program *p; /* NULL: did not compile */
    struct bh_str why;
};

struct bh_cel_admission {
    struct bh_cel_env *env;
    struct bh_arena *a;
    struct bh_cel_type *type; /* of `variables`: gains a field with each */
    struct bh_cel_field *fields;
    size_t fields_cap;
    struct variable *v;
    size_t n, cap;
};

/* ---- types
 * -----------------------------------------------------------------------------------------------------------------
 */

struct field_list {
    struct bh_arena *a;
    struct bh_cel_field *f;
    size_t n, cap;
};

static void field(struct field_list *l, const char *name, const struct bh_cel_type *t)
{
    bh_arena_grow(l->a, &l->f, &l->cap, l->n + 1, sizeof(*l->f));
    l->f[l->n++] = (struct bh_cel_field){bh_s(name), t};
}

static const struct bh_cel_type *object(struct field_list *l, const char *name)
{
    const struct bh_cel_type *t = bh_cel_type_object(l->a, bh_s(name), l->f, l->n);

    l->f = NULL;
    l->n = l->cap = 0;
    return t;
}

static const struct bh_cel_type *list_of(struct bh_arena *a, const struct bh_cel_type *t)
{
    return bh_cel_type_list(a, t, BH_CEL_SIZE_UNKNOWN);
}

static const struct bh_cel_type *map_to(struct bh_arena *a, const struct bh_cel_type *t)
{
    return bh_cel_type_map(a, &cel_t_string, t, BH_CEL_SIZE_UNKNOWN);
}

/* Object with these string fields. */
static const struct bh_cel_type *strings(struct field_list *l, const char *name,
                                         const char *const *fields, size_t n)
{
    for (size_t i = 0; i < n; i++)
        field(l, fields[i], &cel_t_string);
    return object(l, name);
}

static const struct bh_cel_type *request_type(struct bh_arena *a)
{
    static const char *const gvk[] = {"group", "version", "kind"}, *const gvr[] = {"group",
                                                                                   "version",
                                                                                   "resource"};
    struct field_list l = {.a = a};
    const struct bh_cel_type *kind = strings(&l, "kubernetes.GroupVersionKind", gvk, BH_COUNT(gvk));
    const struct bh_cel_type *resource =
        strings(&l, "kubernetes.GroupVersionResource", gvr, BH_COUNT(gvr));
    const struct bh_cel_type *user;

    field(&l, "username", &cel_t_string);
    field(&l, "uid", &cel_t_string);
    field(&l, "groups", list_of(a, &cel_t_string));
    field(&l, "extra", map_to(a, list_of(a, &cel_t_string)));
    user = object(&l, "kubernetes.UserInfo");
    field(&l, "kind", kind);
    field(&l, "resource", resource);
    field(&l, "subResource", &cel_t_string);
    field(&l, "requestKind", kind);
    field(&l, "requestResource", resource);
    field(&l, "requestSubResource", &cel_t_string);
    field(&l, "name", &cel_t_string);
    field(&l, "namespace", &cel_t_string);
    field(&l, "operation", &cel_t_string);
    field(&l, "userInfo", user);
    field(&l, "dryRun", &cel_t_bool);
    field(&l, "options", &cel_t_dyn);
    return object(&l, "kubernetes.AdmissionRequest");
}

static const struct bh_cel_type *namespace_type(struct bh_arena *a)
{
    struct field_list l = {.a = a};
    const struct bh_cel_type *meta, *spec, *status, *condition;

    field(&l, "name", &cel_t_string);
    field(&l, "generateName", &cel_t_string);
    field(&l, "namespace", &cel_t_string);
    field(&l, "labels", map_to(a, &cel_t_string));
    field(&l, "annotations", map_to(a, &cel_t_string));
    field(&l, "UID", &cel_t_string);
    field(&l, "creationTimestamp", &cel_t_timestamp);
    field(&l, "deletionGracePeriodSeconds", &cel_t_int);
    field(&l, "deletionTimestamp", &cel_t_timestamp);
    field(&l, "generation", &cel_t_int);
    field(&l, "resourceVersion", &cel_t_string);
    field(&l, "finalizers", list_of(a, &cel_t_string));
    meta = object(&l, "kubernetes.NamespaceMetadata");
    field(&l, "finalizers", list_of(a, &cel_t_string));
    spec = object(&l, "kubernetes.NamespaceSpec");
    field(&l, "status", &cel_t_string);
    field(&l, "type", &cel_t_string);
    field(&l, "lastTransitionTime", &cel_t_timestamp);
    field(&l, "message", &cel_t_string);
    field(&l, "reason", &cel_t_string);
    condition = object(&l, "kubernetes.NamespaceCondition");
    field(&l, "conditions", list_of(a, condition));
    field(&l, "phase", &cel_t_string);
    status = object(&l, "kubernetes.NamespaceStatus");
    field(&l, "metadata", meta);
    field(&l, "spec", spec);
    field(&l, "status", status);
    return object(&l, "kubernetes.Namespace");
}

/* ---- the set
 * ----------------------------------------------------------------------------------------------------------------
 */

/* Slots are fixed; one that is not declared gets a name that no expression can spell. */
static void declare(struct bh_cel_env *e, bool on, const char *name, const struct bh_cel_type *t)
{
    (void)bh_cel_env_var(e, on ? bh_s(name) : BH_S("@none"), t);
}

struct bh_cel_admission *bh_cel_admission_new(unsigned flags)
{
    struct bh_cel_env *e =
        bh_cel_env_new(flags & BH_CEL_ADMISSION_MUTATION ? BH_CEL_ENV_MUTATION : 0);
    struct bh_arena *a = bh_cel_env_arena(e);
    struct bh_cel_admission *s = bh_new(a, struct bh_cel_admission);
    bool authz = flags & BH_CEL_ADMISSION_AUTHORIZER;

    s->env = e;
    s->a = a;
    s->type = bh_arena_memdup(a, bh_cel_type_object(a, BH_S("kubernetes.variables"), NULL, 0),
                              sizeof(*s->type));
    declare(e, true, "object", &cel_t_dyn);
    declare(e, true, "oldObject", &cel_t_dyn);
    declare(e, true, "request", request_type(a));
    declare(e, true, "namespaceObject", namespace_type(a));
    declare(e, flags & BH_CEL_ADMISSION_PARAMS, "params", &cel_t_dyn);
    declare(e, authz, "authorizer", bh_cel_type_authorizer());
    declare(e, authz, "authorizer.requestResource", bh_cel_type_resource_check());
    declare(e, flags & BH_CEL_ADMISSION_VARIABLES, "variables", s->type);
    bh_assert(e->nvars == BH_CEL_SLOTS);
    return s;
}

struct bh_cel_admission *bh_cel_admission_free(struct bh_cel_admission *s)
{
    if (s) {
        for (size_t i = 0; i < s->n; i++)
            s->v[i].p = bh_cel_program_free(s->v[i].p);
        (void)bh_cel_env_free(s->env);
    }
    return NULL;
}

const struct bh_cel_env *bh_cel_admission_env(const struct bh_cel_admission *s)
{
    return s->env;
}

/* Scalars, and lists and maps of such, keep their type; the rest is dyn. */
static bool keeps_type(const struct bh_cel_type *t)
{
    if (t->kind >= TK_NULL && t->kind <= TK_DURATION)
        return true;
    if (t->kind != TK_LIST && t->kind != TK_MAP)
        return false;
    for (unsigned i = 0; i < t->np; i++)
        if (!keeps_type(t->p[i]))
            return false;
    return true;
}

int bh_cel_admission_variable(struct bh_cel_admission *s, struct bh_str name, struct bh_str expr,
                              struct bh_arena *a, struct bh_cel_issue *ret_issue,
                              struct bh_err *err)
{
    const struct bh_cel_type *t = &cel_t_dyn;
    struct bh_cel_issue issue = {0};
    struct variable v = {.name = bh_str_dup(s->a, name)};
    int r;

    if (s->n == VARIABLES_MAX)
        return bh_err_set(err, BH_E_LIMIT, "more than %d variables", VARIABLES_MAX);
    r = bh_cel_compile(s->env, expr, a, &v.p, &issue, err);
    if (r < 0)
        v.why = bh_str_dup(s->a, issue.full);
    else if (keeps_type(bh_cel_program_type(v.p)))
        t = bh_cel_program_type(v.p); /* lives as long as the program, which the set keeps */
    bh_arena_grow(s->a, &s->v, &s->cap, s->n + 1, sizeof(*s->v));
    s->v[s->n++] = v;
    bh_arena_grow(s->a, &s->fields, &s->fields_cap, s->n, sizeof(*s->fields));
    s->fields[s->n - 1] = (struct bh_cel_field){v.name, t};
    s->type->fields = s->fields;
    s->type->nfields = s->n;
    if (r < 0 && ret_issue)
        *ret_issue = issue;
    return r;
}

/* ---- evaluation
 * -------------------------------------------------------------------------------------------------------------
 */

struct context {
    struct bh_cel_map m;
    const struct bh_cel_admission *s;
    struct bh_cel_value vars[BH_CEL_SLOTS];
    struct bh_cel_value *known; /* by variable, where done is set */
    bool *done;
    uint32_t nest; /* height of the evaluations under way */
};

static struct bh_cel_value compute(struct bh_cel_run *run, struct context *c, size_t i)
{
    const struct variable *v = &c->s->v[i];
    struct bh_cel_result res;
    struct bh_err err = {0};
    int r;

    if (!v->p)
        return bh_cel_error(run, "composited variable \"%.*s\" fails to compile: %.*s",
                            BH_SF(v->name), BH_SF(v->why));
    if (c->nest + v->p->height + NEST_PER_READ > NEST_HEIGHT_MAX)
        return bh_cel_error(
            run, "composited variable \"%.*s\" fails to evaluate: variables nest too deeply",
            BH_SF(v->name));
    c->nest += v->p->height + NEST_PER_READ;
    r = bh_cel_eval(v->p, c->vars, BH_CEL_SLOTS, run->a,
                    run->cost < run->limit ? run->limit - run->cost : 0, &res, &err);
    c->nest -= v->p->height + NEST_PER_READ;
    bh_cel_run_charge(run, res.cost);
    if (r == -BH_E_LIMIT)
        return cel_halt(run);
    if (r < 0)
        return bh_cel_error(run, "composited variable \"%.*s\" fails to evaluate: %s",
                            BH_SF(v->name), err.msg);
    return res.value;
}

static bool variable_get(struct bh_cel_run *run, const struct bh_cel_map *m,
                         struct bh_cel_value key, struct bh_cel_value *ret)
{
    struct context *c = (struct context *)(uintptr_t)m->data;

    if (key.kind != BH_CEL_STRING)
        return false;
    for (size_t i = 0; i < c->s->n; i++) {
        if (!bh_str_eq(c->s->v[i].name, bh_cel_as_str(key)))
            continue;
        if (!c->done[i]) {
            /* A variable only sees earlier ones, so this does not come back to itself. */
            c->known[i] = compute(run, c, i);
            c->done[i] = !run->halted;
        }
        *ret = c->known[i];
        return true;
    }
    return false;
}

static bool variable_has(struct bh_cel_run *run, const struct bh_cel_map *m,
                         struct bh_cel_value key)
{
    const struct context *c = m->data;

    (void)run;
    for (size_t i = 0; key.kind == BH_CEL_STRING && i < c->s->n; i++)
        if (bh_str_eq(c->s->v[i].name, bh_cel_as_str(key)))
            return true;
    return false;
}

static void variable_at(struct bh_cel_run *run, const struct bh_cel_map *m, size_t i,
                        struct bh_cel_value *k, struct bh_cel_value *v)
{
    const struct context *c = m->data;

    *k = bh_cel_str(c->s->v[i].name);
    if (!variable_get(run, m, *k, v))
        *v = bh_cel_null();
}

static const struct bh_cel_map_ops variable_ops = {
    .get = variable_get, .at = variable_at, .has = variable_has};

struct bh_cel_value *bh_cel_admission_vars(const struct bh_cel_admission *s,
                                           const struct bh_cel_admission_in *in, struct bh_arena *a)
{
    struct context *c = bh_new(a, struct context);

    c->s = s;
    c->known = bh_new_n(a, struct bh_cel_value, s->n);
    c->done = bh_new_n(a, bool, s->n);
    c->m.n = s->n;
    c->m.ops = &variable_ops;
    c->m.data = c;
    c->vars[BH_CEL_SLOT_OBJECT] = bh_cel_from_json(a, in->object);
    c->vars[BH_CEL_SLOT_OLD_OBJECT] = bh_cel_from_json(a, in->old_object);
    c->vars[BH_CEL_SLOT_REQUEST] = bh_cel_from_json(a, in->request);
    c->vars[BH_CEL_SLOT_NAMESPACE] = bh_cel_from_json(a, in->namespace_object);
    c->vars[BH_CEL_SLOT_PARAMS] = bh_cel_from_json(a, in->params);
    c->vars[BH_CEL_SLOT_AUTHORIZER] = in->authorizer;
    c->vars[BH_CEL_SLOT_REQUEST_RESOURCE] = in->request_resource;
    c->vars[BH_CEL_SLOT_VARIABLES] = (struct bh_cel_value){.kind = BH_CEL_MAP, .map = &c->m};
    return c->vars;
}
