/* `bulkhead allocate`: reads the objects of a file, with lines for what is wrong in them. */
#include <stdio.h>
#include <string.h>

#include "api/engine.h"
#include "api/gen/resource_v1.h"
#include "api/obj.h"
#include "apiserver/validate/validate.h"
#include "base/fs.h"
#include "cli/allocate_int.h"
#include "data/json.h"
#include "data/yaml.h"
#include "dra/dra.h"

#define FILE_BYTES_MAX (256u << 20)

/* ---- lines ---- */

static struct bh_str line_at(struct bh_str text, size_t *pos)
{
    ptrdiff_t nl = bh_str_chr(text, '\n', *pos);
    struct bh_str l = bh_str_sub(text, *pos, nl < 0 ? text.n : (size_t)nl);

    *pos = nl < 0 ? text.n : (size_t)nl + 1;
    return l;
}

static size_t indent_of(struct bh_str l)
{
    size_t n = 0;

    while (n < l.n && l.p[n] == ' ')
        n++;
    return n;
}

/* Whether the line holds the key: `key:`, `- key:`, `"key":`, anywhere in flow style. */
static bool has_key(struct bh_str l, struct bh_str key)
{
    for (size_t from = 0; from + key.n <= l.n;) {
        ptrdiff_t at = bh_str_find(bh_str_sub(l, from, l.n), key);
        size_t b, e;

        if (at < 0)
            return false;
        b = from + (size_t)at;
        e = b + key.n;
        from = b + 1;
        if (b > 0 && l.p[b - 1] != ' ' && l.p[b - 1] != '"' && l.p[b - 1] != '{' &&
            l.p[b - 1] != ',' && l.p[b - 1] != '\'')
            continue;
        if (e < l.n && (l.p[e] == '"' || l.p[e] == '\''))
            e++;
        if (e < l.n && l.p[e] == ':')
            return true;
    }
    return false;
}

/* A place in the text: its number and where the line after it begins. */
struct place {
    size_t line, next;
};

static bool find_key(struct bh_str text, struct place *at, size_t end, struct bh_str key)
{
    size_t pos = at->next, line = at->line;

    while (pos < text.n && line < end) {
        struct bh_str l = line_at(text, &pos);

        line++;
        if (has_key(l, key)) {
            *at = (struct place){line, pos};
            return true;
        }
    }
    return false;
}

/* The item i of the list below: dashes (or opening braces) of the same depth. */
static bool find_item(struct bh_str text, struct place *at, size_t end, size_t i)
{
    size_t pos = at->next, line = at->line, depth = SIZE_MAX;

    while (pos < text.n && line < end) {
        size_t before = pos;
        struct bh_str l = line_at(text, &pos);
        size_t in = indent_of(l);

        line++;
        if (in == l.n || (l.p[in] != '-' && l.p[in] != '{'))
            continue;
        if (depth == SIZE_MAX)
            depth = in;
        if (in != depth)
            continue;
        if (i-- == 0) {
            /* The first key of the item stands on the same line. */
            *at = (struct place){line - 1, before};
            return true;
        }
    }
    return false;
}

/* Follows a field path as far as the text shows it. */
static size_t line_of(const struct bh_alloc_file *f, const struct bh_alloc_object *o,
                      struct bh_str path)
{
    struct place at = {o->line - 1, 0};
    size_t best = o->line;

    for (size_t i = 1; i < o->line; i++)
        (void)line_at(f->text, &at.next);
    while (path.n) {
        size_t n = 0;
        bool found;

        if (path.p[0] == '[') {
            ptrdiff_t close = bh_str_chr(path, ']', 0);
            struct bh_str in = bh_str_sub(path, 1, close < 0 ? path.n : (size_t)close);
            int64_t i;

            found = bh_str_i64(in, 0, INT32_MAX, &i)
                        ? find_item(f->text, &at, o->line_end, (size_t)i)
                        : find_key(f->text, &at, o->line_end, in);
            if (found)
                best = at.line + (bh_str_i64(in, 0, INT32_MAX, &i) ? 1 : 0);
            n = close < 0 ? path.n : (size_t)close + 1;
        } else {
            while (n < path.n && path.p[n] != '.' && path.p[n] != '[')
                n++;
            found = find_key(f->text, &at, o->line_end, bh_str_sub(path, 0, n));
            if (found)
                best = at.line;
        }
        if (!found)
            break;
        if (n < path.n && path.p[n] == '.')
            n++;
        path = bh_str_sub(path, n, path.n);
    }
    return best;
}

