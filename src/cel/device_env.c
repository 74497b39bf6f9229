/* Device selectors: the environment, the view of a device, compiling and matching. */
#include "cel/device_env.h"

#include <pthread.h>
#include <string.h>

#include "api/gen/resource_v1.h"
#include "cel/cel_int.h"

#define DRIVER_SIZE 63 /* limits of the API, for estimates */
#define ID_SIZE     32
#define VALUE_SIZE  64
#define MAP_SIZE    32

struct domain {
    struct bh_str name;
    struct bh_cel_value *k, *v;
    size_t n, kcap, vcap;
    struct bh_cel_value map;
};

/* The outer map: a domain that is not there reads as an empty map, but is not "in" it. */
struct outer {
    struct bh_cel_map m;
    struct domain *d;
    size_t n, cap;
};

struct bh_cel_device {
    struct bh_cel_map m;
    struct bh_str driver;
    struct outer attrs, caps;
    bool allow_multiple;
    struct bh_str broken; /* why no selector can be evaluated on it; empty when fine */
};

struct bh_cel_selector {
    struct bh_cel_program *p;
};

static const struct bh_cel_map no_entries;

/* ---- the view
 * ------------------------------------------------------------------------------------------------------------
 */

static const struct domain *find_domain(const struct outer *o, struct bh_cel_value key)
{
    if (key.kind != BH_CEL_STRING)
        return NULL;
    for (size_t i = 0; i < o->n; i++)
        if (o->d[i].name.n == key.n && memcmp(o->d[i].name.p, key.s, key.n) == 0)
            return &o->d[i];
    return NULL;
}

static bool outer_get(struct bh_cel_run *run, const struct bh_cel_map *m, struct bh_cel_value key,
                      struct bh_cel_value *ret)
{
    const struct domain *d = find_domain(m->data, key);

    (void)run;
    *ret = d ? d->map : (struct bh_cel_value){.kind = BH_CEL_MAP, .map = &no_entries};
    return true;
}

static bool outer_has(struct bh_cel_run *run, const struct bh_cel_map *m, struct bh_cel_value key)
{
    (void)run;
    return find_domain(m->data, key) != NULL;
}

static void outer_at(struct bh_cel_run *run, const struct bh_cel_map *m, size_t i,
                     struct bh_cel_value *k, struct bh_cel_value *v)
{
    const struct outer *o = m->data;

    (void)run;
    *k = bh_cel_str(o->d[i].name);
    *v = o->d[i].map;
}

static const struct bh_cel_map_ops outer_ops = {.get = outer_get, .at = outer_at, .has = outer_has};

static const char *const device_fields[] = {"driver", "attributes", "capacity",
                                            "allowMultipleAllocations"};

static struct bh_cel_value device_field(const struct bh_cel_device *d, size_t i)
{
    switch (i) {
    case 0:
        return bh_cel_str(d->driver);
    case 1:
        return (struct bh_cel_value){.kind = BH_CEL_MAP, .map = &d->attrs.m};
    case 2:
        return (struct bh_cel_value){.kind = BH_CEL_MAP, .map = &d->caps.m};
    default:
        return bh_cel_bool(d->allow_multiple);
    }
}

static bool device_get(struct bh_cel_run *run, const struct bh_cel_map *m, struct bh_cel_value key,
                       struct bh_cel_value *ret)
{
    size_t i;

    (void)run;
    if (key.kind != BH_CEL_STRING)
        return false;
    switch (key.n) { /* the four names differ in length */
    case 6:
        i = 0;
        break;
    case 10:
        i = 1;
        break;
    case 8:
        i = 2;
        break;
    case 24:
        i = 3;
        break;
    default:
        return false;
    }
    if (memcmp(key.s, device_fields[i], key.n) != 0)
        return false;
    *ret = device_field(m->data, i);
    return true;
}

static void device_at(struct bh_cel_run *run, const struct bh_cel_map *m, size_t i,
                      struct bh_cel_value *k, struct bh_cel_value *v)
{
    (void)run;
    *k = bh_cel_str(bh_s(device_fields[i]));
    *v = device_field(m->data, i);
}

