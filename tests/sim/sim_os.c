/* What the kernel and liburcu are to the agent: files in memory, threads that run in events,
 * processes that are known by a number, random numbers from the seed. Linked in the place of the
 * real ones by --wrap, for the product's objects as for these. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define URCU_API_MAP
#include <urcu/urcu-memb.h>

#include "shm/process.h"
#include "tests/sim/os.h"
#include "shm/table.h"
#include "tests/sim/procs.h"

/* --- files ------------------------------------------------------------------------------------ */

#define FILES    32
#define FD_FIRST 1000000
#define FD_NULL  999999

struct file {
    char path[96]; /* "": removed */
    char *bytes;
    size_t size;
    ino_t inode;
};

static struct file files[FILES];
static int file_count;
static ino_t inodes;

void os_reset(void)
{
    file_count = 0;
    inodes = 0;
}

static struct file *file_find(const char *path)
{
    for (int i = 0; i < file_count; i++)
        if (strcmp(files[i].path, path) == 0)
            return &files[i];
    return NULL;
}

static struct file *file_of(int fd)
{
    return &files[fd - FD_FIRST];
}

static int file_open(const char *path, int flags)
{
    static const char again[] = "/proc/self/fd/";
    struct file *f;

    if (strncmp(path, again, sizeof(again) - 1) == 0)
        return atoi(path + sizeof(again) - 1);
    if (strcmp(path, "/dev/null") == 0)
        return FD_NULL;
    f = file_find(path);
    if (!f && !(flags & O_CREAT)) {
        errno = ENOENT;
        return -1;
    }
    if (f && (flags & O_EXCL)) {
        errno = EEXIST;
        return -1;
    }
    if (!f) {
        f = file_find(""); /* a removed one's place */
        if (!f && file_count == FILES) {
            fputs("sim: too many files\n", stderr);
            abort();
        }
        if (!f)
            f = &files[file_count++];
        *f = (struct file){.inode = ++inodes};
        snprintf(f->path, sizeof(f->path), "%s", path);
    }
    return FD_FIRST + (int)(f - files);
}

static int file_unlink(const char *path)
{
    struct file *f = file_find(path);

    if (!f) {
        errno = ENOENT;
        return -1;
    }
    f->path[0] = '\0'; /* whoever maps it keeps the bytes */
    return 0;
}

void os_remove(const char *path)
{
    (void)file_unlink(path);
}

bool os_exists(const char *path)
{
    return file_find(path) != NULL;
}

void os_remove_all(const char *prefix)
{
    for (int i = 0; i < file_count; i++)
        if (strncmp(files[i].path, prefix, strlen(prefix)) == 0)
            files[i].path[0] = '\0';
}

int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    return file_open(path, flags);
}

int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
    return file_open(path, flags);
}

int __wrap_shm_open(const char *name, int flags, mode_t mode);
int __wrap_shm_open(const char *name, int flags, mode_t mode)
{
    (void)mode;
    return file_open(name, flags);
}

int __wrap_shm_unlink(const char *name);
int __wrap_shm_unlink(const char *name)
{
    return file_unlink(name);
}

int __wrap_unlink(const char *path);
int __wrap_unlink(const char *path)
{
    return file_unlink(path);
}

int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    struct file *f = file_find(from);

    if (!f) {
        errno = ENOENT;
        return -1;
    }
    (void)file_unlink(to);
    snprintf(f->path, sizeof(f->path), "%s", to);
    return 0;
}

int __wrap_access(const char *path, int mode);
int __wrap_access(const char *path, int mode)
{
    (void)mode;
    if (file_find(path))
        return 0;
    errno = ENOENT;
    return -1;
}

int __wrap_close(int fd);
int __wrap_close(int fd)
{
    (void)fd;
    return 0;
}

static int stat_fd(int fd, struct stat *st)
{
    const struct file *f = file_of(fd);

    memset(st, 0, sizeof(*st));
    st->st_mode = S_IFREG | 0600;
    st->st_uid = geteuid();
    st->st_nlink = f->path[0] ? 1 : 0;
    st->st_size = (off_t)f->size;
    st->st_blocks = (blkcnt_t)(f->size / 512 + 1);
    st->st_dev = 1;
    st->st_ino = f->inode;
    return 0;
}

