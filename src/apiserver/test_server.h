/* For tests: a server on the virtual loop over a memory store, and requests to it that are answered
 * before they return. */
#ifndef BH_APISERVER_TEST_SERVER_H
#define BH_APISERVER_TEST_SERVER_H

#include "apiserver/apiserver.h"
#include "base/buf.h"
#include "net/loop.h"
#include "store/store.h"

struct ts {
    struct bh_loop *l;
    struct bh_store *store;
    struct bh_apiserver *srv;
    uint64_t base; /* version after the default objects: events tell theirs relative to it */
    /* of the last request */
    int status;
    int answers;
    struct bh_buf body;
    struct bh_buf warnings; /* Warning headers, a line each */
};

/* A watch: events as text, "ADDED a@5 " each; a bookmark "BOOKMARK @9 ". */
struct ts_watch {
    struct ts *t;
    uint64_t id;
    struct bh_buf events;
    size_t refuse_after; /* 0: never; else event() answers false from that event on */
    size_t n;
    bool opened, ended;
};

void ts_start(struct ts *t, uint64_t seed);
void ts_restart(struct ts *t); /* a new server over the same store */
void ts_stop(struct ts *t);
void ts_settle(struct ts *t); /* runs the loop until nothing happens for a simulated second */

/* Asks as system:masters; body NULL: none. Returns the status (0: no answer). */
int ts_call(struct ts *t, const char *method, const char *path, const char *body);
int ts_call_as(struct ts *t, const char *user, const char *method, const char *path,
               const char *body);
/* The same with headers. */
int ts_call_with(struct ts *t, const char *method, const char *path, const char *accept,
                 const char *content_type, const char *body);
/* Does not run the loop: the answer comes later, into t. */
void ts_post(struct ts *t, const char *method, const char *path, const char *body);
bool ts_has(const struct ts *t, const char *text); /* the last body contains it */
void ts_watch(struct ts *t, struct ts_watch *w, const char *path);
void ts_watch_end(struct ts_watch *w);

#endif
