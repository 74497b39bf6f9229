/* Structured log: a constant message and facts as pairs.
 *
 *     bh_log(BH_INFO, "pod bound", BH_STR("pod", key), BH_I64("rv", rv));
 *
 * Text when stderr is a terminal, one JSON object a line otherwise. Library modules log at debug
 * only; roles log what an operator needs. No secrets, tokens or bodies. Thread: any (one write(2)
 * per line).
 */
#ifndef BH_BASE_LOG_H
#define BH_BASE_LOG_H

#include "base/str.h"

enum bh_log_level { BH_DEBUG, BH_INFO, BH_WARN, BH_ERROR };

struct bh_log_kv {
    const char *key; /* NULL ends the list */
    enum { BH_LOG_STR, BH_LOG_I64 } kind;
    struct bh_str s;
    int64_t i;
};

#define BH_STR(k, v)  ((struct bh_log_kv){(k), BH_LOG_STR, (v), 0})
#define BH_CSTR(k, v) ((struct bh_log_kv){(k), BH_LOG_STR, bh_s(v), 0})
#define BH_I64(k, v)  ((struct bh_log_kv){(k), BH_LOG_I64, {NULL, 0}, (int64_t)(v)})

void bh_log_init(enum bh_log_level min,
                 const char *component); /* before threads start; component: a literal */
void bh_log_fd(int fd);                  /* default 2 */
bool bh_log_on(enum bh_log_level l);
void bh_log_write(enum bh_log_level l, const char *msg, const struct bh_log_kv *kv);

#define bh_log(level, ...)                                                                         \
    bh_log_x(level, __VA_ARGS__, ((struct bh_log_kv){NULL, BH_LOG_STR, {NULL, 0}, 0}))
#define bh_log_x(level, msg, ...)                                                                  \
    do {                                                                                           \
        if (bh_log_on(level))                                                                      \
            bh_log_write((level), (msg), (const struct bh_log_kv[]){__VA_ARGS__});                 \
    } while (0)

#endif
