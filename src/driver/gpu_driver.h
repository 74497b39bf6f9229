/* The GPU driver as a program of its own: `bulkhead gpu-driver`. */
#ifndef BH_DRIVER_GPU_DRIVER_H
#define BH_DRIVER_GPU_DRIVER_H

#define BH_GPU_DRIVER_NAME "gpu.bulkhead.dev"

/* Runs until SIGTERM or SIGINT. Returns the exit status: 0, 1 on failure, 2 on wrong arguments. */
int bh_gpu_driver_main(int argc, char **argv);

#endif
