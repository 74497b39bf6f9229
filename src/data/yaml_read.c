/* YAML to a JSON tree: libyaml's events become a tree of nodes, which is then decoded with explicit
 * stacks, counting the work that aliases cause as upstream does. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "data/codec.h"
#include "data/yaml.h"
#include "data/yaml_scalar.h"

#define STR_TAG    "tag:yaml.org,2002:str"
#define BINARY_TAG "tag:yaml.org,2002:binary"
#define MERGE_TAG  "tag:yaml.org,2002:merge"
#define TAG_PREFIX "tag:yaml.org,2002:"

enum node_kind { N_SCALAR, N_SEQ, N_MAP, N_ALIAS };

struct node {
    enum node_kind kind;
    bool implicit; /* scalar: plain and untagged, so the text decides */
    bool active;   /* an alias to it is being decoded: a second one means that it contains itself */
    unsigned line; /* of its start, from 0 */
    struct bh_str text;                      /* scalar: the value; alias: the anchor */
    struct bh_str tag;                       /* empty: none */
    struct node *target;                     /* alias */
    struct node *first, *last, *next, *prev; /* children (map: key, value, key, …) and siblings */
};

/* ---- Events to nodes ---- */

struct loader {
    struct bh_arena *a;
    yaml_parser_t parser;
    struct bh_map anchors;
    struct node *open[BH_JSON_DEPTH_MAX];
    unsigned depth;
};

/* The words and the line of go-yaml, whose scanner is libyaml's: only scanner errors count lines
 * from one. */
static int parser_error(struct loader *l, struct bh_err *err)
{
    const yaml_parser_t *p = &l->parser;
    size_t line = p->problem_mark.line;
    const char *problem = p->problem ? p->problem : "unknown problem parsing YAML content";

    if (p->error == YAML_MEMORY_ERROR)
        return bh_err_set(err, BH_E_LIMIT, "yaml: out of memory");
    if (line)
        line += p->error == YAML_SCANNER_ERROR;
    else
        line = p->context_mark.line;
    if (line)
        return bh_err_set(err, BH_E_BAD_REQUEST, "yaml: line %zu: %s", line, problem);
    return bh_err_set(err, BH_E_BAD_REQUEST, "yaml: %s", problem);
}

static void append(struct node *parent, struct node *n)
{
    n->prev = parent->last;
    if (parent->last)
        parent->last->next = n;
    else
        parent->first = n;
    parent->last = n;
}

static struct bh_str dup_yaml(struct bh_arena *a, const yaml_char_t *s, size_t n)
{
    return bh_str_dup(a, (struct bh_str){(const char *)s, n});
}

static struct bh_str dup_tag(struct bh_arena *a, const yaml_char_t *tag)
{
    return tag ? bh_str_dup(a, bh_s((const char *)tag)) : (struct bh_str){"", 0};
}

static int add_node(struct loader *l, struct node *n, const yaml_char_t *anchor, struct node **root,
                    struct bh_err *err)
{
    if (bh_arena_try(l->a, 1) == NULL)
        return bh_err_set(err, BH_E_LIMIT, "the memory limit of this input is reached");
    if (anchor)
        (void)bh_map_put(&l->anchors, bh_s((const char *)anchor), n);
    if (l->depth)
        append(l->open[l->depth - 1], n);
    else
        *root = n;
    if (n->kind != N_SEQ && n->kind != N_MAP)
        return 0;
    if (l->depth == BH_JSON_DEPTH_MAX)
        return bh_err_set(err, BH_E_BAD_REQUEST, "yaml: exceeded max depth of %d",
                          BH_JSON_DEPTH_MAX);
    l->open[l->depth++] = n;
    return 0;
}

static int load_event(struct loader *l, const yaml_event_t *e, struct node **root,
                      struct bh_err *err)
{
    struct node *n;

