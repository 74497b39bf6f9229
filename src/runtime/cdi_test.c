/* CDI: the cases of the specification that decide whether a pod gets its device. */
#include "base/fs.h"
#include "base/test.h"
#include "runtime/cdi.h"

#include <stdlib.h>

static int parse(const char *text, struct bh_err *e)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_jv v;

    e->msg[0] = '\0';
    return bh_cdi_parse_spec(a, bh_s(text), false, &v, e);
}

#define DEV(edits)                                                                                 \
    "\"kind\":\"a.com/x\",\"devices\":[{\"name\":\"n\",\"containerEdits\":{" edits "}}]}"

BH_TEST(cdi_spec_checks)
{
    static const struct {
        const char *text, *msg; /* msg NULL: accepted */
    } cases[] = {
        {"{\"cdiVersion\":\"0.3.0\"," DEV("\"env\":[\"A=1\"]"), NULL},
        {"{\"cdiVersion\":\"v0.3.0\"," DEV("\"env\":[\"A=1\"]"), NULL},
        {"{\"cdiVersion\":\"0.2.0\"," DEV("\"env\":[\"A=1\"]"),
         "the spec version must be at least v0.3.0"},
        {"{\"cdiVersion\":\"9.9\"," DEV("\"env\":[\"A=1\"]"), "invalid version \"9.9\""},
        {"{\"cdiVersion\":\"0.4.0\"," DEV(
             "\"deviceNodes\":[{\"path\":\"/d\",\"hostPath\":\"/h\"}]"),
         "the spec version must be at least v0.5.0"},
        {"{\"cdiVersion\":\"0.6.0\"," DEV("\"additionalGids\":[1]"),
         "the spec version must be at least v0.7.0"},
        {"{\"cdiVersion\":\"1.0.0\"," DEV(
             "\"netDevices\":[{\"hostInterfaceName\":\"e\",\"name\":\"f\"}]"),
         "the spec version must be at least v1.1.0"},
        {"{\"cdiVersion\":\"0.5.0\"," DEV(""), "invalid device, empty device edits"},
        {"{\"cdiVersion\":\"0.5.0\"," DEV("\"env\":[\"=1\"]"),
         "device \"n\": invalid environment variable \"=1\""},
        {"{\"cdiVersion\":\"0.5.0\"," DEV("\"hooks\":[{\"hookName\":\"x\",\"path\":\"/p\"}]"),
         "device \"n\": invalid hook name \"x\""},
        {"{\"cdiVersion\":\"0.5.0\"," DEV("\"bad\":1"),
         "device \"n\": containerEdits: unknown field \"bad\""},
        {"{\"cdiVersion\":\"0.5.0\",\"kind\":\"a.com\",\"devices\":[]}", "invalid kind \"a.com\""},
        {"{\"cdiVersion\":\"0.5.0\",\"kind\":\"a.com/x\",\"devices\":[]}",
         "invalid spec, no devices"},
        {"{\"cdiVersion\":\"0.5.0\",\"kind\":\"a/x\",\"kind\":\"b/x\",\"devices\":[]}",
         "duplicate field \"kind\""},
        {"[]", "spec: expected an object, got array"}};

    for (size_t i = 0; i < BH_COUNT(cases); i++) {
        struct bh_err e = {0};
        int r = parse(cases[i].text, &e);

        BH_EQ(r, cases[i].msg ? -BH_E_INVALID : 0);
        BH_STREQ(bh_s(e.msg), cases[i].msg ? cases[i].msg : "");
    }
}

BH_TEST(cdi_names)
{
    BH_CHECK(bh_cdi_is_qualified(BH_S("k8s.gpu.nvidia.com/claim=6c1f-gpu-0")));
    BH_CHECK(bh_cdi_is_qualified(BH_S("a/b=0:1")));
    BH_CHECK(!bh_cdi_is_qualified(BH_S("/dev/null")));
    BH_CHECK(!bh_cdi_is_qualified(BH_S("a/b=")));
    BH_CHECK(!bh_cdi_is_qualified(BH_S("a=b")));
    BH_CHECK(!bh_cdi_is_qualified(BH_S("1a/b=c")));
}

struct dirs {
    char root[32], low[48], high[48];
    const char *list[4];
};

