/* Errors: filling the caller's struct, and the table that maps codes to the API's reasons and HTTP
 * statuses. */
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *reason;
    int http;
} codes[BH_E__MAX] = {
    [BH_OK] = {"", 200},
    [BH_E_INTERNAL] = {"InternalError", 500},
    [BH_E_BAD_REQUEST] = {"BadRequest", 400},
    [BH_E_UNAUTHORIZED] = {"Unauthorized", 401},
    [BH_E_FORBIDDEN] = {"Forbidden", 403},
    [BH_E_NOT_FOUND] = {"NotFound", 404},
    [BH_E_METHOD] = {"MethodNotAllowed", 405},
    [BH_E_NOT_ACCEPTABLE] = {"NotAcceptable", 406},
    [BH_E_EXISTS] = {"AlreadyExists", 409},
    [BH_E_CONFLICT] = {"Conflict", 409},
    [BH_E_GONE] = {"Expired", 410},
    [BH_E_LIMIT] = {"RequestEntityTooLarge", 413},
    [BH_E_MEDIA] = {"UnsupportedMediaType", 415},
    [BH_E_INVALID] = {"Invalid", 422},
    [BH_E_BUSY] = {"TooManyRequests", 429},
    [BH_E_UNAVAILABLE] = {"ServiceUnavailable", 503},
    [BH_E_TIMEOUT] = {"Timeout", 504},
    [BH_E_IO] = {"", 500},
    [BH_E_PROTO] = {"", 500},
    [BH_E_CANCELED] = {"", 500},
    [BH_E_UNSUPPORTED] = {"", 501},
};

int bh_err_set(struct bh_err *e, enum bh_code c, const char *fmt, ...)
{
    /* The arguments may point into e->msg itself, so the text is built aside. */
    char msg[BH_ERR_MSG_MAX];
    va_list ap;

    if (!e)
        return -(int)c;
    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    e->code = c;
    e->sys = 0;
    memcpy(e->msg, msg, strlen(msg) + 1);
    return -(int)c;
}

int bh_err_sys(struct bh_err *e, int eno, const char *fmt, ...)
{
    char msg[BH_ERR_MSG_MAX], text[128];
    size_t n;
    va_list ap;

    if (!e)
        return -BH_E_IO;
    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    n = strlen(msg);
    (void)snprintf(msg + n, sizeof(msg) - n, ": %s", bh_errno_name(eno, text, sizeof(text)));
    e->code = BH_E_IO;
    e->sys = eno;
    memcpy(e->msg, msg, strlen(msg) + 1);
    return -BH_E_IO;
}

int bh_err_wrap(struct bh_err *e, const char *fmt, ...)
{
    char msg[BH_ERR_MSG_MAX];
    size_t n;
    va_list ap;

    if (!e)
        return -BH_E_INTERNAL;
    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    n = strlen(msg);
    if (n + 2 < sizeof(msg)) {
        size_t room = sizeof(msg) - n - 3, inner = strlen(e->msg);

        memcpy(msg + n, ": ", 2);
        memcpy(msg + n + 2, e->msg, inner < room ? inner : room);
        msg[n + 2 + (inner < room ? inner : room)] = '\0';
    }
    memcpy(e->msg, msg, strlen(msg) + 1);
    return -(int)e->code;
}

const char *bh_err_reason(enum bh_code c)
{
    return (unsigned)c < BH_E__MAX ? codes[c].reason : "";
}

int bh_err_http(enum bh_code c)
{
    return (unsigned)c < BH_E__MAX ? codes[c].http : 500;
}

const char *bh_errno_name(int eno, char *buf, size_t n)
{
    /* GNU strerror_r may return a static string instead of filling the buffer. */
    const char *s = strerror_r(eno, buf, n);

    if (s != buf)
        (void)snprintf(buf, n, "%s", s);
    return buf;
}

void bh_assert_fail(const char *cond, const char *file, int line)
{
    fprintf(stderr, "bulkhead: assertion failed: %s (%s:%d)\n", cond, file, line);
    abort();
}