    if (e->type == YAML_SEQUENCE_END_EVENT || e->type == YAML_MAPPING_END_EVENT) {
        l->depth--;
        return 0;
    }
    n = bh_new(l->a, struct node);
    n->line = (unsigned)e->start_mark.line;
    switch (e->type) {
    case YAML_SCALAR_EVENT:
        n->kind = N_SCALAR;
        n->text = dup_yaml(l->a, e->data.scalar.value, e->data.scalar.length);
        n->tag = dup_tag(l->a, e->data.scalar.tag);
        n->implicit = e->data.scalar.plain_implicit;
        return add_node(l, n, e->data.scalar.anchor, root, err);
    case YAML_SEQUENCE_START_EVENT:
        n->kind = N_SEQ;
        return add_node(l, n, e->data.sequence_start.anchor, root, err);
    case YAML_MAPPING_START_EVENT:
        n->kind = N_MAP;
        return add_node(l, n, e->data.mapping_start.anchor, root, err);
    default: /* YAML_ALIAS_EVENT: the only one left inside a document */
        n->kind = N_ALIAS;
        n->text = dup_tag(l->a, e->data.alias.anchor);
        n->target = bh_map_get(&l->anchors, n->text);
        if (!n->target)
            return bh_err_set(err, BH_E_BAD_REQUEST, "yaml: unknown anchor '%.*s' referenced",
                              BH_SF(n->text));
        return add_node(l, n, NULL, root, err);
    }
}

/* The next document; *root stays NULL at the end of the stream. */
static int load_document(struct loader *l, struct node **root, struct bh_err *err)
{
    yaml_event_t e;
    int r = 0;
    bool done = false;

    *root = NULL;
    bh_map_done(&l->anchors);
    l->depth = 0;
    while (r >= 0 && !done) {
        if (!yaml_parser_parse(&l->parser, &e))
            return parser_error(l, err);
        switch (e.type) {
        case YAML_NO_EVENT:
        case YAML_STREAM_END_EVENT:
        case YAML_DOCUMENT_END_EVENT:
            done = true;
            break;
        case YAML_STREAM_START_EVENT:
            break;
        case YAML_DOCUMENT_START_EVENT:
            /* libyaml takes 1.2 too, upstream does not. */
            if (e.data.document_start.version_directive &&
                e.data.document_start.version_directive->minor != 1)
                r = bh_err_set(err, BH_E_BAD_REQUEST, "yaml: found incompatible YAML document");
            break;
        default:
            r = load_event(l, &e, root, err);
        }
        yaml_event_delete(&e);
    }
    return r;
}

/* ---- Nodes to values ---- */

/* A finished element of an open map or sequence. */
struct entry {
    struct bh_str key;
    struct bh_jv v;
    unsigned line; /* of the value, from 0 */
    size_t seq; /* order of completion: the last of equal keys wins, and duplicates are told in this
                   order */
};

struct frame {
    struct node *cur;   /* next child */
    struct node *alias; /* not NULL: the target of the alias that led here */
    struct bh_str key;  /* of the value being decoded */
    unsigned line;
    size_t base; /* first entry of this container */
    enum { F_SEQ, F_MAP, F_MERGE, F_MERGE_SEQ } kind;
};

struct decoder {
    struct bh_arena *a;
    struct frame frames[BH_JSON_DEPTH_MAX];
    unsigned depth;
    struct entry *entries;
    size_t n, cap, seq;
    unsigned alias_depth;
    size_t decoded, aliased;
    struct entry *dups; /* heap; NULL unless wanted */
    size_t n_dups, cap_dups;
    bool want_dups;
    struct bh_err *err;
};

/* Upstream's guard against alias bombs: what share of the work aliases may cause shrinks as the
 * work grows. */
static int count_node(struct decoder *d)
{
    double ratio = 0.99;

    d->decoded++;
    if (d->alias_depth)
        d->aliased++;
    if (d->decoded >= 4000000)
        ratio = 0.10;
    else if (d->decoded > 400000)
        ratio = 0.99 - 0.89 * ((double)(d->decoded - 400000) / 3600000.0);
    if (d->aliased > 100 && d->decoded > 1000 && (double)d->aliased / (double)d->decoded > ratio)
        return bh_err_set(d->err, BH_E_BAD_REQUEST, "yaml: document contains excessive aliasing");
    return 0;
}

