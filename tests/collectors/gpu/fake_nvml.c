/* A libnvidia-ml.so.1 for tests, driven by the file `gpus` beside it, which is read at every call.
 *
 *   gcc -shared -fPIC -O1 -Wl,-soname,libnvidia-ml.so.1 -o libnvidia-ml.so.1 fake_nvml.c
 *
 * A line is `WHO KEY VALUE...`, WHO being `system` or the index of a GPU:
 *   system driver 580.65.06        system count 2
 *   0 memory TOTAL RESERVED USED   (MiB)       0 process PID MiB         (any number of them; MiB -1: not told)
 *   0 utilization 97  0 temperature 71  0 margin 16  0 power 650000  0 limit 700000  0 clock 1965 1980
 *   0 throttle 0x40   0 ecc CORRECTED UNCORRECTED     0 remapped CORR UNC PENDING FAILURE     0 lost 1
 *   0 xid 79                       (any number of them; each is delivered once)
 *   WHO fail FUNCTION CODE         FUNCTION without its version suffix
 *   WHO hang FUNCTION SECONDS
 *   WHO crash FUNCTION
 *   system log 1                   (append `WHO FUNCTION` of every call to the file `calls` beside it)
 * -DOLD leaves out what old drivers do not have.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int result;
typedef void *device; /* index + 1 */
enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, SMALL = 7, TIMED_OUT = 10, LOST = 15 };

static int up;

static FILE *beside(const char *name, const char *mode) {
    Dl_info self;
    char path[4096];
    if (!dladdr((void *)beside, &self)) return NULL;
    snprintf(path, sizeof path, "%s", self.dli_fname);
    char *slash = strrchr(path, '/');
    snprintf(slash ? slash + 1 : path, 16, "%s", name);
    return fopen(path, mode);
}

/* The rest of the first line `WHO KEY ...` at or after number `from`, into `out`. Gives its number, or 0. */
static int find(const char *who, const char *key, int from, char *out, size_t size) {
    char line[512], start[128];
    int number = 0, found = 0;
    FILE *file = beside("gpus", "r");
    if (!file) return 0;
    size_t length = (size_t)snprintf(start, sizeof start, "%s %s ", who, key);
    while (fgets(line, sizeof line, file)) {
        number++;
        line[strcspn(line, "\n")] = 0;
        if (number >= from && strncmp(line, start, length) == 0) {
            snprintf(out, size, "%s", line + length);
            found = number;
            break;
        }
    }
    fclose(file);
    return found;
}

static void name_of(device gpu, char *who) {
    if (gpu) snprintf(who, 24, "%ld", (long)gpu - 1);
    else strcpy(who, "system");
}

/* Up to four numbers of a line of a GPU, 0 where there is none. */
static void numbers(device gpu, const char *key, long long *value) {
    char who[24], rest[256];
    value[0] = value[1] = value[2] = value[3] = 0;
    name_of(gpu, who);
    if (!find(who, key, 1, rest, sizeof rest)) return;
    char *at = rest;
    for (int i = 0; i < 4; i++) value[i] = strtoll(at, &at, 0);
}

/* The planted fault of a function: hang, crash or an error code. */
static result planted(device gpu, const char *function) {
    char who[24], rest[256], key[128];
    double seconds;
    int code;
    name_of(gpu, who);
    if (find("system", "log", 1, rest, sizeof rest)) {
        FILE *calls = beside("calls", "a");
        if (calls) {
            fprintf(calls, "%s %s\n", who, function);
            fclose(calls);
        }
    }
    for (int line = 0; (line = find(who, "hang", line + 1, rest, sizeof rest));)
        if (sscanf(rest, "%127s %lf", key, &seconds) == 2 && !strcmp(key, function)) {
            struct timespec rest_time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
            nanosleep(&rest_time, NULL);
        }
    for (int line = 0; (line = find(who, "crash", line + 1, rest, sizeof rest));)
        if (!strcmp(rest, function)) raise(SIGSEGV);
    for (int line = 0; (line = find(who, "fail", line + 1, rest, sizeof rest));)
        if (sscanf(rest, "%127s %d", key, &code) == 2 && !strcmp(key, function)) return code;
    return OK;
}

static result enter(device gpu, const char *function) {
    long long lost[4];
    if (!up) return UNINITIALIZED;
    result fault = planted(gpu, function);
    if (fault || !gpu) return fault;
    numbers(gpu, "lost", lost);
    return lost[0] ? LOST : OK;
}

