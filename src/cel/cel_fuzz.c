/* Any bytes as an expression: compiled, estimated and evaluated within a small budget. */
#include "base/arena.h"
#include "base/buf.h"
#include "cel/cel.h"
#include "cel/device_env.h"
#include "data/json.h"

#define BUDGET 20000

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static const char object[] = "{\"spec\":{\"replicas\":3,\"name\":\"web\",\"ratio\":1.5,\"nul\":"
                             "null,\"list\":[1,2,3],\"a-b\":1},"
                             "\"metadata\":{\"labels\":{\"app\":\"x\",\"k8s.io/y\":\"z\"}}}";

static void evaluate(const struct bh_cel_env *e, struct bh_str src, const struct bh_cel_value *vars,
                     size_t nvars)
{
    BH_AUTO_ARENA a = bh_arena_new(0);
    BH_AUTO_BUF b = {.max = 1 << 20};
    struct bh_cel_program *prog = NULL;
    struct bh_cel_result res;
    struct bh_err err;

    if (bh_cel_compile(e, src, a, &prog, NULL, &err) < 0)
        return;
    if (bh_cel_eval(prog, vars, nvars, a, BUDGET, &res, &err) == 0) {
        (void)bh_cel_to_json(a, res.value, &b, NULL);
        bh_buf_clear(&b);
        bh_cel_to_value_json(a, res.value, &b);
    }
    (void)bh_cel_program_free(prog);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static const struct bh_cel_attr attrs[] = {
        {.name = BH_S_INIT("model"), .kind = BH_CEL_ATTR_STRING, .s = BH_S_INIT("H200")},
        {.name = BH_S_INIT("v"), .kind = BH_CEL_ATTR_VERSION, .s = BH_S_INIT("1.2.3")},
    };
    static const struct bh_cel_capacity caps[] = {{BH_S_INIT("memory"), BH_S_INIT("141Gi")}};
    static const struct bh_cel_device_in in = {
        .driver = BH_S_INIT("d"), .attrs = attrs, .attrs_n = 2, .caps = caps, .caps_n = 1};
    BH_AUTO_ARENA a = bh_arena_new(0);
    struct bh_cel_value vars[5], dev;
    struct bh_cel_env *e;
    struct bh_jv doc;

    if (n < 1)
        return 0;
    bh_cel_device_value(bh_cel_device_new(a, &in), a, &dev);
    evaluate(bh_cel_device_env(), (struct bh_str){(const char *)p + 1, n - 1}, &dev, 1);
    if (bh_jv_parse(a, BH_S(object), NULL, &doc, NULL) < 0)
        return 0;
    e = bh_cel_env_new(p[0] & 1 ? BH_CEL_ENV_MUTATION | BH_CEL_ENV_BIND : 0);
    (void)bh_cel_env_var(e, BH_S("object"), bh_cel_type_dyn());
    (void)bh_cel_env_var(e, BH_S("s"), bh_cel_type_string());
    (void)bh_cel_env_var(e, BH_S("i"), bh_cel_type_int());
    (void)bh_cel_env_var(
        e, BH_S("l"),
        bh_cel_type_list(bh_cel_env_arena(e), bh_cel_type_int(), BH_CEL_SIZE_UNKNOWN));
    (void)bh_cel_env_var(e, BH_S("variables.x"), bh_cel_type_dyn());
    vars[0] = bh_cel_from_json(a, &doc);
    vars[1] = bh_cel_str(BH_S("h\u00e9llo"));
    vars[2] = bh_cel_int(5);
    vars[3] = bh_cel_list_new(a, (struct bh_cel_value[]){bh_cel_int(1), bh_cel_int(2)}, 2);
    vars[4] = (struct bh_cel_value){.kind = BH_CEL_ERROR};
    evaluate(e, (struct bh_str){(const char *)p + 1, n - 1}, vars, 5);
    (void)bh_cel_env_free(e);
    return 0;
}
