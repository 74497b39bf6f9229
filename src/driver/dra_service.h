/* The gRPC side of a DRA driver: registration with the kubelet, preparing of claims, health of
 * devices.
 *
 * Calls that change claims run one after the other on the worker pool, in the order in which their
 * claims were read from the API. Thread: the loop's own.
 */
#ifndef BH_DRIVER_DRA_SERVICE_H
#define BH_DRIVER_DRA_SERVICE_H

#include "base/err.h"
#include "base/str.h"

struct bh_client;
struct bh_claim_store;
struct bh_dra_service;
struct bh_loop;

struct bh_device_health {
    struct bh_str device;
    bool healthy;
    struct bh_str message; /* empty: none */
};

struct bh_dra_service_opts {
    struct bh_client *client;
    struct bh_claim_store *store; /* used on the worker pool while calls run */
    const char *driver;           /* copied, as all strings */
    const char *pool;             /* the node's name */
    const char *socket;           /* of the service: <root>/plugins/<driver>/dra.sock */
    const char *registration;     /* <root>/plugins_registry/<driver>-reg.sock */
};

/* Listens on the service socket, then on the registration socket. NULL on failure. */
struct bh_dra_service *bh_dra_service_new(struct bh_loop *l, const struct bh_dra_service_opts *o,
                                          struct bh_err *err);
/* Closes both sockets. The store may be closed when bh_dra_service_idle() says so. */
struct bh_dra_service *bh_dra_service_free(struct bh_dra_service *s);
bool bh_dra_service_registered(
    const struct bh_dra_service *s);                      /* the kubelet took us, last asked */
bool bh_dra_service_idle(const struct bh_dra_service *s); /* no job runs on the worker pool */
/* Takes a turn with the claim store: work runs on the worker pool when its turn comes, then done on
 * the loop. When the service is freed before that, done runs without work; when it is freed
 * meanwhile, done still runs. */
void bh_dra_service_turn(struct bh_dra_service *s, void (*work)(void *arg), void (*done)(void *arg),
                         void *arg);
/* What the watchers of health are told, now and every ten seconds. Copied. */
void bh_dra_service_health(struct bh_dra_service *s, const struct bh_device_health *h, size_t n);

#endif
