/* Faults at the N-th file-system call below a folder, and a record of these calls.

   Loaded with LD_PRELOAD.  What to do is read, at every call, from the file that FAULTS_STATE names,
   which all processes of a run map; tests/faults/preload.py writes it.  Calls are made with
   syscall(2), so nothing here depends on which C library function a program took. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define LONGEST 1024
#define SHUTDOWN _IOR('X', 125, uint32_t) /* EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN */

enum kind {
    OPEN = 1, CREATE = 2, READ = 4, WRITE = 8, SYNC = 16, RENAME = 32, LINK = 64, UNLINK = 128,
    RMDIR = 256, MKDIR = 512, TRUNCATE = 1024, CLOSE = 2048, LOCK = 4096, MODE = 8192
};

enum action { NOTHING, KILL, KILL_ALL, TORN, ERROR, SHORT, CUT };

enum decision { GO, FAIL, HALF, HALF_AND_DIE };

struct state {
    int64_t calls, hits, first, last;
    int32_t action, error;
    uint32_t kinds, flags;
    char root[LONGEST], record[LONGEST], mount[LONGEST], hit[LONGEST];
};

struct header {
    uint32_t kind, path, target;
    int64_t offset, length;
};

static struct state *state;
static size_t root_length;
static pthread_mutex_t recording = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULTS_STATE");
    int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0) : -1;
    if (fd < 0) return;
    void *at = mmap(NULL, sizeof(struct state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (at != MAP_FAILED) state = at;
}

/* paths */

static int link_of(const char *link, char *into) {
    ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, link, into, LONGEST - 1);
    if (n < 0) return 0;
    into[n] = 0;
    return 1;
}

static int path_of(int fd, char *into) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return link_of(link, into);
}

static int path_at(int folder, const char *path, char *into) {
    char base[LONGEST];
    if (!path) return 0;
    if (path[0] == '/') return snprintf(into, LONGEST, "%s", path) < LONGEST;
    if (!(folder == AT_FDCWD ? link_of("/proc/self/cwd", base) : path_of(folder, base))) return 0;
    return snprintf(into, LONGEST, "%s/%s", base, path) < LONGEST;
}

static int is_below(const char *path) {
    root_length = strlen(state->root);
    return root_length && !strncmp(path, state->root, root_length) &&
           (path[root_length] == '/' || path[root_length] == 0);
}

static int is_watched(void) { return state && state->root[0]; }

/* faults */

static void die(int group) {
    syscall(SYS_kill, group ? 0 : getpid(), SIGKILL);
    for (;;) pause();
}

static void cut(void) {
    uint32_t flags = state->flags;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, state->mount, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0 || syscall(SYS_ioctl, fd, SHUTDOWN, &flags)) state->hits = -errno;
    die(1);
}

static enum decision meet(enum kind kind, const char *path) {
    if (!(state->kinds & kind)) return GO;
    int64_t n = __atomic_add_fetch(&state->calls, 1, __ATOMIC_SEQ_CST);
    if (state->action == NOTHING || n < state->first || n > state->last) return GO;
    if (!__atomic_fetch_add(&state->hits, 1, __ATOMIC_SEQ_CST))
        snprintf(state->hit, LONGEST, "%d %s", kind, path);
    switch (state->action) {
    case KILL: die(0); break;
    case KILL_ALL: die(1); break;
    case CUT: cut(); break;
    case TORN: if (kind == WRITE) return HALF_AND_DIE; die(0); break;
    case SHORT: if (kind == WRITE && n == state->first) return HALF; break;
    default: break;
    }
    errno = state->error;
    return FAIL;
}

/* the record */

static void put(int fd, const void *data, size_t size) {
    const char *at = data;
    while (size) {
        ssize_t n = syscall(SYS_write, fd, at, size);
        if (n <= 0) abort();
        at += n;
        size -= (size_t)n;
    }
}

static void note(enum kind kind, const char *path, const char *target, int64_t offset,
                 const void *data, int64_t length) {
    int kept = errno;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, state->record,
                          O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) abort();
    struct header header = {kind, (uint32_t)strlen(path), target ? (uint32_t)strlen(target) : 0,
                            offset, length};
    put(fd, &header, sizeof header);
    put(fd, path, header.path);
    if (target) put(fd, target, header.target);
    if (data) put(fd, data, (size_t)length);
    syscall(SYS_close, fd);
    errno = kept;
}

static int starts(void) {
    if (!state->record[0]) return 0;
    pthread_mutex_lock(&recording);
    return 1;
}

