/* A JSON tree as block YAML through libyaml's emitter, with go-yaml's order of keys and choice of
 * quotes. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "base/arena.h"
#include "base/buf.h"
#include "data/json_scan.h"
#include "data/yaml.h"
#include "data/yaml_scalar.h"

static int write_bytes(void *arg, unsigned char *p, size_t n)
{
    bh_buf_add(arg, p, n);
    return 1;
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}
static bool letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80;
}

/* go-yaml's order of string keys: letters after other characters, numbers within the text by value.
 */
static int key_cmp(struct bh_str a, struct bh_str b)
{
    for (size_t i = 0; i < a.n && i < b.n; i++) {
        bool al = letter(a.p[i]), bl = letter(b.p[i]);
        size_t ai = i, bi = i;
        int64_t an = 0, bn = 0;

        if (a.p[i] == b.p[i])
            continue;
        if (al && bl)
            return (unsigned char)a.p[i] < (unsigned char)b.p[i] ? -1 : 1;
        if (al || bl)
            return bl ? -1 : 1;
        if (a.p[i] == '0' || b.p[i] == '0') {
            /* A zero inside a longer number counts as a digit, not as a leading zero. */
            for (size_t j = i; j > 0 && digit(a.p[j - 1]); j--) {
                if (a.p[j - 1] != '0') {
                    an = bn = 1;
                    break;
                }
            }
        }
        for (; ai < a.n && digit(a.p[ai]); ai++)
            an = an < INT64_MAX / 20 ? an * 10 + (a.p[ai] - '0') : an;
        for (; bi < b.n && digit(b.p[bi]); bi++)
            bn = bn < INT64_MAX / 20 ? bn * 10 + (b.p[bi] - '0') : bn;
        if (an != bn)
            return an < bn ? -1 : 1;
        if (ai != bi)
            return ai < bi ? -1 : 1;
        return (unsigned char)a.p[i] < (unsigned char)b.p[i] ? -1 : 1;
    }
    return (a.n > b.n) - (a.n < b.n);
}

static int member_cmp(const void *x, const void *y)
{
    const struct bh_jv_member *const *a = x;
    const struct bh_jv_member *const *b = y;

    return key_cmp((*a)->key, (*b)->key);
}

/* 12:30:45 was a number of base 60 in YAML 1.1: old parsers would read one. */
static bool base60(struct bh_str s)
{
    size_t i = s.n && (s.p[0] == '-' || s.p[0] == '+') ? 1 : 0;
    bool colon = false;

    if (i == s.n || !digit(s.p[i]))
        return false;
    while (i < s.n && (digit(s.p[i]) || s.p[i] == '_'))
        i++;
    while (i < s.n && s.p[i] == ':') {
        size_t n = 0;

        for (i++; i < s.n && digit(s.p[i]) && n < 2; n++)
            i++;
        if (!n || (n == 2 && s.p[i - 2] > '5'))
            return false;
        colon = true;
    }
    if (i < s.n && s.p[i] == '.')
        for (i++; i < s.n && (digit(s.p[i]) || s.p[i] == '_'); i++)
            ;
    return colon && i == s.n;
}

/* A text that would read as a date is quoted too, since upstream resolves it to a timestamp. */
static bool timestamp(struct bh_str s)
{
    return s.n >= 8 && digit(s.p[0]) && digit(s.p[1]) && digit(s.p[2]) && digit(s.p[3]) &&
           s.p[4] == '-' && digit(s.p[5]) && bh_str_chr(s, '-', 6) > 0 &&
           bh_str_chr(s, '-', 6) <= 7;
}

static bool emit(yaml_emitter_t *em, yaml_event_t *e)
{
    return yaml_emitter_emit(em, e) == 1;
}

static bool emit_scalar(yaml_emitter_t *em, struct bh_str s, yaml_scalar_style_t style)
{
    yaml_event_t e;

    return s.n <= INT32_MAX &&
           yaml_scalar_event_initialize(&e, NULL, NULL, (const yaml_char_t *)(s.p ? s.p : ""),
                                        (int)s.n, 1, 1, style) &&
           emit(em, &e);
}

static bool emit_str(yaml_emitter_t *em, struct bh_str s)
{
    yaml_scalar_style_t style = YAML_PLAIN_SCALAR_STYLE;

    if (bh_str_chr(s, '\n', 0) >= 0)
        style = YAML_LITERAL_SCALAR_STYLE;
    else if (bh_yaml_resolve(s).type != BH_YAML_STR || base60(s) || timestamp(s) ||
             bh_str_eqc(s, "<<"))
        style = YAML_DOUBLE_QUOTED_SCALAR_STYLE;
    return emit_scalar(em, s, style);
}

