/* Unit test harness: tests register themselves, one binary per module.
 *
 *     BH_TEST(json_rejects_deep_nesting) { BH_EQ(f(), -BH_E_LIMIT); BH_CHECK(x); BH_STREQ(s,
 * "text"); }
 *
 * The binary prints one line per failing check and a final "N passed, N failed"; exit 1 on failure,
 * 77 when every test was skipped. An argument selects the tests whose name contains it.
 * `bh_test_skip(why)` skips loudly.
 */
#ifndef BH_BASE_TEST_H
#define BH_BASE_TEST_H

#include "base/str.h"

struct bh_test {
    const char *name;
    void (*fn)(void);
    struct bh_test *next;
};

void bh_test_register(struct bh_test *t);
void bh_test_fail(const char *file, int line, const char *fmt, ...) BH_PRINTF(3, 4);
void bh_test_skip(const char *why);
void bh_test_eq_i64(const char *file, int line, const char *expr, int64_t got, int64_t want);
void bh_test_eq_str(const char *file, int line, const char *expr, struct bh_str got,
                    struct bh_str want);
uint64_t bh_test_seed(void); /* random, printed; BH_SEED in the environment fixes it */
int bh_test_main(int argc, char **argv);
/* Path of the shared test data ($BH_SHARED, else ../shared next to the source tree) + "/" + rel;
 * NULL when it is absent (the test then skips). Static storage. */
const char *bh_test_shared(const char *rel);

#define BH_TEST(id)                                                                                \
    static void test_##id(void);                                                                   \
    __attribute__((constructor)) static void test_reg_##id(void)                                   \
    {                                                                                              \
        static struct bh_test t = {#id, test_##id, NULL};                                          \
        bh_test_register(&t);                                                                      \
    }                                                                                              \
    static void test_##id(void)

#define BH_CHECK(c)             ((c) ? (void)0 : bh_test_fail(__FILE__, __LINE__, "%s", #c))
#define BH_EQ(got, want)        bh_test_eq_i64(__FILE__, __LINE__, #got, (int64_t)(got), (int64_t)(want))
#define BH_STREQ(got, want_lit) bh_test_eq_str(__FILE__, __LINE__, #got, (got), bh_s(want_lit))
#define BH_SEQ(got, want)       bh_test_eq_str(__FILE__, __LINE__, #got, (got), (want))

#endif
