/* bulkhead cel: evaluates an expression, or runs files of CEL tests.
 *
 * Exit status of an evaluation: 0 with a value, 1 when it ends in an error, 2 when it does not
 * compile (or the command line is wrong).
 */
#include "cli/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/gen/resource_v1.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/flags.h"
#include "base/fs.h"
#include "cel/cel.h"
#include "cel/cel_suite.h"
#include "cel/device_env.h"
#include "client/client.h"
#include "data/json.h"
#include "data/yaml.h"
#include "net/loop.h"

#define FILE_BYTES_MAX (16u << 20)
#define FILES_MAX      1024

struct cel_opts {
    const char *expr, *vars, *device, *kubeconfig;
    const char *expect[16];
    size_t expect_n;
    const char *files[FILES_MAX];
    size_t files_n;
    bool test, json;
};

static int usage(FILE *to)
{
    fputs("usage: bulkhead cel EXPRESSION [--vars FILE] [--device DRIVER/POOL/NAME] [-o json]\n"
          "       bulkhead cel test FILE... [--expect FILE]\n"
          "\n"
          "  --vars FILE       variables, JSON or YAML: {\"name\": VALUE}, of type dyn; or with a "
          "type:\n"
          "                    {\"name\": {\"type\": \"list(int)\", \"value\": VALUE}}\n"
          "  --device D/P/N    evaluate as a device selector against this device of the cluster\n"
          "  --kubeconfig FILE how to reach it (default: $KUBECONFIG)\n"
          "  -o json           {\"type\", \"value\", \"cost\", \"estimatedCost\"}, "
          "{\"compileError\"} or {\"error\"};\n"
          "                    values in the form of the CEL conformance files\n"
          "  --expect FILE     tests that fail on purpose: \"NAME REASON\" lines, or an index of "
          "what upstream\n"
          "                    did (kubernetes-1.36.json); may be repeated\n",
          to);
    return to == stdout ? 0 : 2;
}

static bool parse_args(int argc, char **argv, struct cel_opts *o)
{
    bool only_words = false;
    int i = 1;

    if (argc > 1 && strcmp(argv[1], "test") == 0) {
        o->test = true;
        i = 2;
    }
    for (; i < argc; i++) {
        const char *v;

        if (!only_words && strcmp(argv[i], "--") == 0) {
            only_words = true;
        } else if (only_words || argv[i][0] != '-' ||
                   (!o->test && !o->expr && argv[i][1] != '-' && argv[i][1] != 'o')) {
            /* An expression may begin with a minus sign. */
            if (o->test && o->files_n < FILES_MAX)
                o->files[o->files_n++] = argv[i];
            else if (!o->test && !o->expr)
                o->expr = argv[i];
            else
                return false;
        } else if ((v = bh_flag_value(argc, argv, &i, "--vars")) != NULL) {
            o->vars = v;
        } else if ((v = bh_flag_value(argc, argv, &i, "--device")) != NULL) {
            o->device = v;
        } else if ((v = bh_flag_value(argc, argv, &i, "--kubeconfig")) != NULL) {
            o->kubeconfig = v;
        } else if ((v = bh_flag_value(argc, argv, &i, "--expect")) != NULL &&
                   o->expect_n < BH_COUNT(o->expect)) {
            o->expect[o->expect_n++] = v;
        } else if ((v = bh_flag_value(argc, argv, &i, "-o")) != NULL && strcmp(v, "json") == 0) {
            o->json = true;
        } else {
            return false;
        }
    }
    return o->test ? o->files_n > 0 && !o->vars && !o->device : o->expr && o->expect_n == 0;
}

/* ---- output
 * ----------------------------------------------------------------------------------------------------------------
 */

static int say_text(const struct cel_opts *o, const char *key, struct bh_str text, int status)
{
    BH_AUTO_BUF b = {.max = FILE_BYTES_MAX};

    if (o->json) {
        bh_buf_addf(&b, "{\"%s\":", key);
        bh_json_write_str_plain(&b, text);
        bh_buf_addz(&b, "}\n");
        fputs(bh_buf_cstr(&b), stdout);
    } else {
        fprintf(stderr, "%.*s\n", BH_SF(text));
    }
    return status;
}

static int say_value(const struct cel_opts *o, struct bh_arena *a, const struct bh_cel_program *p,
                     const struct bh_cel_result *res)
{
    BH_AUTO_BUF b = {.max = FILE_BYTES_MAX};
    struct bh_err err;

    if (o->json) {
        bh_buf_addz(&b, "{\"type\":");
        bh_json_write_str_plain(&b, bh_cel_type_text(a, bh_cel_program_type(p)));
        bh_buf_addz(&b, ",\"value\":");
        bh_cel_to_value_json(a, res->value, &b);
        bh_buf_addf(&b, ",\"cost\":%llu,\"estimatedCost\":%llu}", (unsigned long long)res->cost,
                    (unsigned long long)bh_cel_program_cost_max(p));
    } else if (bh_cel_to_json(a, res->value, &b, &err) < 0) {
        bh_buf_clear(&b);
        bh_cel_to_value_json(a, res->value, &b);
    }
    if (b.overflow)
        return say_text(o, "error", BH_S("the value is too large to print"), 1);
    puts(bh_buf_cstr(&b));
    return 0;
}

