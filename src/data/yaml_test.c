/* Tests of the YAML reader and writer. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/test.h"
#include "data/yaml.h"

BH_TEST(yaml_reads_as_json)
{
    static const struct {
        const char *in, *want;
    } t[] = {
        {"", "null"},
        {"# only a comment\n", "null"},
        {"a: 1\nb: [x, w]\n", "{\"a\":1,\"b\":[\"x\",\"w\"]}"},
        {"a: yes\nb: on\nc: y\nd: 'yes'\ne: off\n",
         "{\"a\":true,\"b\":true,\"c\":true,\"d\":\"yes\",\"e\":false}"},
        {"[012, 0o12, 0x0a, 0b1010, 1_0, 1e1, 08, +5, -0x10]", "[10,10,10,10,10,10,8,5,-16]"},
        {"[1.5, .5, 1., -1.5e3, '1.5', 1.5.5, .e3]", "[1.5,0.5,1,-1500,\"1.5\",\"1.5.5\",\".e3\"]"},
        {"[~, null, Null, nul, '']", "[null,null,null,\"nul\",\"\"]"},
        {"d: 2001-01-01\nt: 2001-12-14t21:59:43.10-05:00\n",
         "{\"d\":\"2001-01-01\",\"t\":\"2001-12-14t21:59:43.10-05:00\"}"},
        {"on: 1\n5: x\n1.5: w\nyes: z\n", "{\"1.5\":\"w\",\"5\":\"x\",\"true\":\"z\"}"},
        {"b: &x {p: 1, q: 2}\nc:\n  <<: *x\n  q: 3\n",
         "{\"b\":{\"p\":1,\"q\":2},\"c\":{\"p\":1,\"q\":3}}"},
        {"b: &x {p: 1}\nd: &y {p: 2, r: 3}\nc:\n  <<: [*x, *y]\n",
         "{\"b\":{\"p\":1},\"c\":{\"p\":1,\"r\":3},\"d\":{\"p\":2,\"r\":3}}"},
        {"a: &x 5\nb: *x\n", "{\"a\":5,\"b\":5}"},
        {"a: 1\n---\nb: 2\n", "{\"a\":1}"},
        {"--- a\n...\n[", "\"a\""},
        {"%YAML 1.1\n---\na: 1\n", "{\"a\":1}"},
        {"a: |\n  x\n  y\nb: >\n  x\n  y\n", "{\"a\":\"x\\ny\\n\",\"b\":\"x y\\n\"}"},
        {"a: !!str 5\nb: !!float 5\nc: !!binary aGk=\nd: !x y\n",
         "{\"a\":\"5\",\"b\":5,\"c\":\"hi\",\"d\":\"y\"}"},
        {"a: 99999999999999999999\nb: 18446744073709551615\n",
         "{\"a\":100000000000000000000,\"b\":18446744073709551615}"},
        {"{\"a\":{\"b\":[1,\"2\",true,null]}}", "{\"a\":{\"b\":[1,\"2\",true,null]}}"},
        {"a:\n- 1\n- 2\n", "{\"a\":[1,2]}"},
        {"a: {}\nb: []\nc:\n", "{\"a\":{},\"b\":[],\"c\":null}"},
        {"z: 1\na: 2\n", "{\"a\":2,\"z\":1}"},
        {"a: -\n", NULL},
        {"a: '-'\nb: 12:30\nc: 0x\nd: 1__2\n",
         "{\"a\":\"-\",\"b\":\"12:30\",\"c\":\"0x\",\"d\":12}"},
    };

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_jv v = {0};
        struct bh_err e = {0};
        int r = bh_yaml_parse(a, bh_s(t[i].in), NULL, &v, &e);

        BH_EQ(r, t[i].want ? 0 : -BH_E_BAD_REQUEST);
        if (t[i].want)
            BH_STREQ(bh_jv_text(a, &v, 0), t[i].want);
    }
}

BH_TEST(yaml_errors_in_upstreams_words)
{
    static const struct {
        const char *in, *err;
    } t[] = {
        {"{", "yaml: line 1: did not find expected node content"},
        {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c\ndata:\n",
         "yaml: line 3: did not find expected ',' or '}'"},
        {"apiVersion: v1\nkind: X\na: b: c\n",
         "yaml: line 3: mapping values are not allowed in this context"},
        {"a: 1\nb: 2\nc: 3\nd: @x\n", "yaml: line 4: found character that cannot start any token"},
        {"a: *nope\n", "yaml: unknown anchor 'nope' referenced"},
        {"%YAML 1.2\n---\na: 1\n", "yaml: found incompatible YAML document"},
        {"a: &x [*x]\n", "yaml: anchor 'x' value contains itself"},
        {"<<: 5\n", "yaml: map merge requires map or sequence of maps as the value"},
        {"a: .inf\n", "json: unsupported value: +Inf"},
        {"[a]: 1\n", "yaml: invalid map key: list"},
        {"a: !!int x\n", "yaml: cannot decode !!str `x` as a !!int"},
    };

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_jv v;
        struct bh_err e = {0};

        BH_EQ(bh_yaml_parse(a, bh_s(t[i].in), NULL, &v, &e), -BH_E_BAD_REQUEST);
        BH_STREQ(bh_s(e.msg), t[i].err);
    }
}

BH_TEST(yaml_refuses_alias_bombs_and_depth)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF b = {0};
    struct bh_jv v;
    struct bh_err e = {0};

    bh_buf_addz(&b, "a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
    for (int i = 1; i < 9; i++) {
        bh_buf_addf(&b, "a%d: &a%d [", i, i);
        for (int j = 0; j < 9; j++)
            bh_buf_addf(&b, "%s*a%d", j ? "," : "", i - 1);
        bh_buf_addz(&b, "]\n");
    }
    BH_EQ(bh_yaml_parse(a, bh_buf_str(&b), NULL, &v, &e), -BH_E_BAD_REQUEST);
    BH_STREQ(bh_s(e.msg), "yaml: document contains excessive aliasing");
    bh_buf_clear(&b);
    for (int i = 0; i < 3000; i++)
        bh_buf_addc(&b, '[');
    BH_EQ(bh_yaml_parse(a, bh_buf_str(&b), NULL, &v, &e), -BH_E_BAD_REQUEST);
    BH_STREQ(bh_s(e.msg), "yaml: exceeded max depth of 512");
}

BH_TEST(yaml_tells_duplicates)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_yaml_dups d;
    struct bh_jv v;

    BH_EQ(bh_yaml_parse(
              a, BH_S("a: 1\nm:\n  name: x\n  k: 1\n  name: w\nd:\n  k: 1\n  k: 2\na:\n  - 1\n"),
              &d, &v, NULL),
          0);
    BH_EQ(d.lines.n, 3);
    BH_STREQ(d.lines.p[0], "line 5: key \"name\" already set in map");
    BH_STREQ(d.lines.p[1], "line 8: key \"k\" already set in map");
    BH_STREQ(d.lines.p[2], "line 10: key \"a\" already set in map");
    BH_STREQ(bh_jv_text(a, &v, 0), "{\"a\":[1],\"d\":{\"k\":2},\"m\":{\"k\":1,\"name\":\"w\"}}");
}

BH_TEST(yaml_reads_all_documents)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_jv *docs = NULL;
    size_t n = 0;
    struct bh_err e;

    BH_EQ(bh_yaml_parse_all(a, BH_S("---\n# nothing\n---\na: 1\n---\n---\nb: 2\n...\n"), &docs, &n,
                            &e),
          0);
    BH_EQ(n, 2);
    BH_STREQ(bh_jv_text(a, &docs[0], 0), "{\"a\":1}");
    BH_STREQ(bh_jv_text(a, &docs[1], 0), "{\"b\":2}");
    BH_EQ(bh_yaml_parse_all(a, BH_S("a: 1\n---\n{"), &docs, &n, &e), -BH_E_BAD_REQUEST);
}

BH_TEST(yaml_writes_as_kubectl)
{
    static const struct {
        const char *in, *want;
    } t[] = {
        {"{\"b\":1,\"a\":\"x\"}", "a: x\nb: 1\n"},
        {"{\"a\":[1,{\"b\":[]},{}]}", "a:\n- 1\n- b: []\n- {}\n"},
        {"{\"a\":\"true\",\"b\":\"12\",\"c\":\"\",\"d\":\"null\",\"e\":\"~\",\"f\":\"1e3\"}",
         "a: \"true\"\nb: \"12\"\nc: \"\"\nd: \"null\"\ne: \"~\"\nf: \"1e3\"\n"},
        {"{\"a\":\"x\\ny\\n\",\"b\":\"x: y\",\"c\":\"2020-01-01T00:00:00Z\",\"d\":\"12:30\"}",
         "a: |\n  x\n  y\nb: 'x: y'\nc: \"2020-01-01T00:00:00Z\"\nd: \"12:30\"\n"},
        {"{\"a\":null,\"b\":true,\"c\":1.5,\"d\":1e3,\"e\":1e30}",
         "a: null\nb: true\nc: 1.5\nd: 1000\ne: 1e+30\n"},
        {"{\"a10\":1,\"a2\":2,\"a-b\":3,\"a/b\":4}", "a-b: 3\na/b: 4\na2: 2\na10: 1\n"},
        {"[]", "[]\n"},
        {"\"x\"", "x\n"},
    };
    BH_AUTO_ARENA a = bh_arena_new(0);

    for (size_t i = 0; i < BH_COUNT(t); i++) {
        BH_AUTO_BUF b = {0};
        struct bh_jv v = {0}, w = {0};
        struct bh_err e = {0};

        BH_EQ(bh_jv_parse(a, bh_s(t[i].in), NULL, &v, &e), 0);
        bh_yaml_write(&b, &v);
        BH_STREQ(bh_buf_str(&b), t[i].want);
        BH_EQ(bh_yaml_parse(a, bh_buf_str(&b), NULL, &w, &e), 0);
    }
}