static const struct bh_cel_map_ops device_ops = {.get = device_get, .at = device_at};

/* Adds name (an id, or domain/id) to the outer map; a qualified name wins over a bare one of the
 * driver's domain. */
static void put(struct bh_arena *a, struct outer *o, struct bh_str driver, struct bh_str name,
                struct bh_cel_value v)
{
    ptrdiff_t slash = bh_str_chr(name, '/', 0);
    struct bh_str dom = slash < 0 ? driver : bh_str_sub(name, 0, (size_t)slash);
    struct bh_cel_value id =
        bh_cel_str(slash < 0 ? name : bh_str_sub(name, (size_t)slash + 1, name.n));
    struct domain *d = NULL;

    for (size_t i = 0; i < o->n; i++)
        if (bh_str_eq(o->d[i].name, dom))
            d = &o->d[i];
    if (!d) {
        bh_arena_grow(a, &o->d, &o->cap, o->n + 1, sizeof(*o->d));
        d = &o->d[o->n++];
        *d = (struct domain){.name = dom};
    }
    for (size_t i = 0; i < d->n; i++)
        if (bh_str_eq(bh_cel_as_str(d->k[i]), bh_cel_as_str(id))) {
            if (slash >= 0)
                d->v[i] = v;
            return;
        }
    bh_arena_grow(a, &d->k, &d->kcap, d->n + 1, sizeof(*d->k));
    bh_arena_grow(a, &d->v, &d->vcap, d->n + 1, sizeof(*d->v));
    d->k[d->n] = id;
    d->v[d->n++] = v;
}

static void seal(struct bh_arena *a, struct outer *o)
{
    for (size_t i = 0; i < o->n; i++)
        o->d[i].map = cel_map_done(a, o->d[i].k, o->d[i].v, o->d[i].n);
    o->m.n = o->n;
    o->m.ops = &outer_ops;
    o->m.data = o;
}

static bool attr_value(struct bh_arena *a, const struct bh_cel_attr *at, bool lists,
                       struct bh_cel_value *ret, struct bh_err *err);

/* A list attribute: each element as a scalar of its kind. */
static bool list_value(struct bh_arena *a, const struct bh_cel_attr *at, struct bh_cel_value *ret,
                       struct bh_err *err)
{
    struct bh_cel_value *v = bh_new_n(a, struct bh_cel_value, at->n);

    for (size_t i = 0; i < at->n; i++) {
        struct bh_cel_attr one = {.kind = at->kind};

        if (at->kind == BH_CEL_ATTR_INT)
            one.i = at->ints[i];
        else if (at->kind == BH_CEL_ATTR_BOOL)
            one.b = at->bools[i];
        else
            one.s = at->strs[i];
        if (!attr_value(a, &one, false, &v[i], err))
            return false;
    }
    *ret = bh_cel_list_new(a, v, at->n);
    return true;
}

static bool attr_value(struct bh_arena *a, const struct bh_cel_attr *at, bool lists,
                       struct bh_cel_value *ret, struct bh_err *err)
{
    if (at->is_list && lists && at->n)
        return list_value(a, at, ret, err);
    if (at->is_list) {
        (void)bh_err_set(err, BH_E_INVALID, "unsupported attribute value");
        return false;
    }
    switch (at->kind) {
    case BH_CEL_ATTR_INT:
        *ret = bh_cel_int(at->i);
        return true;
    case BH_CEL_ATTR_BOOL:
        *ret = bh_cel_bool(at->b);
        return true;
    case BH_CEL_ATTR_STRING:
        *ret = bh_cel_str(at->s);
        return true;
    case BH_CEL_ATTR_VERSION:
        if (bh_cel_semver(a, at->s, ret, err) == 0)
            return true;
        (void)bh_err_wrap(err, "parse semantic version");
        return false;
    }
    return false;
}

