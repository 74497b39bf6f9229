/* SIGTERM and SIGINT as events of a loop: how every role ends in order. */
#ifndef BH_NET_SIGNALS_H
#define BH_NET_SIGNALS_H

#include "base/err.h"

struct bh_loop;
struct bh_signals;

/* Blocks both signals in this thread; call it before any other thread starts, so that they inherit
 * it. Programs that are started later get the default mask back (bh_proc_spawn sees to it). */
void bh_signals_block(void);
/* Calls fn(arg, signal) on the loop for each. The second of either kills the process at once: for
 * an operator who will not wait. NULL on failure. Real loops only. */
struct bh_signals *bh_signals_new(struct bh_loop *l, void (*fn)(void *arg, int signal), void *arg,
                                  struct bh_err *err);
struct bh_signals *bh_signals_free(struct bh_signals *s);

#endif
