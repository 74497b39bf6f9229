/* Field errors and their texts. */
#include "api/ferr.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

#include <string.h>

void bh_fpath_render(const struct bh_fpath *at, struct bh_buf *out)
{
    if (!at)
        return;
    bh_fpath_render(at->up, out);
    switch (at->kind) {
    case BH_FP_NAME:
        if (out->n)
            bh_buf_addc(out, '.');
        bh_buf_adds(out, at->name);
        break;
    case BH_FP_INDEX:
        bh_buf_addf(out, "[%lld]", (long long)at->index);
        break;
    case BH_FP_KEY:
        bh_buf_addc(out, '[');
        bh_buf_adds(out, at->name);
        bh_buf_addc(out, ']');
        break;
    }
}

struct bh_str bh_fpath_str(const struct bh_fpath *at, struct bh_arena *a)
{
    BH_AUTO_BUF b = {0};

    bh_fpath_render(at, &b);
    return bh_str_dup(a, bh_buf_str(&b));
}

void bh_fe_add(struct bh_field_errs *e, enum bh_ferr_type t, const struct bh_fpath *at,
               struct bh_str body)
{
    if (e->n >= BH_FIELD_ERRS_MAX) {
        e->dropped++;
        return;
    }
    bh_arena_grow(e->a, &e->p, &e->cap, e->n + 1, sizeof(e->p[0]));
    struct bh_str field = bh_fpath_str(at, e->a);

    /* upstream prints a path that is not there so */
    e->p[e->n++] = (struct bh_field_err){t, at ? field : BH_S("<nil>"), bh_str_dup(e->a, body)};
}

/* The length of a valid UTF-8 sequence at p, 0 when there is none. */
static size_t utf8_len(const unsigned char *p, size_t n, uint32_t *ret)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = p[0] < 0x80 ? 1 : p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc2 ? 2 : 0;
    uint32_t c;

    if (len == 0 || len > n || p[0] > 0xf4)
        return 0;
    c = len == 1 ? p[0] : p[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3f);
    }
    if (c < least[len] || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
        return 0;
    *ret = c;
    return len;
}

/* Characters that Go prints as escapes: controls, separators but the blank, private use, unassigned
 * ends. */
static bool printable(uint32_t c)
{
    if (c < 0x20 || (c >= 0x7f && c < 0xa1) || c == 0xad)
        return false;
    if (c == 0x1680 || (c >= 0x2000 && c <= 0x200f) || (c >= 0x2028 && c <= 0x202f) ||
        (c >= 0x205f && c <= 0x206f))
        return false;
    return c != 0x3000 && c != 0xfeff && !(c >= 0xe000 && c <= 0xf8ff) &&
           !(c >= 0xfff0 && c <= 0xfffb) && (c & 0xfffe) != 0xfffe && c < 0xe0000;
}

void bh_go_quote(struct bh_buf *out, struct bh_str s)
{
    static const char named[] = "abtnvfr"; /* the escapes of 7 to 13 */
    const unsigned char *p = (const unsigned char *)s.p;

    bh_buf_addc(out, '"');
    for (size_t i = 0; i < s.n;) {
        uint32_t c = 0;
        size_t len = utf8_len(p + i, s.n - i, &c);

        if (len == 0) {
            bh_buf_addf(out, "\\x%02x", p[i++]);
            continue;
        }
        if (c == '"' || c == '\\') {
            bh_buf_addc(out, '\\');
            bh_buf_addc(out, (char)c);
        } else if (printable(c)) {
            bh_buf_add(out, p + i, len);
        } else if (c >= 7 && c <= 13) {
            bh_buf_addc(out, '\\');
            bh_buf_addc(out, named[c - 7]);
        } else if (c < 0x20 || c == 0x7f) {
            bh_buf_addf(out, "\\x%02x", c);
        } else if (c < 0x10000) {
            bh_buf_addf(out, "\\u%04x", c);
        } else {
            bh_buf_addf(out, "\\U%08x", c);
        }
        i += len;
    }
    bh_buf_addc(out, '"');
}

BH_PRINTF(2, 0)
static void add_detail(struct bh_buf *b, const char *fmt, va_list ap, struct bh_arena *a)
{
    if (!fmt)
        return;
    struct bh_str d = bh_str_vfmt(a, fmt, ap);

    if (!d.n)
        return;
    bh_buf_addz(b, ": ");
    bh_buf_adds(b, d);
}

/* head, then the detail. */
#define ADD_WITH_DETAIL(type_, head_)                                                              \
    do {                                                                                           \
        BH_AUTO_BUF b = {0};                                                                       \
        va_list ap;                                                                                \
        head_;                                                                                     \
        va_start(ap, detail);                                                                      \
        add_detail(&b, detail, ap, e->a);                                                          \
        va_end(ap);                                                                                \
        bh_fe_add(e, type_, at, bh_buf_str(&b));                                                   \
    } while (0)

void bh_fe_required(struct bh_field_errs *e, const struct bh_fpath *at, const char *detail, ...)
{
    ADD_WITH_DETAIL(BH_FE_REQUIRED, bh_buf_addz(&b, "Required value"));
}

void bh_fe_forbidden(struct bh_field_errs *e, const struct bh_fpath *at, const char *detail, ...)
{
    ADD_WITH_DETAIL(BH_FE_FORBIDDEN, bh_buf_addz(&b, "Forbidden"));
}