static int bad_value(struct decoder *d, const char *text)
{
    return bh_err_set(d->err, BH_E_BAD_REQUEST, "yaml: %s", text);
}

/* An explicit tag of YAML's own must fit what the text means. */
static int check_tag(struct decoder *d, const struct node *n, struct bh_yaml_scalar *s)
{
    static const char *const names[] = {"str", "null", "bool", "int", "float", "float"};
    struct bh_str want = bh_str_sub(n->tag, sizeof(TAG_PREFIX) - 1, n->tag.n);

    if (!bh_str_starts(n->tag, BH_S(TAG_PREFIX)) || bh_str_eqc(want, names[s->type]))
        return 0;
    if (bh_str_eqc(want, "timestamp") && s->type == BH_YAML_STR)
        return 0;
    if (bh_str_eqc(want, "float") && s->type == BH_YAML_INT) {
        s->type = BH_YAML_FLOAT;
        s->d = s->neg ? -(double)s->u : (double)s->u;
        return 0;
    }
    return bh_err_set(d->err, BH_E_BAD_REQUEST, "yaml: cannot decode !!%s `%.*s` as a !!%.*s",
                      names[s->type], BH_SF(n->text), BH_SF(want));
}

/* Tags outside YAML's own leave the text a string. */
static bool foreign_tag(struct bh_str tag)
{
    static const char *const known[] = {"str", "null", "bool", "int", "float", "timestamp"};

    if (!bh_str_starts(tag, BH_S(TAG_PREFIX)))
        return tag.n > 0;
    for (size_t i = 0; i < BH_COUNT(known); i++)
        if (bh_str_eqc(bh_str_sub(tag, sizeof(TAG_PREFIX) - 1, tag.n), known[i]))
            return false;
    return true;
}

/* Numbers go through Go's int, uint64 or float64 upstream; the text is what those print. */
static struct bh_jv number_value(struct bh_arena *a, const struct bh_yaml_scalar *s)
{
    if (s->type == BH_YAML_FLOAT)
        return bh_jv_double(a, s->d);
    return bh_jv_num(bh_str_fmt(a, "%s%llu", s->neg ? "-" : "", (unsigned long long)s->u));
}

static int scalar(struct decoder *d, const struct node *n, struct bh_yaml_scalar *ret_s,
                  struct bh_jv *ret)
{
    struct bh_yaml_scalar s = {.type = BH_YAML_STR};
    int r;

    if (bh_str_eqc(n->tag, BINARY_TAG)) {
        struct bh_str raw;

        if (bh_base64_decode(d->a, n->text, &raw, NULL) < 0)
            return bad_value(d, "!!binary value contains invalid base64 data");
        *ret = bh_jv_str(raw);
        *ret_s = s;
        return 0;
    }
    if (n->tag.n ? !foreign_tag(n->tag) && !bh_str_eqc(n->tag, STR_TAG) : n->implicit) {
        s = bh_yaml_resolve(n->text);
        r = n->tag.n ? check_tag(d, n, &s) : 0;
        if (r < 0)
            return r;
    }
    *ret_s = s;
    switch (s.type) {
    case BH_YAML_NULL:
        *ret = BH_JV_NULL;
        return 0;
    case BH_YAML_BOOL:
        *ret = bh_jv_bool(s.b);
        return 0;
    case BH_YAML_INT:
    case BH_YAML_FLOAT:
        *ret = number_value(d->a, &s);
        return 0;
    default:
        *ret = bh_jv_str(n->text);
        return 0;
    }
}