struct bh_cel_device *bh_cel_device_new(struct bh_arena *a, const struct bh_cel_device_in *in)
{
    struct bh_cel_device *d = bh_new(a, struct bh_cel_device);
    struct bh_cel_value v = bh_cel_null();
    struct bh_err err;

    d->driver = in->driver;
    d->allow_multiple = in->allow_multiple;
    for (size_t i = 0; i < in->attrs_n; i++) {
        if (attr_value(a, &in->attrs[i], in->lists, &v, &err))
            put(a, &d->attrs, in->driver, in->attrs[i].name, v);
        else if (!d->broken.n)
            d->broken = bh_str_fmt(a, "attribute %.*s: %s", BH_SF(in->attrs[i].name), err.msg);
    }
    for (size_t i = 0; i < in->caps_n; i++) {
        if (bh_cel_quantity(a, in->caps[i].value, &v, &err) == 0)
            put(a, &d->caps, in->driver, in->caps[i].name, v);
        else if (!d->broken.n)
            d->broken = bh_str_fmt(a, "capacity %.*s: %s", BH_SF(in->caps[i].name), err.msg);
    }
    seal(a, &d->attrs);
    seal(a, &d->caps);
    d->m.n = BH_COUNT(device_fields);
    d->m.ops = &device_ops;
    d->m.data = d;
    return d;
}

static struct bh_cel_attr attr_of(const struct bh_resource_v1_device_attribute_entry *e)
{
    const struct bh_resource_v1_device_attribute *v = &e->value;
    struct bh_cel_attr at = {.name = e->key};

    if (v->has_int) {
        at.kind = BH_CEL_ATTR_INT;
        at.i = v->int_;
    } else if (v->has_bool) {
        at.kind = BH_CEL_ATTR_BOOL;
        at.b = v->bool_;
    } else if (v->has_string) {
        at.kind = BH_CEL_ATTR_STRING;
        at.s = v->string;
    } else if (v->has_version) {
        at.kind = BH_CEL_ATTR_VERSION;
        at.s = v->version;
    } else {
        at.is_list = true; /* without any element it has no value that is known here */
        if (v->ints.n) {
            at.kind = BH_CEL_ATTR_INT;
            at.ints = v->ints.p;
            at.n = v->ints.n;
        } else if (v->bools.n) {
            at.kind = BH_CEL_ATTR_BOOL;
            at.bools = v->bools.p;
            at.n = v->bools.n;
        } else {
            at.kind = v->strings.n ? BH_CEL_ATTR_STRING : BH_CEL_ATTR_VERSION;
            at.strs = v->strings.n ? v->strings.p : v->versions.p;
            at.n = v->strings.n ? v->strings.n : v->versions.n;
        }
    }
    return at;
}

struct bh_cel_device *bh_cel_device_from_api(struct bh_arena *a, struct bh_str driver,
                                             const struct bh_resource_v1_device *d)
{
    struct bh_cel_attr *attrs = bh_new_n(a, struct bh_cel_attr, d->attributes.n);
    struct bh_cel_capacity *caps = bh_new_n(a, struct bh_cel_capacity, d->capacity.n);
    struct bh_cel_device_in in = {.driver = driver,
                                  .attrs = attrs,
                                  .attrs_n = d->attributes.n,
                                  .caps = caps,
                                  .caps_n = d->capacity.n,
                                  .lists = true,
                                  .allow_multiple = d->has_allow_multiple_allocations &&
                                                    d->allow_multiple_allocations};

    for (size_t i = 0; i < in.attrs_n; i++)
        attrs[i] = attr_of(&d->attributes.p[i]);
    for (size_t i = 0; i < in.caps_n; i++)
        caps[i] = (struct bh_cel_capacity){d->capacity.p[i].key, d->capacity.p[i].value.value};
    return bh_cel_device_new(a, &in);
}

void bh_cel_device_value(const struct bh_cel_device *d, struct bh_arena *a,
                         struct bh_cel_value *ret)
{
    (void)a;
    *ret = (struct bh_cel_value){.kind = BH_CEL_MAP, .map = &d->m};
}