/* ---- variables
 * -------------------------------------------------------------------------------------------------------------
 */

struct cel_vars {
    struct bh_cel_value *v;
    size_t n, cap;
};

static void add_var(struct bh_cel_env *e, struct bh_arena *a, struct cel_vars *vars,
                    struct bh_str name, const struct bh_jv *j)
{
    const struct bh_jv *type = bh_jv_getc(j, "type"), *value = bh_jv_getc(j, "value");
    const struct bh_cel_type *t = NULL;

    if (j->kind == BH_JSON_OBJ && j->n_members == 2 && type && value && type->kind == BH_JSON_STR)
        t = bh_cel_type_parse(bh_cel_env_arena(e), type->s);
    bh_arena_grow(a, &vars->v, &vars->cap, vars->n + 1, sizeof(*vars->v));
    (void)bh_cel_env_var(e, name, t ? t : bh_cel_type_dyn());
    vars->v[vars->n++] = bh_cel_from_json(a, t ? value : j);
}

static int read_vars(const char *path, struct bh_arena *a, struct bh_jv *ret, struct bh_err *err)
{
    BH_AUTO_BUF b = {.max = FILE_BYTES_MAX};
    struct bh_str text;
    int r = bh_fs_read(path, FILE_BYTES_MAX, &b, err);

    if (r < 0)
        return r;
    text = bh_str_dup(a, bh_buf_str(&b));
    r = bh_str_starts(bh_str_trim(text), BH_S("{")) ? bh_jv_parse(a, text, NULL, ret, err)
                                                    : bh_yaml_parse(a, text, NULL, ret, err);
    if (r < 0)
        return bh_err_wrap(err, "%s", path);
    if (ret->kind != BH_JSON_OBJ)
        return bh_err_set(err, BH_E_BAD_REQUEST, "%s: not an object of variables", path);
    return 0;
}

/* ---- devices
 * ---------------------------------------------------------------------------------------------------------------
 */

struct find {
    struct bh_loop *loop;
    struct bh_str driver, pool, name;
    struct bh_arena *a;
    struct bh_obj *obj; /* keeps the device alive */
    struct bh_cel_device *dev;
    int64_t generation;
    struct bh_err err;
    bool failed;
};

/* Takes the device of the newest generation of its pool. */
static void on_slices(void *arg, const struct bh_client_res *res)
{
    struct find *f = arg;

    bh_loop_stop(f->loop);
    if (res->err.code != BH_OK) {
        f->failed = true;
        f->err = res->err;
        return;
    }
    for (size_t i = 0; i < res->items_n; i++) {
        const struct bh_resource_v1_resource_slice *s = bh_obj_struct(res->items[i]);

        if (!bh_str_eq(s->spec.driver, f->driver) || !bh_str_eq(s->spec.pool.name, f->pool) ||
            (f->dev && s->spec.pool.generation <= f->generation))
            continue;
        for (size_t k = 0; k < s->spec.devices.n; k++) {
            if (!bh_str_eq(s->spec.devices.p[k].name, f->name))
                continue;
            f->obj = bh_obj_unref(f->obj);
            f->obj = bh_obj_ref(res->items[i]);
            f->generation = s->spec.pool.generation;
            f->dev = bh_cel_device_from_api(f->a, s->spec.driver, &s->spec.devices.p[k]);
        }
    }
}

static int fetch_device(const struct cel_opts *o, struct find *f, struct bh_err *err)
{
    const char *path = o->kubeconfig ? o->kubeconfig : getenv("KUBECONFIG");
    struct bh_client_req rq = {.verb = BH_VERB_LIST};
    struct bh_client *c;

    if (!path || !*path)
        return bh_err_set(err, BH_E_INVALID, "--device needs --kubeconfig FILE or KUBECONFIG");
    f->loop = bh_loop_new_real(err);
    if (!f->loop)
        return -BH_E_INTERNAL;
    c = bh_client_new_kubeconfig(f->loop, path, "bulkhead-cel", err);
    if (!c) {
        f->loop = bh_loop_free(f->loop);
        return -BH_E_UNAVAILABLE;
    }
    rq.kind = bh_kind_by_gvk(BH_S("resource.k8s.io"), BH_S("v1"), BH_S("ResourceSlice"));
    (void)bh_client_call(c, &rq, on_slices, f);
    bh_loop_run(f->loop);
    (void)bh_client_free(c);
    f->loop = bh_loop_free(f->loop);
    if (f->failed) {
        *err = f->err;
        return bh_err_wrap(err, "list resource slices");
    }
    if (!f->dev)
        return bh_err_set(err, BH_E_NOT_FOUND, "no device %s in the cluster's resource slices",
                          o->device);
    return 0;
}

/* ---- the commands
 * ----------------------------------------------------------------------------------------------------------
 */