static int key_string(struct decoder *d, const struct node *n, const struct bh_yaml_scalar *s,
                      const struct bh_jv *v, struct bh_str *ret)
{
    switch (s->type) {
    case BH_YAML_BOOL:
        *ret = s->b ? BH_S("true") : BH_S("false");
        return 0;
    case BH_YAML_INT:
    case BH_YAML_FLOAT:
        *ret = v->s;
        return 0;
    case BH_YAML_INF:
        *ret = isnan(s->d) ? BH_S(".nan") : s->d > 0 ? BH_S(".inf") : BH_S("-.inf");
        return 0;
    case BH_YAML_NULL:
        return bh_err_set(d->err, BH_E_BAD_REQUEST, "unsupported map key of type: null");
    default:
        *ret = v->kind == BH_JSON_STR ? v->s : n->text;
        return 0;
    }
}

static bool is_merge(const struct node *n)
{
    return n->kind == N_SCALAR && bh_str_eqc(n->text, "<<") &&
           (n->implicit || bh_str_eqc(n->tag, MERGE_TAG));
}

static void add_entry(struct decoder *d, struct entry e)
{
    if (d->n == d->cap) {
        d->cap = d->cap ? d->cap * 2 : 64;
        d->entries = bh_realloc(d->entries, d->cap * sizeof(*d->entries));
    }
    e.seq = d->seq++;
    d->entries[d->n++] = e;
}

static void add_dup(struct decoder *d, const struct entry *e)
{
    if (!d->want_dups)
        return;
    if (d->n_dups == d->cap_dups) {
        d->cap_dups = d->cap_dups ? d->cap_dups * 2 : 16;
        d->dups = bh_realloc(d->dups, d->cap_dups * sizeof(*d->dups));
    }
    d->dups[d->n_dups++] = *e;
}

static int push(struct decoder *d, struct node *n, struct node *alias, int kind)
{
    if (d->depth == BH_JSON_DEPTH_MAX)
        return bh_err_set(d->err, BH_E_BAD_REQUEST, "yaml: exceeded max depth of %d",
                          BH_JSON_DEPTH_MAX);
    d->frames[d->depth] = (struct frame){
        .cur = kind == F_MERGE_SEQ ? n->last : n->first, .alias = alias, .base = d->n};
    d->frames[d->depth++].kind = kind;
    return 0;
}

/* Counts n, follows an alias and opens a container. 1: a container was opened; 0: *ret is the
 * scalar's value. */
static int start_value(struct decoder *d, struct node *n, bool merge, struct bh_jv *ret)
{
    struct node *alias = NULL;
    struct bh_yaml_scalar s;
    int r = count_node(d);

    if (r >= 0 && n->kind == N_ALIAS) {
        if (n->target->active)
            return bh_err_set(d->err, BH_E_BAD_REQUEST, "yaml: anchor '%.*s' value contains itself",
                              BH_SF(n->text));
        alias = n->target;
        alias->active = true;
        d->alias_depth++;
        n = n->target;
        r = count_node(d);
    }
    if (r < 0)
        return r;
    if (n->kind == N_MAP || n->kind == N_SEQ) {
        r = push(d, n, alias, merge ? F_MERGE : n->kind == N_MAP ? F_MAP : F_SEQ);
        return r < 0 ? r : 1;
    }
    r = scalar(d, n, &s, ret);
    if (r >= 0 && s.type == BH_YAML_INF)
        r = bh_err_set(d->err, BH_E_BAD_REQUEST, "json: unsupported value: %s",
                       isnan(s.d) ? "NaN"
                       : s.d > 0  ? "+Inf"
                                  : "-Inf");
    if (alias) {
        alias->active = false;
        d->alias_depth--;
    }
    return r;
}

static bool is_map(const struct node *n)
{
    return n->kind == N_MAP || (n->kind == N_ALIAS && n->target->kind == N_MAP);
}

static int start_merge(struct decoder *d, struct node *value)
{
    struct bh_jv unused;
    int r;

    if (is_map(value))
        return start_value(d, value, true, &unused);
    if (value->kind != N_SEQ)
        return bad_value(d, "map merge requires map or sequence of maps as the value");
    r = push(d, value, NULL, F_MERGE_SEQ);
    return r < 0 ? r : 1;
}