/* ---- the environment
 * -------------------------------------------------------------------------------------------------------
 */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct bh_cel_env *env;

struct bh_cel_env *bh_cel_device_env_new(void)
{
    struct bh_cel_env *e = bh_cel_env_new(BH_CEL_ENV_BIND | BH_CEL_ENV_INCLUDES);
    struct bh_arena *a = bh_cel_env_arena(e);
    const struct bh_cel_type *name, *id, *attr, *inner;
    struct bh_cel_field *f;

    name = bh_cel_type_sized(a, &cel_t_string, DRIVER_SIZE);
    id = bh_cel_type_sized(a, &cel_t_string, ID_SIZE);
    attr = bh_cel_type_sized(a, &cel_t_dyn, VALUE_SIZE); /* any kind of value, or a list */
    f = bh_new_n(a, struct bh_cel_field, 4);
    f[0] = (struct bh_cel_field){BH_S("driver"), name};
    inner = bh_cel_type_map(a, id, attr, MAP_SIZE);
    f[1] = (struct bh_cel_field){BH_S("attributes"), bh_cel_type_map(a, name, inner, MAP_SIZE)};
    inner = bh_cel_type_map(a, id, &cel_t_quantity, MAP_SIZE);
    f[2] = (struct bh_cel_field){BH_S("capacity"), bh_cel_type_map(a, name, inner, MAP_SIZE)};
    f[3] = (struct bh_cel_field){BH_S("allowMultipleAllocations"), &cel_t_bool};
    (void)bh_cel_env_var(e, BH_S("device"),
                         bh_cel_type_object(a, BH_S("kubernetes.DRADevice"), f, 4));
    return e;
}

static void env_init(void)
{
    env = bh_cel_device_env_new();
}

const struct bh_cel_env *bh_cel_device_env(void)
{
    (void)pthread_once(&once, env_init);
    return env;
}

/* ---- selectors
 * -----------------------------------------------------------------------------------------------------------
 */

int bh_cel_selector_new(struct bh_str expr, struct bh_arena *a, struct bh_cel_selector **ret,
                        struct bh_str *ret_text, struct bh_err *err)
{
    struct bh_cel_issue issue;
    struct bh_cel_program *p;
    const struct bh_cel_type *t;
    struct bh_str text;

    if (bh_cel_compile(bh_cel_device_env(), expr, a, &p, &issue, err) < 0) {
        text = issue.program
                   ? bh_str_fmt(a, "program instantiation failed: %.*s", BH_SF(issue.text))
                   : bh_str_fmt(a, "compilation failed: %.*s", BH_SF(issue.full));
        if (ret_text)
            *ret_text = text;
        return bh_err_set(err, BH_E_INVALID, "%.*s", BH_SF(text));
    }
    t = bh_cel_program_type(p);
    if (t->kind != TK_BOOL && t->kind != TK_ANY && t->kind != TK_DYN) {
        text = bh_str_fmt(a, "must evaluate to bool or the unknown type, not %.*s",
                          BH_SF(bh_cel_type_text(a, t)));
        (void)bh_cel_program_free(p);
        if (ret_text)
            *ret_text = text;
        return bh_err_set(err, BH_E_INVALID, "%.*s", BH_SF(text));
    }
    *ret = bh_malloc(sizeof(**ret));
    (*ret)->p = p;
    return 0;
}

struct bh_cel_selector *bh_cel_selector_free(struct bh_cel_selector *s)
{
    if (s) {
        (void)bh_cel_program_free(s->p);
        bh_free(s);
    }
    return NULL;
}

uint64_t bh_cel_selector_cost_max(const struct bh_cel_selector *s)
{
    return bh_cel_program_cost_max(s->p);
}

const struct bh_cel_program *bh_cel_selector_program(const struct bh_cel_selector *s)
{
    return s->p;
}

struct bh_str bh_cel_selector_text(const struct bh_cel_selector *s)
{
    return s->p->text;
}

