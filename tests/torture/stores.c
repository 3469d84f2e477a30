#include "tests/torture/stores.h"

#include <errno.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ucontext.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRAP_FLAG   0x100
#define PAGE        UINT64_C(4096)
#define MOMENTS_MAX 4096
#define OPEN_MAX    4 /* pages that one instruction stores into */

static struct store_log *watched;
static uint64_t program;  /* where it is loaded */
static _Atomic bool busy; /* some thread is at a store */
static _Thread_local uint64_t open_page[OPEN_MAX], store_ip;
static _Thread_local int open_pages;

/* --- the log ---------------------------------------------------------------------------------- */

static size_t moment_size(uint64_t bytes)
{
    return (sizeof(struct moment) + bytes + 63) & ~(size_t)63;
}

static uint64_t size_of(const struct region *regions, int count)
{
    uint64_t size = 0;

    for (int i = 0; i < count; i++)
        size += regions[i].size;
    return size;
}

size_t store_log_size(const struct region *regions, int count, uint32_t moments)
{
    return PAGE + moments * moment_size(size_of(regions, count));
}

void store_log_init(struct store_log *log, const struct region *regions, int count,
                    uint32_t moments)
{
    memset(log, 0, sizeof(*log));
    log->room = moments;
    log->regions = (uint32_t)count;
    log->size = size_of(regions, count);
    memcpy(log->region, regions, (size_t)count * sizeof(*regions));
}

struct moment *store_log_moment(const struct store_log *log, uint32_t i)
{
    return (struct moment *)(void *)((char *)(uintptr_t)log + PAGE + i * moment_size(log->size));
}

void store_log_restore(const struct store_log *log, uint32_t i)
{
    const uint8_t *from = store_log_moment(log, i)->bytes;

    for (uint32_t r = 0; r < log->regions; from += log->region[r++].size)
        memcpy(log->region[r].at, from, log->region[r].size);
}

static bool has_changed(const struct store_log *log, uint32_t count)
{
    const uint8_t *last = store_log_moment(log, count - 1)->bytes;

    for (uint32_t r = 0; r < log->regions; last += log->region[r++].size)
        if (memcmp(last, log->region[r].at, log->region[r].size) != 0)
            return true;
    return false;
}

static void keep(struct store_log *log, uint64_t ip, const void *wire, size_t wire_size)
{
    uint32_t count = atomic_load(&log->count);
    struct moment *m = store_log_moment(log, count);
    uint8_t *to = m->bytes;

    if (count == log->room) {
        atomic_store(&log->overflown, 1);
        return;
    }
    m->ip = ip;
    m->wire_size = (uint32_t)(wire_size < WIRE_MAX ? wire_size : WIRE_MAX);
    if (m->wire_size)
        memcpy(m->wire, wire, m->wire_size);
    for (uint32_t r = 0; r < log->regions; to += log->region[r++].size)
        memcpy(to, log->region[r].at, log->region[r].size);
    atomic_store(&log->count, count + 1);
}

/* --- faults ----------------------------------------------------------------------------------- */

static void protect_all(int protection)
{
    for (uint32_t r = 0; r < watched->regions; r++) {
        uint64_t from = (uint64_t)(uintptr_t)watched->region[r].at & ~(PAGE - 1);
        uint64_t to = (uint64_t)(uintptr_t)watched->region[r].at + watched->region[r].size;

        (void)mprotect((void *)(uintptr_t)from, to - from, protection);
    }
}

static bool is_watched(uint64_t address)
{
    for (uint32_t r = 0; watched && r < watched->regions; r++) {
        uint64_t from = (uint64_t)(uintptr_t)watched->region[r].at & ~(PAGE - 1);
        uint64_t to = (uint64_t)(uintptr_t)watched->region[r].at + watched->region[r].size;

        if (address >= from && address < ((to + PAGE - 1) & ~(PAGE - 1)))
            return true;
    }
    return false;
}

static void enter(void)
{
    while (atomic_exchange(&busy, true))
        sched_yield();
}

static void leave(void)
{
    atomic_store(&busy, false);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    ucontext_t *u = context;
    uint64_t address = (uint64_t)(uintptr_t)info->si_addr;
    int saved = errno;

    if (!is_watched(address) || open_pages == OPEN_MAX) {
        (void)signal(number, SIG_DFL); /* a fault like any other: again, and the end */
        return;
    }
    if (open_pages == 0)
        enter();
    open_page[open_pages++] = address & ~(PAGE - 1);
    store_ip = (uint64_t)u->uc_mcontext.gregs[REG_RIP] - program;
    (void)mprotect((void *)(uintptr_t)(address & ~(PAGE - 1)), PAGE, PROT_READ | PROT_WRITE);
    u->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
    errno = saved;
}

static void on_trap(int number, siginfo_t *info, void *context)
{
    ucontext_t *u = context;
    int saved = errno;

    (void)number;
    (void)info;
    u->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    if (open_pages == 0)
        return;
    while (open_pages > 0) {
        open_pages--;
        if (atomic_load(&watched->watching))
            (void)mprotect((void *)(uintptr_t)open_page[open_pages], PAGE, PROT_READ);
    }
    if (has_changed(watched, atomic_load(&watched->count)))
        keep(watched, store_ip, NULL, 0);
    leave();
    errno = saved;
}

/* --- watching --------------------------------------------------------------------------------- */

static int note_base(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    program = info->dlpi_addr;
    return 1; /* the program comes first */
}

void stores_watch(struct store_log *log)
{
    struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    struct sigaction trap = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER};

    (void)dl_iterate_phdr(note_base, NULL);
    watched = log;
    (void)sigaction(SIGSEGV, &fault, NULL);
    (void)sigaction(SIGTRAP, &trap, NULL);
    enter();
    keep(log, 0, NULL, 0);
    atomic_store(&log->watching, 1);
    protect_all(PROT_READ);
    leave();
}

void stores_unwatch(void)
{
    enter();
    atomic_store(&watched->watching, 0);
    protect_all(PROT_READ | PROT_WRITE);
    leave();
}

void stores_note(const void *wire, size_t size)
{
    if (!watched || !atomic_load(&watched->watching))
        return;
    enter();
    keep(watched, 0, wire, size);
    leave();
}

struct store_log *stores_of(void (*fn)(void *arg), void *arg, const struct region *regions,
                            int count, struct store_log **watch)
{
    size_t size = store_log_size(regions, count, MOMENTS_MAX);
    struct store_log *log =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int status = -1;
    pid_t pid;

    if (log == MAP_FAILED)
        return NULL;
    store_log_init(log, regions, count, MOMENTS_MAX);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        if (watch)
            *watch = log;
        else
            stores_watch(log);
        fn(arg);
        _exit(0);
    }
    if (pid > 0)
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            continue;
    if (status == 0 && !atomic_load(&log->overflown))
        return log;
    stores_free(log);
    return NULL;
}

void stores_free(struct store_log *log)
{
    (void)munmap(log, store_log_size(log->region, (int)log->regions, log->room));
}
