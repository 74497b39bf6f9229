/* Lines "TIME STREAM TAGS CONTENT": a P line is a piece of a longer line, an F line ends it. */
#include "kubelet/log_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/types.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "data/time_fmt.h"

#define PIECE          (64u << 10)
#define LINE_MAX_BYTES (256u << 10) /* runtimes cut at 16 KiB; a longer line is no log line */

struct bh_log_reader {
    int fd;
    struct bh_log_opts o;
    off_t at;
    struct bh_buf line; /* what is not a whole line yet */
    int64_t sent;
    bool inside;   /* the last entry was a P: the next continues its line */
    bool skipping; /* a line beyond the limit is dropped up to its end */
};

/* Offset at which the last n lines begin. */
static int find_tail(int fd, int64_t n, off_t *ret, struct bh_err *err)
{
    char buf[4096];
    struct stat st;
    off_t end;

    if (fstat(fd, &st) < 0)
        return bh_err_sys(err, errno, "stat of a log");
    end = st.st_size;
    for (bool last = true; end > 0;) {
        off_t from = end > (off_t)sizeof(buf) ? end - (off_t)sizeof(buf) : 0;
        ssize_t got = pread(fd, buf, (size_t)(end - from), from);

        if (got != end - from)
            return bh_err_sys(err, got < 0 ? errno : EIO, "read of a log");
        for (ssize_t i = got - 1; i >= 0; i--) {
            if (buf[i] != '\n' || last) { /* the newline that ends the file begins nothing */
                last = false;
                continue;
            }
            if (--n <= 0) {
                *ret = from + i + 1;
                return 0;
            }
        }
        end = from;
    }
    *ret = 0;
    return 0;
}

int bh_log_reader_open_fd(int given, const struct bh_log_opts *o, struct bh_log_reader **ret,
                          struct bh_err *err)
{
    BH_AUTO_FD fd = given;
    struct bh_log_reader *r;
    off_t at = 0;

    if (o->tail_lines == 0)
        at = lseek(fd, 0, SEEK_END);
    else if (o->tail_lines > 0 && find_tail(fd, o->tail_lines, &at, err) < 0)
        return -BH_E_IO;
    r = bh_calloc(1, sizeof(*r));
    r->fd = bh_take_fd(&fd);
    r->o = *o;
    r->at = at;
    r->line.max = LINE_MAX_BYTES;
    *ret = r;
    return 0;
}

int bh_log_reader_open(const char *path, const struct bh_log_opts *o, struct bh_log_reader **ret,
                       struct bh_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return errno == ENOENT ? bh_err_set(err, BH_E_NOT_FOUND, "no log at '%s'", path)
                               : bh_err_sys(err, errno, "open '%s'", path);
    return bh_log_reader_open_fd(fd, o, ret, err);
}

struct bh_log_reader *bh_log_reader_free(struct bh_log_reader *r)
{
    if (!r)
        return NULL;
    (void)close(r->fd);
    bh_buf_done(&r->line);
    bh_free(r);
    return NULL;
}

static bool too_old(const struct bh_log_reader *r, struct bh_str when)
{
    struct bh_time t;

    return r->o.since_ns && bh_time_parse(when, &t, NULL) >= 0 &&
           t.sec * 1000000000 + t.nsec < r->o.since_ns;
}

static void put(struct bh_log_reader *r, struct bh_buf *out, struct bh_str s)
{
    if (r->o.limit_bytes && r->sent + (int64_t)s.n > r->o.limit_bytes)
        s.n = (size_t)(r->o.limit_bytes - r->sent);
    bh_buf_adds(out, s);
    r->sent += (int64_t)s.n;
}

static void entry(struct bh_log_reader *r, struct bh_str line, struct bh_buf *out)
{
    struct bh_str rest = line, when = bh_str_cut(&rest, ' '), stream = bh_str_cut(&rest, ' '), tag;
    bool partial;

    if (!bh_str_eqc(stream, "stdout") && !bh_str_eqc(stream, "stderr"))
        return; /* not a log line */
    tag = bh_str_cut(&rest, ' ');
    tag = bh_str_cut(&tag, ':');
    partial = bh_str_eqc(tag, "P");
    if (!too_old(r, when)) {
        if (r->o.timestamps && !r->inside) {
            put(r, out, when);
            put(r, out, BH_S(" "));
        }
        put(r, out, rest);
        if (!partial)
            put(r, out, BH_S("\n"));
    }
    r->inside = partial;
}

int bh_log_reader_next(struct bh_log_reader *r, struct bh_buf *out, struct bh_err *err)
{
    char buf[PIECE];
    ssize_t got = pread(r->fd, buf, sizeof(buf), r->at);
    struct bh_str rest;

    if (got < 0)
        return bh_err_sys(err, errno, "read of a log");
    r->at += got;
    for (rest = (struct bh_str){buf, (size_t)got}; rest.n;) {
        ptrdiff_t end = bh_str_chr(rest, '\n', 0);
        struct bh_str piece = bh_str_sub(rest, 0, end < 0 ? rest.n : (size_t)end);

        rest = bh_str_sub(rest, piece.n + (end >= 0), rest.n);
        if (!r->skipping)
            bh_buf_adds(&r->line, piece);
        if (r->line.overflow) {
            r->skipping = true;
            bh_buf_clear(&r->line);
            r->line.overflow = false;
        }
        if (end < 0)
            break;
        if (!r->skipping)
            entry(r, bh_buf_str(&r->line), out);
        r->skipping = false;
        bh_buf_clear(&r->line);
        if (r->o.limit_bytes && r->sent >= r->o.limit_bytes)
            return 2;
    }
    return got == (ssize_t)sizeof(buf);
}
