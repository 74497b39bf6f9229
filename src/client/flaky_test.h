/* For tests: a client that passes calls on to a real one, until it is told to fail them. */
#ifndef BH_CLIENT_FLAKY_TEST_H
#define BH_CLIENT_FLAKY_TEST_H

#include "client/client_int.h"

enum flaky_mode {
    FLAKY_PASS,
    FLAKY_HANG,   /* no answer but the client's own TIMEOUT: a server that stopped */
    FLAKY_REFUSE, /* UNAVAILABLE, from the loop */
};

struct flaky {
    struct bh_client base;
    struct bh_client *inner;
    enum flaky_mode calls, watches;
    enum bh_code refusal;   /* BH_OK: UNAVAILABLE */
    enum bh_code watch_end; /* with FLAKY_REFUSE: how a watch ends; BH_OK is an orderly end */
    bool parts;             /* sequences are sent request by request */
    int calls_n, lists_n, watches_n;
    struct bh_link refused;
};

/* inner stays the caller's. End with bh_client_free(&f->base). */
void flaky_init(struct flaky *f, struct bh_client *inner);

#endif
