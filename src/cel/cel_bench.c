/* How long selectors take: nanoseconds of one evaluation, without compiling. Prints one line each;
 * not a test.
 *
 *     cel_bench [ITERATIONS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/arena.h"
#include "cel/cel.h"
#include "cel/device_env.h"

#define BATCHES 100

static int64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void bench(const char *expr, const struct bh_cel_device *d, size_t rounds)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_ARENA tmp = bh_arena_new(0);
    struct bh_cel_selector *s = NULL;
    struct bh_err err = {0};
    int64_t best = INT64_MAX, t;
    size_t hits = 0, n = rounds / BATCHES;

    if (bh_cel_selector_new(bh_s(expr), a, &s, NULL, &err) < 0) {
        printf("%s: %s\n", expr, err.msg);
        return;
    }
    /* The best of many batches: what the code takes when nobody else has the core. */
    for (int k = 0; k < BATCHES; k++) {
        t = now_ns();
        for (size_t i = 0; i < n; i++) {
            hits += bh_cel_selector_match(s, d, tmp, &err) > 0;
            if (i % 64 == 0)
                bh_arena_reset(tmp);
        }
        t = now_ns() - t;
        if (t < best)
            best = t;
    }
    printf("%8.1f ns  %s (%s)\n", (double)best / (double)n, expr, hits ? "true" : "false");
    (void)bh_cel_selector_free(s);
}

int main(int argc, char **argv)
{
    static const struct bh_cel_attr attrs[] = {
        {.name = BH_S_INIT("model"), .kind = BH_CEL_ATTR_STRING, .s = BH_S_INIT("H200")},
        {.name = BH_S_INIT("index"), .kind = BH_CEL_ATTR_INT, .i = 3},
        {.name = BH_S_INIT("uuid"),
         .kind = BH_CEL_ATTR_STRING,
         .s = BH_S_INIT("GPU-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0")},
        {.name = BH_S_INIT("healthy"), .kind = BH_CEL_ATTR_BOOL, .b = true},
        {.name = BH_S_INIT("driverVersion"),
         .kind = BH_CEL_ATTR_VERSION,
         .s = BH_S_INIT("550.54.15")},
    };
    static const struct bh_cel_capacity caps[] = {{BH_S_INIT("memory"), BH_S_INIT("141Gi")}};
    static const struct bh_cel_device_in in = {.driver = BH_S_INIT("gpu.bulkhead.dev"),
                                               .attrs = attrs,
                                               .attrs_n = BH_COUNT(attrs),
                                               .caps = caps,
                                               .caps_n = 1};
    static const char *const exprs[] = {
        "device.driver == 'gpu.bulkhead.dev'",
        "device.attributes['gpu.bulkhead.dev'].model == 'H200'",
        "device.attributes['gpu.bulkhead.dev'].model == 'A100'",
        "device.attributes['gpu.bulkhead.dev'].index == 3",
        "device.attributes['gpu.bulkhead.dev'].healthy",
        "device.driver == 'gpu.bulkhead.dev' && device.attributes['gpu.bulkhead.dev'].model == "
        "'H200'",
        "'model' in device.attributes['gpu.bulkhead.dev'] && "
        "device.attributes['gpu.bulkhead.dev'].model in ['H100', 'H200']",
        "device.capacity['gpu.bulkhead.dev'].memory.compareTo(quantity('40Gi')) >= 0",
        "device.attributes['gpu.bulkhead.dev'].driverVersion.isGreaterThan(semver('535.0.0'))",
        "device.attributes['gpu.bulkhead.dev'].uuid.matches('^GPU-[0-9a-f-]+$')",
        "[1, 2, 3, 4].exists(x, x == device.attributes['gpu.bulkhead.dev'].index)",
    };
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_cel_device *d = bh_cel_device_new(a, &in);
    size_t rounds = argc > 1 ? (size_t)strtoul(argv[1], NULL, 10) : 1000000;

    for (size_t i = 0; i < BH_COUNT(exprs); i++)
        bench(exprs[i], d, rounds);
    return 0;
}
