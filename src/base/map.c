/* Hash map from byte strings to pointers: open addressing with linear probing and tombstones. */
#include "base/map.h"

#include <string.h>

#include "base/arena.h"
#include "base/err.h"

struct bh_map_slot {
    uint64_t hash;
    char *key; /* NULL: never used, DEAD: removed */
    size_t key_n;
    void *value;
};

static char dead_key;
#define DEAD (&dead_key)

static bool live(const struct bh_map_slot *s)
{
    return s->key && s->key != DEAD;
}

void bh_map_done(struct bh_map *m)
{
    for (size_t i = 0; i < m->cap; i++)
        if (live(&m->slots[i]))
            bh_free(m->slots[i].key);
    bh_free(m->slots);
    *m = (struct bh_map){0};
}

static struct bh_map_slot *find(const struct bh_map *m, struct bh_str key, uint64_t hash)
{
    if (!m->cap)
        return NULL;
    for (size_t i = hash & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
        struct bh_map_slot *s = &m->slots[i];

        if (!s->key)
            return NULL;
        if (s->key != DEAD && s->hash == hash && s->key_n == key.n &&
            (!key.n || memcmp(s->key, key.p, key.n) == 0))
            return s;
    }
}

void *bh_map_get(const struct bh_map *m, struct bh_str key)
{
    struct bh_map_slot *s = m->n ? find(m, key, bh_str_hash(key)) : NULL;

    return s ? s->value : NULL;
}

static void rehash(struct bh_map *m, size_t cap)
{
    struct bh_map_slot *old = m->slots;
    size_t old_cap = m->cap;

    m->slots = bh_calloc(cap, sizeof(*m->slots));
    m->cap = cap;
    m->dead = 0;
    for (size_t i = 0; i < old_cap; i++) {
        if (!live(&old[i]))
            continue;
        for (size_t j = old[i].hash & (cap - 1);; j = (j + 1) & (cap - 1)) {
            if (!m->slots[j].key) {
                m->slots[j] = old[i];
                break;
            }
        }
    }
    bh_free(old);
}

void *bh_map_put(struct bh_map *m, struct bh_str key, void *value)
{
    uint64_t hash = bh_str_hash(key);
    struct bh_map_slot *s = find(m, key, hash);
    size_t i;

    bh_assert(value != NULL);
    if (s) {
        void *old = s->value;

        s->value = value;
        return old;
    }
    /* At most three quarters of the slots are in use, tombstones included, so a probe always ends.
     */
    if ((m->n + m->dead + 1) * 4 > m->cap * 3)
        rehash(m, m->cap == 0 ? 16 : (m->n + 1) * 2 > m->cap ? m->cap * 2 : m->cap);
    for (i = hash & (m->cap - 1); live(&m->slots[i]); i = (i + 1) & (m->cap - 1))
        ;
    s = &m->slots[i];
    if (s->key == DEAD)
        m->dead--;
    *s = (struct bh_map_slot){hash, bh_strdup_c(key), key.n, value};
    m->n++;
    return NULL;
}

void *bh_map_del(struct bh_map *m, struct bh_str key)
{
    struct bh_map_slot *s = m->n ? find(m, key, bh_str_hash(key)) : NULL;
    void *old;

    if (!s)
        return NULL;
    old = s->value;
    bh_free(s->key);
    *s = (struct bh_map_slot){0, DEAD, 0, NULL};
    m->n--;
    m->dead++;
    return old;
}

bool bh_map_next(const struct bh_map *m, size_t *it, struct bh_str *ret_key, void **ret_value)
{
    for (; *it < m->cap; (*it)++) {
        const struct bh_map_slot *s = &m->slots[*it];

        if (!live(s))
            continue;
        if (ret_key)
            *ret_key = (struct bh_str){s->key, s->key_n};
        if (ret_value)
            *ret_value = s->value;
        (*it)++;
        return true;
    }
    return false;
}
