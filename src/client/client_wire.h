/* Inside client/: what a server sends, taken apart. Bytes in, objects out: no I/O, one thread. */
#ifndef BH_CLIENT_CLIENT_WIRE_H
#define BH_CLIENT_CLIENT_WIRE_H

#include "base/buf.h"
#include "client/client_int.h"

struct bh_arena;

/* Lines out of a stream of pieces. Zero-initialised with buf.max is valid; bh_buf_done(&l->buf) at
 * the end. */
struct bh_lines {
    struct bh_buf buf;
    size_t used;    /* bytes of lines that were handed out */
    size_t scanned; /* bytes that hold no further end of line */
};
void bh_lines_feed(struct bh_lines *l, struct bh_str piece); /* overflow: l->buf.overflow */
/* The next line without its end; valid until the next feed. */
bool bh_lines_next(struct bh_lines *l, struct bh_str *ret);
struct bh_str bh_lines_rest(const struct bh_lines *l); /* what has no end yet */

/* The objects seen last: what a client wrote comes back as its answer and as an event, and is read
 * once. All zero is valid. */
struct bh_wire_seen {
    struct bh_obj *obj[32];
    uint64_t rv[32]; /* theirs: bytes are compared when this is the same */
    size_t next;
};
void bh_wire_seen_done(struct bh_wire_seen *s);

/* One event of a watch. obj is the caller's reference (NULL for a bookmark). An ERROR event gives
 * -code of its Status and fills *err; malformed bytes give -BH_E_PROTO. An event of a type that is
 * not known is skipped: 1. */
struct bh_wire_event {
    enum bh_cw_type type;
    struct bh_obj *obj;
    uint64_t rv;
};
BH_MUST int bh_wire_event(const struct bh_kind *kind, struct bh_wire_seen *seen, struct bh_str line,
                          struct bh_wire_event *ret, struct bh_err *err);
/* Fills items (references that the caller gives back, also after an error), items_n and list_rv; an
 * error goes to res->err as BH_E_PROTO. The array lives in a. */
void bh_wire_list(struct bh_arena *a, const struct bh_kind *kind, struct bh_str body,
                  struct bh_client_res *res);
/* The object, when it is one of this kind (a deletion may answer with a Status); else NULL. */
struct bh_obj *bh_wire_object(struct bh_arena *a, const struct bh_kind *kind,
                              struct bh_wire_seen *seen, struct bh_str body);

#endif
