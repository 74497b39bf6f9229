/* Structured log: one line, one write(2). Text on a terminal, JSON otherwise. */
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 8192

static struct {
    enum bh_log_level min;
    const char *component;
    int fd;
    bool tty;
} state = {BH_INFO, "", 2, false};

static const char *const level_names[] = {"debug", "info", "warn", "error"};

struct line {
    char p[LINE_MAX_BYTES];
    size_t n;
};

void bh_log_init(enum bh_log_level min, const char *component)
{
    state.min = min;
    state.component = component;
    state.tty = isatty(state.fd) == 1;
}

void bh_log_fd(int fd)
{
    state.fd = fd;
    state.tty = isatty(fd) == 1;
}

bool bh_log_on(enum bh_log_level l)
{
    return l >= state.min;
}

/* The last bytes stay free for the closing of the line: a long value is cut, the line stays
 * well-formed. */
static void put(struct line *l, char c)
{
    if (l->n < sizeof(l->p) - 16)
        l->p[l->n++] = c;
}

static void puts_raw(struct line *l, const char *s)
{
    while (*s)
        put(l, *s++);
}

static void put_quoted(struct line *l, struct bh_str s)
{
    static const char hex[] = "0123456789abcdef";

    put(l, '"');
    for (size_t i = 0; i < s.n && l->n < sizeof(l->p) - 32; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (c == '"' || c == '\\') {
            put(l, '\\');
            put(l, (char)c);
        } else if (c < 0x20 || c == 0x7f) {
            puts_raw(l, "\\u00");
            put(l, hex[c >> 4]);
            put(l, hex[c & 15]);
        } else {
            put(l, (char)c);
        }
    }
    l->p[l->n++] = '"';
}

static void put_time(struct line *l)
{
    struct timespec ts = {0};
    struct tm tm;
    char buf[64];

    (void)clock_gettime(CLOCK_REALTIME, &ts);
    (void)gmtime_r(&ts.tv_sec, &tm);
    (void)snprintf(buf, sizeof(buf), "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ", tm.tm_year + 1900,
                   tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                   ts.tv_nsec / 1000000);
    puts_raw(l, buf);
}

static void put_i64(struct line *l, int64_t v)
{
    char buf[24];

    (void)snprintf(buf, sizeof(buf), "%lld", (long long)v);
    puts_raw(l, buf);
}

static void line_text(struct line *l, enum bh_log_level level, const char *msg,
                      const struct bh_log_kv *kv)
{
    put_time(l);
    put(l, ' ');
    puts_raw(l, level_names[level]);
    if (*state.component) {
        put(l, ' ');
        puts_raw(l, state.component);
    }
    puts_raw(l, ": ");
    puts_raw(l, msg);
    for (; kv && kv->key && l->n < sizeof(l->p) - 256; kv++) {
        put(l, ' ');
        puts_raw(l, kv->key);
        put(l, '=');
        if (kv->kind == BH_LOG_I64)
            put_i64(l, kv->i);
        else
            put_quoted(l, kv->s);
    }
}

static void line_json(struct line *l, enum bh_log_level level, const char *msg,
                      const struct bh_log_kv *kv)
{
    puts_raw(l, "{\"ts\":\"");
    put_time(l);
    puts_raw(l, "\",\"level\":\"");
    puts_raw(l, level_names[level]);
    puts_raw(l, "\",\"component\":");
    put_quoted(l, bh_s(state.component));
    puts_raw(l, ",\"msg\":");
    put_quoted(l, bh_s(msg));
    for (; kv && kv->key && l->n < sizeof(l->p) - 256; kv++) {
        put(l, ',');
        put_quoted(l, bh_s(kv->key));
        put(l, ':');
        if (kv->kind == BH_LOG_I64)
            put_i64(l, kv->i);
        else
            put_quoted(l, kv->s);
    }
    l->p[l->n++] = '}';
}

void bh_log_write(enum bh_log_level level, const char *msg, const struct bh_log_kv *kv)
{
    struct line l;
    int saved = errno;

    l.n = 0;
    if (state.tty)
        line_text(&l, level, msg, kv);
    else
        line_json(&l, level, msg, kv);
    l.p[l.n++] = '\n';
    /* A log that cannot be written is lost: there is nobody left to tell. */
    for (size_t off = 0; off < l.n;) {
        ssize_t w = write(state.fd, l.p + off, l.n - off);

        if (w > 0)
            off += (size_t)w;
        else if (w < 0 && errno != EINTR)
            break;
    }
    errno = saved;
}
