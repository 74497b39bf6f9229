/* The table of XIDs. A device that cannot compute any more gets NoExecute: upstream's drivers never
 * go beyond NoSchedule, which leaves a pod hanging on a dead device; moving it is what this project
 * is for. */
#include "driver/gpu_xid.h"

#include <stddef.h>

#include "base/str.h"

static const struct bh_xid table[] = {
    /* An application did something wrong and was stopped; the next one runs. */
    {13, BH_XID_NONE, "graphics engine exception"},
    {31, BH_XID_NONE, "GPU memory page fault"},
    {43, BH_XID_NONE, "GPU stopped processing"},
    {45, BH_XID_NONE, "preemptive cleanup, due to previous errors"},
    {68, BH_XID_NONE, "video processor exception"},
    {109, BH_XID_NONE, "context switch timeout"},
    /* Running work goes on; a reset or a look at the machine is due before it gets more. */
    {61, BH_XID_NO_SCHEDULE, "internal microcontroller breakpoint"},
    {63, BH_XID_NO_SCHEDULE, "row remapping waits for a reset"},
    {64, BH_XID_NO_SCHEDULE, "row remapping could not be recorded"},
    {74, BH_XID_NO_SCHEDULE, "NVLink error"},
    {92, BH_XID_NO_SCHEDULE, "high rate of single-bit ECC errors"},
    {94, BH_XID_NO_SCHEDULE, "contained memory error"},
    {121, BH_XID_NO_SCHEDULE, "chip-to-chip link error"},
    {136, BH_XID_NO_SCHEDULE, "link training failed"},
    {154, BH_XID_NO_SCHEDULE, "recovery action changed"},
    /* Whatever runs on it produces errors, or nothing. */
    {48, BH_XID_NO_EXECUTE, "double-bit ECC error"},
    {62, BH_XID_NO_EXECUTE, "internal microcontroller halt"},
    {79, BH_XID_NO_EXECUTE, "GPU has fallen off the bus"},
    {95, BH_XID_NO_EXECUTE, "uncontained memory error"},
    {110, BH_XID_NO_EXECUTE, "security fault"},
    {119, BH_XID_NO_EXECUTE, "GSP does not answer"},
    {120, BH_XID_NO_EXECUTE, "GSP error"},
    {140, BH_XID_NO_EXECUTE, "unrecovered ECC error"},
    {143, BH_XID_NO_EXECUTE, "GPU initialization failed"},
};

const struct bh_xid *bh_xid_get(int code)
{
    static const struct bh_xid unknown = {0, BH_XID_NO_SCHEDULE, "unknown error"};

    for (size_t i = 0; i < BH_COUNT(table); i++)
        if (table[i].code == code)
            return &table[i];
    return &unknown;
}