/* Go's 'g' with the shortest digits: an exponent below -4 or from 21 on is written as such. */
static bool emit_num(yaml_emitter_t *em, struct bh_str raw)
{
    char text[40];
    double d;
    int64_t i;
    int exp;

    if (bh_json_num_i64(raw, &i) || !bh_json_num_double(raw, &d))
        return emit_scalar(em, raw, YAML_PLAIN_SCALAR_STYLE);
    for (int prec = 0; prec <= 16; prec++) {
        (void)snprintf(text, sizeof(text), "%.*e", prec, d);
        if (strtod(text, NULL) != d)
            continue;
        exp = bh_json_exponent(strchr(text, 'e') + 1);
        if (exp >= -4 && exp < 21)
            (void)snprintf(text, sizeof(text), "%.*f", prec > exp ? prec - exp : 0, d);
        break;
    }
    return emit_scalar(em, bh_s(text), YAML_PLAIN_SCALAR_STYLE);
}

/* A scalar, or the start of a container (*ret_open). */
static bool emit_value(yaml_emitter_t *em, const struct bh_jv *v, bool *ret_open)
{
    yaml_event_t e;

    *ret_open = false;
    switch ((enum bh_json_kind)v->kind) {
    case BH_JSON_BOOL:
        return emit_scalar(em, v->b ? BH_S("true") : BH_S("false"), YAML_PLAIN_SCALAR_STYLE);
    case BH_JSON_NUM:
        return emit_num(em, v->s);
    case BH_JSON_STR:
        return emit_str(em, v->s);
    case BH_JSON_ARR:
        *ret_open = true;
        return yaml_sequence_start_event_initialize(&e, NULL, NULL, 1, YAML_BLOCK_SEQUENCE_STYLE) &&
               emit(em, &e);
    case BH_JSON_OBJ:
        *ret_open = true;
        return yaml_mapping_start_event_initialize(&e, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE) &&
               emit(em, &e);
    default:
        return emit_scalar(em, BH_S("null"), YAML_PLAIN_SCALAR_STYLE);
    }
}

struct wframe {
    const struct bh_jv *v;
    size_t i;
    const struct bh_jv_member **sorted;
};

struct wstack {
    struct wframe *f;
    size_t n, cap;
};

static void push(struct wstack *s, const struct bh_jv *v)
{
    struct wframe *f;

    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 16;
        s->f = bh_realloc(s->f, s->cap * sizeof(*s->f));
    }
    f = &s->f[s->n++];
    *f = (struct wframe){v, 0, NULL};
    if (v->kind != BH_JSON_OBJ)
        return;
    f->sorted = bh_malloc(v->n_members * sizeof(*f->sorted));
    for (size_t i = 0; i < v->n_members; i++)
        f->sorted[i] = &v->members[i];
    qsort(f->sorted, v->n_members, sizeof(*f->sorted), member_cmp);
}

static bool close_top(yaml_emitter_t *em, struct wstack *s)
{
    struct wframe *f = &s->f[--s->n];
    yaml_event_t e;

    bh_free(f->sorted);
    if (f->v->kind == BH_JSON_OBJ)
        return yaml_mapping_end_event_initialize(&e) && emit(em, &e);
    return yaml_sequence_end_event_initialize(&e) && emit(em, &e);
}

static bool emit_tree(yaml_emitter_t *em, const struct bh_jv *v, struct wstack *s)
{
    bool open;

    if (!emit_value(em, v, &open))
        return false;
    if (open)
        push(s, v);
    while (s->n) {
        struct wframe *f = &s->f[s->n - 1];

        if (f->i == (f->v->kind == BH_JSON_OBJ ? f->v->n_members : f->v->n_items)) {
            if (!close_top(em, s))
                return false;
            continue;
        }
        if (f->sorted && !emit_str(em, f->sorted[f->i]->key))
            return false;
        v = f->sorted ? &f->sorted[f->i]->v : &f->v->items[f->i];
        f->i++;
        if (!emit_value(em, v, &open))
            return false;
        if (open)
            push(s, v);
    }
    return true;
}

void bh_yaml_write(struct bh_buf *out, const struct bh_jv *v)
{
    yaml_emitter_t em;
    yaml_event_t e;
    struct wstack s = {0};
    bool ok = yaml_emitter_initialize(&em) == 1;

    if (ok) {
        yaml_emitter_set_output(&em, write_bytes, out);
        yaml_emitter_set_unicode(&em, 1);
        ok = yaml_stream_start_event_initialize(&e, YAML_UTF8_ENCODING) && emit(&em, &e) &&
             yaml_document_start_event_initialize(&e, NULL, NULL, NULL, 1) && emit(&em, &e) &&
             emit_tree(&em, v, &s) && yaml_document_end_event_initialize(&e, 1) && emit(&em, &e) &&
             yaml_stream_end_event_initialize(&e) && emit(&em, &e);
        yaml_emitter_delete(&em);
    }
    while (s.n)
        bh_free(s.f[--s.n].sorted);
    bh_free(s.f);
    if (!ok)
        out->overflow = true; /* only memory can be short here: strings of a tree are valid UTF-8 */
}
