/* As much of libcuda as the adapter's test needs, on the CPU: addresses are the host driver's, work is done at once, and
 * each call that orders work is a line in the file that PRETENDED_LOG names. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int status;
enum { SUCCESS = 0, INVALID_VALUE = 1 };

static void *current;

static void note(const char *format, ...) {
    const char *path = getenv("PRETENDED_LOG");
    FILE *log = path ? fopen(path, "a") : NULL;
    if (!log) return;
    va_list words;
    va_start(words, format);
    vfprintf(log, format, words);
    va_end(words);
    fputc('\n', log);
    fclose(log);
}

status cuInit(unsigned flags) { return flags ? INVALID_VALUE : SUCCESS; }
status cuDeviceGet(int *device, int ordinal) { return *device = ordinal, ordinal ? INVALID_VALUE : SUCCESS; }
status cuDeviceGetAttribute(int *value, int attribute, int device) { return (void)attribute, (void)device, *value = 1, SUCCESS; }
status cuDevicePrimaryCtxRetain(void **context, int device) { return (void)device, *context = (void *)0xC0, SUCCESS; }
status cuDevicePrimaryCtxRelease_v2(int device) { return (void)device, SUCCESS; }
status cuCtxSetCurrent(void *context) { return current = context, SUCCESS; }
status cuCtxGetCurrent(void **context) { return *context = current, SUCCESS; }
status cuCtxSynchronize(void) { return SUCCESS; }

/* The host driver's own series of handle values. */
status cuStreamCreate(void **stream, unsigned flags) {
    static uintptr_t next = 16;
    (void)flags;
    *stream = (void *)next;
    next += 16;
    return SUCCESS;
}
status cuStreamDestroy_v2(void *stream) { return note("destroy stream %p", stream), SUCCESS; }
status cuStreamSynchronize(void *stream) { return (void)stream, SUCCESS; }
status cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    (void)flags;
    return note("stream %p waits for event %p", stream, event), SUCCESS;
}

status cuEventCreate(void **event, unsigned flags) {
    static uintptr_t next = 1;
    (void)flags;
    if (getenv("PRETENDED_BROKEN")) return INVALID_VALUE;
    return *event = (void *)next++, SUCCESS;
}
status cuEventRecord(void *event, void *stream) { return note("event %p on stream %p", event, stream), SUCCESS; }
status cuEventDestroy_v2(void *event) { return (void)event, SUCCESS; }

status cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
    return (void)stream, memcpy((void *)to, from, bytes), SUCCESS;
}
status cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
    return (void)stream, memcpy(to, (const void *)from, bytes), SUCCESS;
}
status cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
    return (void)stream, memcpy((void *)to, (const void *)from, bytes), SUCCESS;
}
status cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void *stream) {
    return (void)stream, memset((void *)to, value, bytes), SUCCESS;
}

/* The one kernel there is: y = a x + y. */
status cuModuleLoadData(void **module, const void *image) { return (void)image, *module = (void *)0xD0, SUCCESS; }
status cuModuleUnload(void *module) { return (void)module, SUCCESS; }
status cuModuleGetFunction(void **function, void *module, const char *name) {
    return (void)module, *function = (void *)0xF0, strcmp(name, "saxpy") ? INVALID_VALUE : SUCCESS;
}
status cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared_bytes, void *stream, void **arguments, void **extra) {
    (void)function, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared_bytes, (void)extra;
    float a = *(float *)arguments[0];
    const float *x = *(float **)arguments[1];
    float *y = *(float **)arguments[2];
    uint32_t count = *(uint32_t *)arguments[3];
    for (uint32_t at = 0; at < count; at += 1) y[at] += a * x[at];
    return note("launch on stream %p", stream), SUCCESS;
}

status cuGetErrorName(status error, const char **name) { return (void)error, *name = "CUDA_ERROR_INVALID_VALUE", SUCCESS; }
status cuGetErrorString(status error, const char **words) { return (void)error, *words = "invalid argument", SUCCESS; }