static void put(const char *dir, const char *name, const char *text)
{
    char path[128];

    BH_EQ(bh_path(path, sizeof(path), NULL, "%s/%s", dir, name), 0);
    BH_EQ(bh_fs_write_plain(path, bh_s(text), 0644, NULL), 0);
}

static void make_dirs(struct dirs *d)
{
    BH_EQ(bh_path(d->root, sizeof(d->root), NULL, "/tmp/bh-cdi-XXXXXX"), 0);
    BH_CHECK(mkdtemp(d->root) != NULL);
    BH_EQ(bh_path(d->low, sizeof(d->low), NULL, "%s/low", d->root), 0);
    BH_EQ(bh_path(d->high, sizeof(d->high), NULL, "%s/high", d->root), 0);
    BH_EQ(bh_fs_mkdir_p(d->low, 0755, NULL), 0);
    BH_EQ(bh_fs_mkdir_p(d->high, 0755, NULL), 0);
    d->list[0] = "/nonexistent-cdi";
    d->list[1] = d->low;
    d->list[2] = d->high;
    d->list[3] = NULL;
}

static struct bh_str inject(struct bh_arena *a, struct dirs *d, const char *names, struct bh_err *e)
{
    struct bh_str_vec v = {bh_new_n(a, struct bh_str, 16), 0};
    struct bh_str rest = bh_s(names);
    struct bh_cdi *c;
    struct bh_jv spec;

    while (rest.n > 0)
        v.p[v.n++] = bh_str_cut(&rest, ',');
    BH_EQ(
        bh_jv_parse(
            a,
            BH_S(
                "{\"process\":{\"env\":[\"A=1\",\"B=2\"],\"user\":{\"uid\":7,\"gid\":0}},"
                "\"mounts\":["
                "{\"destination\":\"/a/b/c\"},{\"destination\":\"/"
                "a\"}],\"linux\":{\"devices\":[{\"path\":"
                "\"/dev/"
                "n\"}],\"namespaces\":[{\"type\":\"user\"}],\"resources\":{\"devices\":[{\"allow\":"
                "false}]}}}"),
            NULL, &spec, e),
        0);
    BH_EQ(bh_cdi_load(a, d->list, &c, e), 0);
    if (bh_cdi_inject(a, c, &v, &spec, e) < 0)
        return (struct bh_str){NULL, 0};
    return bh_jv_text(a, &spec, BH_JSON_PLAIN);
}

/* Environment replaced in place, device entry replaced, rule added, mounts sorted and mapped, group
 * ids once. */
BH_TEST(cdi_merge)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct dirs d = {0};
    struct bh_err e = {0};

    make_dirs(&d);
    put(d.low, "a.json",
        "{\"cdiVersion\":\"0.7.0\",\"kind\":\"a.com/"
        "x\",\"containerEdits\":{\"env\":[\"C=3\"]},\"devices\":["
        "{\"name\":\"one\",\"containerEdits\":{\"env\":[\"A=9\"],\"deviceNodes\":[{\"path\":\"/dev/"
        "n\",\"type\":\"c\","
        "\"major\":1,\"minor\":3,\"fileMode\":438,\"permissions\":\"rw\"}],\"mounts\":[{"
        "\"hostPath\":\"/h\","
        "\"containerPath\":\"/a/"
        "b\",\"options\":[\"ro\",\"bind\"]}],\"additionalGids\":[0,44,44],\"hooks\":[{\"hookName\":"
        "\"createContainer\",\"path\":\"/hook\",\"args\":[\"h\"]}]}},"
        "{\"name\":\"two\",\"containerEdits\":{\"env\":[\"D=4\"]}}]}");
    struct bh_str got = inject(a, &d, "a.com/x=one,a.com/x=two,a.com/x=one", &e);
    BH_STREQ(got, "{\"process\":{\"env\":[\"A=9\",\"B=2\",\"C=3\",\"D=4\"],\"user\":{\"uid\":7,"
                  "\"gid\":0,\"additionalGids\":[44]}},"
                  "\"mounts\":[{\"destination\":\"/a\"},{\"destination\":\"/a/b\",\"source\":\"/"
                  "h\",\"options\":[\"ro\",\"bind\","
                  "\"idmap\"]},{\"destination\":\"/a/b/c\"}],\"linux\":{\"devices\":[{\"path\":\"/"
                  "dev/n\",\"type\":\"c\",\"major\":"
                  "1,\"minor\":3,\"fileMode\":438,\"uid\":7}],\"namespaces\":[{\"type\":\"user\"}],"
                  "\"resources\":{\"devices\":["
                  "{\"allow\":false},{\"allow\":true,\"type\":\"c\",\"major\":1,\"minor\":3,"
                  "\"access\":\"rw\"}]}},\"hooks\":"
                  "{\"createContainer\":[{\"path\":\"/hook\",\"args\":[\"h\"]}]}}");
    BH_CHECK(inject(a, &d, "a.com/x=one,a.com/x=no,b.com/y=z", &e).p == NULL);
    BH_STREQ(bh_s(e.msg), "unresolvable CDI devices a.com/x=no, b.com/y=z");
    BH_EQ(bh_fs_remove_tree(d.root, NULL), 0);
}