static void ends(int started) {
    if (started) pthread_mutex_unlock(&recording);
}

/* open, close */

static int opened(int folder, const char *path, int flags, mode_t mode) {
    char full[LONGEST];
    if (!is_watched() || !path_at(folder, path, full) || !is_below(full))
        return (int)syscall(SYS_openat, folder, path, flags, mode);
    if (meet(flags & O_CREAT ? CREATE : OPEN, full) != GO) return -1;
    int noting = starts();
    int is_new = noting && syscall(SYS_faccessat, folder, path, F_OK) != 0;
    int fd = (int)syscall(SYS_openat, folder, path, flags, mode);
    if (noting && fd >= 0) {
        if ((flags & O_CREAT) && is_new) note(CREATE, full, NULL, 0, NULL, 0);
        else if (flags & O_TRUNC) note(TRUNCATE, full, NULL, 0, NULL, 0);
    }
    ends(noting);
    return fd;
}

#define MODE_OF(flags)                                  \
    mode_t mode = 0;                                    \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {            \
        va_list rest;                                   \
        va_start(rest, flags);                          \
        mode = (mode_t)va_arg(rest, int);               \
        va_end(rest);                                   \
    }

EXPORT int open(const char *path, int flags, ...) { MODE_OF(flags) return opened(AT_FDCWD, path, flags, mode); }
EXPORT int open64(const char *path, int flags, ...) { MODE_OF(flags) return opened(AT_FDCWD, path, flags, mode); }
EXPORT int openat(int folder, const char *path, int flags, ...) { MODE_OF(flags) return opened(folder, path, flags, mode); }
EXPORT int openat64(int folder, const char *path, int flags, ...) { MODE_OF(flags) return opened(folder, path, flags, mode); }
EXPORT int __open_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
EXPORT int __open64_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
EXPORT int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

static enum decision meet_fd(enum kind kind, int fd, char *path) {
    path[0] = 0;
    if (!is_watched() || !path_of(fd, path) || !is_below(path)) {
        path[0] = 0;
        return GO;
    }
    return meet(kind, path);
}

EXPORT int close(int fd) {
    char path[LONGEST];
    enum decision decision = is_watched() && (state->kinds & CLOSE) ? meet_fd(CLOSE, fd, path) : GO;
    int kept = errno;
    int done = (int)syscall(SYS_close, fd); /* it is closed even where that tells of an error */
    if (decision == GO) return done;
    errno = kept;
    return -1;
}

/* read, write */

#define READING(fd, call)                                                     \
    char path[LONGEST];                                                       \
    if (is_watched() && (state->kinds & READ) && meet_fd(READ, fd, path) != GO) return -1; \
    return call;

EXPORT ssize_t read(int fd, void *into, size_t size) { READING(fd, syscall(SYS_read, fd, into, size)) }
EXPORT ssize_t pread(int fd, void *into, size_t size, off_t at) { READING(fd, syscall(SYS_pread64, fd, into, size, at)) }
EXPORT ssize_t pread64(int fd, void *into, size_t size, off64_t at) { READING(fd, syscall(SYS_pread64, fd, into, size, at)) }

static void note_written(int fd, const char *path, int64_t at, int64_t length) {
    if (at < 0) at = syscall(SYS_lseek, fd, 0, SEEK_CUR) - length;
    char *data = malloc((size_t)length + 1);
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int again = (int)syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0);
    for (int64_t n = 0; n < length;) {
        ssize_t more = syscall(SYS_pread64, again, data + n, (size_t)(length - n), at + n);
        if (more <= 0) abort();
        n += more;
    }
    syscall(SYS_close, again);
    note(WRITE, path, NULL, at, data, length);
    free(data);
}

typedef ssize_t writing(int fd, const void *data, size_t size, int64_t at, void *more);

static ssize_t written(int fd, const void *data, size_t size, int64_t at, void *more, writing *call) {
    char path[LONGEST];
    enum decision decision = meet_fd(WRITE, fd, path);
    if (decision == FAIL) return -1;
    if (decision != GO) size = size > 1 ? size / 2 : size;
    int noting = path[0] ? starts() : 0;
    ssize_t done = call(fd, data, size, at, more);
    if (noting && done > 0) note_written(fd, path, at, done);
    ends(noting);
    if (decision == HALF_AND_DIE) die(1);
    return done;
}

static ssize_t plain(int fd, const void *data, size_t size, int64_t at, void *more) {
    (void)more;
    return at < 0 ? syscall(SYS_write, fd, data, size) : syscall(SYS_pwrite64, fd, data, size, at);
}

