/* What is given to whom, kept from the claims alone, and whether that is possible at all.
 *
 * Every node has GPUS whole devices, one that is cut into partitions (shared counters: UNITS, and
 * devices of 4, 2, 2, 1, 1, 1 and 1 of them) and one network device that claims share by bandwidth.
 */
#ifndef BH_SIM_BOOKS_H
#define BH_SIM_BOOKS_H

#include "api/obj.h"
#include "base/map.h"

#define NODES     6
#define GPUS      4
#define UNITS     4
#define PARTS     7
#define BANDWIDTH 10

#define GPU_DRIVER  "gpu.bulkhead.dev"
#define PART_DRIVER "part.bulkhead.dev"
#define NIC_DRIVER  "nic.bulkhead.dev"

extern const int part_units[PARTS];

struct books {
    struct bh_map claims; /* uid -> struct bh_obj, a reference each */
};

void books_put(struct books *b, struct bh_obj *claim);
void books_del(struct books *b, const struct bh_obj *claim);
void books_done(struct books *b);

/* What one node has given away. */
struct books_node {
    int gpu[GPUS];   /* claims that hold it */
    int part[PARTS]; /* the same */
    int units;
    double bandwidth;
    int gpus; /* how many are held */
};

/* Adds up all claims: false, and *why, when a device, a counter or a capacity is given away twice.
 */
bool books_add_up(const struct books *b, struct books_node nodes[NODES], char *why, size_t why_n);

#endif
