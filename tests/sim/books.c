/* The books of the simulation: devices, counters and capacity, from the claims alone. */
#include "books.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/gen/resource_v1.h"
#include "data/quantity.h"

const int part_units[PARTS] = {4, 2, 2, 1, 1, 1, 1};

void books_del(struct books *b, const struct bh_obj *claim)
{
    struct bh_obj *old = bh_map_get(&b->claims, claim->uid);

    if (!old)
        return;
    (void)bh_map_del(&b->claims, claim->uid);
    (void)bh_obj_unref(old);
}

void books_put(struct books *b, struct bh_obj *claim)
{
    books_del(b, claim);
    (void)bh_map_put(&b->claims, claim->uid, bh_obj_ref(claim));
}

void books_done(struct books *b)
{
    size_t it = 0;
    void *v;

    while (bh_map_next(&b->claims, &it, NULL, &v))
        (void)bh_obj_unref(v);
    bh_map_done(&b->claims);
}

/* The number behind "n-" or "gpu-"; -1 when it is none below max. */
static int number_of(struct bh_str name, const char *prefix, int max)
{
    int64_t n;

    if (!bh_str_starts(name, bh_s(prefix)) ||
        !bh_str_i64(bh_str_sub(name, strlen(prefix), name.n), 0, max - 1, &n))
        return -1;
    return (int)n;
}

static double bandwidth_of(const struct bh_resource_v1_device_request_allocation_result *r)
{
    for (size_t i = 0; i < r->consumed_capacity.n; i++) {
        struct bh_quantity q;

        if (bh_str_eqc(r->consumed_capacity.p[i].key, "bw") &&
            bh_quantity_parse(r->consumed_capacity.p[i].value, &q, NULL) == 0)
            return bh_quantity_double(q);
    }
    return 2 * BANDWIDTH; /* a share that says nothing takes too much */
}

static bool add(struct books_node *nodes,
                const struct bh_resource_v1_device_request_allocation_result *r)
{
    int node = number_of(r->pool, "n-", NODES), at;

    if (node < 0)
        return false;
    if (bh_str_eqc(r->driver, GPU_DRIVER)) {
        at = number_of(r->device, "gpu-", GPUS);
        if (at < 0 || nodes[node].gpu[at]++)
            return false;
        nodes[node].gpus++;
        return true;
    }
    if (bh_str_eqc(r->driver, PART_DRIVER)) {
        at = number_of(r->device, "part-", PARTS);
        if (at < 0 || nodes[node].part[at]++)
            return false;
        nodes[node].units += part_units[at];
        return nodes[node].units <= UNITS;
    }
    if (!bh_str_eqc(r->driver, NIC_DRIVER) || !r->has_share_id)
        return false;
    nodes[node].bandwidth += bandwidth_of(r);
    return nodes[node].bandwidth <= BANDWIDTH;
}

bool books_add_up(const struct books *b, struct books_node nodes[NODES], char *why, size_t why_n)
{
    size_t it = 0;
    void *v;

    memset(nodes, 0, NODES * sizeof(*nodes));
    while (bh_map_next(&b->claims, &it, NULL, &v)) {
        const struct bh_obj *o = v;
        const struct bh_resource_v1_resource_claim *c = bh_obj_struct(o);

        for (size_t i = 0; c->status.allocation && i < c->status.allocation->devices.results.n;
             i++) {
            const struct bh_resource_v1_device_request_allocation_result *r =
                &c->status.allocation->devices.results.p[i];

            if ((r->has_admin_access && r->admin_access) || add(nodes, r))
                continue;
            (void)snprintf(why, why_n,
                           "%.*s/%.*s/%.*s cannot be given to claim %.*s beside the others",
                           BH_SF(r->driver), BH_SF(r->pool), BH_SF(r->device), BH_SF(o->name));
            return false;
        }
    }
    return true;
}
