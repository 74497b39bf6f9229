/* Releases claims that the API has forgotten.
 *
 * The kubelet releases what it holds, but it may lose its own record (a disk, an operator). Then a
 * claim would keep its device for ever. So the prepared claims are compared with the API from time
 * to time, and one that has been gone for the whole grace is released. Thread: the loop's own; the
 * store is used in turns of the service.
 */
#ifndef BH_DRIVER_CLAIM_SWEEP_H
#define BH_DRIVER_CLAIM_SWEEP_H

struct bh_claim_store;
struct bh_claim_sweep;
struct bh_client;
struct bh_dra_service;

struct bh_claim_sweep *bh_claim_sweep_new(struct bh_client *c, struct bh_dra_service *svc,
                                          struct bh_claim_store *store, const char *driver,
                                          int grace_ms);
struct bh_claim_sweep *bh_claim_sweep_free(struct bh_claim_sweep *s); /* before the service */

#endif
