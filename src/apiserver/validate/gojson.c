/* Go's JSON of upstream's internal structs, as its error texts print them.
 *
 * Internal structs have no JSON tags: each field appears, under its Go name, and nil is null. Types
 * of meta/v1 are the exception: upstream uses the tagged ones internally, so they look as on the
 * wire.
 */
#include "apiserver/validate/validate_int.h"

#include "base/buf.h"
#include "data/codec.h"
#include "data/json.h"

#include <string.h>

#define GO_JSON_DEPTH_MAX 64 /* messages within messages; built-in types stay far below */
#define GO_JSON_BYTES_MAX (1u << 20)

/* Go names that are not the JSON name with its first letter raised. */
static const struct go_name {
    const char *json, *go, *in; /* in: message, NULL for any */
} go_names[] = {
    {"apiGroup", "APIGroup", NULL},
    {"apiVersion", "APIVersion", NULL},
    {"awsElasticBlockStore", "AWSElasticBlockStore", NULL},
    {"bool", "BoolValue", "DeviceAttribute"},
    {"bools", "BoolValues", "DeviceAttribute"},
    {"cel", "CEL", NULL},
    {"cephfs", "CephFS", NULL},
    {"csi", "CSI", NULL},
    {"dnsConfig", "DNSConfig", NULL},
    {"dnsPolicy", "DNSPolicy", NULL},
    {"fc", "FC", NULL},
    {"fsGroup", "FSGroup", NULL},
    {"gcePersistentDisk", "GCEPersistentDisk", NULL},
    {"grpc", "GRPC", NULL},
    {"httpGet", "HTTPGet", NULL},
    {"int", "IntValue", "DeviceAttribute"},
    {"ints", "IntValues", "DeviceAttribute"},
    {"ip", "IP", NULL},
    {"ips", "IPs", NULL},
    {"iscsi", "ISCSI", NULL},
    {"nfs", "NFS", NULL},
    {"os", "OS", NULL},
    {"rbd", "RBD", NULL},
    {"seLinuxChangePolicy", "SELinuxChangePolicy", NULL},
    {"seLinuxOptions", "SELinuxOptions", NULL},
    {"storageos", "StorageOS", NULL},
    {"string", "StringValue", "DeviceAttribute"},
    {"strings", "StringValues", "DeviceAttribute"},
    {"tcpSocket", "TCPSocket", NULL},
    {"tty", "TTY", NULL},
    {"uid", "UID", NULL},
    {"version", "VersionValue", "DeviceAttribute"},
    {"versions", "VersionValues", "DeviceAttribute"},
};

static void key(struct bh_buf *out, const struct bh_type *t, struct bh_str json)
{
    for (size_t i = 0; i < BH_COUNT(go_names); i++) {
        if (bh_str_eqc(json, go_names[i].json) &&
            (!go_names[i].in || bh_str_eqc(t->name, go_names[i].in))) {
            bh_buf_addf(out, "\"%s\":", go_names[i].go);
            return;
        }
    }
    bh_buf_addc(out, '"');
    if (json.n) {
        bh_buf_addc(out, json.p[0] >= 'a' && json.p[0] <= 'z' ? (char)(json.p[0] - 'a' + 'A')
                                                              : json.p[0]);
        bh_buf_add(out, json.p + 1, json.n - 1);
    }
    bh_buf_addz(out, "\":");
}

static void message(struct bh_buf *out, const struct bh_type *t, const void *obj, unsigned depth);

static void intstr(struct bh_buf *out, const struct bh_intstr *v)
{
    if (v->is_str)
        bh_json_write_str(out, v->s);
    else
        bh_buf_add_i64(out, v->i);
}

static void time_value(struct bh_buf *out, struct bh_time t, bool micro)
{
    if (bh_time_is_zero(t))
        bh_buf_addz(out, "null");
    else
        bh_enc_time(out, t, micro);
}

