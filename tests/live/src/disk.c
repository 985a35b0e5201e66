/*
 * Makes writes and fsyncs of a server's files in base and pg_wal fail at random. The processes of the server preload
 * this library. The environment variable INSTAGRAM_ID_DISK names the file with the rates and counts, which is in the
 * same folder as the data directory "data".
 *
 * - A write fails with ENOSPC. In half of the cases no data is written. In the others the first half of the data is
 *   written, as on a disk that becomes full within a page.
 * - An fsync fails with EIO. In half of the cases there was a real fsync. In the others the library reverts the writes
 *   to this WAL segment since its last successful fsync: after a failed fsync, Linux marks the pages as clean and may
 *   drop them.
 *
 * Writes to files in base are not reverted. Operations on files outside of base and pg_wal never fail.
 *
 * PostgreSQL also writes in signal handlers, which may interrupt any code, including these functions. So the functions
 * acquire no lock and allocate no memory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

_Static_assert(ATOMIC_LONG_LOCK_FREE == 2 && sizeof(off_t) == 8, "for 64-bit machines");

/* As in disk.rs. */
enum kind { WRITE_DATA, WRITE_WAL, SYNC_DATA, SYNC_WAL, KINDS, NONE = -1 };

struct disk {
    _Atomic int64_t rates[KINDS]; /* failures in a million calls */
    _Atomic int64_t failures[KINDS];
    _Atomic int64_t torn, lost; /* failed writes that wrote half of their data; failed fsyncs that reverted writes */
    _Atomic int64_t seed, calls;
    /* The end and the start of the last entry in `undo`. PostgreSQL writes and syncs WAL under a lock of its own, so
     * only one process at a time uses them. */
    _Atomic int64_t undo_end, undo_last;
    char undo[(32 << 20) - 14 * 8];
};

/* The contents of a part of a WAL segment before a write. */
struct entry {
    int64_t previous;
    int64_t inode, offset, size;
    char old[];
};

static struct disk *disk;
static char base[PATH_MAX], wal[PATH_MAX];

__attribute__((constructor)) static void map_disk(void)
{
    const char *path = getenv("INSTAGRAM_ID_DISK");
    char resolved[PATH_MAX];
    int file = path && realpath(path, resolved) ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(*disk), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) {
        perror("INSTAGRAM_ID_DISK cannot be mapped");
        abort();
    }
    close(file);
    *strrchr(resolved, '/') = 0;
    snprintf(base, sizeof(base), "%.4000s/data/base/", resolved);
    snprintf(wal, sizeof(wal), "%.4000s/data/pg_wal/", resolved);
    disk = mapped;
}

/* The kind of fault that a call on a file can have, and whether the file is a WAL segment in use. */
struct target {
    enum kind kind; /* NONE if the test has switched it off */
    bool is_segment;
};

static struct target target_of(int file, bool is_sync)
{
    const struct target none = {NONE, false};
    char link[32] = "/proc/self/fd/", digits[12], path[PATH_MAX];
    int saved = errno, digit_count = 0;
    size_t len = strlen(link);
    enum kind of_data = is_sync ? SYNC_DATA : WRITE_DATA, of_wal = is_sync ? SYNC_WAL : WRITE_WAL;
    ssize_t path_len;

    /* If fsyncs of WAL can fail, the writes to WAL are recorded even if they cannot fail. */
    if (disk == NULL || file < 0 ||
        (disk->rates[of_data] == 0 && disk->rates[of_wal] == 0 && disk->rates[SYNC_WAL] == 0))
        return none;
    do
        digits[digit_count++] = '0' + file % 10;
    while ((file /= 10) > 0); /* a signal handler must not call snprintf */
    while (digit_count > 0)
        link[len++] = digits[--digit_count];
    link[len] = 0;
    path_len = readlink(link, path, sizeof(path) - 1);
    errno = saved;
    if (path_len < 0)
        return none;
    path[path_len] = 0;
    if (strncmp(path, base, strlen(base)) == 0)
        return (struct target){of_data, false};
    if (strncmp(path, wal, strlen(wal)) != 0)
        return none;
    /* A new segment has a temporary name until it is complete. */
    return (struct target){of_wal, path[strlen(wal)] == '0'};
}

/* Whether a call fails, and in which of the two ways. The random choices depend only on the seed (splitmix64). */
static bool fails(enum kind kind, bool *other_way)
{
    int64_t rate = kind == NONE ? 0 : disk->rates[kind];
    if (rate == 0)
        return false;
    uint64_t random = disk->seed + (disk->calls++ + 1) * 0x9e3779b97f4a7c15;
    random = (random ^ random >> 30) * 0xbf58476d1ce4e5b9;
    random = (random ^ random >> 27) * 0x94d049bb133111eb;
    random ^= random >> 31;
    *other_way = random >> 63;
    if ((int64_t)((random & 0xffffffff) % 1000000) >= rate)
        return false;
    disk->failures[kind]++;
    return true;
}

