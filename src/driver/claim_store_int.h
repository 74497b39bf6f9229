/* What the parts of the claim store share. Private to src/driver. */
#ifndef BH_DRIVER_CLAIM_STORE_INT_H
#define BH_DRIVER_CLAIM_STORE_INT_H

#include "base/map.h"
#include "driver/claim_store.h"

struct bh_claim_device {
    struct bh_str request, pool, device, share_id;
    bool admin;
};

struct bh_claim { /* allocated in its own arena */
    struct bh_arena *arena;
    struct bh_str uid, ns, name, pod_claim;
    struct bh_claim_device *devices;
    size_t devices_n;
    bool done;
};

struct bh_claim_store {
    struct bh_claim_store_opts o;
    char *data_dir, *cdi_dir, *driver;
    struct bh_map claims; /* UID to struct bh_claim * */
};

/* claim_checkpoint.c: *ret_fresh is true when there was no readable checkpoint. */
BH_MUST int bh_claim_checkpoint_load(struct bh_claim_store *s, bool *ret_fresh, struct bh_err *err);
BH_MUST int bh_claim_checkpoint_store(struct bh_claim_store *s, struct bh_err *err);
struct bh_claim *bh_claim_free(struct bh_claim *c);

/* claim_files.c: CDI spec and metadata of one claim. */
BH_MUST int bh_claim_files_write(const struct bh_claim_store *s, const struct bh_claim *c,
                                 struct bh_err *err);
BH_MUST int bh_claim_files_remove(const struct bh_claim_store *s, const struct bh_claim_ref *c,
                                  struct bh_err *err);
/* Removes the CDI specs of claims that are not in the store. */
void bh_claim_files_sweep(const struct bh_claim_store *s);
/* Names that go to CDI: the device's, and that of a request's metadata; in the arena. */
struct bh_str bh_claim_cdi_id(const struct bh_claim_store *s, struct bh_arena *a,
                              const struct bh_claim *c, size_t i);
struct bh_str bh_claim_metadata_id(const struct bh_claim_store *s, struct bh_arena *a,
                                   const struct bh_claim *c, struct bh_str base_request);
bool bh_claim_has_metadata(const struct bh_claim_store *s, const struct bh_claim *c,
                           struct bh_str base_request);
struct bh_str bh_claim_base(struct bh_str request); /* the part before '/' */
/* Device i is the first of its base request. */
bool bh_claim_first_of_request(const struct bh_claim *c, size_t i);

#endif