static void bytes(struct bh_buf *out, struct bh_str s)
{
    bh_buf_addc(out, '"');
    bh_base64_write(out, s);
    bh_buf_addc(out, '"');
}

/* One value: a field that is present, an element, or a map's value. */
static void value(struct bh_buf *out, const struct bh_field *f, const void *p, unsigned depth)
{
    struct bh_str s = {0};

    if (f->type <= BH_T_QUANTITY)
        memcpy(&s, p, sizeof(s));
    switch ((enum bh_ftype)f->type) {
    case BH_T_STRING:
        bh_json_write_str(out, s);
        return;
    case BH_T_BYTES:
        bytes(out, s);
        return;
    case BH_T_RAW:
        bh_buf_adds(out, s.n ? s : BH_S("null"));
        return;
    case BH_T_QUANTITY:
        bh_json_write_str(out, s.n ? s : BH_S("0"));
        return;
    case BH_T_BOOL:
        bh_buf_addz(out, *(const bool *)p ? "true" : "false");
        return;
    case BH_T_INT32:
        bh_buf_add_i64(out, *(const int32_t *)p);
        return;
    case BH_T_INT64:
        bh_buf_add_i64(out, *(const int64_t *)p);
        return;
    case BH_T_UINT32:
        bh_buf_add_i64(out, *(const uint32_t *)p);
        return;
    case BH_T_DOUBLE:
        bh_json_write_double(out, *(const double *)p);
        return;
    case BH_T_TIME:
    case BH_T_MICROTIME:
        time_value(out, *(const struct bh_time *)p, f->type == BH_T_MICROTIME);
        return;
    case BH_T_INTORSTR:
        intstr(out, p);
        return;
    case BH_T_MESSAGE:
        message(out, f->msg, p, depth + 1);
        return;
    }
}

static void list(struct bh_buf *out, const struct bh_field *f, const struct bh_vec *v,
                 unsigned depth)
{
    if (!v->p) {
        bh_buf_addz(out, "null");
        return;
    }
    bh_buf_addc(out, '[');
    for (size_t i = 0; i < v->n; i++) {
        if (i)
            bh_buf_addc(out, ',');
        value(out, f, (const char *)v->p + i * f->elem_size, depth);
    }
    bh_buf_addc(out, ']');
}

static void map(struct bh_buf *out, const struct bh_field *f, const struct bh_vec *v,
                unsigned depth)
{
    if (!v->p) {
        bh_buf_addz(out, "null");
        return;
    }
    bh_buf_addc(out, '{');
    for (size_t i = 0; i < v->n; i++) {
        const char *entry = (const char *)v->p + i * f->elem_size;
        struct bh_str k;

        memcpy(&k, entry, sizeof(k));
        if (i)
            bh_buf_addc(out, ',');
        bh_json_write_str(out, k);
        bh_buf_addc(out, ':');
        value(out, f, entry + f->value_off, depth);
    }
    bh_buf_addc(out, '}');
}

static bool present(const struct bh_field *f, const char *obj)
{
    if (!(f->flags & BH_F_PTR))
        return true;
    if (f->off_has != UINT32_MAX)
        return *(const bool *)(obj + f->off_has);
    if (f->type == BH_T_MESSAGE)
        return *(const void *const *)(const void *)(obj + f->off) != NULL;
    return true; /* times: zero is null already */
}

static void field(struct bh_buf *out, const struct bh_field *f, const char *obj, unsigned depth)
{
    const void *p = obj + f->off;

    if (f->shape == BH_LIST)
        list(out, f, p, depth);
    else if (f->shape == BH_MAP)
        map(out, f, p, depth);
    else if (!present(f, obj))
        bh_buf_addz(out, "null");
    else
        value(out, f,
              (f->flags & BH_F_PTR) && f->type == BH_T_MESSAGE ? *(const void *const *)p : p,
              depth);
}