static ssize_t vector(int fd, const void *data, size_t size, int64_t at, void *more) {
    const struct iovec *all = data;
    size_t whole = *(size_t *)more;
    if (size < whole) /* a part only: what the first piece has of it */
        return plain(fd, all->iov_base, all->iov_len > 1 ? all->iov_len / 2 : all->iov_len, at, more);
    return at < 0 ? syscall(SYS_writev, fd, data, size)
                  : syscall(SYS_pwritev, fd, data, size, (long)at, 0L);
}

struct from { int fd; off64_t *at; };

static ssize_t sent(int fd, const void *data, size_t size, int64_t at, void *more) {
    struct from *from = more;
    (void)data;
    (void)at;
    return syscall(SYS_sendfile, fd, from->fd, from->at, size);
}

struct range { int fd; off64_t *at, *to; unsigned flags; };

static ssize_t copied(int fd, const void *data, size_t size, int64_t at, void *more) {
    struct range *range = more;
    (void)data;
    (void)at;
    return syscall(SYS_copy_file_range, range->fd, range->at, fd, range->to, size, range->flags);
}

EXPORT ssize_t write(int fd, const void *data, size_t size) { return written(fd, data, size, -1, NULL, plain); }
EXPORT ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return written(fd, data, size, at, NULL, plain); }
EXPORT ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { return written(fd, data, size, at, NULL, plain); }
EXPORT ssize_t writev(int fd, const struct iovec *data, int n) { size_t all = (size_t)n; return written(fd, data, all, -1, &all, vector); }
EXPORT ssize_t pwritev(int fd, const struct iovec *data, int n, off_t at) { size_t all = (size_t)n; return written(fd, data, all, at, &all, vector); }
EXPORT ssize_t pwritev64(int fd, const struct iovec *data, int n, off64_t at) { size_t all = (size_t)n; return written(fd, data, all, at, &all, vector); }
EXPORT ssize_t sendfile(int fd, int from, off_t *at, size_t size) { struct from f = {from, at}; return written(fd, NULL, size, -1, &f, sent); }
EXPORT ssize_t sendfile64(int fd, int from, off64_t *at, size_t size) { struct from f = {from, at}; return written(fd, NULL, size, -1, &f, sent); }
EXPORT ssize_t copy_file_range(int from, off64_t *at, int fd, off64_t *to, size_t size, unsigned flags) {
    struct range range = {from, at, to, flags};
    return written(fd, NULL, size, to ? *to : -1, &range, copied);
}

/* everything else: a decision, the call, a note of it */

#define ON_FILE(kind, fd, call, where, size)                          \
    char path[LONGEST];                                               \
    if (meet_fd(kind, fd, path) != GO) return -1;                     \
    int noting = path[0] ? starts() : 0;                              \
    int done = (int)(call);                                           \
    if (noting && !done) note(kind, path, NULL, where, NULL, size);   \
    ends(noting);                                                     \
    return done;

EXPORT int fsync(int fd) { ON_FILE(SYNC, fd, syscall(SYS_fsync, fd), 0, 0) }
EXPORT int fdatasync(int fd) { ON_FILE(SYNC, fd, syscall(SYS_fdatasync, fd), 0, 0) }
EXPORT int ftruncate(int fd, off_t to) { ON_FILE(TRUNCATE, fd, syscall(SYS_ftruncate, fd, to), to, 0) }
EXPORT int ftruncate64(int fd, off64_t to) { ON_FILE(TRUNCATE, fd, syscall(SYS_ftruncate, fd, to), to, 0) }
EXPORT int fallocate(int fd, int how, off_t at, off_t size) { ON_FILE(MODE, fd, syscall(SYS_fallocate, fd, how, at, size), 0, 0) }
EXPORT int fallocate64(int fd, int how, off64_t at, off64_t size) { ON_FILE(MODE, fd, syscall(SYS_fallocate, fd, how, at, size), 0, 0) }
EXPORT int fchmod(int fd, mode_t mode) { ON_FILE(MODE, fd, syscall(SYS_fchmod, fd, mode), 0, 0) }
EXPORT int flock(int fd, int how) {
    char path[LONGEST];
    if (!(how & LOCK_UN) && meet_fd(LOCK, fd, path) != GO) return -1;
    return (int)syscall(SYS_flock, fd, how);
}

