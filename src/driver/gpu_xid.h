/* What an XID (the number of an NVIDIA GPU error) means for those who use the device. Thread: any.
 */
#ifndef BH_DRIVER_GPU_XID_H
#define BH_DRIVER_GPU_XID_H

#include <stdbool.h>

#define BH_XID_MIN 1
#define BH_XID_MAX 65535

enum bh_xid_effect {                     /* severity grows */
                     BH_XID_NONE,        /* the application's fault: told, nothing else */
                     BH_XID_NO_SCHEDULE, /* the device still computes, but should get a rest before
                                            new work comes */
                     BH_XID_NO_EXECUTE,  /* the device cannot compute: pods on it must go elsewhere
                                          */
};

struct bh_xid {
    int code;
    enum bh_xid_effect effect;
    const char *text; /* what the vendor calls it */
};

/* Never NULL: codes that are not in the table get NoSchedule, the side on which an error costs
 * least. */
const struct bh_xid *bh_xid_get(int code);

#endif