/* ObjectMeta is embedded without a name: its own (tagged) fields stand among the others. */
static void embedded_meta(struct bh_buf *out, const void *meta, bool *first)
{
    struct bh_buf b = {.max = GO_JSON_BYTES_MAX};
    struct bh_str s;

    bh_msg_encode_json(&bh_meta_v1_object_meta_type, meta, &b);
    s = bh_buf_str(&b);
    if (s.n > 2) {
        if (!*first)
            bh_buf_addc(out, ',');
        *first = false;
        bh_buf_add(out, s.p + 1, s.n - 2);
    }
    bh_buf_done(&b);
}

static void fields(struct bh_buf *out, const struct bh_type *t, const char *obj, bool *first,
                   unsigned depth)
{
    for (uint32_t i = 0; i < t->n_fields; i++) {
        const struct bh_field *f = &t->fields[i];

        if ((f->flags & BH_F_INLINE) && f->type == BH_T_MESSAGE && depth < GO_JSON_DEPTH_MAX) {
            fields(out, f->msg, obj + f->off, first, depth + 1);
            continue;
        }
        if (f->msg == &bh_meta_v1_object_meta_type && f->shape == BH_ONE) {
            embedded_meta(out, obj + f->off, first);
            continue;
        }
        if (!*first)
            bh_buf_addc(out, ',');
        *first = false;
        key(out, t, f->json);
        field(out, f, obj, depth);
    }
}

static void message(struct bh_buf *out, const struct bh_type *t, const void *obj, unsigned depth)
{
    bool first = true;

    if (depth > GO_JSON_DEPTH_MAX) {
        bh_buf_addz(out, "null");
        return;
    }
    if (bh_str_starts(t->proto, BH_S("k8s.io.apimachinery."))) {
        bh_msg_encode_json(t, obj, out);
        return;
    }
    if (t->flags & BH_M_BARE) {
        field(out, &t->fields[0], obj, depth);
        return;
    }
    bh_buf_addc(out, '{');
    fields(out, t, obj, &first, depth);
    bh_buf_addc(out, '}');
}

static struct bh_str take(struct bh_arena *a, struct bh_buf *b)
{
    struct bh_str s = bh_str_dup(a, b->overflow ? BH_S("{…}") : bh_buf_str(b));

    bh_buf_done(b);
    return s;
}

struct bh_str bh_v_go_json(struct bh_arena *a, const struct bh_type *t, const void *obj)
{
    struct bh_buf b = {.max = GO_JSON_BYTES_MAX};

    if (!obj)
        return BH_S("null");
    message(&b, t, obj, 0);
    return take(a, &b);
}

struct bh_str bh_v_go_json_list(struct bh_arena *a, const struct bh_type *t, const void *vec)
{
    struct bh_buf b = {.max = GO_JSON_BYTES_MAX};
    const struct bh_vec *v = vec;

    if (!v->p)
        return BH_S("null");
    bh_buf_addc(&b, '[');
    for (size_t i = 0; i < v->n; i++) {
        if (i)
            bh_buf_addc(&b, ',');
        message(&b, t, (const char *)v->p + i * t->size, 0);
    }
    bh_buf_addc(&b, ']');
    return take(a, &b);
}

struct bh_str bh_v_json(struct bh_arena *a, const struct bh_type *t, const void *obj)
{
    struct bh_buf b = {.max = GO_JSON_BYTES_MAX};

    bh_msg_encode_json(t, obj, &b);
    return take(a, &b);
}

struct bh_str bh_v_json_strs(struct bh_arena *a, const struct bh_str_vec *v)
{
    struct bh_buf b = {.max = GO_JSON_BYTES_MAX};

    if (!v->p)
        return BH_S("null");
    bh_buf_addc(&b, '[');
    for (size_t i = 0; i < v->n; i++) {
        if (i)
            bh_buf_addc(&b, ',');
        bh_json_write_str(&b, v->p[i]);
    }
    bh_buf_addc(&b, ']');
    return take(a, &b);
}
