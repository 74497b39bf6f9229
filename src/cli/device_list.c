/* `bulkhead device list`: every device, who has it, what is wrong with it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/gen/resource_v1.h"
#include "api/gen/resource_v1beta2.h"
#include "api/obj.h"
#include "base/arena.h"
#include "base/buf.h"
#include "cli/device_cmd.h"
#include "cli/table.h"
#include "data/json.h"

#define COLS 8

struct row {
    struct bh_str driver, pool, device; /* what the rows are sorted by */
    struct bh_str model, memory, claims, pods, taints;
};

static void join(struct bh_buf *b, struct bh_str s)
{
    if (b->n > 0)
        bh_buf_addc(b, ',');
    bh_buf_adds(b, s);
}

static struct bh_str taken(struct bh_arena *a, const struct bh_buf *b)
{
    return b->n > 0 ? bh_str_dup(a, bh_buf_str(b)) : BH_S("<none>");
}

static struct bh_str attribute(const struct bh_resource_v1_device *d, const char *name)
{
    for (size_t i = 0; i < d->attributes.n; i++)
        if (bh_str_eqc(d->attributes.p[i].key, name) && d->attributes.p[i].value.has_string)
            return d->attributes.p[i].value.string;
    return (struct bh_str){NULL, 0};
}

static struct bh_str capacity(const struct bh_resource_v1_device *d, const char *name)
{
    for (size_t i = 0; i < d->capacity.n; i++)
        if (bh_str_eqc(d->capacity.p[i].key, name))
            return d->capacity.p[i].value.value;
    return (struct bh_str){NULL, 0};
}

/* Claims that hold the device, and the pods they are reserved for. */
static void users(const struct device_api *api, const struct device_ref *d, struct row *row)
{
    BH_AUTO_BUF claims = {0};
    BH_AUTO_BUF pods = {0};

    for (size_t i = 0; i < api->claims.n; i++) {
        const struct bh_resource_v1_resource_claim *c = bh_obj_struct(api->claims.p[i]);
        bool holds = false;

        for (size_t k = 0; c->status.allocation && k < c->status.allocation->devices.results.n;
             k++) {
            const struct bh_resource_v1_device_request_allocation_result *r =
                &c->status.allocation->devices.results.p[k];

            holds = holds || (bh_str_eq(r->driver, d->driver) && bh_str_eq(r->pool, d->pool) &&
                              bh_str_eq(r->device, d->name));
        }
        if (!holds)
            continue;
        join(&claims, bh_str_fmt(api->a, "%.*s/%.*s", BH_SF(c->metadata.namespace),
                                 BH_SF(c->metadata.name)));
        for (size_t k = 0; k < c->status.reserved_for.n; k++)
            join(&pods, c->status.reserved_for.p[k].name);
    }
    row->claims = taken(api->a, &claims);
    row->pods = taken(api->a, &pods);
}

static void taint_text(struct bh_arena *a, struct bh_buf *b, struct bh_str key, struct bh_str value,
                       struct bh_str effect)
{
    join(b, bh_str_fmt(a, "%.*s%s%.*s:%.*s", BH_SF(key), value.n > 0 ? "=" : "", BH_SF(value),
                       BH_SF(effect)));
}

/* Those of the driver and those of rules that select the device. */
static void taints(const struct device_api *api, const struct device_ref *d, struct row *row)
{
    BH_AUTO_BUF b = {0};

    for (size_t i = 0; i < d->dev->taints.n; i++)
        taint_text(api->a, &b, d->dev->taints.p[i].key, d->dev->taints.p[i].value,
                   d->dev->taints.p[i].effect);
    for (size_t i = 0; i < api->rules.n; i++) {
        const struct bh_resource_v1beta2_device_taint_rule *r = bh_obj_struct(api->rules.p[i]);
        const struct bh_resource_v1beta2_device_taint_selector *s = r->spec.device_selector;

        if (s && (!s->has_driver || bh_str_eq(s->driver, d->driver)) &&
            (!s->has_pool || bh_str_eq(s->pool, d->pool)) &&
            (!s->has_device || bh_str_eq(s->device, d->name)))
            taint_text(api->a, &b, r->spec.taint.key, r->spec.taint.value, r->spec.taint.effect);
    }
    row->taints = taken(api->a, &b);
}

