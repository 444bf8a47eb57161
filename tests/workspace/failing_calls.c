/* Loaded before the C library: counts every call that changes a file under FAIL_UNDER and makes one of them fail.
 * FAIL_HOW: never, no-space-once, no-space-for-good, input-output-once, killed. The count is left in FAIL_COUNTER. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static long calls;

static int below(const char *path) {
    const char *under = getenv("FAIL_UNDER");
    return under != NULL && strncmp(path, under, strlen(under)) == 0;
}

static int concerns(int descriptor) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below(path);
}

/* 1 when this call is to fail; errno says how. */
static int fails(void) {
    const char *at = getenv("FAIL_AT"), *how = getenv("FAIL_HOW");
    calls++;
    if (at == NULL || how == NULL || strcmp(how, "never") == 0) return 0;
    long wanted = atol(at);
    int for_good = strcmp(how, "no-space-for-good") == 0;
    if (calls != wanted && !(for_good && calls > wanted)) return 0;
    if (strcmp(how, "killed") == 0) kill(getpid(), SIGKILL);
    errno = strcmp(how, "input-output-once") == 0 ? EIO : ENOSPC;
    return 1;
}

__attribute__((destructor)) static void report(void) {
    const char *path = getenv("FAIL_COUNTER");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    if (file != NULL) {
        fprintf(file, "%ld", calls);
        fclose(file);
    }
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int descriptor, const void *data, size_t size) {
    if (concerns(descriptor) && fails()) return -1;
    return REAL(write)(descriptor, data, size);
}

ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t offset) {
    if (concerns(descriptor) && fails()) return -1;
    return REAL(pwrite64)(descriptor, data, size, offset);
}

ssize_t pwrite(int descriptor, const void *data, size_t size, off_t offset) {
    return pwrite64(descriptor, data, size, offset);
}

int fsync(int descriptor) {
    if (concerns(descriptor) && fails()) return -1;
    return REAL(fsync)(descriptor);
}

int fdatasync(int descriptor) {
    if (concerns(descriptor) && fails()) return -1;
    return REAL(fdatasync)(descriptor);
}

int rename(const char *from, const char *to) {
    if (below(to) && fails()) return -1;
    return REAL(rename)(from, to);
}

int mkdir(const char *path, mode_t mode) {
    if (below(path) && fails()) return -1;
    return REAL(mkdir)(path, mode);
}