void bh_fe_internal(struct bh_field_errs *e, const struct bh_fpath *at, const char *detail, ...)
{
    ADD_WITH_DETAIL(BH_FE_INTERNAL, bh_buf_addz(&b, "Internal error"));
}

void bh_fe_invalid(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str bad,
                   const char *detail, ...)
{
    ADD_WITH_DETAIL(BH_FE_INVALID, (bh_buf_addz(&b, "Invalid value: "), bh_go_quote(&b, bad)));
}

void bh_fe_invalid_i64(struct bh_field_errs *e, const struct bh_fpath *at, int64_t bad,
                       const char *detail, ...)
{
    ADD_WITH_DETAIL(BH_FE_INVALID, bh_buf_addf(&b, "Invalid value: %lld", (long long)bad));
}

void bh_fe_invalid_bool(struct bh_field_errs *e, const struct bh_fpath *at, bool bad,
                        const char *detail, ...)
{
    ADD_WITH_DETAIL(BH_FE_INVALID, bh_buf_addf(&b, "Invalid value: %s", bad ? "true" : "false"));
}

void bh_fe_invalid_text(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str bad,
                        const char *detail, ...)
{
    ADD_WITH_DETAIL(BH_FE_INVALID, (bh_buf_addz(&b, "Invalid value: "), bh_buf_adds(&b, bad)));
}

/* `What: "bad"` */
static void add_quoted(struct bh_field_errs *e, enum bh_ferr_type t, const struct bh_fpath *at,
                       const char *what, struct bh_str bad)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addz(&b, what);
    bh_buf_addz(&b, ": ");
    bh_go_quote(&b, bad);
    bh_fe_add(e, t, at, bh_buf_str(&b));
}

void bh_fe_not_found(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str bad)
{
    add_quoted(e, BH_FE_NOT_FOUND, at, "Not found", bad);
}

void bh_fe_duplicate(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str bad)
{
    add_quoted(e, BH_FE_DUPLICATE, at, "Duplicate value", bad);
}

void bh_fe_duplicate_text(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str bad)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addz(&b, "Duplicate value: ");
    bh_buf_adds(&b, bad);
    bh_fe_add(e, BH_FE_DUPLICATE, at, bh_buf_str(&b));
}

void bh_fe_not_supported(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str bad,
                         const struct bh_str *supported, size_t n)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addz(&b, "Unsupported value: ");
    bh_go_quote(&b, bad);
    for (size_t i = 0; i < n; i++) {
        bh_buf_addz(&b, i ? ", " : ": supported values: ");
        bh_go_quote(&b, supported[i]);
    }
    bh_fe_add(e, BH_FE_NOT_SUPPORTED, at, bh_buf_str(&b));
}

void bh_fe_too_long(struct bh_field_errs *e, const struct bh_fpath *at, size_t max_bytes)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addf(&b, "Too long: may not be more than %zu bytes", max_bytes);
    bh_fe_add(e, BH_FE_TOO_LONG, at, bh_buf_str(&b));
}

void bh_fe_too_many(struct bh_field_errs *e, const struct bh_fpath *at, size_t have, size_t max)
{
    BH_AUTO_BUF b = {0};

    bh_buf_addf(&b, "Too many: %zu: must have at most %zu item%s", have, max, max == 1 ? "" : "s");
    bh_fe_add(e, BH_FE_TOO_MANY, at, bh_buf_str(&b));
}

const char *bh_ferr_reason(enum bh_ferr_type t)
{
    switch (t) {
    case BH_FE_NOT_FOUND:
        return "FieldValueNotFound";
    case BH_FE_REQUIRED:
        return "FieldValueRequired";
    case BH_FE_DUPLICATE:
        return "FieldValueDuplicate";
    case BH_FE_INVALID:
        return "FieldValueInvalid";
    case BH_FE_NOT_SUPPORTED:
        return "FieldValueNotSupported";
    case BH_FE_FORBIDDEN:
        return "FieldValueForbidden";
    case BH_FE_TOO_LONG:
        return "FieldValueTooLong";
    case BH_FE_TOO_MANY:
        return "FieldValueTooMany";
    case BH_FE_INTERNAL:
        return "InternalError";
    case BH_FE_TYPE_INVALID:
        return "FieldValueTypeInvalid";
    }
    return "";
}

static bool told_before(const struct bh_field_errs *e, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (bh_str_eq(e->p[k].field, e->p[i].field) && bh_str_eq(e->p[k].body, e->p[i].body))
            return true;
    return false;
}

void bh_ferrs_message(const struct bh_field_errs *e, struct bh_buf *out)
{
    BH_AUTO_BUF b = {.max = BH_BUF_MAX_DEFAULT};
    size_t told = 0;

    for (size_t i = 0; i < e->n; i++) {
        if (told_before(e, i))
            continue;
        if (told++)
            bh_buf_addz(&b, ", ");
        bh_buf_adds(&b, e->p[i].field);
        bh_buf_addz(&b, ": ");
        bh_buf_adds(&b, e->p[i].body);
    }
    if (told > 1)
        bh_buf_addc(out, '[');
    bh_buf_adds(out, bh_buf_str(&b));
    if (told > 1)
        bh_buf_addc(out, ']');
}
