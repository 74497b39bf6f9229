/* The payloads of the Kubernetes values. Private to src/cel. */
#ifndef BH_CEL_CEL_OPAQUE_H
#define BH_CEL_CEL_OPAQUE_H

#include "cel/cel_int.h"

#include "data/codec.h"
#include "data/names.h"
#include "data/quantity.h"

struct cel_ip { /* IP and CIDR */
    struct bh_ip ip;
    unsigned bits;
};

struct cel_url {
    struct bh_str scheme, user, host, path, raw_path, query, fragment,
        opaque; /* path and fragment decoded */
    bool has_user, force_query;
};

/* isInteger and asInteger follow the form upstream holds a quantity in, not its value. */
struct cel_quantity {
    struct bh_quantity q;
    bool small; /* held as value * 10^scale */
    __int128 value;
    int scale;
};

struct cel_named_format {
    struct bh_str name;
    unsigned id;
    uint32_t regex_size; /* for the cost of validate */
};

bool cel_opaque_equal(struct bh_cel_value a, struct bh_cel_value b); /* same kind */
uint64_t cel_opaque_size(struct bh_cel_value v);                     /* IP and CIDR */
/* Text of an opaque value, for JSON and tests. */
struct bh_str cel_opaque_text(struct bh_arena *a, struct bh_cel_value v);
struct bh_str cel_url_text(struct bh_arena *a, const struct cel_url *u);
bool cel_url_parse(struct bh_arena *a, struct bh_str s, struct cel_url *ret,
                   struct bh_str *ret_why);

/* cel_ip_why.c: what is wrong with a text that bh_ip_parse() refuses, or that is no prefix. In the
 * arena. */
struct bh_str cel_ip_why(struct bh_arena *a, struct bh_str in);
struct bh_str cel_prefix_why(struct bh_arena *a, struct bh_str in);

#endif
