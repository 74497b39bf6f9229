/* The cluster's certificates: made at first start under DATA/pki, loaded afterwards, renewed when
 * they run out. */
#ifndef BH_CLI_PKI_DIR_H
#define BH_CLI_PKI_DIR_H

#include "net/pki.h"

struct bh_arena;

struct pki_dir {
    struct bh_arena *a;
    const char *dir;
    struct bh_pki_pair ca;
};

BH_MUST int pki_dir_open(struct bh_arena *a, const char *dir, struct pki_dir *ret,
                         struct bh_err *err);
/* A certificate called name (files DIR/name.crt, name.key): loaded when it says what is asked,
 * still leads to the CA and is valid for another 30 days, else issued. */
BH_MUST int pki_dir_get(struct pki_dir *p, const char *name, const struct bh_pki_req *req,
                        struct bh_pki_pair *ret, struct bh_err *err);

#endif
