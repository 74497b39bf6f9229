/* Log files are written by whoever runs in a container. */
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "kubelet/log_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    BH_AUTO_BUF out = {.max = 1 << 22};
    struct bh_log_reader *r = NULL;
    int fd = memfd_create("log", MFD_CLOEXEC);

    if (fd < 0 || n < 1 || bh_write_all(fd, p + 1, n - 1, NULL) < 0) {
        if (fd >= 0)
            (void)close(fd);
        return 0;
    }
    const struct bh_log_opts o = {.tail_lines = (p[0] & 1) ? (p[0] >> 4) : -1,
                                  .limit_bytes = (p[0] & 2) ? 100 : 0,
                                  .timestamps = (p[0] & 4) != 0};
    if (bh_log_reader_open_fd(fd, &o, &r, NULL) >= 0)
        while (bh_log_reader_next(r, &out, NULL) == 1)
            ;
    (void)bh_log_reader_free(r);
    return 0;
}