BH_TEST(cdi_precedence)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct dirs d = {0};
    struct bh_err e = {0};
    static const char one[] = "{\"cdiVersion\":\"0.5.0\"," DEV("\"env\":[\"W=low\"]");
    static const char two[] = "{\"cdiVersion\":\"0.5.0\"," DEV("\"env\":[\"W=high\"]");

    make_dirs(&d);
    put(d.low, "a.json", one);
    put(d.high, "a.json", two);
    put(d.high, "bad.json", "{");
    put(d.high, "other.yml", "not read");
    struct bh_str got = inject(a, &d, "a.com/x=n", &e);
    BH_CHECK(bh_str_find(got, BH_S("W=high")) >= 0);
    put(d.high, "b.json", one);
    BH_CHECK(inject(a, &d, "a.com/x=n", &e).p == NULL);
    BH_EQ(e.code, BH_E_NOT_FOUND);
    BH_EQ(bh_fs_remove_tree(d.root, NULL), 0);
}

/* A node that is only named takes what the host has; what is no device is an error. */
BH_TEST(cdi_host_devices)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct dirs d = {0};
    struct bh_err e = {0};

    make_dirs(&d);
    put(d.low, "a.json",
        "{\"cdiVersion\":\"0.5.0\"," DEV(
            "\"deviceNodes\":[{\"path\":\"/dev/z\",\"hostPath\":\"/dev/zero\"}]"));
    struct bh_str got = inject(a, &d, "a.com/x=n", &e);
    BH_CHECK(bh_str_find(
                 got, BH_S("{\"path\":\"/dev/z\",\"type\":\"c\",\"major\":1,\"minor\":5,")) >= 0);
    put(d.low, "a.json",
        "{\"cdiVersion\":\"0.5.0\"," DEV("\"deviceNodes\":[{\"path\":\"/dev/not-there\"}]"));
    BH_CHECK(inject(a, &d, "a.com/x=n", &e).p == NULL);
    BH_CHECK(bh_str_starts(bh_s(e.msg), BH_S("failed to stat CDI host device \"/dev/not-there\"")));
    put(d.low, "a.json",
        "{\"cdiVersion\":\"0.5.0\"," DEV(
            "\"deviceNodes\":[{\"path\":\"/dev/zero\",\"type\":\"b\"}]"));
    BH_CHECK(inject(a, &d, "a.com/x=n", &e).p == NULL);
    BH_CHECK(bh_str_find(bh_s(e.msg), BH_S("host type mismatch (b, c)")) >= 0);
    BH_EQ(bh_fs_remove_tree(d.root, NULL), 0);
}

BH_TEST(cdi_annotations)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_str_map ann = {NULL, 0};
    struct bh_str_vec names = {NULL, 0};
    struct bh_err e = {0};

    bh_str_map_put(a, &ann, BH_S("cdi.k8s.io/x"), BH_S("a.com/x=1,a.com/x=2"));
    bh_str_map_put(a, &ann, BH_S("other"), BH_S("junk"));
    BH_EQ(bh_cdi_from_annotations(a, &ann, &names, &e), 0);
    BH_EQ(names.n, 2);
    bh_str_map_put(a, &ann, BH_S("cdi.k8s.io/x"), BH_S("a.com/x=1,bad"));
    BH_EQ(bh_cdi_from_annotations(a, &ann, &names, &e), -BH_E_INVALID);
    BH_STREQ(bh_s(e.msg), "invalid CDI device name \"bad\"");
}
