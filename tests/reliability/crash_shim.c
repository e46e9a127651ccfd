/* Fail or kill at the n-th file operation below a folder; loaded with LD_PRELOAD.
 *
 * It wraps the functions of libc, so that native libraries (Arrow, torch) are covered as well as
 * Python. An operation has a kind; only operations of the armed kinds below the armed folder count.
 * With a log folder, every change is appended to LOG/log, and every fsync of a file copies the
 * file to LOG/<line number>: from that the state after a loss of power is built (crash_points.py).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Kinds of operations; the same numbers are in crash_points.py. */
enum { CHANGE = 1, WRITE = 2, REMOVE = 4, SYNC = 8, READ = 16, CLOSE = 32 };
enum { NOTHING, KILL, ONCE, ALWAYS, SHORT };

#define BUFFER (2 * PATH_MAX)

static char root[PATH_MAX], log_folder[PATH_MAX];
static size_t root_length;
static int action, error_number, kinds, log_file = -1;
static long point, counter, lines;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) {
    void *function = dlsym(RTLD_NEXT, name);
    if (!function) abort();
    return function;
}

/* Count operations of these kinds below `folder`; at number `n`, do `what`. */
void crash_arm(const char *folder, int what, int error, long n, int which, const char *log) {
    snprintf(root, sizeof root, "%s", folder);
    root_length = strlen(root);
    action = what, error_number = error, point = n, kinds = which;
    counter = lines = 0;
    if (log) {
        char path[BUFFER];
        snprintf(log_folder, sizeof log_folder, "%s", log);
        snprintf(path, sizeof path, "%s/log", log);
        log_file = syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_APPEND, 0600);
    }
}

/* Stop counting; return how many operations there were. */
long crash_disarm(void) {
    root_length = 0;
    return counter;
}

static int below(const char *path) {
    return root_length && !strncmp(path, root, root_length) &&
           (path[root_length] == '/' || !path[root_length]);
}

static int path_of(int descriptor, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = 0;
    return length > 0;
}

static int is_below(int descriptor, char *path) {
    return root_length && path_of(descriptor, path) && below(path);
}

static int resolve(int folder, const char *name, char *path) {
    char base[PATH_MAX];
    if (!root_length || !name) return 0;
    if (name[0] == '/') {
        snprintf(path, BUFFER, "%s", name);
    } else {
        if (folder == AT_FDCWD ? !getcwd(base, sizeof base) : !path_of(folder, base)) return 0;
        snprintf(path, BUFFER, "%s/%s", base, name);
    }
    return below(path);
}

/* Count an operation; return what happens to it. */
static int next(int kind) {
    if (!(kind & kinds)) return NOTHING;
    long number = __atomic_add_fetch(&counter, 1, __ATOMIC_SEQ_CST);
    if (number == point || (action == ALWAYS && point && number > point)) return action;
    return NOTHING;
}

__attribute__((noreturn)) static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

/* Return whether the operation fails, with errno set. */
static int fails(int kind) {
    switch (next(kind)) {
        case KILL: die();
        case ONCE:
        case ALWAYS: errno = error_number; return 1;
    }
    return 0;
}

static void put(int target, const char *text, size_t size) {
    while (size) {
        ssize_t done = syscall(SYS_write, target, text, size);
        if (done <= 0) abort();
        text += done, size -= done;
    }
}

static void note(char what, const char *path, const char *second) {
    if (log_file < 0) return;
    int saved = errno;
    char line[3 * BUFFER];
    int size = snprintf(line, sizeof line, "%c\t%s\t%s\n", what, path, second ? second : "");
    put(log_file, line, size);
    lines++;
    errno = saved;
}

static void note_sync(int descriptor, const char *path) {
    struct stat kind;
    if (log_file < 0) return;
    int saved = errno;
    if (fstat(descriptor, &kind)) abort();
    note(S_ISDIR(kind.st_mode) ? 'D' : 'S', path, NULL);
    if (!S_ISDIR(kind.st_mode)) {
        char copy[BUFFER], buffer[1 << 14];
        snprintf(copy, sizeof copy, "%s/%ld", log_folder, lines);
        int from = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
        int to = syscall(SYS_openat, AT_FDCWD, copy, O_CREAT | O_WRONLY | O_TRUNC, 0600);
        if (from < 0 || to < 0) abort();
        for (ssize_t n; (n = syscall(SYS_read, from, buffer, sizeof buffer)) > 0;)
            put(to, buffer, n);
        syscall(SYS_close, from);
        syscall(SYS_close, to);
    }
    errno = saved;
}

/* Opening: with O_CREAT or O_TRUNC a change, else a read. */