static bool refuses(enum kind kind, int file, const void *data, size_t size, off_t offset)
{
    bool is_torn;
    if (!fails(kind, &is_torn))
        return false;
    if (is_torn && data != NULL) {
        disk->torn++;
        syscall(SYS_pwrite64, file, data, size / 2, offset);
    }
    errno = ENOSPC;
    return true;
}

/* Records the contents of a part of a WAL segment before a write. If `undo` is full, older entries are discarded. */
static void remember(struct target target, int file, size_t size, off_t offset)
{
    int64_t begin = disk->undo_end;
    struct entry *entry;
    struct stat status;

    if (!target.is_segment || disk->rates[SYNC_WAL] == 0)
        return;
    if (begin + sizeof(*entry) + size > sizeof(disk->undo))
        begin = 0;
    entry = (struct entry *)(disk->undo + begin);
    if (sizeof(*entry) + size > sizeof(disk->undo) || fstat(file, &status) != 0 ||
        pread(file, entry->old, size, offset) != (ssize_t)size) {
        disk->undo_end = 0;
        return;
    }
    entry->previous = begin == 0 ? -1 : disk->undo_last;
    entry->inode = status.st_ino;
    entry->offset = offset;
    entry->size = size;
    disk->undo_last = begin;
    disk->undo_end = (begin + sizeof(*entry) + size + 7) / 8 * 8;
}

/* Reverts the writes to this file since its last successful fsync. */
static void undo_writes(int file)
{
    struct stat status;
    if (disk->undo_end == 0 || fstat(file, &status) != 0)
        return;
    for (int64_t at = disk->undo_last; at >= 0;) {
        struct entry *entry = (struct entry *)(disk->undo + at);
        if (entry->inode == (int64_t)status.st_ino)
            syscall(SYS_pwrite64, file, entry->old, (size_t)entry->size, (off_t)entry->offset);
        at = entry->previous;
    }
    disk->undo_end = 0;
    disk->lost++;
}

static int sync_file(int file, long call)
{
    struct target target = target_of(file, true);
    bool is_lost;
    if (fails(target.kind, &is_lost)) {
        if (!is_lost)
            syscall(call, file);
        else if (target.is_segment)
            undo_writes(file);
        errno = EIO;
        return -1;
    }
    int result = syscall(call, file);
    if (result == 0 && target.is_segment)
        disk->undo_end = 0;
    return result;
}

int fsync(int file)
{
    return sync_file(file, SYS_fsync);
}

int fdatasync(int file)
{
    return sync_file(file, SYS_fdatasync);
}

/* The call is only a hint, so a call that succeeds does nothing. */
int sync_file_range(int file, off64_t offset, off64_t size, unsigned int flags)
{
    bool unused;
    if (fails(target_of(file, true).kind, &unused)) {
        errno = EIO;
        return -1;
    }
    return 0;
}

ssize_t pwrite(int file, const void *data, size_t size, off_t offset)
{
    struct target target = target_of(file, false);
    remember(target, file, size, offset);
    return refuses(target.kind, file, data, size, offset) ? -1 : syscall(SYS_pwrite64, file, data, size, offset);
}

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t offset)
{
    struct target target = target_of(file, false);
    size_t size = 0;
    for (int n = 0; n < count; n++)
        size += parts[n].iov_len;
    remember(target, file, size, offset);
    if (refuses(target.kind, file, parts[0].iov_base, parts[0].iov_len, offset))
        return -1;
    return syscall(SYS_pwritev, file, parts, count, offset, 0L);
}

ssize_t write(int file, const void *data, size_t size)
{
    return refuses(target_of(file, false).kind, file, NULL, 0, 0) ? -1 : syscall(SYS_write, file, data, size);
}

int ftruncate(int file, off_t size)
{
    return refuses(target_of(file, false).kind, file, NULL, 0, 0) ? -1 : syscall(SYS_ftruncate, file, size);
}

/* Returns its error instead of setting errno. */
int posix_fallocate(int file, off_t offset, off_t size)
{
    int saved = errno;
    bool failed = refuses(target_of(file, false).kind, file, NULL, 0, 0) || syscall(SYS_fallocate, file, 0, offset, size) != 0;
    int error = failed ? errno : 0;
    errno = saved;
    return error;
}

/* Other names of the same functions. Some builds of PostgreSQL call these. */
ssize_t pwrite64(int, const void *, size_t, off64_t) __attribute__((alias("pwrite")));
ssize_t pwritev64(int, const struct iovec *, int, off64_t) __attribute__((alias("pwritev")));
int ftruncate64(int, off64_t) __attribute__((alias("ftruncate")));
int posix_fallocate64(int, off64_t, off64_t) __attribute__((alias("posix_fallocate")));