void bh_alloc_complain(struct bh_alloc_file *f, const struct bh_alloc_object *o,
                       struct bh_str field, struct bh_str text)
{
    struct bh_str path = field;

    f->bad = true;
    if (o->at.n)
        path = bh_str_fmt(f->a, "%.*s%s%.*s", BH_SF(o->at), field.n ? "." : "", BH_SF(field));
    fprintf(stderr, "%s:%zu: ", f->name, line_of(f, o, path));
    if (o->kind.n)
        fprintf(stderr, "%.*s ", BH_SF(o->kind));
    if (o->label.n)
        fprintf(stderr, "%.*s: ", BH_SF(o->label));
    if (field.n)
        fprintf(stderr, "%.*s: ", BH_SF(field));
    fprintf(stderr, "%.*s\n", BH_SF(text));
}

/* ---- objects ---- */

/* The field that a decoding error names: `… Go struct field X.spec.devices of type …`, `unknown
 * field "spec.x"`. */
static struct bh_str field_in(struct bh_str text)
{
    static const char *const marks[] = {"unknown field \"", "duplicate field \"", "struct field "};

    for (size_t i = 0; i < BH_COUNT(marks); i++) {
        ptrdiff_t at = bh_str_find(text, bh_s(marks[i]));
        struct bh_str rest;

        if (at < 0)
            continue;
        rest = bh_str_sub(text, (size_t)at + strlen(marks[i]), text.n);
        if (i < 2)
            return bh_str_cut(&rest, '"');
        rest = bh_str_cut(&rest, ' ');
        (void)bh_str_cut(&rest, '.');
        return rest;
    }
    return (struct bh_str){0};
}

static bool gate_on(void *arg, struct bh_str name)
{
    (void)arg, (void)name;
    return true;
}

static bool wanted(struct bh_str kind)
{
    static const char *const kinds[] = {"Node", "ResourceSlice", "DeviceClass", "DeviceTaintRule",
                                        "ResourceClaim"};

    for (size_t i = 0; i < BH_COUNT(kinds); i++)
        if (bh_str_eqc(kind, kinds[i]))
            return true;
    return false;
}

/* What a server would have filled in or refused. */
static bool check(struct bh_alloc_file *f, struct bh_alloc_object *o, const struct bh_kind *k,
                  void *decoded)
{
    struct bh_rules_env env = {.a = f->a, .gate = gate_on};
    struct bh_field_errs errs = {.a = f->a};
    bool good = true;

    bh_rules_default(&env, k, decoded);
    o->obj = bh_obj_from_struct(k, decoded, NULL);
    if (!o->obj)
        return false;
    /* Only what is asked for is judged as strictly: slices and allocated claims are taken as
     * somebody published them. */
    if (!bh_str_eqc(o->kind, "ResourceClaim") ||
        ((const struct bh_resource_v1_resource_claim *)decoded)->status.allocation)
        return true;
    bh_rules_validate_create(&env, k, decoded, &errs);
    /* Names, limits and permissions are a server's business; here it counts whether the claim can
     * be understood. */
    for (size_t i = 0; i < errs.n; i++) {
        enum bh_ferr_type t = errs.p[i].type;

        if (t != BH_FE_REQUIRED && t != BH_FE_NOT_SUPPORTED && t != BH_FE_TYPE_INVALID)
            continue;
        bh_alloc_complain(f, o, errs.p[i].field, errs.p[i].body);
        good = false;
    }
    return good;
}

static struct bh_alloc_object *push(struct bh_alloc_file *f, const struct bh_alloc_object *o)
{
    bh_arena_grow(f->a, &f->objects, &f->cap, f->n + 1, sizeof(*f->objects));
    f->objects[f->n] = *o;
    return &f->objects[f->n++];
}

/* A second slice of the same name, but of another pool, is another slice; everything else is a
 * mistake. */
static void same_name(struct bh_alloc_file *f, struct bh_alloc_object *o, struct bh_jv *meta)
{
    struct bh_str ns = bh_jv_get_str(meta, "namespace"), name = bh_jv_get_str(meta, "name");
    size_t seen = 0;

    for (size_t i = 0; i < f->n; i++)
        if (bh_str_eq(f->objects[i].kind, o->kind) && bh_str_eq(f->objects[i].obj->ns, ns) &&
            (bh_str_eq(f->objects[i].obj->name, name) ||
             bh_str_starts(f->objects[i].obj->name, bh_str_fmt(f->a, "%.*s~", BH_SF(name)))))
            seen++;
    if (!seen)
        return;
    if (bh_str_eqc(o->kind, "ResourceSlice"))
        bh_jv_setc(f->a, meta, "name",
                   bh_jv_str(bh_str_fmt(f->a, "%.*s~%zu", BH_SF(name), seen + 1)));
    else
        bh_alloc_complain(f, o, BH_S("metadata.name"),
                          bh_str_fmt(f->a, "there is another \"%.*s\"", BH_SF(name)));
}

