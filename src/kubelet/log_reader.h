/* Container logs in the CRI format, turned into what a client of /containerLogs sees. Blocking
 * reads of local files, small pieces at a time. One owner.
 */
#ifndef BH_KUBELET_LOG_READER_H
#define BH_KUBELET_LOG_READER_H

#include "base/err.h"
#include "base/str.h"

struct bh_buf;
struct bh_log_reader;

struct bh_log_opts {
    int64_t tail_lines;  /* <0: all */
    int64_t limit_bytes; /* 0: none */
    int64_t since_ns;    /* Unix time; 0: from the start */
    bool timestamps;
};

/* -BH_E_NOT_FOUND when there is no such file. */
BH_MUST int bh_log_reader_open(const char *path, const struct bh_log_opts *o,
                               struct bh_log_reader **ret, struct bh_err *err);
/* The same on an open file, which is owned from here on, also on failure. */
BH_MUST int bh_log_reader_open_fd(int fd, const struct bh_log_opts *o, struct bh_log_reader **ret,
                                  struct bh_err *err);
struct bh_log_reader *bh_log_reader_free(struct bh_log_reader *r);
/* Appends what the next piece of the file holds. Returns 1 when there may be more at once, 0 at the
 * end of what is written so far (call again later to follow), 2 when limit_bytes is reached. */
BH_MUST int bh_log_reader_next(struct bh_log_reader *r, struct bh_buf *out, struct bh_err *err);

#endif