/* Begins the next key and value of a map, or the next element of a sequence; as start_value(). */
static int step(struct decoder *d, struct frame *f, struct bh_jv *ret)
{
    struct node *n = f->cur, *key;
    struct bh_yaml_scalar s;
    struct bh_jv k;
    int r;

    if (f->kind == F_MERGE_SEQ) {
        f->cur = n->prev; /* earlier maps take precedence: they come last */
        return is_map(n) ? start_value(d, n, true, ret)
                         : bad_value(d, "map merge requires map or sequence of maps as the value");
    }
    if (f->kind == F_SEQ) {
        f->cur = n->next;
        f->line = n->line;
        return start_value(d, n, false, ret);
    }
    f->cur = n->next->next;
    if (is_merge(n))
        return start_merge(d, n->next);
    r = count_node(d);
    key = n->kind == N_ALIAS ? n->target : n;
    if (r < 0 || key->kind != N_SCALAR)
        return r < 0 ? r
                     : bad_value(d, key->kind == N_MAP ? "invalid map key: map"
                                                       : "invalid map key: list");
    r = scalar(d, key, &s, &k);
    if (r >= 0)
        r = key_string(d, key, &s, &k, &f->key);
    f->line = n->next->line;
    return r < 0 ? r : start_value(d, n->next, false, ret);
}

static int entry_by_key(const void *x, const void *y)
{
    const struct entry *a = x, *b = y;
    int c = bh_str_cmp(a->key, b->key);

    return c ? c : (a->seq > b->seq) - (a->seq < b->seq);
}

static struct bh_jv build_map(struct decoder *d, struct entry *e, size_t n)
{
    struct bh_jv v = BH_JV_OBJ;

    if (!n)
        return v;
    qsort(e, n, sizeof(*e), entry_by_key);
    v.members = bh_new_n(d->a, struct bh_jv_member, n);
    for (size_t i = 0; i < n; i++) {
        if (i && bh_str_eq(e[i].key, e[i - 1].key)) {
            add_dup(d, &e[i]);
            v.n_members--;
        }
        v.members[v.n_members++] = (struct bh_jv_member){e[i].key, e[i].v};
    }
    v.cap = (uint32_t)n;
    return v;
}

static struct bh_jv build_seq(struct decoder *d, const struct entry *e, size_t n)
{
    struct bh_jv v = BH_JV_ARR;

    if (!n)
        return v;
    v.items = bh_new_n(d->a, struct bh_jv, n);
    for (size_t i = 0; i < n; i++)
        v.items[i] = e[i].v;
    v.n_items = n;
    v.cap = (uint32_t)n;
    return v;
}

/* Closes the innermost container; true when that gave a value (merged maps leave their entries to
 * the map around). */
static bool pop(struct decoder *d, struct bh_jv *ret)
{
    struct frame *f = &d->frames[--d->depth];
    struct entry *e;
    size_t n;

    if (f->alias) {
        f->alias->active = false;
        d->alias_depth--;
    }
    if (f->kind == F_MERGE || f->kind == F_MERGE_SEQ)
        return false;
    n = d->n - f->base;
    e = n ? d->entries + f->base : NULL;
    *ret = f->kind == F_MAP ? build_map(d, e, n) : build_seq(d, e, n);
    d->n = f->base;
    return true;
}

static int decode(struct decoder *d, struct node *root, struct bh_jv *ret)
{
    struct bh_jv v = BH_JV_NULL;
    int r = start_value(d, root, false, &v);

    while (r >= 0 && d->depth) {
        struct frame *f = &d->frames[d->depth - 1];
        bool have;

        if (bh_arena_try(d->a, 1) == NULL)
            return bh_err_set(d->err, BH_E_LIMIT, "the memory limit of this input is reached");
        if (f->cur) {
            r = step(d, f, &v);
            have = r == 0;
        } else {
            have = pop(d, &v);
        }
        if (r < 0 || !have || !d->depth)
            continue;
        f = &d->frames[d->depth - 1];
        add_entry(d, (struct entry){f->key, v, f->line, 0});
    }
    *ret = v;
    return r;
}

