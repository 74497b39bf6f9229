/* Watch events as bytes: encoded once for all watchers that want the same. */
#ifndef BH_APISERVER_FRAMES_H
#define BH_APISERVER_FRAMES_H

#include "apiserver/server_int.h"

struct bh_frame_want {
    struct bh_rq *rq;
    enum bh_watch_type type;
    struct bh_obj *obj; /* in the stored version; NULL for a bookmark */
    uint64_t rv;
    bool initial_end;
    bool first; /* the first event of this watch */
};

#define BH_FRAME_SLOTS 8

/* What was encoded last: events go out to one watcher after the other, so a few slots are enough.
 */
struct bh_frame_cache {
    struct {
        const struct bh_obj *obj; /* referenced while in the slot */
        const struct bh_kind *kind;
        enum bh_watch_type type;
        enum bh_form form;
        enum bh_as as;
        struct bh_api_bytes *bytes;
    } slot[BH_FRAME_SLOTS];
    size_t next;
    struct {
        const struct bh_obj *from;
        struct bh_obj *to;
    } conv[BH_FRAME_SLOTS];
    size_t conv_next;
};

/* One frame with its newline or length; a reference for the caller. NULL when it cannot be encoded.
 */
struct bh_api_bytes *bh_frame_get(const struct bh_frame_want *w, struct bh_str *ret);
/* An ERROR event from rq->fail. */
struct bh_api_bytes *bh_frame_error(struct bh_rq *rq, struct bh_str *ret);
/* As bh_convert_obj(), remembering the last few. */
struct bh_obj *bh_convert_cached(struct bh_apiserver *srv, struct bh_obj *o,
                                 const struct bh_kind *to);
void bh_frame_cache_clear(struct bh_frame_cache *c);

#endif
