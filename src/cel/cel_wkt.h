/* Well-known protobuf messages in constructors. Private to src/cel. */
#ifndef BH_CEL_CEL_WKT_H
#define BH_CEL_CEL_WKT_H

#include "cel/cel_int.h"

/* NULL when the name is none of them. */
const struct bh_cel_type *cel_wkt_type(struct bh_str name);
/* The value that a constructor with these fields stands for. */
struct bh_cel_value cel_wkt_value(struct bh_cel_run *run, const struct bh_cel_map *m);

#endif
