/* RE2 for CEL: linear time, leftmost-first, the syntax of Go's regexp. The project's one C++ file.
 */
#include "cel/re2_shim.h"

#include <cstdio>
#include <new>
#include <re2/re2.h>

namespace
{

const char *go_words(RE2::ErrorCode c)
{
    switch (c) {
    case RE2::ErrorBadEscape:
        return "invalid escape sequence";
    case RE2::ErrorBadCharClass:
        return "invalid character class";
    case RE2::ErrorBadCharRange:
        return "invalid character class range";
    case RE2::ErrorMissingBracket:
        return "missing closing ]";
    case RE2::ErrorMissingParen:
        return "missing closing )";
    case RE2::ErrorTrailingBackslash:
        return "trailing backslash at end of expression";
    case RE2::ErrorRepeatArgument:
        return "missing argument to repetition operator";
    case RE2::ErrorRepeatSize:
        return "invalid repeat count";
    case RE2::ErrorRepeatOp:
        return "invalid nested repetition operator";
    case RE2::ErrorBadPerlOp:
        return "invalid or unsupported Perl syntax";
    case RE2::ErrorBadUTF8:
        return "invalid UTF-8";
    case RE2::ErrorBadNamedCapture:
        return "invalid named capture";
    case RE2::ErrorPatternTooLarge:
        return "expression too large";
    default:
        return "unexpected )";
    }
}

/* Go has no \C (any byte), which RE2 accepts. */
bool any_byte_escape(const char *p, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        if (p[i] == '\\') {
            if (p[i + 1] == 'C')
                return true;
            if (p[i + 1] == 'Q')
                return false;
            i++;
        }
    return false;
}

} // namespace

extern "C" void *bh_re2_new(const char *pattern, size_t n, char *err, size_t err_n)
{
    RE2::Options o;
    RE2 *re;

    if (any_byte_escape(pattern, n)) {
        std::snprintf(err, err_n, "invalid escape sequence: `\\C`");
        return nullptr;
    }
    o.set_log_errors(false);
    re = new (std::nothrow) RE2(re2::StringPiece(pattern, n), o);
    if (!re) {
        std::snprintf(err, err_n, "out of memory");
        return nullptr;
    }
    if (!re->ok()) {
        std::snprintf(err, err_n, "%s: `%.*s`", go_words(re->error_code()),
                      (int)re->error_arg().size(), re->error_arg().data());
        delete re;
        return nullptr;
    }
    return re;
}

extern "C" void bh_re2_free(void *re)
{
    delete static_cast<RE2 *>(re);
}

extern "C" bool bh_re2_find(const void *re, const char *s, size_t n, size_t from, size_t *start,
                            size_t *end)
{
    re2::StringPiece m;
    const RE2 *r = static_cast<const RE2 *>(re);
    bool want = start || end;

    if (!s)
        s = "";
    if (!r->Match(re2::StringPiece(s, n), from, n, RE2::UNANCHORED, want ? &m : nullptr,
                  want ? 1 : 0))
        return false;
    if (start)
        *start = (size_t)(m.data() - s);
    if (end)
        *end = (size_t)(m.data() - s) + m.size();
    return true;
}
