/* Makes the table, or takes over the one that an earlier agent left. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "shm/assert.h"
#include "shm/index.h"
#include "shm/measures.h"
#include "shm/status.h"
#include "shm/table.h"
#include "shm/table_map.h"
#include "shm/waiters.h"

#define CREATE_TRIES 8
#define UNITS_MAX    (UINT64_C(1) << 32) /* text_off has 32 bits */

/* The arguments of hf_table_create(). */
struct job {
    const char *name;
    const struct hf_table_spec *spec;
    char *why;
    size_t why_size;
};

static int create_fail_sys(const struct job *job, const char *what)
{
    int error = errno;

    hf_table_say(job->why, job->why_size, "cannot %s /dev/shm%s: %s", what, job->name,
                 strerror(error));
    errno = error;
    return HF_ESYS;
}

static void create_close_keep_errno(int fd)
{
    int error = errno;

    close(fd);
    errno = error;
}

static int create_check_spec(const struct job *job)
{
    const struct hf_table_spec *spec = job->spec;

    if (spec->capacity >= 1 && hf_table_capacity_of(spec) <= HF_SLOTS_MAX &&
        spec->slot_room <= HF_SLOTS_MAX && spec->nodes >= 1 && spec->nodes <= HF_NODES_MAX &&
        spec->text_units <= UNITS_MAX && (spec->mode & ~(mode_t)0644) == 0 &&
        strlen(spec->agent_name) <= HF_AGENT_NAME_MAX)
        return 0;
    hf_table_say(
        job->why, job->why_size,
        "a table of %u slots for %u nodes with mode %04o cannot be made: 1 to %u slots, 1 to "
        "%d nodes and a mode of at most 0644 are possible",
        (unsigned)spec->capacity, (unsigned)spec->nodes, (unsigned)spec->mode,
        (unsigned)HF_SLOTS_MAX, HF_NODES_MAX);
    return HF_EINVAL;
}

/* --- a new object ----------------------------------------------------------------------------- */

static uint64_t create_kib_free(int fd)
{
    struct statvfs fs;

    return fstatvfs(fd, &fs) == 0 ? (uint64_t)fs.f_bavail * fs.f_frsize / 1024 : 0;
}

static uint64_t create_kib_taken(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 ? (uint64_t)st.st_blocks / 2 : 0;
}

/* Every page that may be touched gets memory before anything is mapped. */
static int create_allocate(const struct job *job, int fd, const struct hf_table_header *header,
                           const struct hf_table_places *places)
{
    uint64_t needed = hf_table_room(header, places), free_kib;
    int error = hf_table_take_room(fd, header, places);

    if (error == 0)
        return 0;
    free_kib = create_kib_free(fd) + create_kib_taken(fd); /* some of it may have memory already */
    if (error == ENOSPC)
        hf_table_say(
            job->why, job->why_size,
            "/dev/shm is full: the table /dev/shm%s for %u leases needs %llu KiB and %llu KiB "
            "are free; make room, enlarge /dev/shm, or lower the capacity",
            job->name, (unsigned)places->slots_there, (unsigned long long)needed / 1024,
            (unsigned long long)free_kib);
    else
        hf_table_say(job->why, job->why_size, "cannot allocate %llu KiB for /dev/shm%s: %s",
                     (unsigned long long)needed / 1024, job->name, strerror(error));
    errno = error;
    return HF_ESYS;
}

static void create_fill_dir(struct hf_table_header *header, const char *dir)
{
    int fd = dir ? open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;

    memset(header->dir, 0, sizeof(header->dir));
    strncpy(header->dir, dir ? dir : "", sizeof(header->dir) - 1);
    memset(&header->dir_file, 0, sizeof(header->dir_file));
    if (fd >= 0) {
        (void)hf_file_id(fd, &header->dir_file);
        close(fd);
    }
}

/* Writes the lines that are written once per start, warm or cold. (!) Between INIT and the next incarnation:
 * hf_table_terms() goes by that. */
