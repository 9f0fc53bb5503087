/* A libnvidia-ml.so.1 that reports one healthy GPU. No CUDA comes with it: the "NVML sees a GPU, CUDA is broken" case. */
#include <stdio.h>
#include <string.h>

typedef void *Device;
enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3 };
static char device[1];

int nvmlInit_v2(void) { return OK; }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code ? "Not Supported" : "Success"; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) { snprintf(out, size, "580.65.06"); return OK; }
int nvmlSystemGetNVMLVersion(char *out, unsigned size) { snprintf(out, size, "13.580.65.06"); return OK; }
int nvmlSystemGetCudaDriverVersion(int *out) { *out = 13000; return OK; }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = 13000; return OK; }
int nvmlDeviceGetCount_v2(unsigned *out) { *out = 1; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *out) { *out = device; return index ? INVALID : OK; }
int nvmlDeviceGetIndex(Device gpu, unsigned *out) { (void)gpu; *out = 0; return OK; }
int nvmlDeviceGetName(Device gpu, char *out, unsigned size) { (void)gpu; snprintf(out, size, "NVIDIA Stub 4090"); return OK; }
int nvmlDeviceGetUUID(Device gpu, char *out, unsigned size) {
    (void)gpu;
    snprintf(out, size, "GPU-00000000-0000-0000-0000-000000000001");
    return OK;
}
int nvmlDeviceGetMemoryInfo(Device gpu, unsigned long long *out) {
    (void)gpu;
    out[0] = 24ULL << 30;               /* total */
    out[1] = (24ULL << 30) - (64 << 20); /* free */
    out[2] = 64 << 20;                  /* used */
    return OK;
}
int nvmlDeviceGetTemperature(Device gpu, int sensor, unsigned *out) { (void)gpu; (void)sensor; *out = 41; return OK; }
int nvmlDeviceGetUtilizationRates(Device gpu, unsigned *out) { (void)gpu; memset(out, 0, 2 * sizeof *out); return OK; }
int nvmlDeviceGetCudaComputeCapability(Device gpu, int *major, int *minor) { (void)gpu; *major = 8; *minor = 9; return OK; }
