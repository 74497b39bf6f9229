/* Errors: a closed list of codes and a bounded message, on the caller's stack.
 *
 * A fallible function returns 0 on success and -code on failure, and fills *err when it is not
 * NULL. Set once where it arises; wrap only to add a fact. Never allocates. Thread: any.
 */
#ifndef BH_BASE_ERR_H
#define BH_BASE_ERR_H

#include "base/str.h"

enum bh_code {
    BH_OK = 0,
    BH_E_INTERNAL = 1,   /* 500 InternalError: a fault of ours */
    BH_E_BAD_REQUEST,    /* 400 BadRequest: malformed input */
    BH_E_UNAUTHORIZED,   /* 401 Unauthorized */
    BH_E_FORBIDDEN,      /* 403 Forbidden */
    BH_E_NOT_FOUND,      /* 404 NotFound */
    BH_E_METHOD,         /* 405 MethodNotAllowed */
    BH_E_NOT_ACCEPTABLE, /* 406 NotAcceptable */
    BH_E_EXISTS,         /* 409 AlreadyExists */
    BH_E_CONFLICT,       /* 409 Conflict */
    BH_E_GONE,           /* 410 Expired */
    BH_E_LIMIT,          /* 413 RequestEntityTooLarge: a limit was passed */
    BH_E_MEDIA,          /* 415 UnsupportedMediaType */
    BH_E_INVALID,        /* 422 Invalid: well-formed, but against the rules */
    BH_E_BUSY,           /* 429 TooManyRequests */
    BH_E_UNAVAILABLE,    /* 503 ServiceUnavailable */
    BH_E_TIMEOUT,        /* 504 Timeout */
    BH_E_IO,             /* 500: the kernel refused (see sys) */
    BH_E_PROTO,          /* 500: a peer broke its protocol */
    BH_E_CANCELED,       /* 500: given up by the caller */
    BH_E_UNSUPPORTED,    /* 501: this build, loop or kernel cannot */
    BH_E__MAX
};

#define BH_ERR_MSG_MAX 512

struct bh_err {
    enum bh_code code;
    int sys;                  /* errno behind it, or 0 */
    char msg[BH_ERR_MSG_MAX]; /* truncated, always NUL-terminated */
};

/* All three return -code, so that `return bh_err_set(...)` is one line; err may be NULL. */
int bh_err_set(struct bh_err *e, enum bh_code c, const char *fmt, ...) BH_PRINTF(3, 4);
int bh_err_sys(struct bh_err *e, int eno, const char *fmt, ...)
    BH_PRINTF(3, 4); /* BH_E_IO, ": strerror" appended */
int bh_err_wrap(struct bh_err *e, const char *fmt, ...)
    BH_PRINTF(2, 3);                       /* "outer: inner", code kept */
const char *bh_err_reason(enum bh_code c); /* metav1.Status reason, "" if it has none */
int bh_err_http(enum bh_code c);           /* HTTP status */
const char *bh_errno_name(int eno, char *buf, size_t n); /* thread-safe strerror */

/* For programmer errors only, on in release; aborts with file, line and text. Never for peer input.
 */
#define bh_assert(c) ((c) ? (void)0 : bh_assert_fail(#c, __FILE__, __LINE__))
_Noreturn void bh_assert_fail(const char *cond, const char *file, int line);

#endif
