/* Points in time and durations as the API writes them.
 *
 * The zero bh_time means "absent" (Go's zero time, 0001-01-01). The Unix epoch itself is kept as
 * {0, 1}: the nanosecond is never printed. Thread: any.
 */
#ifndef BH_DATA_TIME_FMT_H
#define BH_DATA_TIME_FMT_H

#include "base/err.h"
#include "base/str.h"

struct bh_arena;
struct bh_buf;

struct bh_time {
    int64_t sec; /* since the Unix epoch */
    int32_t nsec;
};

static inline bool bh_time_is_zero(struct bh_time t)
{
    return t.sec == 0 && t.nsec == 0;
}
int bh_time_cmp(struct bh_time a, struct bh_time b);

/* RFC 3339 as Go reads it (offsets and any fraction accepted). -BH_E_BAD_REQUEST with Go's words:
 * parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006". */
BH_MUST int bh_time_parse(struct bh_str s, struct bh_time *ret, struct bh_err *err);
/* MicroTime: exactly six decimals are demanded. */
BH_MUST int bh_time_parse_micro(struct bh_str s, struct bh_time *ret, struct bh_err *err);

#define BH_TIME_BUF 40
/* "2026-01-02T03:04:05Z" and "2026-01-02T03:04:05.000000Z" into buf of BH_TIME_BUF bytes; the view
 * points into it. Years outside 0..9999 give the empty string. */
struct bh_str bh_time_fmt(struct bh_time t, char *buf);
struct bh_str bh_time_fmt_micro(struct bh_time t, char *buf);
/* With as many decimals as are not zero, as Go's RFC3339Nano. */
struct bh_str bh_time_fmt_nano(struct bh_time t, char *buf);

/* Nanoseconds from `from` to `to`, saturating at the ends of int64 (292 years). */
int64_t bh_time_diff_ns(struct bh_time to, struct bh_time from);
struct bh_time bh_time_add_ns(struct bh_time t, int64_t ns);

/* kubectl's HumanDuration: "5s", "2m30s", "3h4m", "2d", "292y"; less than -1 s is "<invalid>". */
struct bh_str bh_duration_human(int64_t ns, char *buf);
/* The age column: "<unknown>" for a zero time, else the human duration from t to now. */
struct bh_str bh_age(struct bh_time now, struct bh_time t, char *buf);

/* Go's time.Duration: "1h30m0s", "1.5ms", "0s". Errors in Go's words: time: invalid duration "x".
 */
BH_MUST int bh_duration_parse(struct bh_str s, int64_t *ret_ns, struct bh_err *err);
struct bh_str bh_duration_fmt(int64_t ns, char *buf);

#endif
