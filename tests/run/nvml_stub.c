/* As much of NVML as the GPU collector asks for; what it answers comes from the environment. */
#include <stdio.h>
#include <stdlib.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, GPU_IS_LOST = 15 };

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned gpu, memory; } rates_t;

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

int nvmlInitWithFlags(unsigned flags) { return number("STUB_INIT", SUCCESS); }
int nvmlShutdown(void) { return SUCCESS; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = number("STUB_GPUS", 2);
    return number("STUB_COUNT_CODE", SUCCESS);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = (void *)(size_t)(index + 1);
    return SUCCESS;
}

/* GPU n uses n + 1 times the MiB that stand in the file, which may change at any time. */
int nvmlDeviceGetMemoryInfo(void *device, memory_t *memory) {
    unsigned long long used = 0;
    FILE *file = fopen(getenv("STUB_MEMORY_FILE"), "r");
    if (!file || fscanf(file, "%llu", &used) != 1) used = 0;
    if (file) fclose(file);
    memory->total = 80ULL << 30;
    memory->used = (used << 20) * (size_t)device;
    memory->free = memory->total - memory->used;
    return number("STUB_MEMORY_CODE", SUCCESS);
}

int nvmlDeviceGetUtilizationRates(void *device, rates_t *rates) {
    rates->gpu = 30 * (size_t)device;
    rates->memory = 0;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius) {
    *celsius = 40 + (size_t)device;
    return SUCCESS;
}

#ifndef WITHOUT_POWER
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    *milliwatts = 250500;
    return number("STUB_POWER_CODE", SUCCESS);
}
#endif