int device_name_cmp(struct bh_str a, struct bh_str b)
{
    size_t i = 0, j;
    int64_t x, y;

    while (i < a.n && i < b.n && a.p[i] == b.p[i])
        i++;
    while (i > 0 && a.p[i - 1] >= '0' && a.p[i - 1] <= '9')
        i--;
    for (j = i; j < a.n && a.p[j] >= '0' && a.p[j] <= '9';)
        j++;
    if (bh_str_i64(bh_str_sub(a, i, j), 0, INT64_MAX, &x)) {
        for (j = i; j < b.n && b.p[j] >= '0' && b.p[j] <= '9';)
            j++;
        if (bh_str_i64(bh_str_sub(b, i, j), 0, INT64_MAX, &y) && x != y)
            return x < y ? -1 : 1;
    }
    return bh_str_cmp(a, b);
}

static int row_cmp(const void *x, const void *y)
{
    const struct row *a = x, *b = y;
    int r = bh_str_cmp(a->driver, b->driver);

    if (r == 0)
        r = bh_str_cmp(a->pool, b->pool);
    return r != 0 ? r : device_name_cmp(a->device, b->device);
}

static void print_table(struct bh_arena *a, const struct row *rows, size_t n, bool wide)
{
    static const char *const heads[COLS] = {"DRIVER", "NODE",  "DEVICE", "MODEL",
                                            "MEMORY", "CLAIM", "POD",    "TAINTS"};
    size_t skip = wide ? 0 : 1, cols = COLS - skip;
    struct bh_str *cells = bh_new_n(a, struct bh_str, n * cols);

    for (size_t i = 0; i < n; i++)
        memcpy(&cells[i * cols], &rows[i].driver + skip, cols * sizeof(*cells));
    cli_table(heads + skip, cols, cells, n);
}

static void print_json(const struct row *rows, size_t n)
{
    static const char *const names[COLS] = {"driver", "node",   "device", "model",
                                            "memory", "claims", "pods",   "taints"};
    BH_AUTO_BUF b = {0};

    bh_buf_addc(&b, '[');
    for (size_t i = 0; i < n; i++) {
        const struct bh_str *cells = &rows[i].driver;

        bh_buf_addz(&b, i > 0 ? ",\n {" : "{");
        for (size_t c = 0; c < COLS; c++) {
            struct bh_str rest =
                bh_str_eqc(cells[c], "<none>") ? (struct bh_str){NULL, 0} : cells[c];
            const char *sep = "";

            bh_buf_addf(&b, "%s\"%s\":", c > 0 ? "," : "", names[c]);
            if (c < 5) {
                bh_json_write_str(&b, rest);
                continue;
            }
            bh_buf_addc(&b, '[');
            while (rest.n > 0) {
                bh_buf_addz(&b, sep);
                bh_json_write_str(&b, bh_str_cut(&rest, ','));
                sep = ",";
            }
            bh_buf_addc(&b, ']');
        }
        bh_buf_addc(&b, '}');
    }
    bh_buf_addz(&b, "]\n");
    (void)fwrite(b.p, 1, b.n, stdout);
}

_Static_assert(sizeof(struct row) == COLS * sizeof(struct bh_str), "a row is an array of cells");

int device_list(const struct device_opts *o, struct bh_err *err)
{
    struct device_api api;
    struct device_ref d;
    struct row *rows = NULL;
    size_t n = 0, cap = 0;
    bool json = o->output && strcmp(o->output, "json") == 0,
         wide = o->output && strcmp(o->output, "wide") == 0;
    int r;

    if (o->args_n > 0)
        return bh_err_set(err, BH_E_BAD_REQUEST, "list takes no arguments");
    if (o->output && !json && !wide)
        return bh_err_set(err, BH_E_BAD_REQUEST, "-o must be wide or json, not '%s'", o->output);
    r = device_api_open(&api, o, err);
    if (r < 0)
        return r;
    r = device_api_read(&api, err);
    for (size_t s = 0, k = 0; r == 0 && device_next(&api, &s, &k, &d);) {
        if ((o->driver && !bh_str_eqc(d.driver, o->driver)) ||
            (o->pool.n > 0 && !bh_str_eq(d.pool, o->pool)))
            continue;
        bh_arena_grow(api.a, &rows, &cap, n + 1, sizeof(*rows));
        rows[n] = (struct row){.driver = d.driver,
                               .pool = d.pool,
                               .device = d.name,
                               .model = attribute(d.dev, "model"),
                               .memory = capacity(d.dev, "memory")};
        if (rows[n].model.n == 0)
            rows[n].model = attribute(d.dev, "productName");
        users(&api, &d, &rows[n]);
        taints(&api, &d, &rows[n]);
        n++;
    }
    if (r == 0) {
        if (n > 1)
            qsort(rows, n, sizeof(*rows), row_cmp);
        if (json)
            print_json(rows, n);
        else if (n > 0)
            print_table(api.a, rows, n, wide);
        else
            fputs("no devices\n", stderr);
    }
    device_api_close(&api);
    return r;
}