int __wrap_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st)
{
    return stat_fd(fd, st);
}

int __wrap_fstat64(int fd, struct stat *st);
int __wrap_fstat64(int fd, struct stat *st)
{
    return stat_fd(fd, st);
}

int __wrap_hf_file_id(int fd, struct hf_file_id *ret_id);
int __wrap_hf_file_id(int fd, struct hf_file_id *ret_id)
{
    *ret_id = (struct hf_file_id){.device = 1, .inode = file_of(fd)->inode};
    return 0;
}

/* A table that still has its name; the agent asks nothing else by path. */
int __wrap_lstat(const char *path, struct stat *st);
int __wrap_lstat(const char *path, struct stat *st)
{
    const char *folder = "/dev/shm";
    const struct file *f =
        strncmp(path, folder, strlen(folder)) == 0 ? file_find(path + strlen(folder)) : NULL;

    if (!f) {
        errno = ENOENT;
        return -1;
    }
    return stat_fd(FD_FIRST + (int)(f - files), st);
}

/* Its size is told once, and there is memory for all of it then. */
static int allocate(int fd, off_t length)
{
    struct file *f = file_of(fd);

    if (f->bytes)
        return 0;
    f->size = (size_t)length;
    f->bytes = sim_alloc(f->size + 64);
    f->bytes += -(uintptr_t)f->bytes & 63;
    return 0;
}

int __wrap_posix_fallocate(int fd, off_t offset, off_t length);
int __wrap_posix_fallocate(int fd, off_t offset, off_t length)
{
    return allocate(fd, offset + length);
}

int __wrap_posix_fallocate64(int fd, off_t offset, off_t length);
int __wrap_posix_fallocate64(int fd, off_t offset, off_t length)
{
    return allocate(fd, offset + length);
}

int __wrap_ftruncate(int fd, off_t length);
int __wrap_ftruncate(int fd, off_t length)
{
    return allocate(fd, length);
}

int __wrap_ftruncate64(int fd, off_t length);
int __wrap_ftruncate64(int fd, off_t length)
{
    return allocate(fd, length);
}

static ssize_t file_write(int fd, const void *from, size_t size, off_t offset)
{
    struct file *f = file_of(fd);

    if ((size_t)offset + size > f->size)
        size = f->size - (size_t)offset;
    memcpy(f->bytes + offset, from, size);
    return (ssize_t)size;
}

static ssize_t file_read(int fd, void *to, size_t size, off_t offset)
{
    struct file *f = file_of(fd);

    if ((size_t)offset >= f->size)
        return 0;
    if ((size_t)offset + size > f->size)
        size = f->size - (size_t)offset;
    memcpy(to, f->bytes + offset, size);
    return (ssize_t)size;
}

ssize_t __wrap_pwrite(int fd, const void *from, size_t size, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *from, size_t size, off_t offset)
{
    return file_write(fd, from, size, offset);
}

ssize_t __wrap_pwrite64(int fd, const void *from, size_t size, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *from, size_t size, off_t offset)
{
    return file_write(fd, from, size, offset);
}

ssize_t __wrap_pread(int fd, void *to, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *to, size_t size, off_t offset)
{
    return file_read(fd, to, size, offset);
}

ssize_t __wrap_pread64(int fd, void *to, size_t size, off_t offset);
ssize_t __wrap_pread64(int fd, void *to, size_t size, off_t offset)
{
    return file_read(fd, to, size, offset);
}

/* Without room to grow: here every byte of a file has memory, and a schedule has thousands of tables. */
int __real_hf_table_create(const char *shm_name, const struct hf_table_spec *spec,
                           struct hf_table *ret_table, bool *ret_warm, char *why, size_t why_size);
int __wrap_hf_table_create(const char *shm_name, const struct hf_table_spec *spec,
                           struct hf_table *ret_table, bool *ret_warm, char *why, size_t why_size);
int __wrap_hf_table_create(const char *shm_name, const struct hf_table_spec *spec,
                           struct hf_table *ret_table, bool *ret_warm, char *why, size_t why_size)
{
    struct hf_table_spec small = *spec;

    small.slot_room = spec->capacity;
    return __real_hf_table_create(shm_name, &small, ret_table, ret_warm, why, why_size);
}

