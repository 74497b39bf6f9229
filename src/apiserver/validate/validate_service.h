/* What the rules of services and the registry that gives them addresses share. */
#ifndef BH_APISERVER_VALIDATE_SERVICE_H
#define BH_APISERVER_VALIDATE_SERVICE_H

#include "apiserver/validate/validate_int.h"

bool bh_v_service_is(const struct bh_core_v1_service *s, const char *type);
bool bh_v_service_headless(const struct bh_core_v1_service *s); /* its one address is "None" */
/* A balancer that sends traffic only where pods are asks a port whether they are. */
bool bh_v_service_health_port(const struct bh_core_v1_service *s);
bool bh_v_same_strs(const struct bh_str_vec *x, const struct bh_str_vec *y);
/* Addresses, families and policy among themselves. */
void bh_v_service_addresses(struct bh_field_errs *e, const struct bh_core_v1_service *s,
                            const struct bh_core_v1_service *old);
/* One that other machines can reach. */
void bh_v_ordinary_address(struct bh_field_errs *e, const struct bh_fpath *at, struct bh_str s);

#endif
