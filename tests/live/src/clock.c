/*
 * Changes the time of day for processes that preload this library: it adds the microseconds in the file that
 * INSTAGRAM_ID_CLOCK names, as soon as they are written there. Clocks that only measure durations are not changed.
 *
 * PostgreSQL also reads the time in signal handlers, which may interrupt any code, including these functions. So they
 * take no lock, allocate no memory and open no file: they only make a system call and read shared memory.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

_Static_assert(ATOMIC_LONG_LOCK_FREE == 2 && sizeof(time_t) == 8, "for 64-bit machines");

/* Inherited by forked processes. A process that reads the time before it is set crashes, so it never gets the machine's time. */
static _Atomic int64_t *offset_us;

__attribute__((constructor)) static void map_offset(void)
{
    const char *path = getenv("INSTAGRAM_ID_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(*offset_us), PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) {
        perror("INSTAGRAM_ID_CLOCK cannot be mapped");
        abort();
    }
    close(file);
    offset_us = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t us = atomic_load_explicit(offset_us, memory_order_relaxed);
        now->tv_sec += us / 1000000;
        now->tv_nsec += us % 1000000 * 1000; /* negative where the offset is */
        if (now->tv_nsec < 0) {
            now->tv_sec -= 1;
            now->tv_nsec += 1000000000;
        } else if (now->tv_nsec >= 1000000000) {
            now->tv_sec += 1;
            now->tv_nsec -= 1000000000;
        }
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    int result = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    if (zone)
        *(struct timezone *)zone = (struct timezone){0};
    return result;
}

time_t time(time_t *copy)
{
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (copy)
        *copy = precise.tv_sec;
    return precise.tv_sec;
}