static void create_fill_start(struct hf_table_header *header, const struct hf_table_spec *spec)
{
    header->minor = HF_TABLE_MINOR;
    header->min_minor = 0;
    atomic_store_explicit(&header->capacity, spec->capacity, memory_order_release);
    atomic_store_explicit(&header->nodes, spec->nodes, memory_order_release);
    atomic_store_explicit(&header->quorum, spec->quorum, memory_order_release);
    atomic_store_explicit(&header->ttl_ms, spec->ttl_ms, memory_order_release);
    atomic_store_explicit(&header->ttl_max_ms, spec->ttl_max_ms, memory_order_release);
    header->uid = geteuid();
    header->flags = spec->flags;
    strncpy(header->version, spec->version ? spec->version : "", sizeof(header->version) - 1);
    strncpy(header->agent_name, spec->agent_name, sizeof(header->agent_name) - 1);
    if (gethostname(header->host, sizeof(header->host) - 1) != 0)
        header->host[0] = '\0';
    create_fill_dir(header, spec->dir);
    header->pidns_inode = spec->pidns_inode;
    atomic_store_explicit(&header->pid, (uint32_t)getpid(), memory_order_relaxed);
}

static int create_fill_new(int fd, struct hf_table_header *header, const struct hf_table_spec *spec)
{
    memset(header, 0, sizeof(*header));
    header->major = HF_TABLE_MAJOR;
    header->header_len = HF_TABLE_HEADER;
    header->fingerprint = hf_layout_fingerprint();
    memcpy(header->boot_id, spec->boot_id, sizeof(header->boot_id));
    header->timens_inode = spec->timens_inode;
    header->timens_offset_ns = spec->timens_offset_ns;
    if (getrandom(&header->epoch, sizeof(header->epoch), 0) != sizeof(header->epoch) ||
        getrandom(header->index_key, sizeof(header->index_key), 0) != sizeof(header->index_key) ||
        hf_file_id(fd, &header->file) < 0)
        return HF_ESYS;
    header->epoch |= 1;
    hf_table_lay_out(header, spec);
    create_fill_start(header, spec);
    return 0;
}

/* Maps the object for writing. Keeps the descriptor, to let the text grow and to give others one,
 * since the name may be removed. */
static int create_map_own(const struct job *job, int fd, const struct stat *st,
                          const struct hf_table_places *places, struct hf_table *ret_table)
{
    int status = hf_table_map(fd, job->name, st, true, places, ret_table, job->why, job->why_size);
    uint64_t units;

    if (status != 0)
        return status;
    ret_table->fd = fd;
    ret_table->capacity = hf_table_capacity_of(job->spec);
    units = hf_table_text_units_of(job->spec, ret_table->capacity);
    if (units < places->text_there)
        units = places->text_there;
    ret_table->text_units = units < places->text_room ? units : places->text_room;
    hf_assert(ret_table->capacity <= ret_table->slot_room, "capacity %u, slot_room %u",
              (unsigned)ret_table->capacity, (unsigned)ret_table->slot_room);
    return 0;
}

