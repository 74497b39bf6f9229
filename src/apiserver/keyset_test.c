/* The sorted set against a plain array. */
#include "apiserver/keyset.h"

#include "base/arena.h"
#include "base/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 3000

struct item {
    struct bh_keyset_entry e;
    char key[16];
    bool in;
};

static void check_order(const struct bh_keyset *ks, size_t want)
{
    struct bh_keyset_pos pos = {0, 0};
    struct bh_keyset_entry *e, *last = NULL;
    size_t n = 0;

    while ((e = bh_keyset_next(ks, &pos))) {
        BH_CHECK(!last || bh_str_cmp(last->key, e->key) < 0);
        last = e;
        n++;
    }
    BH_EQ(n, want);
    BH_EQ(ks->n, want);
}

BH_TEST(keyset_keeps_random_keys_in_order)
{
    struct item *items = bh_calloc(N, sizeof(*items));
    struct bh_keyset ks = {0};
    uint64_t x = bh_test_seed();
    size_t in = 0;

    for (size_t i = 0; i < N; i++) {
        (void)snprintf(items[i].key, sizeof(items[i].key), "k%05zu", i);
        items[i].e.key = bh_s(items[i].key);
    }
    for (int round = 0; round < 20000; round++) {
        struct item *it;

        x = x * 6364136223846793005u + 1442695040888963407u;
        it = &items[(x >> 33) % N];
        if (it->in) {
            BH_CHECK(bh_keyset_remove(&ks, it->e.key) == &it->e);
            in--;
        } else {
            bh_keyset_insert(&ks, &it->e);
            in++;
        }
        it->in = !it->in;
    }
    check_order(&ks, in);
    BH_CHECK(bh_keyset_remove(&ks, BH_S("absent")) == NULL);
    for (size_t i = 0; i < N; i++)
        if (items[i].in)
            (void)bh_keyset_remove(&ks, items[i].e.key);
    check_order(&ks, 0);
    bh_keyset_done(&ks);
    bh_free(items);
}

BH_TEST(keyset_seeks_and_counts)
{
    struct item *items = bh_calloc(1000, sizeof(*items));
    struct bh_keyset ks = {0};
    struct bh_keyset_pos from, to;

    for (size_t i = 0; i < 1000; i++) {
        (void)snprintf(items[i].key, sizeof(items[i].key), "k%05zu", i * 2);
        items[i].e.key = bh_s(items[i].key);
        bh_keyset_insert(&ks, &items[i].e); /* in order, as objects with counted names come */
    }
    from = bh_keyset_seek(&ks, BH_S("k00501")); /* between two keys: the next one */
    to = bh_keyset_seek(&ks, BH_S("k01500"));
    BH_EQ(bh_keyset_between(&ks, from, to), (1500 - 502) / 2);
    BH_STREQ(bh_keyset_next(&ks, &from)->key, "k00502");
    to = bh_keyset_seek(&ks, BH_S("z"));
    BH_CHECK(bh_keyset_next(&ks, &to) == NULL);
    BH_EQ(bh_keyset_between(&ks, bh_keyset_seek(&ks, BH_S("")), to), 1000);
    bh_keyset_done(&ks);
    bh_free(items);
}