#define ENTER(gpu, function) do { result fault = enter(gpu, function); if (fault) return fault; } while (0)

result nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    result fault = planted(NULL, "nvmlInit");
    if (!fault) up = 1;
    return fault;
}
result nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
result nvmlShutdown(void) { up = 0; return OK; }
const char *nvmlErrorString(result code) { return code ? "fake error" : "success"; }

result nvmlSystemGetDriverVersion(char *text, unsigned size) {
    ENTER(NULL, "nvmlSystemGetDriverVersion");
    return find("system", "driver", 1, text, size) ? OK : NOT_SUPPORTED;
}
result nvmlDeviceGetCount_v2(unsigned *count) {
    long long value[4];
    ENTER(NULL, "nvmlDeviceGetCount");
    numbers(NULL, "count", value);
    *count = (unsigned)value[0];
    return OK;
}
result nvmlDeviceGetHandleByIndex_v2(unsigned index, device *gpu) {
    device found = (device)(long)(index + 1);
    ENTER(found, "nvmlDeviceGetHandleByIndex");
    *gpu = found;
    return OK;
}
result nvmlDeviceGetName(device gpu, char *text, unsigned size) {
    ENTER(gpu, "nvmlDeviceGetName");
    snprintf(text, size, "Fake H100 80GB HBM3");
    return OK;
}
result nvmlDeviceGetUUID(device gpu, char *text, unsigned size) {
    char who[24], given[96];
    ENTER(gpu, "nvmlDeviceGetUUID");
    name_of(gpu, who);
    if (find(who, "uuid", 1, given, sizeof given)) snprintf(text, size, "%s", given);
    else snprintf(text, size, "GPU-00000000-0000-0000-0000-%012ld", (long)gpu - 1);
    return OK;
}
struct pci { char legacy[16]; unsigned domain, bus, slot, id, subsystem; char address[32]; };
result nvmlDeviceGetPciInfo_v3(device gpu, struct pci *pci) {
    ENTER(gpu, "nvmlDeviceGetPciInfo");
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x10 + (unsigned)(long)gpu;
    pci->id = 0x233010DE;
    snprintf(pci->address, sizeof pci->address, "00000000:%02X:00.0", pci->bus);
    return OK;
}

struct memory { unsigned long long total, free, used; };
struct memory2 { unsigned version; unsigned long long total, reserved, free, used; };
result nvmlDeviceGetMemoryInfo(device gpu, struct memory *memory) {
    long long value[4];
    ENTER(gpu, "nvmlDeviceGetMemoryInfo");
    numbers(gpu, "memory", value);
    memory->total = (unsigned long long)value[0] << 20;
    memory->used = (unsigned long long)(value[1] + value[2]) << 20;
    memory->free = memory->total - memory->used;
    return OK;
}
struct utilization { unsigned gpu, memory; };
result nvmlDeviceGetUtilizationRates(device gpu, struct utilization *rates) {
    long long value[4];
    ENTER(gpu, "nvmlDeviceGetUtilizationRates");
    numbers(gpu, "utilization", value);
    rates->gpu = (unsigned)value[0];
    rates->memory = rates->gpu / 2;
    return OK;
}

static result number(device gpu, const char *function, const char *key, int which, unsigned *out) {
    long long value[4];
    ENTER(gpu, function);
    numbers(gpu, key, value);
    *out = (unsigned)value[which];
    return OK;
}
result nvmlDeviceGetTemperature(device gpu, int sensor, unsigned *out) {
    return sensor ? INVALID : number(gpu, "nvmlDeviceGetTemperature", "temperature", 0, out);
}
result nvmlDeviceGetPowerUsage(device gpu, unsigned *out) { return number(gpu, "nvmlDeviceGetPowerUsage", "power", 0, out); }
result nvmlDeviceGetEnforcedPowerLimit(device gpu, unsigned *out) {
    return number(gpu, "nvmlDeviceGetEnforcedPowerLimit", "limit", 0, out);
}
result nvmlDeviceGetClockInfo(device gpu, int kind, unsigned *out) {
    return kind == 1 ? number(gpu, "nvmlDeviceGetClockInfo", "clock", 0, out) : NOT_SUPPORTED;
}
result nvmlDeviceGetMaxClockInfo(device gpu, int kind, unsigned *out) {
    return kind == 1 ? number(gpu, "nvmlDeviceGetMaxClockInfo", "clock", 1, out) : NOT_SUPPORTED;
}
static result reasons(device gpu, const char *function, unsigned long long *out) {
    long long value[4];
    ENTER(gpu, function);
    numbers(gpu, "throttle", value);
    *out = (unsigned long long)value[0];
    return OK;
}
result nvmlDeviceGetCurrentClocksThrottleReasons(device gpu, unsigned long long *out) {
    return reasons(gpu, "nvmlDeviceGetCurrentClocksThrottleReasons", out);
}
result nvmlDeviceGetTotalEccErrors(device gpu, int kind, int since, unsigned long long *out) {
    long long value[4];
    ENTER(gpu, "nvmlDeviceGetTotalEccErrors");
    if (since) return NOT_SUPPORTED;
    numbers(gpu, "ecc", value);
    *out = (unsigned long long)value[kind];
    return OK;
}
result nvmlDeviceGetRemappedRows(device gpu, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    long long value[4];
    ENTER(gpu, "nvmlDeviceGetRemappedRows");
    numbers(gpu, "remapped", value);
    *corrected = (unsigned)value[0];
    *uncorrected = (unsigned)value[1];
    *pending = (unsigned)value[2];
    *failed = (unsigned)value[3];
    return OK;
}

