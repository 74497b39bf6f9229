/* Time zones by IANA name, from the host's zoneinfo. Private to src/cel. */
#ifndef BH_CEL_CEL_TZ_H
#define BH_CEL_CEL_TZ_H

#include "base/str.h"

/* Seconds east of UTC at this Unix time; false when the zone is unknown. "" and "UTC" are UTC. A
 * zone is read from disk at its first use and kept; at most CEL_TZ_MAX are. Thread: any. */
bool cel_tz_offset(struct bh_str name, int64_t unix_sec, int64_t *ret);
int64_t cel_days_from_civil(int64_t y, unsigned m, unsigned d);

#endif