void *__wrap_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    (void)address;
    (void)size;
    (void)protection;
    (void)flags;
    return file_of(fd)->bytes + offset;
}

void *__wrap_mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    return __wrap_mmap(address, size, protection, flags, fd, offset);
}

/* Nothing to be done: modes and groups, locked memory, unmapping. */

int __wrap_munmap(void *address, size_t size);
int __wrap_munmap(void *address, size_t size)
{
    (void)address;
    (void)size;
    return 0;
}

int __wrap_fchmod(int fd, mode_t mode);
int __wrap_fchmod(int fd, mode_t mode)
{
    (void)fd;
    (void)mode;
    return 0;
}

int __wrap_madvise(void *address, size_t size, int advice);
int __wrap_madvise(void *address, size_t size, int advice)
{
    (void)address;
    (void)size;
    (void)advice;
    return 0;
}

int __wrap_mlock(const void *address, size_t size);
int __wrap_mlock(const void *address, size_t size)
{
    (void)address;
    (void)size;
    return 0;
}

int __wrap_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...)
{
    (void)fd;
    (void)command;
    return 0;
}

/* A host has one agent at a time, and a killed one's locks go with it. */
int __wrap_flock(int fd, int operation);
int __wrap_flock(int fd, int operation)
{
    (void)fd;
    (void)operation;
    return 0;
}

int __wrap_gethostname(char *name, size_t size);
int __wrap_gethostname(char *name, size_t size)
{
    snprintf(name, size, "host");
    return 0;
}

int __wrap_getpid(void);
int __wrap_getpid(void)
{
    return 4711;
}

/* --- processes -------------------------------------------------------------------------------- */

long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    va_list args;
    int pid;

    if (number != SYS_pidfd_open) {
        errno = ENOSYS;
        return -1;
    }
    va_start(args, number);
    pid = va_arg(args, int);
    va_end(args);
    if (!proc_start_time(sim.frame->host, (uint32_t)pid)) {
        errno = ESRCH;
        return -1;
    }
    return proc_pidfd((uint32_t)pid);
}

uint64_t __wrap_hf_process_start_time(pid_t pid);
uint64_t __wrap_hf_process_start_time(pid_t pid)
{
    return proc_start_time(sim.frame->host, (uint32_t)pid);
}

/* --- random numbers --------------------------------------------------------------------------- */

ssize_t __wrap_getrandom(void *to, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t size, unsigned flags)
{
    char *at = to;

    (void)flags;
    for (size_t left = size; left > 0;) {
        uint64_t word = rng_next(&sim.product_rng);
        size_t part = left < sizeof(word) ? left : sizeof(word);

        memcpy(at, &word, part);
        at += part;
        left -= part;
    }
    return (ssize_t)size;
}

/* --- threads ---------------------------------------------------------------------------------- */

/* The body runs at once: its loop_run() only says that the loop's turns may begin. */
int __wrap_pthread_create(pthread_t *ret_thread, const pthread_attr_t *attr, void *(*body)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *ret_thread, const pthread_attr_t *attr, void *(*body)(void *),
                          void *arg)
{
    enum thread_role_taken role = thread_role_now;

    (void)attr;
    *ret_thread = pthread_self();
    (void)body(arg);
    thread_role_now = role;
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **ret_value);
int __wrap_pthread_join(pthread_t thread, void **ret_value)
{
    (void)thread;
    (void)ret_value;
    return 0;
}

int __wrap_pthread_setname_np(pthread_t thread, const char *name);
int __wrap_pthread_setname_np(pthread_t thread, const char *name)
{
    (void)thread;
    (void)name;
    return 0;
}

int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *ret_before);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *ret_before)
{
    (void)how;
    (void)set;
    (void)ret_before;
    return 0;
}

/* --- liburcu: one thread, so every moment is a grace period ----------------------------------- */

void urcu_memb_register_thread(void) {}

void urcu_memb_unregister_thread(void) {}

void urcu_memb_read_lock(void) {}

void urcu_memb_read_unlock(void) {}

void urcu_memb_call_rcu(struct rcu_head *head, void (*fn)(struct rcu_head *head))
{
    fn(head);
}
