/* RE2 behind a C interface: patterns compiled once, shared between threads. Private to src/cel. */
#ifndef BH_CEL_RE2_SHIM_H
#define BH_CEL_RE2_SHIM_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NULL when the pattern is refused; err then holds Go's words ("missing closing ): `(`"). Free with
 * bh_re2_free(). */
void *bh_re2_new(const char *pattern, size_t n, char *err, size_t err_n);
void bh_re2_free(void *re);
/* First match at or after from; false when there is none. start and end may be NULL. */
bool bh_re2_find(const void *re, const char *s, size_t n, size_t from, size_t *start, size_t *end);

#ifdef __cplusplus
}
#endif

#endif