static int controlled(int fd, int command, void *argument) {
    char path[LONGEST];
    int locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK;
    if (locks && ((struct flock *)argument)->l_type != F_UNLCK && meet_fd(LOCK, fd, path) != GO) return -1;
    return (int)syscall(SYS_fcntl, fd, command, argument);
}

#define ARGUMENT                          \
    va_list rest;                         \
    va_start(rest, command);              \
    void *argument = va_arg(rest, void *); \
    va_end(rest);

EXPORT int fcntl(int fd, int command, ...) { ARGUMENT return controlled(fd, command, argument); }
EXPORT int fcntl64(int fd, int command, ...) { ARGUMENT return controlled(fd, command, argument); }

#define ON_PATH(kind, folder, name, call)                                             \
    char path[LONGEST];                                                               \
    int watched = is_watched() && path_at(folder, name, path) && is_below(path);      \
    if (watched && meet(kind, path) != GO) return -1;                                 \
    int noting = watched ? starts() : 0;                                              \
    int done = (int)(call);                                                           \
    if (noting && !done) note(kind, path, NULL, 0, NULL, 0);                          \
    ends(noting);                                                                     \
    return done;

#define ON_PATHS(kind, folder, name, other, new, call)                                \
    char path[LONGEST], target[LONGEST];                                              \
    int watched = is_watched() && path_at(folder, name, path) &&                      \
                  path_at(other, new, target) && (is_below(path) || is_below(target)); \
    if (watched && meet(kind, target) != GO) return -1;                               \
    int noting = watched ? starts() : 0;                                              \
    int done = (int)(call);                                                           \
    if (noting && !done) note(kind, path, target, 0, NULL, 0);                        \
    ends(noting);                                                                     \
    return done;

static int renamed(int folder, const char *old, int other, const char *new, unsigned flags) {
    ON_PATHS(RENAME, folder, old, other, new, syscall(SYS_renameat2, folder, old, other, new, flags))
}

static int linked(int folder, const char *old, int other, const char *new, int flags) {
    ON_PATHS(LINK, folder, old, other, new, syscall(SYS_linkat, folder, old, other, new, flags))
}

static int file_unlinked(int folder, const char *name) { ON_PATH(UNLINK, folder, name, syscall(SYS_unlinkat, folder, name, 0)) }
static int folder_unlinked(int folder, const char *name) { ON_PATH(RMDIR, folder, name, syscall(SYS_unlinkat, folder, name, AT_REMOVEDIR)) }
static int made(int folder, const char *name, mode_t mode) { ON_PATH(MKDIR, folder, name, syscall(SYS_mkdirat, folder, name, mode)) }

EXPORT int rename(const char *old, const char *new) { return renamed(AT_FDCWD, old, AT_FDCWD, new, 0); }
EXPORT int renameat(int folder, const char *old, int other, const char *new) { return renamed(folder, old, other, new, 0); }
EXPORT int renameat2(int folder, const char *old, int other, const char *new, unsigned flags) { return renamed(folder, old, other, new, flags); }
EXPORT int link(const char *old, const char *new) { return linked(AT_FDCWD, old, AT_FDCWD, new, 0); }
EXPORT int linkat(int folder, const char *old, int other, const char *new, int flags) { return linked(folder, old, other, new, flags); }
EXPORT int unlink(const char *name) { return file_unlinked(AT_FDCWD, name); }
EXPORT int unlinkat(int folder, const char *name, int flags) { return flags & AT_REMOVEDIR ? folder_unlinked(folder, name) : file_unlinked(folder, name); }
EXPORT int rmdir(const char *name) { return folder_unlinked(AT_FDCWD, name); }
EXPORT int remove(const char *name) {
    struct stat found;
    int is_folder = !lstat(name, &found) && S_ISDIR(found.st_mode);
    return is_folder ? rmdir(name) : unlink(name);
}
EXPORT int mkdir(const char *name, mode_t mode) { return made(AT_FDCWD, name, mode); }
EXPORT int mkdirat(int folder, const char *name, mode_t mode) { return made(folder, name, mode); }
EXPORT int chmod(const char *name, mode_t mode) { ON_PATH(MODE, AT_FDCWD, name, syscall(SYS_fchmodat, AT_FDCWD, name, mode)) }
EXPORT int truncate(const char *name, off_t to) { int fd = opened(AT_FDCWD, name, O_WRONLY, 0); int done = fd < 0 ? -1 : ftruncate(fd, to); if (fd >= 0) close(fd); return done; }
EXPORT int truncate64(const char *name, off64_t to) { return truncate(name, to); }