static void one_object(struct bh_alloc_file *f, struct bh_alloc_object o, struct bh_jv *v)
{
    struct bh_str api = bh_jv_get_str(v, "apiVersion");
    const struct bh_kind *k;
    struct bh_jv *meta = bh_jv_getc(v, "metadata");
    struct bh_strict strict = {0};
    struct bh_err err = {0};
    BH_AUTO_BUF b = {0};
    void *decoded;

    o.kind = bh_jv_get_str(v, "kind");
    k = bh_kind_by_api_version(api, o.kind);
    if (!k || !meta || meta->kind != BH_JSON_OBJ) {
        bh_alloc_complain(f, &o, BH_S(""),
                          k ? BH_S("has no metadata")
                            : bh_str_fmt(f->a, "no kind \"%.*s\" in version \"%.*s\"",
                                         BH_SF(o.kind), BH_SF(api)));
        return;
    }
    if (!wanted(o.kind))
        return;
    if (k != bh_kind_hub(k)) {
        bh_alloc_complain(f, &o, BH_S("apiVersion"),
                          bh_str_fmt(f->a, "must be %.*s", BH_SF(bh_kind_hub(k)->api_version)));
        return;
    }
    o.label = bh_jv_get_str(meta, "name");
    if (bh_jv_get_str(meta, "namespace").n)
        o.label =
            bh_str_fmt(f->a, "%.*s/%.*s", BH_SF(bh_jv_get_str(meta, "namespace")), BH_SF(o.label));
    same_name(f, &o, meta);
    if (bh_jv_get_str(meta, "uid").n == 0)
        bh_jv_setc(f->a, meta, "uid",
                   bh_jv_str(bh_str_fmt(f->a, "%.*s/%.*s", BH_SF(bh_jv_get_str(meta, "namespace")),
                                        BH_SF(bh_jv_get_str(meta, "name")))));
    if (bh_jv_get_str(meta, "resourceVersion").n == 0)
        bh_jv_setc(f->a, meta, "resourceVersion", bh_jv_str(BH_S("1")));
    bh_jv_write(&b, v, 0);
    if (bh_kind_decode_json(k, bh_str_dup(f->a, bh_buf_str(&b)), f->a, &decoded, &strict, &err) <
        0) {
        bh_alloc_complain(f, &o, field_in(bh_s(err.msg)), bh_s(err.msg));
        return;
    }
    for (size_t i = 0; i < strict.texts.n; i++)
        bh_alloc_complain(f, &o, field_in(strict.texts.p[i]), strict.texts.p[i]);
    if (check(f, &o, k, decoded))
        (void)push(f, &o);
    else if (o.obj)
        o.obj = bh_obj_unref(o.obj);
}

static void one_document(struct bh_alloc_file *f, size_t line, size_t line_end, struct bh_jv *v)
{
    struct bh_alloc_object o = {.line = line, .line_end = line_end};
    struct bh_jv *list = v->kind == BH_JSON_ARR ? v : NULL;

    if (v->kind == BH_JSON_OBJ && bh_str_ends(bh_jv_get_str(v, "kind"), BH_S("List")))
        list = bh_jv_getc(v, "items");
    if (!list) {
        if (v->kind == BH_JSON_OBJ)
            one_object(f, o, v);
        else
            bh_alloc_complain(f, &o, BH_S(""), BH_S("is not an object"));
        return;
    }
    for (size_t i = 0; list->kind == BH_JSON_ARR && i < list->n_items; i++) {
        o.at = bh_str_fmt(f->a, "%s[%zu]", list == v ? "" : "items", i);
        if (list->items[i].kind == BH_JSON_OBJ)
            one_object(f, o, &list->items[i]);
        else
            bh_alloc_complain(f, &o, BH_S(""), BH_S("is not an object"));
    }
}

/* ---- documents ---- */

static bool is_separator(struct bh_str l)
{
    return bh_str_starts(l, BH_S("---")) && (l.n == 3 || l.p[3] == ' ' || l.p[3] == '\r');
}

static bool is_content(struct bh_str l)
{
    struct bh_str t = bh_str_trim(l);

    return t.n && t.p[0] != '#';
}