struct process { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; };
static result processes(device gpu, unsigned *count, struct process *out) {
    char who[24], rest[256];
    unsigned found = 0;
    long long pid, mebibytes;
    ENTER(gpu, "nvmlDeviceGetComputeRunningProcesses");
    name_of(gpu, who);
    for (int line = 0; (line = find(who, "process", line + 1, rest, sizeof rest)); found++) {
        if (found >= *count || !out || sscanf(rest, "%lld %lld", &pid, &mebibytes) != 2) continue;
        out[found].pid = (unsigned)pid;
        out[found].memory = mebibytes < 0 ? ~0ULL : (unsigned long long)mebibytes << 20;
        out[found].gpu_instance = out[found].compute_instance = ~0U;
    }
    result size = found > *count ? SMALL : OK;
    *count = found;
    return size;
}
result nvmlDeviceGetComputeRunningProcesses_v2(device gpu, unsigned *count, struct process *out) {
    return processes(gpu, count, out);
}

#ifndef OLD
result nvmlDeviceGetMemoryInfo_v2(device gpu, struct memory2 *memory) {
    long long value[4];
    ENTER(gpu, "nvmlDeviceGetMemoryInfo");
    numbers(gpu, "memory", value);
    memory->total = (unsigned long long)value[0] << 20;
    memory->reserved = (unsigned long long)value[1] << 20;
    memory->used = (unsigned long long)value[2] << 20;
    memory->free = memory->total - memory->reserved - memory->used;
    return OK;
}
result nvmlDeviceGetCurrentClocksEventReasons(device gpu, unsigned long long *out) {
    return reasons(gpu, "nvmlDeviceGetCurrentClocksEventReasons", out);
}
result nvmlDeviceGetComputeRunningProcesses_v3(device gpu, unsigned *count, struct process *out) {
    return processes(gpu, count, out);
}
struct margin { unsigned version; int celsius; };
result nvmlDeviceGetMarginTemperature(device gpu, struct margin *margin) {
    return number(gpu, "nvmlDeviceGetMarginTemperature", "margin", 0, (unsigned *)&margin->celsius);
}

static int events_taken, sets;
struct event { device gpu; unsigned long long type, data; unsigned gpu_instance, compute_instance; };
result nvmlEventSetCreate(void **set) {
    ENTER(NULL, "nvmlEventSetCreate");
    *set = &sets;
    return OK;
}
result nvmlDeviceRegisterEvents(device gpu, unsigned long long types, void *set) {
    ENTER(gpu, "nvmlDeviceRegisterEvents");
    return types == 8 && set == &sets ? OK : INVALID;
}
result nvmlEventSetWait_v2(void *set, struct event *event, unsigned milliseconds) {
    char who[24], rest[64];
    long long count[4];
    int line, seen = 0;
    (void)milliseconds;
    ENTER(NULL, "nvmlEventSetWait");
    if (set != &sets) return INVALID;
    numbers(NULL, "count", count);
    for (long index = 0; index < count[0]; index++) {
        snprintf(who, sizeof who, "%ld", index);
        for (line = 0; (line = find(who, "xid", line + 1, rest, sizeof rest));)
            if (seen++ == events_taken) {
                events_taken++;
                event->gpu = (device)(index + 1);
                event->type = 8;
                event->data = strtoull(rest, NULL, 0);
                return OK;
            }
    }
    return TIMED_OUT;
}
#endif
