// A libnvidia-ml.so.1 without hardware, for black-box tests. Build: gcc -shared -fPIC -Wl,-soname,libnvidia-ml.so.1
// $FAKE_NVML names a text file with lines `SCOPE FUNCTION VALUE...`: SCOPE is `system` or a GPU's index, a value is a
// number, a text, or `!CODE` for an error. A function without a line is not supported; FUNCTION `*` stands for all.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_SUPPORTED 3
#define INVALID_ARGUMENT 2
#define NOT_FOUND 6
#define INSUFFICIENT_SIZE 7
#define TEXT 256

// The value's text of SCOPE FUNCTION; returns NVML's code for it.
static int answer(const char *scope, const char *function, char *text) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[TEXT], where[32], name[96];
    int code = NOT_SUPPORTED, at;
    while (file && code == NOT_SUPPORTED && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%31s %95s %n", where, name, &at) < 2 || strcmp(where, scope) != 0) continue;
        if (strcmp(name, function) != 0 && strcmp(name, "*") != 0) continue;
        line[strcspn(line, "\n")] = 0;
        strcpy(text, line + at);
        code = text[0] == '!' ? atoi(text + 1) : 0;
        break;
    }
    if (file) fclose(file);
    return code;
}

// A handle is index + 1, never followed.
static int device(void *handle, const char *function, char *text) {
    char scope[32];
    snprintf(scope, sizeof scope, "%ld", (long)handle - 1);
    return answer(scope, function, text);
}

#define ASK(handle) char text[TEXT] = ""; int code = device(handle, __func__, text); if (code) return code
#define NUMBER(name, type) int name(void *handle, type *out) { ASK(handle); *out = (type)strtoull(text, 0, 0); return 0; }
#define PAIR(name) int name(void *handle, unsigned *a, unsigned *b) { ASK(handle); sscanf(text, "%u %u", a, b); return 0; }
#define STRING(name) int name(void *handle, char *out, unsigned size) { ASK(handle); snprintf(out, size, "%s", text); return 0; }

int nvmlInitWithFlags(unsigned flags) { char text[TEXT]; (void)flags; int c = answer("system", "init", text); return c == NOT_SUPPORTED ? 0 : c; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlInit(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { (void)code; return "fake error"; }

int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    char text[TEXT] = "";
    int code = answer("system", __func__, text);
    snprintf(out, size, "%s", text);
    return code;
}
int nvmlSystemGetCudaDriverVersion_v2(int *out) {
    char text[TEXT] = "";
    int code = answer("system", __func__, text);
    *out = atoi(text);
    return code;
}
int nvmlDeviceGetCount_v2(unsigned *out) {
    char text[TEXT] = "0";
    int code = answer("system", __func__, text);
    *out = (unsigned)atoi(text);
    return code;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out) {
    unsigned count;
    int code = nvmlDeviceGetCount_v2(&count);
    if (code || index >= count) return code ? code : INVALID_ARGUMENT;
    *out = (void *)(long)(index + 1);
    char text[TEXT];
    code = device(*out, "nvmlDeviceGetHandleByIndex_v2", text);
    return code == NOT_SUPPORTED ? 0 : code;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **out) { (void)uuid; (void)out; return NOT_FOUND; }

STRING(nvmlDeviceGetName)
STRING(nvmlDeviceGetUUID)
NUMBER(nvmlDeviceGetPowerUsage, unsigned)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned)
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, unsigned)
NUMBER(nvmlDeviceGetComputeMode, unsigned)
NUMBER(nvmlDeviceGetPersistenceMode, unsigned)
NUMBER(nvmlDeviceGetVirtualizationMode, unsigned)
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long)
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long)
PAIR(nvmlDeviceGetMigMode)
PAIR(nvmlDeviceGetCudaComputeCapability)

int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *out) { (void)sensor; ASK(handle); *out = (unsigned)atoi(text); return 0; }
int nvmlDeviceGetTotalEccErrors(void *handle, int kind, int counter, unsigned long long *out) {
    (void)kind; (void)counter;
    ASK(handle);
    *out = strtoull(text, 0, 0);
    return 0;
}
int nvmlDeviceGetRemappedRows(void *handle, unsigned *a, unsigned *b, unsigned *c, unsigned *d) {
    ASK(handle);
    sscanf(text, "%u %u %u %u", a, b, c, d);
    return 0;
}
int nvmlDeviceGetPciInfo_v3(void *handle, char *info) {
    ASK(handle);
    snprintf(info + 36, 32, "%.31s", text);  // char busIdLegacy[16], five unsigned, char busId[32]
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long *m) {  // total, free, used
    ASK(handle);
    sscanf(text, "%llu %llu", m, m + 2);
    m[1] = m[0] - m[2];
    return 0;
}
int nvmlDeviceGetMemoryInfo_v2(void *handle, unsigned long long *m) {  // version, total, reserved, free, used
    ASK(handle);
    m[2] = 0;
    sscanf(text, "%llu %llu", m + 1, m + 4);
    m[3] = m[1] - m[4];
    return 0;
}
struct field { unsigned id, scope; long long stamp, latency; int type, code; unsigned long long value; };
int nvmlDeviceGetFieldValues(void *handle, int count, struct field *fields) {
    ASK(handle);
    for (int i = 0; i < count; i++) {
        unsigned id;
        unsigned long long value;
        int known = sscanf(text, "%u %llu", &id, &value) == 2 && id == fields[i].id;
        fields[i].code = known ? 0 : NOT_SUPPORTED;
        if (known) fields[i].value = value;
    }
    return 0;
}
struct process { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; };
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, struct process *list) {
    ASK(handle);
    unsigned room = *count, pid;
    unsigned long long memory;
    *count = sscanf(text, "%u %llu", &pid, &memory) == 2;
    if (*count > room) return INSUFFICIENT_SIZE;
    if (*count) list[0] = (struct process){pid, memory, ~0u, ~0u};
    return 0;
}
