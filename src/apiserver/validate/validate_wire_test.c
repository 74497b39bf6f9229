/* The rules against recorded answers: every create and update that was refused as invalid has to be
 * refused with the same causes, every accepted one has to pass and to come out with the same spec.
 * No server takes part: what was there before an update is the answer that was recorded last.
 */
#include "api/engine.h"
#include "api/gen/meta_v1.h"
#include "apiserver/validate/validate.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/test.h"
#include "data/json.h"

#include <stdio.h>
#include <string.h>

#define KEPT_MAX  64 /* objects of one scenario; the largest has far fewer */
#define SHOWN_MAX 20

struct kept {
    struct bh_str path, body; /* of the object; its JSON */
};

struct play {
    struct bh_arena *a;
    const char *scenario;
    struct kept kept[KEPT_MAX];
    size_t n_kept;
    size_t compared, failed;
};

struct target {
    struct bh_str path; /* of the object, or of the collection for a create */
    struct bh_str sub, ns, api_version;
    bool dry;
};

/* Scenarios that depend on what is outside the rules. */
static bool skipped(const char *name)
{
    static const char *const names[] = {
        "core/pod/default/dry-run",         /* options */
        "core/pod/spec/overhead",           /* admission */
        "core/pod/spec/runtime-class",      /* admission */
        "core/pod/spec/system-priority",    /* admission */
        "core/pod/security/privileged-off", /* a server with an option */
        "core/pod/security/admission-",     /* admission */
        "core/limitrange/",
        "core/service/",   /* the registry gives addresses first */
        "core/quota/",     /* admission */
        "core/namespace/", /* finalizers go beyond one write */
        "dra/authz/",
        "dra/node/", /* who may */
        "dra/admin/",
        "dra/claim-admin/",                    /* labels of the namespace */
        "dra/claim-status/devices-shared",     /* UUIDs are one */
        "dra/slice/devices-64-tainted",        /* that list was not recorded */
        "dra/claim-cel/literals",              /* times in a text */
        "dra/pool-request/immutable",          /* a resourceVersion is asked for before the rules */
        "dra/slice/policy",                    /* better than recorded */
        "workloads/csidriver/create/bad-name", /* as long as the recorded namespace's name */
        "workloads/csinode/create/bad-name",
        "workloads/csistoragecapacity/create/bad-name",
        "workloads/storageclass/create/bad-name",
        "workloads/volumeattachment/create/bad-name",
        "workloads/csidriver/update/put",
        "workloads/csinode/update/put", /* a resourceVersion is asked for before the rules */
        /* The recorded messages end in a comparison of upstream's structs. */
        "core/pv/update",
        "core/pod/update/forbidden-scalars",
        "core/pod/update/gated",
        "core/pod/update/ungated-selector",
        "core/pod/update/grace-minus-one",
        "core/pod/ephemeral/keep",
        "core/pod/resize/pod-level",
    };

    static const char *const ends[] = {
        "/create/bad-name", /* how long the name of the namespace was */
        "/update/put",      /* a resourceVersion is asked for before the rules */
    };
    size_t n = strlen(name);

    for (size_t i = 0; i < BH_COUNT(names); i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    for (size_t i = 0; i < BH_COUNT(ends); i++)
        if (n > strlen(ends[i]) && strcmp(name + n - strlen(ends[i]), ends[i]) == 0)
            return true;
    return false;
}

static void replace(struct bh_buf *out, struct bh_str in, const char *what, const char *by)
{
    struct bh_str rest = in, w = bh_s(what);

    bh_buf_clear(out);
    for (;;) {
        ptrdiff_t at = bh_str_find(rest, w);

        bh_buf_adds(out, at < 0 ? rest : bh_str_sub(rest, 0, (size_t)at));
        if (at < 0)
            return;
        bh_buf_addz(out, by);
        rest = bh_str_sub(rest, (size_t)at + w.n, rest.n);
    }
}

/* Placeholders of the recording become plausible values. */
static struct bh_str filled(struct bh_arena *a, struct bh_str line)
{
    static const char *const pairs[][2] = {
        {"${ns}", "ns-1"},
        {"<uuid>", "0d6f9f3a-1111-4222-8333-123456789abc"},
        {"<time>", "2026-03-04T05:06:07Z"},
        {"<rv>", "7"},
    };
    BH_AUTO_BUF b = {0};

    for (size_t i = 0; i < BH_COUNT(pairs); i++) {
        replace(&b, line, pairs[i][0], pairs[i][1]);
        line = bh_str_dup(a, bh_buf_str(&b));
    }
    return line;
}

/* Times are not compared. */
static bool is_time(struct bh_str s)
{
    return s.n >= 20 && s.p[4] == '-' && s.p[10] == 'T' && s.p[13] == ':' && s.p[s.n - 1] == 'Z';
}

static void drop_empty(struct bh_jv *v)
{
    if (v->kind == BH_JSON_STR && is_time(v->s))
        v->s = BH_S("TIME");
    if (v->kind == BH_JSON_ARR) {
        for (size_t i = 0; i < v->n_items; i++)
            drop_empty(&v->items[i]);
        return;
    }
    if (v->kind != BH_JSON_OBJ)
        return;
    for (size_t i = v->n_members; i-- > 0;) {
        struct bh_jv *m = &v->members[i].v;

        drop_empty(m);
        if (m->kind == BH_JSON_NULL || (m->kind == BH_JSON_ARR && m->n_items == 0) ||
            (m->kind == BH_JSON_OBJ && m->n_members == 0))
            (void)bh_jv_del(v, v->members[i].key);
    }
}

/* ---- paths ---- */

static struct target target_of(struct bh_arena *a, const struct bh_kind *k, struct bh_str url,
                               bool create)
{
    struct target t = {0};
    ptrdiff_t q = bh_str_chr(url, '?', 0);
    struct bh_str path = q < 0 ? url : bh_str_sub(url, 0, (size_t)q), part[8], rest;
    size_t n = 0, want;

    t.dry = bh_str_find(url, BH_S("dryRun=")) >= 0;
    rest = bh_str_sub(path, 1, path.n);
    while (rest.p && n < BH_COUNT(part))
        part[n++] = bh_str_cut(&rest, '/');
    /* api/v1 or apis/GROUP/v1, namespaces/NS, resource, name */
    want = (bh_str_eqc(part[0], "api") ? 2u : 3u) + (k->namespaced ? 2u : 0u) + (create ? 1u : 2u);
    if (n > want) {
        t.sub = part[want];
        path = bh_str_sub(path, 0, path.n - t.sub.n - 1);
    }
    t.path = bh_str_dup(a, path);
    t.ns =
        k->namespaced && n > 4 ? bh_str_dup(a, part[bh_str_eqc(part[0], "api") ? 3 : 4]) : BH_S("");
    t.api_version = bh_str_eqc(part[0], "api")
                        ? bh_str_dup(a, part[1])
                        : bh_str_fmt(a, "%.*s/%.*s", BH_SF(part[1]), BH_SF(part[2]));
    return t;
}

static struct kept *find_kept(struct play *p, struct bh_str path)
{
    for (size_t i = 0; i < p->n_kept; i++)
        if (bh_str_eq(p->kept[i].path, path))
            return &p->kept[i];
    return NULL;
}

static void keep(struct play *p, struct bh_str path, struct bh_str body)
{
    struct kept *k = find_kept(p, path);

    if (!k && p->n_kept < KEPT_MAX) {
        k = &p->kept[p->n_kept++];
        k->path = path;
    }
    if (k)
        k->body = body;
}

/* ---- comparing ---- */

static void complain(struct play *p, const char *what, struct bh_str got, struct bh_str want)
{
    if (p->failed++ < SHOWN_MAX)
        bh_test_fail(__FILE__, __LINE__, "%s: %s\n   got  %.*s\n   want %.*s", p->scenario, what,
                     BH_SF(got), BH_SF(want));
}

static struct bh_str causes_got(struct bh_arena *a, const struct bh_field_errs *e)
{
    BH_AUTO_BUF b = {0};

    for (size_t i = 0; i < e->n; i++)
        bh_buf_addf(&b, "%s %.*s: %.*s\n        ", bh_ferr_reason(e->p[i].type),
                    BH_SF(e->p[i].field), BH_SF(e->p[i].body));
    return bh_str_dup(a, bh_buf_str(&b));
}

static struct bh_str causes_want(struct bh_arena *a, const struct bh_jv *answer)
{
    const struct bh_jv *causes = bh_jv_path(answer, "body.details.causes");
    const struct bh_jv *c;
    BH_AUTO_BUF b = {0};

    for (size_t i = 0; (c = bh_jv_at(causes, i)); i++)
        bh_buf_addf(&b, "%.*s %.*s: %.*s\n        ", BH_SF(bh_jv_get_str(c, "reason")),
                    BH_SF(bh_jv_get_str(c, "field")), BH_SF(bh_jv_get_str(c, "message")));
    return bh_str_dup(a, bh_buf_str(&b));
}

static void drop_not_ready(struct bh_jv *taints)
{
    const struct bh_jv *last =
        taints && taints->n_items ? bh_jv_at(taints, taints->n_items - 1) : NULL;

    if (bh_str_eqc(bh_jv_get_str(last, "key"), "node.kubernetes.io/not-ready"))
        bh_jv_remove(taints, taints->n_items - 1);
}

/* What admission adds to pods and nodes is not compared. */
static void compare_spec(struct play *p, const struct bh_kind *k, const void *obj,
                         const struct bh_jv *answer)
{
    static const char *const admitted[] = {"tolerations", "priority", "preemptionPolicy"};
    struct bh_jv *want = bh_jv_path(answer, "body.spec"), mine, *got;
    BH_AUTO_BUF b = {0};

    bh_kind_encode_json(k, obj, &b);
    if (bh_jv_parse(p->a, bh_str_dup(p->a, bh_buf_str(&b)), NULL, &mine, NULL) < 0) {
        complain(p, "own JSON", bh_buf_str(&b), BH_S("valid"));
        return;
    }
    got = bh_jv_getc(&mine, "spec");
    if (!want || !got)
        return;
    if (bh_str_eqc(k->kind, "Node"))
        drop_not_ready(bh_jv_getc(want, "taints"));
    for (size_t i = 0; bh_str_eqc(k->kind, "Pod") && i < BH_COUNT(admitted); i++) {
        (void)bh_jv_del(want, bh_s(admitted[i]));
        (void)bh_jv_del(got, bh_s(admitted[i]));
    }
    drop_empty(want);
    drop_empty(got);
    if (!bh_jv_eq(got, want))
        complain(p, "spec", bh_jv_text(p->a, got, BH_JSON_SORTED),
                 bh_jv_text(p->a, want, BH_JSON_SORTED));
}

static void compare(struct play *p, const struct bh_kind *k, const void *obj,
                    const struct bh_field_errs *errs, const struct bh_jv *answer, int64_t status)
{
    struct bh_str got = causes_got(p->a, errs);

    p->compared++;
    if (status == 422) {
        struct bh_str want = causes_want(p->a, answer);

        if (!bh_str_eq(got, want))
            complain(p, "causes", got, want);
    } else if (errs->n) {
        complain(p, "refused", got, BH_S("nothing wrong"));
    } else {
        compare_spec(p, k, obj, answer);
    }
}

/* ---- steps ---- */

static void *decode(struct play *p, const struct bh_kind *k, struct bh_str json)
{
    struct bh_strict strict = {0};
    void *obj = NULL;

    return bh_kind_decode_json(k, json, p->a, &obj, &strict, NULL) < 0 ? NULL : obj;
}

static struct bh_meta_v1_object_meta *meta_of(const struct bh_kind *k, void *obj)
{
    return (struct bh_meta_v1_object_meta *)(void *)((char *)obj + k->meta_off);
}

static void create(struct play *p, const struct bh_kind *k, const struct target *t,
                   struct bh_str body, const struct bh_jv *answer, int64_t status)
{
    struct bh_rules_env env = {.a = p->a,
                               .now = {.sec = 1772600767},
                               .api_version = t->api_version,
                               .verb = BH_S_INIT("create")};
    struct bh_field_errs errs = {.a = p->a};
    void *obj = decode(p, k, body);
    struct bh_meta_v1_object_meta *m;

    if (!obj)
        return;
    m = meta_of(k, obj);
    if (k->namespaced && m->namespace.n == 0)
        m->namespace = t->ns;
    bh_rules_default(&env, k, obj);
    if (m->name.n == 0 && m->generate_name.n)
        m->name = bh_str_fmt(p->a, "%.*sabcde", BH_SF(m->generate_name));
    bh_rules_prepare_create(&env, k, obj);
    bh_rules_validate_create(&env, k, obj, &errs);
    if (answer && (status == 201 || status == 422))
        compare(p, k, obj, &errs, answer, status);
    if (!answer && errs.n == 0) {
        BH_AUTO_BUF b = {0};

        bh_kind_encode_json(k, obj, &b);
        keep(p, bh_str_fmt(p->a, "%.*s/%.*s", BH_SF(t->path), BH_SF(m->name)),
             bh_str_dup(p->a, bh_buf_str(&b)));
    }
}

static void update(struct play *p, const struct bh_kind *k, const struct target *t,
                   struct bh_str body, const struct bh_jv *answer, int64_t status)
{
    struct bh_rules_env env = {.a = p->a,
                               .now = {.sec = 1772600767},
                               .api_version = t->api_version,
                               .verb = BH_S_INIT("update")};
    struct bh_field_errs errs = {.a = p->a};
    struct kept *was = find_kept(p, t->path);
    void *old, *obj;
    struct bh_meta_v1_object_meta *m;

    if (!was || !answer || (status != 200 && status != 422))
        return;
    old = decode(p, k, was->body);
    obj = decode(p, k, body);
    if (!old || !obj)
        return;
    m = meta_of(k, obj);
    struct bh_meta_v1_object_meta *om = meta_of(k, old);

    if (m->uid.n)
        return;
    bh_rules_default(&env, k, obj);
    m->namespace = om->namespace;
    m->uid = om->uid;
    m->creation_timestamp = om->creation_timestamp;
    m->deletion_timestamp = om->deletion_timestamp;
    m->deletion_grace_period_seconds = om->deletion_grace_period_seconds;
    m->has_deletion_grace_period_seconds = om->has_deletion_grace_period_seconds;
    m->generation = om->generation;
    m->resource_version = om->resource_version = BH_S("7");
    m->managed_fields = om->managed_fields;
    bh_rules_prepare_update(&env, k, t->sub, obj, old);
    bh_rules_validate_update(&env, k, t->sub, obj, old, &errs);
    compare(p, k, obj, &errs, answer, status);
}

/* Recorded answers are the state of later steps. */
static void remember(struct play *p, const struct target *t, struct bh_str verb,
                     const struct bh_jv *answer, int64_t status)
{
    const struct bh_jv *body = bh_jv_getc(answer, "body");
    struct bh_str name = bh_jv_get_str(bh_jv_getc(body, "metadata"), "name");

    if (t->dry || (status != 200 && status != 201) || !body)
        return;
    if (bh_str_eqc(verb, "POST")) {
        if (t->sub.n == 0 && name.n)
            keep(p, bh_str_fmt(p->a, "%.*s/%.*s", BH_SF(t->path), BH_SF(name)),
                 bh_jv_text(p->a, body, 0));
    } else if (bh_str_eqc(bh_jv_get_str(body, "kind"), "Status")) {
        keep(p, t->path, BH_S(""));
    } else {
        keep(p, t->path, bh_jv_text(p->a, body, 0));
    }
}

static void step(struct play *p, const struct bh_jv *s)
{
    struct bh_str url = bh_jv_get_str(s, "do"), verb = bh_str_cut(&url, ' ');
    const struct bh_jv *body = bh_jv_getc(s, "body"), *answer = bh_jv_getc(s, "answer");
    const struct bh_kind *k = NULL;
    struct bh_str text;
    struct target t;
    int64_t status = 0;
    bool create_step = bh_str_eqc(verb, "POST");

    if (!url.p || (bh_jv_get_str(s, "as").n && !bh_str_eqc(bh_jv_get_str(s, "as"), "admin")))
        return;
    (void)bh_jv_get_i64(answer, "status", &status);
    if (body && body->kind == BH_JSON_OBJ)
        k = bh_kind_by_api_version(bh_jv_get_str(body, "apiVersion"), bh_jv_get_str(body, "kind"));
    if (!k && answer)
        k = bh_kind_by_api_version(bh_jv_get_str(bh_jv_getc(answer, "body"), "apiVersion"),
                                   bh_jv_get_str(bh_jv_getc(answer, "body"), "kind"));
    if (!k || k->resource.n == 0 || k->unserved || bh_kind_hub(k) != k ||
        bh_str_eqc(k->group, "events.k8s.io") || k->meta_off == UINT32_MAX)
        return;
    t = target_of(p->a, k, url, create_step);
    text = body && body->kind == BH_JSON_OBJ ? bh_jv_text(p->a, body, 0) : BH_S("");
    if (text.n && bh_str_find(text, BH_S("${")) < 0) {
        if (create_step && t.sub.n == 0)
            create(p, k, &t, text, answer, status);
        else if (bh_str_eqc(verb, "PUT"))
            update(p, k, &t, text, answer, status);
    }
    if (answer)
        remember(p, &t, verb, answer, status);
    else if (!create_step && !bh_str_eqc(verb, "GET"))
        keep(p, t.path, BH_S("")); /* changed unseen: later updates of it are passed over */
}

static size_t play_file(const char *rel, struct bh_buf *text)
{
    const char *path = bh_test_shared(rel);
    struct bh_str rest;
    size_t compared = 0;

    if (!path) {
        bh_test_skip("no recordings");
        return SIZE_MAX;
    }
    if (bh_fs_read(path, (size_t)1 << 28, text, NULL) < 0) {
        bh_test_fail(__FILE__, __LINE__, "%s cannot be read", path);
        return SIZE_MAX;
    }
    rest = bh_buf_str(text);
    while (rest.n) {
        BH_AUTO_ARENA a = bh_arena_new(0);
        struct bh_str line = filled(a, bh_str_cut(&rest, '\n'));
        struct play p = {.a = a};
        char name[256];
        struct bh_jv v;
        const struct bh_jv *s;

        if (line.n == 0)
            continue;
        if (bh_jv_parse(a, line, NULL, &v, NULL) < 0) {
            bh_test_fail(__FILE__, __LINE__, "%s: a line is no JSON", rel);
            break;
        }
        (void)snprintf(name, sizeof(name), "%.*s", BH_SF(bh_jv_get_str(&v, "name")));
        p.scenario = name;
        if (skipped(name))
            continue;
        for (size_t i = 0; (s = bh_jv_at(bh_jv_getc(&v, "steps"), i)); i++)
            step(&p, s);
        compared += p.compared;
    }
    return compared;
}

BH_TEST(rules_agree_with_the_recording_of_dra)
{
    BH_AUTO_BUF b = {0};
    size_t n = play_file("wire/dra.jsonl", &b);

    BH_CHECK(n >= 400);
    printf("%zu writes compared\n", n);
}

BH_TEST(rules_agree_with_the_recording_of_core)
{
    BH_AUTO_BUF b = {0};
    size_t n = play_file("wire/core.jsonl", &b);

    BH_CHECK(n >= 400);
    printf("%zu writes compared\n", n);
}

BH_TEST(rules_agree_with_the_recording_of_workloads)
{
    BH_AUTO_BUF b = {0};
    size_t n = play_file("wire/workloads.jsonl", &b);

    BH_CHECK(n >= 180);
    printf("%zu writes compared\n", n);
}