int bh_cel_selector_validate(struct bh_str expr, struct bh_arena *a, struct bh_str *ret_text,
                             bool *ret_forbidden, bool *ret_too_long)
{
    struct bh_cel_selector *s = NULL;
    uint64_t cost;
    int r;

    *ret_forbidden = *ret_too_long = false;
    *ret_text = BH_S("");
    if (expr.n > BH_CEL_EXPR_BYTES_MAX) {
        *ret_too_long = true;
        *ret_text = bh_str_fmt(a, "may not be more than %d bytes", BH_CEL_EXPR_BYTES_MAX);
        return -BH_E_INVALID;
    }
    r = bh_cel_selector_new(expr, a, &s, ret_text, NULL);
    if (r < 0)
        return r;
    cost = bh_cel_selector_cost_max(s);
    (void)bh_cel_selector_free(s);
    if (cost > BH_CEL_SELECTOR_COST_MAX) {
        *ret_forbidden = true;
        *ret_text = BH_S("too complex, exceeds cost limit");
        return -BH_E_INVALID;
    }
    return 0;
}

/* Upstream's words for a result that is no boolean; they depend on what it is instead. */
static int no_bool(const struct bh_cel_value *v, struct bh_err *err)
{
    static const struct {
        uint32_t kind;
        const char *why;
    } whys[] = {{BH_CEL_INT, "unsupported type conversion from 'int' to bool"},
                {BH_CEL_UINT, "unsupported type conversion from 'uint' to bool"},
                {BH_CEL_STRING, "unsupported native conversion from string to 'bool'"},
                {BH_CEL_DOUBLE, "type conversion error from Double to 'bool'"},
                {BH_CEL_BYTES, "type conversion error from Bytes to 'bool'"},
                {BH_CEL_LIST, "type conversion error from list to 'bool'"},
                {BH_CEL_MAP, "type conversion error from map to 'bool'"},
                {BH_CEL_NULL, "type conversion error from 'null_type' to 'bool'"},
                {BH_CEL_TIMESTAMP, "type conversion error from 'Timestamp' to 'bool'"},
                {BH_CEL_DURATION, "type conversion error from 'Duration' to 'bool'"},
                {BH_CEL_TYPE, "type conversion not supported for 'type'"},
                {BH_CEL_QUANTITY, "type conversion error from 'Quantity' to 'bool'"},
                {BH_CEL_SEMVER, "type conversion error from 'Semver' to 'bool'"},
                {BH_CEL_URL, "type conversion error from 'URL' to 'bool'"},
                {BH_CEL_IP, "type conversion error from 'IP' to 'bool'"},
                {BH_CEL_CIDR, "type conversion error from 'CIDR' to 'bool'"}};
    const char *why = NULL;

    for (size_t i = 0; i < BH_COUNT(whys); i++)
        if (whys[i].kind == v->kind)
            why = whys[i].why;
    return bh_err_set(err, BH_E_INVALID,
                      "CEL result of type %.*s could not be converted to bool%s%s",
                      BH_SF(bh_cel_type_name(*v)), why ? ": " : "", why ? why : "");
}

int bh_cel_selector_match(const struct bh_cel_selector *s, const struct bh_cel_device *d,
                          struct bh_arena *a, struct bh_err *err)
{
    struct bh_cel_value dev = {.kind = BH_CEL_MAP, .map = &d->m};
    struct bh_cel_result res;
    int r;

    if (d->broken.n)
        return bh_err_set(err, BH_E_INVALID, "%.*s", BH_SF(d->broken));
    r = bh_cel_eval(s->p, &dev, 1, a, BH_CEL_COST_PER_CALL, &res, err);
    if (r < 0)
        return r;
    /* An optional stands for what it holds. */
    while (res.value.kind == BH_CEL_OPTIONAL && res.value.opt)
        res.value = *res.value.opt;
    return res.value.kind == BH_CEL_BOOL ? res.value.b : no_bool(&res.value, err);
}
