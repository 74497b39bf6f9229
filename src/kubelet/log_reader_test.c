/* Container logs in the CRI format. */
#include "kubelet/log_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/test.h"

static char path[64];

static void write_log(const char *text)
{
    int fd;

    snprintf(path, sizeof(path), "/tmp/bh-log-test.XXXXXX");
    fd = mkstemp(path);
    BH_CHECK(fd >= 0);
    BH_EQ(bh_write_all(fd, text, bh_s(text).n, NULL), 0);
    (void)close(fd);
}

static void append_log(const char *text)
{
    FILE *f = fopen(path, "a");

    BH_CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static int drain(struct bh_log_reader *r, struct bh_buf *out)
{
    int more;

    do
        more = bh_log_reader_next(r, out, NULL);
    while (more == 1);
    return more;
}

static struct bh_str read_all(const struct bh_log_opts *o, struct bh_buf *out, int *ret_end)
{
    struct bh_log_reader *r = NULL;

    bh_buf_clear(out);
    BH_EQ(bh_log_reader_open(path, o, &r, NULL), 0);
    *ret_end = drain(r, out);
    (void)bh_log_reader_free(r);
    return bh_buf_str(out);
}

#define L(t, s, tag, text) "2026-11-30T09:30:" t "Z " s " " tag " " text "\n"
static const char three[] = L("01.5", "stdout", "F", "one") L("02.5", "stderr", "F", "two")
    L("03.5", "stdout", "F", "three");

BH_TEST(log_reader_gives_the_content_of_both_streams)
{
    BH_AUTO_BUF b = {0};
    int end;

    write_log(three);
    BH_STREQ(read_all(&(struct bh_log_opts){.tail_lines = -1}, &b, &end), "one\ntwo\nthree\n");
    BH_EQ(end, 0);
    (void)unlink(path);
}

BH_TEST(log_reader_joins_partial_lines) /* P without a newline, the F that ends it */
{
    BH_AUTO_BUF b = {0};
    int end;

    write_log(L("01", "stdout", "P", "long ") L("01", "stdout", "P", "er ")
                  L("02", "stdout", "F", "line") L("03", "stdout", "F:x", "next"));
    BH_STREQ(read_all(&(struct bh_log_opts){.tail_lines = -1, .timestamps = true}, &b, &end),
             "2026-11-30T09:30:01Z long er line\n2026-11-30T09:30:03Z next\n");
    (void)unlink(path);
}

BH_TEST(log_reader_begins_at_the_tail)
{
    static const struct {
        int64_t lines;
        const char *want;
    } t[] = {{0, ""},
             {1, "three\n"},
             {2, "two\nthree\n"},
             {3, "one\ntwo\nthree\n"},
             {100, "one\ntwo\nthree\n"}};
    BH_AUTO_BUF b = {0};
    int end;

    write_log(three);
    for (size_t i = 0; i < BH_COUNT(t); i++)
        BH_STREQ(read_all(&(struct bh_log_opts){.tail_lines = t[i].lines}, &b, &end), t[i].want);
    (void)unlink(path);
}

BH_TEST(log_reader_stops_at_the_limit_and_skips_the_past)
{
    BH_AUTO_BUF b = {0};
    int end;

    write_log(three);
    BH_STREQ(read_all(&(struct bh_log_opts){.tail_lines = -1, .limit_bytes = 6}, &b, &end),
             "one\ntw");
    BH_EQ(end, 2);
    /* 2026-11-30T09:30:02Z: the first line is older */
    BH_STREQ(read_all(&(struct bh_log_opts){.tail_lines = -1,
                                            .since_ns = (int64_t)1796031002 * 1000000000},
                      &b, &end),
             "two\nthree\n");
    (void)unlink(path);
}

BH_TEST(log_reader_follows) /* what is appended later, also when a line arrives in pieces */
{
    struct bh_log_reader *r = NULL;
    BH_AUTO_BUF b = {0};

    write_log(three);
    BH_EQ(bh_log_reader_open(path, &(struct bh_log_opts){.tail_lines = 0}, &r, NULL), 0);
    BH_EQ(drain(r, &b), 0);
    append_log("2026-11-30T09:30:04Z stdo");
    BH_EQ(drain(r, &b), 0);
    BH_STREQ(bh_buf_str(&b), "");
    append_log("ut F four\n");
    BH_EQ(drain(r, &b), 0);
    BH_STREQ(bh_buf_str(&b), "four\n");
    (void)bh_log_reader_free(r);
    (void)unlink(path);
}

BH_TEST(log_reader_passes_over_what_is_no_log_line)
{
    BH_AUTO_BUF b = {0};
    int end;

    write_log("garbage\n\n2026-11-30T09:30:01Z stdout\n2026-11-30T09:30:01Z stdin F no\n" L(
        "05", "stdout", "F", "yes"));
    BH_STREQ(read_all(&(struct bh_log_opts){.tail_lines = -1}, &b, &end), "\nyes\n");
    (void)unlink(path);
}

BH_TEST(log_reader_of_a_missing_file)
{
    struct bh_log_reader *r = NULL;

    BH_EQ(
        bh_log_reader_open("/nonexistent/0.log", &(struct bh_log_opts){.tail_lines = -1}, &r, NULL),
        -BH_E_NOT_FOUND);
}
