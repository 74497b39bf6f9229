/* A client behind a bad network: requests and answers take their time, answers get lost after the
 * server did the work, watches lose their connection or their place. */
#ifndef BH_SIM_LOSSY_H
#define BH_SIM_LOSSY_H

#include "client/client_int.h"

/* No request is on its way longer than this. */
#define LOSSY_LATE_MAX_MS 1000

struct lossy {
    struct bh_client base;
    struct bh_client *inner; /* the caller's */
    struct bh_link calls, watches;
    /* In thousandths. */
    unsigned lose_answer;  /* the server worked, the client hears a timeout */
    unsigned lose_request; /* the server never hears of it */
    unsigned late;         /* the client hears a timeout, and only then the server of the request */
    unsigned lose_watch;  /* per event: the watch ends before it; half of them have to list again */
    int64_t delay_max_ns; /* of a request */
};

void lossy_init(struct lossy *l, struct bh_client *inner);
/* The client dies: nobody is called back. Requests that are on their way still arrive, as they do.
 */
void lossy_crash(struct lossy *l);

#endif