/* Lines of the documents that are not empty; the parser leaves out the others, too. */
static size_t document_lines(struct bh_alloc_file *f, size_t (**ret)[2])
{
    size_t pos = 0, line = 0, n = 0, cap = 0, start = 1;
    bool content = false;

    *ret = NULL;
    while (pos <= f->text.n) {
        bool end = pos == f->text.n;
        struct bh_str l = end ? (struct bh_str){0} : line_at(f->text, &pos);
        bool sep = is_separator(l);

        line++;
        if (sep || end) {
            if (content) {
                bh_arena_grow(f->a, ret, &cap, n + 1, sizeof(**ret));
                (*ret)[n][0] = start;
                (*ret)[n++][1] = line - 1;
            }
            start = line + 1;
            content = sep && l.n > 4 && is_content(bh_str_sub(l, 3, l.n));
        } else {
            content |= is_content(l);
        }
        if (end)
            break;
    }
    return n;
}

/* "yaml: line 3: …" as FILE:3. The parser counts no lines in the first one, nor where it meets
 * bytes that are no text. */
static void complain_syntax(struct bh_alloc_file *f, struct bh_str text)
{
    struct bh_str rest = text, line;
    int64_t n = 1;

    f->bad = true;
    if (bh_str_starts(text, BH_S("yaml: line "))) {
        rest = bh_str_sub(text, sizeof("yaml: line ") - 1, text.n);
        line = bh_str_cut(&rest, ':');
        if (!bh_str_i64(line, 1, INT64_MAX, &n))
            rest = text;
        rest = bh_str_fmt(f->a, "yaml: %.*s", BH_SF(bh_str_trim(rest)));
    } else if (bh_str_find(text, BH_S("UTF-8")) >= 0 || bh_str_find(text, BH_S("control")) >= 0) {
        fprintf(stderr, "%s: %.*s\n", f->name, BH_SF(text));
        return;
    }
    fprintf(stderr, "%s:%lld: %.*s\n", f->name, (long long)n, BH_SF(rest));
}

void bh_alloc_load(struct bh_alloc_file *f)
{
    bool in = strcmp(f->name, "-") == 0;
    BH_AUTO_BUF b = {0};
    struct bh_err err = {0};
    struct bh_jv *docs;
    size_t n, lines_n, (*lines)[2];

    if (bh_fs_read(in ? "/dev/stdin" : f->name, FILE_BYTES_MAX, &b, &err) < 0) {
        fprintf(stderr, "bulkhead allocate: %s: %s\n", f->name, err.msg);
        f->bad = true;
        return;
    }
    if (in)
        f->name = "<stdin>";
    f->text = bh_str_dup(f->a, bh_buf_str(&b));
    if (bh_yaml_parse_all(f->a, f->text, &docs, &n, &err) < 0) {
        complain_syntax(f, bh_s(err.msg));
        return;
    }
    lines_n = document_lines(f, &lines);
    for (size_t i = 0; i < n; i++)
        one_document(f, i < lines_n && n == lines_n ? lines[i][0] : 1,
                     i < lines_n && n == lines_n ? lines[i][1] : SIZE_MAX, &docs[i]);
}

void bh_alloc_unload(struct bh_alloc_file *f)
{
    for (size_t i = 0; i < f->n; i++)
        f->objects[i].obj = bh_obj_unref(f->objects[i].obj);
    f->n = 0;
}

void bh_alloc_fill(const struct bh_alloc_file *f, struct bh_dra_model *m)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct bh_obj *o = f->objects[i].obj;
        struct bh_str kind = f->objects[i].kind;

        if (bh_str_eqc(kind, "Node"))
            bh_dra_node_put(m, o->name, &o->labels);
        else if (bh_str_eqc(kind, "ResourceSlice"))
            bh_dra_slice_put(m, o);
        else if (bh_str_eqc(kind, "DeviceClass"))
            bh_dra_class_put(m, o);
        else if (bh_str_eqc(kind, "DeviceTaintRule"))
            bh_dra_rule_put(m, o);
        else
            bh_dra_claim_put(m, o);
    }
}

const struct bh_alloc_object *bh_alloc_claim(const struct bh_alloc_file *f, struct bh_str key)
{
    struct bh_str name = key, ns = BH_S("default");

    if (bh_str_chr(key, '/', 0) >= 0)
        ns = bh_str_cut(&name, '/');
    for (size_t i = 0; i < f->n; i++)
        if (bh_str_eqc(f->objects[i].kind, "ResourceClaim") &&
            bh_str_eq(f->objects[i].obj->ns, ns) && bh_str_eq(f->objects[i].obj->name, name))
            return &f->objects[i];
    return NULL;
}