/* Writes by descriptor and then maps: readers take a header without magic for a table being made. */
static int create_fill_object(const struct job *job, int fd, struct hf_table *ret_table)
{
    struct hf_table_header header;
    struct hf_table_places places;
    const uint64_t magic = HF_TABLE_MAGIC;
    struct stat st;
    int status;

    if (create_fill_new(fd, &header, job->spec) != 0)
        return create_fail_sys(job, "get random numbers for");
    header.magic = magic;
    status = hf_table_judge_header(job->name, &header, header.total_size, &places, job->why,
                                   job->why_size);
    header.magic = 0;
    if (status != 0)
        return status;
    if (ftruncate(fd, (off_t)header.total_size) != 0)
        return create_fail_sys(job, "set the size of");
    if ((status = create_allocate(job, fd, &header, &places)) != 0)
        return status;
    if (job->spec->group != (gid_t)-1 && fchown(fd, (uid_t)-1, job->spec->group) != 0)
        return create_fail_sys(job, "set the group of");
    if (fchmod(fd, job->spec->mode) != 0)
        return create_fail_sys(job, "set the mode of");
    if (pwrite(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
        pwrite(fd, &magic, sizeof(magic), 0) != (ssize_t)sizeof(magic))
        return create_fail_sys(job, "write");
    if (fstat(fd, &st) != 0)
        return create_fail_sys(job, "look at");
    return create_map_own(job, fd, &st, &places, ret_table);
}

/* HF_EPENDING: the name is taken. */
static int create_new(const struct job *job, struct hf_table *ret_table)
{
    int status, fd = shm_open(job->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return errno == EEXIST ? HF_EPENDING : create_fail_sys(job, "create");
    status = hf_table_lock(fd, job->spec->agent_name, job->why, job->why_size);
    if (status == 0)
        status = create_fill_object(job, fd, ret_table);
    if (status != 0) {
        int error = errno;

        close(fd);
        shm_unlink(job->name);
        errno = error;
    }
    return status;
}

/* --- an existing object ----------------------------------------------------------------------- */

/* Readers tolerate overlapping sections; a writer must not. */
static bool create_overlap(const struct hf_table_header *header)
{
    for (unsigned i = 0; i < HF_SECTIONS_MAX; i++)
        for (unsigned k = 0; k < i; k++) {
            const struct hf_section *a = &header->sections[i], *b = &header->sections[k];

            if (a->length && b->length && a->offset < b->offset + b->length &&
                b->offset < a->offset + a->length)
                return true;
        }
    return false;
}

uint64_t hf_table_id(const struct hf_table *table)
{
    return table->header->epoch;
}

static bool create_is_copy(int fd, const struct hf_table_header *header)
{
    struct hf_file_id file;

    return hf_file_id(fd, &file) < 0 || memcmp(&header->file, &file, sizeof(file)) != 0;
}

/* Sections and counters of another minor version do not matter. `why` says why it does not fit. */
static bool create_suits(const struct job *job, int fd, const struct hf_table_header *header,
                         const struct hf_table_places *places)
{
    const struct hf_table_spec *spec = job->spec;
    uint32_t state = atomic_load_explicit(&header->state, memory_order_relaxed);
    const char *not = NULL;

    if (state > HF_TABLE_STOPPED)
        not = "was retired";
    else if (memcmp(header->boot_id, spec->boot_id, sizeof(header->boot_id)) != 0)
        not = "is of another boot";
    else if (create_is_copy(fd, header))
        not = "is a copy of a table";
    else if (header->timens_inode != spec->timens_inode ||
             header->timens_offset_ns != spec->timens_offset_ns)
        not = "is of another time namespace";
    else if (places->slots_there < spec->slots_live)
        not = "has fewer slots than its journal has leases";
    else if (places->slot_room < hf_table_capacity_of(spec) ||
             places->index_room < hf_index_size_for(places->slot_room) ||
             places->index_there < hf_index_size_for(places->slots_there) ||
             hf_index_size_in(atomic_load_explicit(&header->index_area, memory_order_relaxed)) >
                 places->index_there ||
             places->text_room < hf_table_text_units_of(spec, hf_table_capacity_of(spec)) ||
             places->node_rows != HF_NODES_MAX || create_overlap(header))
        not = "is damaged";
    else if (spec->id && spec->id != header->epoch)
        not = "is not the one in which the journal's leases are shown";
    else if (spec->fresh)
        not = "has no journal that tells what its leases are";
    if (not )
        hf_table_say(job->why, job->why_size, "/dev/shm%s %s", job->name, not );
    return !not ;
}

/* Tells processes that still map it that the name leads elsewhere now. By pwrite(): a damaged
 * object then cannot raise SIGBUS. Other majors have their state elsewhere. */
static void create_retire(int fd, const struct hf_table_header *header)
{
    const uint32_t retired = HF_TABLE_RETIRED;

    if (header->magic == HF_TABLE_MAGIC && header->major == HF_TABLE_MAJOR &&
        pwrite(fd, &retired, sizeof(retired), offsetof(struct hf_table_header, state)) < 0)
        return; /* all that matters is that the name goes */
}

static void create_start_again(struct hf_table *table, const struct hf_table_spec *spec)
{
    static const struct hf_node_row empty_row;
    struct hf_table_header *header = table->header;

    hf_table_set_state(table, HF_TABLE_INIT);
    create_fill_start(header, spec);
    atomic_fetch_add(&header->incarnation, 1);
    for (uint32_t i = 0; i < table->counter_count; i++)
        hf_counter_set(table, (enum hf_counter)i, 0);
    hf_measures_begin(table);
    hf_waiters_begin(table);
    for (uint32_t i = 0; i < table->node_count; i++)
        hf_node_publish(table, i, &empty_row);
}

/* HF_EVERSION: unusable, but we may replace it. */
static int create_take_over(const struct job *job, int fd, const struct stat *st,
                            struct hf_table *ret_table)
{
    struct hf_table_header header;
    struct hf_table_places places;
    int status;

    memset(&header, 0, sizeof(header));
    if (hf_table_read_header(fd, job->name, &header, job->why, job->why_size) != 0 ||
        hf_table_judge_header(job->name, &header, (uint64_t)st->st_size, &places, job->why,
                              job->why_size) != 0 ||
        !create_suits(job, fd, &header, &places)) {
        create_retire(fd, &header);
        return HF_EVERSION;
    }
    /* The object may have had holes. */
    if ((status = create_allocate(job, fd, &header, &places)) != 0)
        return status;
    if (job->spec->group != (gid_t)-1 && fchown(fd, (uid_t)-1, job->spec->group) != 0)
        return create_fail_sys(job, "set the group of");
    if (fchmod(fd, job->spec->mode) != 0)
        return create_fail_sys(job, "set the mode of");
    status = create_map_own(job, fd, st, &places, ret_table);
    if (status == 0)
        create_start_again(ret_table, job->spec);
    return status;
}

/* `access`: O_RDWR or O_RDONLY. HF_EPENDING: it went away. The caller closes the descriptor. */
static int create_open_existing(const struct job *job, int access, int *ret_fd, struct stat *ret_st)
{
    struct stat st;
    int status, fd;

    /* An O_PATH descriptor tells the object's owner even if we may not open it. */
    fd = shm_open(job->name, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0)
        return errno == ENOENT ? HF_EPENDING : create_fail_sys(job, "look at");
    status = fstat(fd, &st) != 0 ? create_fail_sys(job, "look at") : 0;
    create_close_keep_errno(fd);
    if (status == 0)
        status = hf_table_judge_file(job->name, &st, geteuid(), job->why, job->why_size);
    if (status != 0)
        return status;

    fd = shm_open(job->name, access | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0)
        return errno == ENOENT ? HF_EPENDING : create_fail_sys(job, "open");
    status = fstat(fd, &st) != 0 ? create_fail_sys(job, "look at") : 0;
    if (status == 0)
        status = hf_table_judge_file(job->name, &st, geteuid(), job->why, job->why_size);
    if (status != 0) {
        create_close_keep_errno(fd);
        return status;
    }
    *ret_fd = fd;
    *ret_st = st;
    return 0;
}

static int create_remove_name(const struct job *job)
{
    return shm_unlink(job->name) == 0 || errno == ENOENT ? 0 : create_fail_sys(job, "remove");
}

static bool create_is_linked(const struct job *job, const struct stat *st)
{
    const struct hf_table object = {.dev = st->st_dev, .inode = st->st_ino};

    return hf_table_is_linked(&object, job->name);
}

/* HF_EPENDING: it went away or we replaced it: create again. */
static int create_use_existing(const struct job *job, struct hf_table *ret_table)
{
    struct stat st;
    int fd, status = create_open_existing(job, O_RDWR, &fd, &st);

    if (status != 0)
        return status;
    status = hf_table_lock(fd, job->spec->agent_name, job->why, job->why_size);
    if (status == 0 && !create_is_linked(job, &st))
        status = HF_EPENDING; /* its agent has just ended, and removed it */
    if (status == 0)
        status = create_take_over(job, fd, &st, ret_table);
    if (status != 0)
        create_close_keep_errno(fd);
    if (status == HF_EVERSION && (status = create_remove_name(job)) == 0)
        status = HF_EPENDING;
    return status;
}

int hf_table_drop(const char *shm_name, const char *agent_name, char *why, size_t why_size)
{
    const struct job job = {.name = shm_name, .why = why, .why_size = why_size};
    struct hf_table_header header = {0};
    struct stat st;
    int fd, status = create_open_existing(&job, O_RDWR, &fd, &st);

    if (status != 0)
        return status == HF_EPENDING ? 0 : status;
    status = hf_table_lock(fd, agent_name, why, why_size);
    if (status != 0) {
        close(fd);
        return status;
    }
    (void)hf_table_read_header(fd, shm_name, &header, why, why_size);
    create_retire(fd, &header);
    close(fd);
    return create_remove_name(&job);
}

int hf_table_dry_run(const char *shm_name, const struct hf_table_spec *spec, char *why,
                     size_t why_size)
{
    const struct job job = {shm_name, spec, why, why_size};
    struct hf_table_header header;
    struct hf_table_places places;
    struct stat st;
    int fd, status = create_open_existing(&job, O_RDONLY, &fd, &st);

    if (status == HF_EPENDING) {
        hf_table_say(why, why_size, "there is no /dev/shm%s", shm_name);
        return HF_ENOAGENT;
    }
    if (status != 0)
        return status;
    hf_table_say(why, why_size, "%s", "");
    if (hf_table_read_header(fd, shm_name, &header, why, why_size) != 0 ||
        hf_table_judge_header(shm_name, &header, (uint64_t)st.st_size, &places, why, why_size) !=
            0 ||
        !create_suits(&job, fd, &header, &places))
        status = HF_EVERSION;
    close(fd);
    return status;
}

int hf_table_create(const char *shm_name, const struct hf_table_spec *spec,
                    struct hf_table *ret_table, bool *ret_warm, char *why, size_t why_size)
{
    const struct job job = {shm_name, spec, why, why_size};
    struct hf_table table;
    int status = create_check_spec(&job);

    if (status != 0)
        return status;
    hf_table_say(why, why_size, "%s", "");
    for (int try = 0; try < CREATE_TRIES; try++) {
        bool warm = false;

        status = create_new(&job, &table);
        if (status == HF_EPENDING) {
            warm = true;
            status = create_use_existing(&job, &table);
        }
        if (status == 0) {
            *ret_table = table;
            *ret_warm = warm;
            return 0;
        }
        if (status != HF_EPENDING)
            return status;
    }
    hf_table_say(why, why_size, "another process makes and removes /dev/shm%s all the time",
                 shm_name);
    return HF_ETABLE;
}

/* --- in use --------------------------------------------------------------------------- */

void hf_table_set_state(struct hf_table *table, enum hf_table_state state)
{
    atomic_store_explicit(&table->header->state, state, memory_order_release);
}

/* An open file of its own for each: a client may change its flags and offset. */
static int create_reopen(int fd)
{
    char path[32];

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_CLOEXEC);
}

int hf_table_readonly_fd(const struct hf_table *table, int *ret_fd)
{
    int fd = create_reopen(table->fd);

    if (fd < 0)
        return HF_ESYS;
    *ret_fd = fd;
    return 0;
}