static int evaluate(const struct cel_opts *o, struct bh_arena *a, const struct bh_cel_env *e,
                    const struct cel_vars *vars)
{
    struct bh_cel_program *p = NULL;
    struct bh_cel_issue issue;
    struct bh_cel_result res;
    struct bh_err err = {0};
    struct bh_str first;
    int status;

    if (bh_cel_compile(e, bh_s(o->expr), a, &p, &issue, &err) < 0) {
        first = issue.line ? bh_str_fmt(a, "%u:%u: %.*s", issue.line, issue.col, BH_SF(issue.text))
                           : bh_str_fmt(a, "-1:0: %.*s", BH_SF(issue.text));
        return say_text(o, "compileError", o->json ? first : issue.full, 2);
    }
    if (bh_cel_eval(p, vars->v, vars->n, a, BH_CEL_COST_PER_CALL, &res, &err) < 0)
        status =
            say_text(o, "error", o->json ? bh_s(err.msg) : bh_str_fmt(a, "error: %s", err.msg), 1);
    else
        status = say_value(o, a, p, &res);
    (void)bh_cel_program_free(p);
    return status;
}

static int cmd_eval(const struct cel_opts *o)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_cel_env *e;
    struct cel_vars vars = {0};
    struct bh_jv doc = BH_JV_OBJ;
    struct find f = {.a = a};
    struct bh_err err = {0};
    struct bh_str rest;
    int status;

    if (o->vars && read_vars(o->vars, a, &doc, &err) < 0) {
        fprintf(stderr, "bulkhead cel: %s\n", err.msg);
        return 2;
    }
    if (o->device) {
        rest = bh_s(o->device);
        f.driver = bh_str_cut(&rest, '/');
        f.name = rest;
        /* The name of a pool may have slashes itself; the name of a device has none. */
        for (size_t i = rest.n; i > 0; i--)
            if (rest.p[i - 1] == '/') {
                f.pool = bh_str_sub(rest, 0, i - 1);
                f.name = bh_str_sub(rest, i, rest.n);
                break;
            }
        if (!f.driver.n || !f.pool.n || !f.name.n)
            return usage(stderr);
        if (fetch_device(o, &f, &err) < 0) {
            f.obj = bh_obj_unref(f.obj);
            return say_text(o, "error", bh_s(err.msg), 1);
        }
    }
    e = f.dev ? bh_cel_device_env_new() : bh_cel_env_new(0);
    if (f.dev) {
        bh_arena_grow(a, &vars.v, &vars.cap, 1, sizeof(*vars.v));
        bh_cel_device_value(f.dev, a, &vars.v[vars.n++]);
    }
    for (size_t i = 0; i < doc.n_members; i++)
        add_var(e, a, &vars, doc.members[i].key, &doc.members[i].v);
    status = evaluate(o, a, e, &vars);
    (void)bh_cel_env_free(e);
    f.obj = bh_obj_unref(f.obj);
    return status;
}

static void say_failed(void *arg, struct bh_str name, struct bh_str expr, struct bh_str why)
{
    (void)arg;
    printf("FAIL %.*s: %.*s: %.*s\n", BH_SF(name), BH_SF(bh_str_sub(expr, 0, 120)), BH_SF(why));
}

static int read_text(const char *path, struct bh_buf *b, struct bh_err *err)
{
    bh_buf_clear(b);
    return bh_fs_read(path, FILE_BYTES_MAX, b, err);
}

static int cmd_test(const struct cel_opts *o)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF b = {.max = FILE_BYTES_MAX};
    struct bh_cel_suite s;
    struct bh_err err = {0};

    bh_cel_suite_init(&s, a);
    s.failed = say_failed;
    for (size_t i = 0; i < o->expect_n; i++)
        if (read_text(o->expect[i], &b, &err) < 0 ||
            bh_cel_suite_expect(&s, bh_buf_str(&b), &err) < 0) {
            fprintf(stderr, "bulkhead cel: %s: %s\n", o->expect[i], err.msg);
            return 2;
        }
    for (size_t i = 0; i < o->files_n; i++) {
        const char *base = strrchr(o->files[i], '/');
        struct bh_str name = bh_s(base ? base + 1 : o->files[i]);

        if (bh_str_ends(name, BH_S(".json")))
            name = bh_str_sub(name, 0, name.n - 5);
        if (read_text(o->files[i], &b, &err) < 0 ||
            bh_cel_suite_run(&s, name, bh_buf_str(&b), &err) < 0) {
            fprintf(stderr, "bulkhead cel: %s: %s\n", o->files[i], err.msg);
            return 2;
        }
    }
    if (s.expected || s.skipped)
        printf("%u failed as expected, %u skipped (protobuf messages, containers)\n", s.expected,
               s.skipped);
    printf("%u passed, %u failed\n", s.passed, s.failures);
    return s.failures ? 1 : 0;
}

int bh_cel_main(int argc, char **argv)
{
    struct cel_opts o = {0};

    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return usage(stdout);
    if (!parse_args(argc, argv, &o))
        return usage(stderr);
    return o.test ? cmd_test(&o) : cmd_eval(&o);
}
