/* A DRA driver for tests that behaves as badly as it is told. Same loop as its user. */
#ifndef BH_KUBELET_FAKE_DRIVER_TEST_H
#define BH_KUBELET_FAKE_DRIVER_TEST_H

#include "base/buf.h"
#include "base/str.h"

struct bh_grpc_call;
struct bh_grpc_server;
struct bh_loop;

enum fake_mode {
    FAKE_GOOD,
    FAKE_HANG,        /* takes the call and never answers */
    FAKE_RUBBISH,     /* answers bytes that are no message */
    FAKE_UNKNOWN_UID, /* answers for a claim that nobody asked about */
    FAKE_SKIP,        /* leaves a claim out */
    FAKE_CLAIM_ERROR, /* "no such device" for each claim */
    FAKE_RPC_ERROR,   /* fails the call */
    FAKE_DIE,         /* closes everything in the middle of the call */
};

struct fake_driver {
    struct bh_loop *l;
    char dra[128], reg[128];
    const char *name, *type;
    const char *versions[4]; /* NULL-terminated */
    const char *endpoint;    /* NULL: dra */
    enum fake_mode mode;
    int get_info_delay_ms;
    bool refuse_notify;
    const char *watch_file; /* read when a prepare comes in: was the checkpoint written before? */
    struct bh_buf watch_content;
    int prepares, unprepares, infos, notifies, refusals;
    char refusal[300];
    struct bh_grpc_server *srv, *srv_reg;
    struct bh_grpc_call *held, *health;
};

/* dir: the kubelet's root. Sets defaults; does not listen yet. */
void fake_driver_init(struct fake_driver *d, struct bh_loop *l, const char *dir);
void fake_driver_start(struct fake_driver *d);
void fake_driver_stop(struct fake_driver *d); /* both sockets go away */
void fake_driver_stop_service(
    struct fake_driver *d); /* it crashes: the registration socket stays */
void fake_driver_start_service(struct fake_driver *d);
void fake_driver_health(struct fake_driver *d, const char *device, bool healthy,
                        const char *message);

#endif
