/* Metadata as a container reads it. */
#include "driver/metadata_read.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/test.h"
#include "data/json.h"

#define FILE_OF(more, request, driver)                                                             \
    "{\"apiVersion\":\"metadata.resource.k8s.io/v1alpha1\",\"kind\":\"DeviceMetadata\","           \
    "\"metadata\":{\"name\":\"c\"}," more "\"requests\":[{\"name\":\"" request                     \
    "\",\"devices\":[{\"driver\":\"" driver "\",\"pool\":\"p\",\"name\":\"d\"}]}]}\n"
#define NEWER                                                                                      \
    "{\"apiVersion\":\"metadata.resource.k8s.io/v9\",\"kind\":\"DeviceMetadata\",\"x\":[{}]}\n"

static const char *text_of(struct bh_arena *a, const struct bh_jv *v)
{
    BH_AUTO_BUF b = {0};

    bh_jv_write(&b, v, 0);
    return bh_str_dup(a, bh_buf_str(&b)).p;
}

static void put(const char *dir, const char *name, const char *text)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    BH_EQ(bh_fs_write_plain(path, bh_s(text), 0644, NULL), 0);
}

/* M2: two drivers serve the request. */
BH_TEST(metadata_of_two_drivers_comes_together)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    char dir[] = "/tmp/bh-metadata-XXXXXX";
    struct bh_err err = {0};
    struct bh_jv v;

    bh_assert(mkdtemp(dir));
    BH_EQ(bh_metadata_read(a, dir, &v, &err), -BH_E_NOT_FOUND);
    put(dir, "b.example.com-metadata.json", FILE_OF("\"podClaimName\":\"gpu\",", "r", "b"));
    put(dir, "a.example.com-metadata.json", FILE_OF("", "r", "a"));
    put(dir, "c.example.com-metadata.json", FILE_OF("", "r/sub", "c"));
    put(dir, "notes.json", "not ours");
    BH_EQ(bh_metadata_read(a, dir, &v, &err), 0);
    BH_STREQ(bh_s(text_of(a, &v)),
             "{\"apiVersion\":\"metadata.resource.k8s.io/v1alpha1\",\"kind\":\"DeviceMetadata\","
             "\"metadata\":{\"name\":\"c\"},\"requests\":[{\"name\":\"r\",\"devices\":[{"
             "\"driver\":\"a\",\"pool\":\"p\",\"name\":\"d\"},{\"driver\":\"b\",\"pool\":\"p\","
             "\"name\":\"d\"}]},{\"name\":\"r/sub\",\"devices\":[{\"driver\":\"c\",\"pool\":\"p\","
             "\"name\":\"d\"}]}],\"podClaimName\":\"gpu\"}");
    put(dir, "d.example.com-metadata.json", "{");
    BH_EQ(bh_metadata_read(a, dir, &v, &err), -BH_E_INVALID);
    BH_EQ(bh_fs_remove_tree(dir, NULL), 0);
}

#define OF_B "[{\"name\":\"r\",\"devices\":[{\"driver\":\"b\",\"pool\":\"p\",\"name\":\"d\"}]}]"
#define BARE(rest)                                                                                 \
    "{\"apiVersion\":\"metadata.resource.k8s.io/v1alpha1\",\"kind\":\"DeviceMetadata\"" rest "}"

/* Lists that are missing in one driver's file are those of the other; what is no list is refused.
 */
BH_TEST(metadata_lists_that_are_missing_or_none)
{
    static const struct {
        const char *first, *want; /* requests, NULL: refused */
    } cases[] = {
        {BARE(""), OF_B},
        {BARE(",\"requests\":null"), OF_B},
        {BARE(",\"requests\":[{\"name\":\"r\"}]"), OF_B},
        {BARE(",\"requests\":\"several\""), NULL},
        {BARE(",\"requests\":[\"r\"]"), NULL},
        {BARE(",\"requests\":[{\"name\":\"r\",\"devices\":{\"a\":1}}]"), NULL},
    };

    for (size_t i = 0; i < BH_COUNT(cases); i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        char dir[] = "/tmp/bh-metadata-XXXXXX";
        struct bh_err err = {0};
        struct bh_jv v;

        bh_assert(mkdtemp(dir));
        put(dir, "a.example.com-metadata.json", cases[i].first);
        put(dir, "b.example.com-metadata.json", FILE_OF("", "r", "b"));
        BH_EQ(bh_metadata_read(a, dir, &v, &err), cases[i].want ? 0 : -BH_E_INVALID);
        if (cases[i].want)
            BH_STREQ(bh_s(text_of(a, bh_jv_getc(&v, "requests"))), cases[i].want);
        BH_EQ(bh_fs_remove_tree(dir, NULL), 0);
    }
}

/* M3: a version that is not known comes first; and what is no JSON. */
BH_TEST(metadata_of_unknown_versions_is_skipped)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {FILE_OF("", "r", "d"), NULL},
        {NEWER FILE_OF("", "r", "d"), NULL},
        {NEWER FILE_OF("", "r", "d") "{broken", NULL}, /* what is behind is not looked at */
        {NEWER, "device metadata of no known version (it has: metadata.resource.k8s.io/v9)"},
        {"", "device metadata of no known version (it has: )"},
        {"{\"apiVersion\":", "device metadata cannot be read: "},
        {NEWER "x" FILE_OF("", "r", "d"), "device metadata cannot be read: "},
    };

    for (size_t i = 0; i < BH_COUNT(cases); i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_err err = {0};
        struct bh_jv v;
        int r = bh_metadata_parse(a, bh_s(cases[i].text), &v, &err);

        BH_EQ(r, cases[i].want ? -BH_E_INVALID : 0);
        if (cases[i].want)
            BH_CHECK(bh_str_starts(bh_s(err.msg), bh_s(cases[i].want)));
        else if (r == 0)
            BH_STREQ(bh_jv_get_str(&bh_jv_getc(&v, "requests")->items[0], "name"), "r");
    }
}

/* M1 */
BH_TEST(metadata_versions_that_a_driver_may_write)
{
    BH_CHECK(bh_metadata_version_known(BH_S("v1alpha1")));
    BH_CHECK(bh_metadata_version_known(BH_S("v9, metadata.resource.k8s.io/v1alpha1")));
    BH_CHECK(!bh_metadata_version_known(BH_S("")));
    BH_CHECK(!bh_metadata_version_known(BH_S("v9,v1")));
}