static int entry_by_seq(const void *x, const void *y)
{
    const struct entry *a = x, *b = y;

    return (a->seq > b->seq) - (a->seq < b->seq);
}

static void report_dups(struct decoder *d, struct bh_yaml_dups *dups)
{
    if (!d->n_dups)
        return;
    qsort(d->dups, d->n_dups, sizeof(*d->dups), entry_by_seq);
    dups->lines.p = bh_new_n(d->a, struct bh_str, d->n_dups);
    for (size_t i = 0; i < d->n_dups; i++) {
        BH_AUTO_BUF b = {0};

        bh_buf_addf(&b, "line %u: key ", d->dups[i].line + 1);
        bh_json_write_str_plain(&b, d->dups[i].key);
        bh_buf_addz(&b, " already set in map");
        dups->lines.p[dups->lines.n++] = bh_str_dup(d->a, bh_buf_str(&b));
    }
}

static int decode_document(struct bh_arena *a, struct node *root, struct bh_yaml_dups *dups,
                           struct bh_jv *ret, struct bh_err *err)
{
    struct decoder *d = bh_calloc(1, sizeof(*d));
    int r;

    d->a = a;
    d->want_dups = dups != NULL;
    d->err = err;
    r = decode(d, root, ret);
    if (r >= 0 && dups)
        report_dups(d, dups);
    bh_free(d->entries);
    bh_free(d->dups);
    bh_free(d);
    return r < 0 ? r : 0;
}

static int loader_init(struct loader *l, struct bh_arena *a, struct bh_str in, struct bh_err *err)
{
    memset(l, 0, sizeof(*l));
    l->a = a;
    if (!yaml_parser_initialize(&l->parser))
        return bh_err_set(err, BH_E_INTERNAL, "yaml: cannot start the parser");
    yaml_parser_set_input_string(&l->parser, (const unsigned char *)(in.p ? in.p : ""), in.n);
    return 0;
}

static void loader_done(struct loader *l)
{
    yaml_parser_delete(&l->parser);
    bh_map_done(&l->anchors);
}

int bh_yaml_parse(struct bh_arena *a, struct bh_str in, struct bh_yaml_dups *dups,
                  struct bh_jv *ret, struct bh_err *err)
{
    struct loader l;
    struct node *root;
    int r = loader_init(&l, a, in, err);

    if (r < 0)
        return r;
    if (dups)
        dups->lines = (struct bh_str_vec){NULL, 0};
    r = load_document(&l, &root, err);
    if (r >= 0 && root)
        r = decode_document(a, root, dups, ret, err);
    else if (r >= 0)
        *ret = BH_JV_NULL;
    loader_done(&l);
    return r;
}

int bh_yaml_parse_all(struct bh_arena *a, struct bh_str in, struct bh_jv **ret_docs, size_t *ret_n,
                      struct bh_err *err)
{
    struct loader l;
    struct bh_jv *docs = NULL;
    size_t n = 0, cap = 0;
    struct node *root;
    int r = loader_init(&l, a, in, err);

    if (r < 0)
        return r;
    while ((r = load_document(&l, &root, err)) >= 0 && root) {
        if (n == BH_YAML_DOCS_MAX) {
            r = bh_err_set(err, BH_E_LIMIT, "more than %d YAML documents", BH_YAML_DOCS_MAX);
            break;
        }
        bh_arena_grow(a, &docs, &cap, n + 1, sizeof(*docs));
        r = decode_document(a, root, NULL, &docs[n], err);
        if (r < 0)
            break;
        n += docs[n].kind != BH_JSON_NULL;
    }
    loader_done(&l);
    if (r < 0)
        return r;
    *ret_docs = docs;
    *ret_n = n;
    return 0;
}
