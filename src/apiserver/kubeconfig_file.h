/* A kubeconfig for the administrator, beside the store. */
#ifndef BH_APISERVER_KUBECONFIG_FILE_H
#define BH_APISERVER_KUBECONFIG_FILE_H

#include "base/err.h"

/* Writes DATA_DIR/admin.kubeconfig with a client certificate of system:masters issued by the CA in
 * cert_dir. Blocking. */
BH_MUST int bh_admin_kubeconfig_write(const char *cert_dir, const char *data_dir, int port,
                                      struct bh_err *err);

#endif
