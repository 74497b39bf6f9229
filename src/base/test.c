/* Unit test harness: a list of registered tests, run in the order of their names. */
#include "base/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static struct bh_test *tests;
static const char *current = "";
static int failures; /* of the running test */
static bool skipped;

void bh_test_register(struct bh_test *t)
{
    struct bh_test **at = &tests;

    while (*at && strcmp((*at)->name, t->name) < 0)
        at = &(*at)->next;
    t->next = *at;
    *at = t;
}

void bh_test_fail(const char *file, int line, const char *fmt, ...)
{
    va_list ap;

    failures++;
    printf("FAIL %s (%s:%d): ", current, file, line);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    (void)fflush(stdout);
}

void bh_test_skip(const char *why)
{
    skipped = true;
    printf("SKIP %s: %s\n", current, why);
}

void bh_test_eq_i64(const char *file, int line, const char *expr, int64_t got, int64_t want)
{
    if (got != want)
        bh_test_fail(file, line, "%s is %" PRId64 ", want %" PRId64, expr, got, want);
}

void bh_test_eq_str(const char *file, int line, const char *expr, struct bh_str got,
                    struct bh_str want)
{
    if (!bh_str_eq(got, want))
        bh_test_fail(file, line, "%s is \"%.*s\", want \"%.*s\"", expr, BH_SF(got), BH_SF(want));
}

uint64_t bh_test_seed(void)
{
    const char *env = getenv("BH_SEED");
    uint64_t seed = 0;

    if (env)
        seed = strtoull(env, NULL, 0);
    else if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        seed = (uint64_t)getpid();
    printf("%s: BH_SEED=%" PRIu64 "\n", current, seed);
    return seed;
}

const char *bh_test_shared(const char *rel)
{
    static char path[4096];
    const char *env = getenv("BH_SHARED");
    /* The build folder lies in the source tree, the shared data beside it; tests may run from
     * either. */
    const char *const roots[] = {env ? env : "../shared", "../../shared", "shared"};

    for (size_t i = 0; i < (env ? 1 : BH_COUNT(roots)); i++) {
        int n = snprintf(path, sizeof(path), "%s/%s", roots[i], rel);

        if (n > 0 && (size_t)n < sizeof(path) && access(path, R_OK) == 0)
            return path;
    }
    return NULL;
}

int bh_test_main(int argc, char **argv)
{
    int passed = 0, failed = 0, skips = 0;

    for (struct bh_test *t = tests; t; t = t->next) {
        if (argc > 1 && !strstr(t->name, argv[1]))
            continue;
        current = t->name;
        failures = 0;
        skipped = false;
        t->fn();
        if (failures) {
            failed++;
            printf("FAILED %s\n", t->name);
        } else if (skipped) {
            skips++;
        } else {
            passed++;
        }
    }
    if (skips)
        printf("%d skipped\n", skips);
    printf("%d passed, %d failed\n", passed, failed);
    return failed ? 1 : passed == 0 && skips > 0 ? 77 : 0;
}
