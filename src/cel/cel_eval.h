/* The kinds of steps: what the planner may put into cel_step.eval. Private to src/cel. */
#ifndef BH_CEL_CEL_EVAL_H
#define BH_CEL_CEL_EVAL_H

#include "cel/cel_int.h"

#define CEL_STEP(id) struct bh_cel_value id(struct bh_cel_run *run, const struct cel_step *s)

CEL_STEP(cel_ev_const);
CEL_STEP(cel_ev_attr);
CEL_STEP(cel_ev_path);    /* a variable and constant keys: the plain case of an attribute */
CEL_STEP(cel_ev_ready);   /* a parsed constant: quantity('1Gi'); charged like the call */
CEL_STEP(cel_ev_unknown); /* a name nobody declared, in a program without types */
CEL_STEP(cel_ev_cond);
CEL_STEP(cel_ev_and);
CEL_STEP(cel_ev_or);
CEL_STEP(cel_ev_not);
CEL_STEP(cel_ev_nsf);
CEL_STEP(cel_ev_eq);
CEL_STEP(cel_ev_eq_const); /* == or != with a constant string on the right */
CEL_STEP(cel_ev_order);
CEL_STEP(cel_ev_arith);
CEL_STEP(cel_ev_neg);
CEL_STEP(cel_ev_in);
CEL_STEP(cel_ev_in_set);
CEL_STEP(cel_ev_call);
CEL_STEP(cel_ev_list);
CEL_STEP(cel_ev_map);
CEL_STEP(cel_ev_struct);
CEL_STEP(cel_ev_fold);
CEL_STEP(cel_ev_append);
CEL_STEP(cel_ev_insert);
CEL_STEP(cel_ev_opt_or);
CEL_STEP(cel_ev_regex);

/* Most elements that one list may have, and that one evaluation may make: both far above what a
 * budget pays for. */
#define CEL_LIST_LEN_MAX (4u << 20)
#define CEL_ARENA_MAX    ((size_t)256 << 20)
/* True (and halted) when the arena of the run has grown beyond measure. */
bool cel_overgrown(struct bh_cel_run *run);

/* What upstream calls a value that is no index or not iterable: the name of its type in Go. */
const char *cel_go_name(struct bh_cel_value v);
/* The arithmetic operators, in cel_arith.c: run-time dispatch on the kinds. */
struct bh_cel_value cel_arith(struct bh_cel_run *run, enum cel_op op, struct bh_cel_value a,
                              struct bh_cel_value b);
struct bh_cel_value cel_concat(struct bh_cel_run *run, struct bh_cel_value a,
                               struct bh_cel_value b);
/* Runs a regular expression function with a compiled pattern. */
struct bh_cel_value cel_regex_apply(struct bh_cel_run *run, enum cel_op op, const void *re,
                                    struct bh_cel_value s, int64_t limit);

#endif