static int open_at(int folder, const char *name, int flags, mode_t mode) {
    __typeof__(&openat) function = REAL(openat);
    char path[BUFFER];
    if (!resolve(folder, name, path)) return function(folder, name, flags, mode);
    int exists = !syscall(SYS_faccessat, folder, name, F_OK);
    int changes = ((flags & O_CREAT) && !exists) || (flags & O_TRUNC);
    if (fails(changes || (flags & O_ACCMODE) != O_RDONLY ? CHANGE : READ)) return -1;
    int descriptor = function(folder, name, flags, mode);
    if (descriptor >= 0 && changes) note(exists ? 'T' : 'C', path, NULL);
    return descriptor;
}

#define MODE(flags)                                    \
    mode_t mode = 0;                                   \
    if ((flags) & (O_CREAT | O_TMPFILE)) {             \
        va_list more;                                  \
        va_start(more, flags);                         \
        mode = va_arg(more, mode_t);                   \
        va_end(more);                                  \
    }

int open(const char *name, int flags, ...) { MODE(flags) return open_at(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE(flags) return open_at(AT_FDCWD, name, flags, mode); }
int openat(int folder, const char *name, int flags, ...) { MODE(flags) return open_at(folder, name, flags, mode); }
int openat64(int folder, const char *name, int flags, ...) { MODE(flags) return open_at(folder, name, flags, mode); }
int creat(const char *name, mode_t mode) { return open_at(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }

static FILE *file_open(__typeof__(&fopen) function, const char *name, const char *how) {
    char path[BUFFER];
    if (!resolve(AT_FDCWD, name, path)) return function(name, how);
    int exists = !syscall(SYS_faccessat, AT_FDCWD, name, F_OK);
    int changes = how[0] == 'w' || (how[0] == 'a' && !exists);
    if (fails(changes ? CHANGE : READ)) return NULL;
    FILE *file = function(name, how);
    if (file && changes) note(exists ? 'T' : 'C', path, NULL);
    return file;
}

FILE *fopen(const char *name, const char *how) { return file_open(REAL(fopen), name, how); }
FILE *fopen64(const char *name, const char *how) { return file_open(REAL(fopen64), name, how); }

/* Writing. A kill and a short write let the first half through. */

static ssize_t write_part(int descriptor, const void *data, size_t size, off_t offset) {
    return offset < 0 ? syscall(SYS_write, descriptor, data, size)
                      : syscall(SYS_pwrite64, descriptor, data, size, offset);
}

static ssize_t write_at(int descriptor, const void *data, size_t size, off_t offset) {
    char path[BUFFER];
    if (!is_below(descriptor, path)) return write_part(descriptor, data, size, offset);
    switch (next(WRITE)) {
        case KILL: write_part(descriptor, data, size / 2, offset); die();
        case SHORT: size = size > 1 ? size / 2 : size; break;
        case ONCE:
        case ALWAYS: errno = error_number; return -1;
    }
    ssize_t done = write_part(descriptor, data, size, offset);
    if (done > 0) note('W', path, NULL);
    return done;
}

ssize_t write(int descriptor, const void *data, size_t size) { return write_at(descriptor, data, size, -1); }
ssize_t pwrite(int descriptor, const void *data, size_t size, off_t offset) { return write_at(descriptor, data, size, offset); }
ssize_t pwrite64(int descriptor, const void *data, size_t size, off_t offset) { return write_at(descriptor, data, size, offset); }

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    char path[BUFFER];
    ssize_t total = 0;
    if (!is_below(descriptor, path)) return syscall(SYS_writev, descriptor, parts, count);
    for (int part = 0; part < count; part++) {
        if (!parts[part].iov_len) continue;
        ssize_t done = write_at(descriptor, parts[part].iov_base, parts[part].iov_len, -1);
        if (done < 0) return total ? total : -1;
        total += done;
        if ((size_t)done < parts[part].iov_len) break;
    }
    return total;
}

static ssize_t send_file(int target, int source, off_t *offset, size_t size) {
    char path[BUFFER];
    if (!is_below(target, path)) return syscall(SYS_sendfile, target, source, offset, size);
    struct stat kind;
    if (!fstat(source, &kind) && (off_t)size > kind.st_size) size = kind.st_size + 1;
    switch (next(WRITE)) {
        case KILL: syscall(SYS_sendfile, target, source, offset, size / 2); die();
        case SHORT: size = size > 1 ? size / 2 : size; break;
        case ONCE:
        case ALWAYS: errno = error_number; return -1;
    }
    ssize_t done = syscall(SYS_sendfile, target, source, offset, size);
    if (done > 0) note('W', path, NULL);
    return done;
}

ssize_t sendfile(int target, int source, off_t *offset, size_t size) { return send_file(target, source, offset, size); }
ssize_t sendfile64(int target, int source, off_t *offset, size_t size) { return send_file(target, source, offset, size); }

ssize_t copy_file_range(int source, off_t *from, int target, off_t *to, size_t size, unsigned flags) {
    char path[BUFFER];
    if (is_below(target, path)) { /* callers fall back to write */
        errno = EXDEV;
        return -1;
    }
    return syscall(SYS_copy_file_range, source, from, target, to, size, flags);
}

static int cut(int descriptor, off_t size) {
    char path[BUFFER];
    int inside = is_below(descriptor, path);
    if (inside && fails(CHANGE)) return -1;
    int result = syscall(SYS_ftruncate, descriptor, size);
    if (inside && !result) note('W', path, NULL);
    return result;
}

int ftruncate(int descriptor, off_t size) { return cut(descriptor, size); }
int ftruncate64(int descriptor, off_t size) { return cut(descriptor, size); }

/* Reading and closing: these only fail. */

ssize_t read(int descriptor, void *data, size_t size) {
    char path[BUFFER];
    if (is_below(descriptor, path) && fails(READ)) return -1;
    return syscall(SYS_read, descriptor, data, size);
}

ssize_t pread(int descriptor, void *data, size_t size, off_t offset) {
    char path[BUFFER];
    if (is_below(descriptor, path) && fails(READ)) return -1;
    return syscall(SYS_pread64, descriptor, data, size, offset);
}

ssize_t pread64(int descriptor, void *data, size_t size, off_t offset) { return pread(descriptor, data, size, offset); }

int close(int descriptor) {
    char path[BUFFER];
    int writable = root_length && (syscall(SYS_fcntl, descriptor, F_GETFL) & O_ACCMODE) != O_RDONLY;
    int failed = writable && is_below(descriptor, path) && fails(CLOSE);
    int saved = errno;
    int result = syscall(SYS_close, descriptor);
    if (failed) errno = saved;
    return failed ? -1 : result;
}

/* Syncing. */

int fsync(int descriptor) {
    char path[BUFFER];
    if (!is_below(descriptor, path)) return 0; /* the machine itself does not crash here */
    if (fails(SYNC)) return -1;
    note_sync(descriptor, path);
    return 0;
}

int fdatasync(int descriptor) { return fsync(descriptor); }

/* Names. */

static int rename_at(int from, const char *old, int to, const char *new, unsigned flags) {
    char path[BUFFER], target[BUFFER];
    int inside = resolve(from, old, path) | resolve(to, new, target);
    if (inside && fails(CHANGE)) return -1;
    int result = syscall(SYS_renameat2, from, old, to, new, flags);
    if (inside && !result) note('R', path, target);
    return result;
}

int rename(const char *old, const char *new) { return rename_at(AT_FDCWD, old, AT_FDCWD, new, 0); }
int renameat(int from, const char *old, int to, const char *new) { return rename_at(from, old, to, new, 0); }
int renameat2(int from, const char *old, int to, const char *new, unsigned flags) { return rename_at(from, old, to, new, flags); }

static int remove_at(int folder, const char *name, int flags) {
    char path[BUFFER];
    int inside = resolve(folder, name, path) && !syscall(SYS_faccessat, folder, name, F_OK);
    if (inside && fails(REMOVE)) return -1;
    int result = syscall(SYS_unlinkat, folder, name, flags);
    if (inside && !result) note('U', path, NULL);
    return result;
}

int unlink(const char *name) { return remove_at(AT_FDCWD, name, 0); }
int unlinkat(int folder, const char *name, int flags) { return remove_at(folder, name, flags); }
int rmdir(const char *name) { return remove_at(AT_FDCWD, name, AT_REMOVEDIR); }

int mkdirat(int folder, const char *name, mode_t mode) {
    char path[BUFFER];
    int inside = resolve(folder, name, path) && syscall(SYS_faccessat, folder, name, F_OK);
    if (inside && fails(CHANGE)) return -1;
    int result = syscall(SYS_mkdirat, folder, name, mode);
    if (inside && !result) note('M', path, NULL);
    return result;
}

int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

/* Not modeled: a test that meets them must learn of it. */
#define REFUSE(path) if (root_length && below(path)) { errno = ENOSYS; return -1; }

int link(const char *old, const char *new) { REFUSE(new) return syscall(SYS_linkat, AT_FDCWD, old, AT_FDCWD, new, 0); }
int symlink(const char *old, const char *new) { REFUSE(new) return syscall(SYS_symlinkat, old, AT_FDCWD, new); }
