/* Is this object a table that we may map and read? No part of it is used before these checks pass. */
#include "shm/table_map.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/status.h"

void hf_table_say(char *why, size_t why_size, const char *format, ...)
{
    va_list args;

    if (why_size == 0)
        return;
    va_start(args, format);
    vsnprintf(why, why_size, format, args);
    va_end(args);
}

static const char *table_judge_kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFLNK:
        return "a symbolic link";
    case S_IFDIR:
        return "a directory";
    case S_IFIFO:
        return "a named pipe";
    case S_IFSOCK:
        return "a socket";
    default:
        return "a special file";
    }
}

int hf_table_judge_file(const char *shm_name, const struct stat *st, uid_t owner, char *why,
                        size_t why_size)
{
    unsigned mode = st->st_mode & 07777;

    if (!S_ISREG(st->st_mode))
        hf_table_say(
            why, why_size,
            "/dev/shm%s is %s of uid %u where the table should be: somebody squats the name; "
            "remove it or use another agent name",
            shm_name, table_judge_kind_of(st->st_mode), (unsigned)st->st_uid);
    else if (st->st_uid != owner)
        hf_table_say(
            why, why_size,
            "/dev/shm%s belongs to uid %u and not to uid %u: somebody squats the name; have "
            "it removed or use another agent name",
            shm_name, (unsigned)st->st_uid, (unsigned)owner);
    else if (mode & 022)
        hf_table_say(why, why_size,
                     "/dev/shm%s of uid %u has mode %04o: others could have written to it (at most "
                     "0644 is accepted); remove it and start the agent again",
                     shm_name, (unsigned)st->st_uid, mode);
    else if (st->st_nlink > 1)
        hf_table_say(why, why_size,
                     "/dev/shm%s of uid %u has %lu links where a table has 1; remove it and start "
                     "the agent again",
                     shm_name, (unsigned)st->st_uid, (unsigned long)st->st_nlink);
    else
        return 0;
    return HF_ETABLE;
}

int hf_table_read_header(int fd, const char *shm_name, struct hf_table_header *ret_header,
                         char *why, size_t why_size)
{
    ssize_t got = pread(fd, ret_header, sizeof(*ret_header), 0);

    if (got == (ssize_t)sizeof(*ret_header))
        return 0;
    if (got < 0) {
        hf_table_say(why, why_size, "cannot read /dev/shm%s: %s", shm_name, strerror(errno));
        return HF_ESYS;
    }
    hf_table_say(why, why_size,
                 "/dev/shm%s has %zd bytes, less than a header of %d: it is just being made, or it "
                 "was truncated; if this stays so, restart the agent",
                 shm_name, got, HF_TABLE_HEADER);
    return HF_ETABLE;
}

static const struct hf_section *table_judge_find_section(const struct hf_table_header *header,
                                                         enum hf_section_type type)
{
    for (unsigned i = 0; i < HF_SECTIONS_MAX; i++)
        if (header->sections[i].type == (uint32_t)type)
            return &header->sections[i];
    return NULL;
}

/* Whether section `type` has `count_min` or more elements of `elem_size` and lies within `size`
 * bytes. */
static bool table_judge_place_section(const struct hf_table_header *header, uint64_t size,
                                      enum hf_section_type type, uint64_t elem_size,
                                      uint64_t count_min, uint64_t *ret_offset, uint64_t *ret_count)
{
    const struct hf_section *s = table_judge_find_section(header, type);

    if (!s || s->elem_size != elem_size || s->offset % HF_CACHE_LINE != 0 ||
        s->offset < HF_TABLE_HEADER || s->offset > size || s->length > size - s->offset ||
        s->elem_count < count_min || s->elem_count > s->length / elem_size)
        return false;
    *ret_offset = s->offset;
    *ret_count = s->elem_count;
    return true;
}

static bool table_judge_place_history(const struct hf_table_header *h, uint64_t size,
                                      struct hf_table_places *p)
{
    uint64_t count;

    for (int ring = 0; ring < HF_EVENT_RINGS; ring++) {
        if (!table_judge_place_section(h, size, (enum hf_section_type)(HF_SECTION_EVENTS + ring),
                                       sizeof(struct hf_event), 1, &p->events[ring], &count) ||
            count > UINT32_MAX || (count & (count - 1)) != 0)
            return false;
        p->event_count[ring] = (uint32_t)count;
    }
    if (!table_judge_place_section(h, size, HF_SECTION_RENEWALS, sizeof(struct hf_renewal),
                                   HF_NODES_MAX, &p->renewals, &count) ||
        count > UINT32_MAX)
        return false;
    p->renewals_kept = (uint32_t)count / HF_NODES_MAX;
    return true;
}

static bool table_judge_place_sections(const struct hf_table_header *h, uint64_t size,
                                       struct hf_table_places *ret_places)
{
    struct hf_table_places p = {
        .slots_there = atomic_load_explicit(&h->slots_there, memory_order_relaxed),
        .text_there = atomic_load_explicit(&h->text_there, memory_order_relaxed),
        .index_there = atomic_load_explicit(&h->index_size, memory_order_relaxed),
    };
    uint64_t slots, entries, rows, counters, measures, waiters;

    if (p.slots_there == 0 || h->nodes > HF_NODES_MAX || p.index_there == 0 ||
        (p.index_there & (p.index_there - 1)) != 0)
        return false;
    if (!table_judge_place_section(h, size, HF_SECTION_SLOTS, sizeof(struct hf_slot), p.slots_there,
                                   &p.slots, &slots) ||
        !table_judge_place_section(h, size, HF_SECTION_TEXT, HF_TEXT_UNIT, 1, &p.text,
                                   &p.text_room) ||
        !table_judge_place_section(h, size, HF_SECTION_INDEX, sizeof(hf_index_entry),
                                   2 * (uint64_t)p.index_there, &p.index, &entries) ||
        !table_judge_place_section(h, size, HF_SECTION_NODES, sizeof(struct hf_node_row), h->nodes,
                                   &p.nodes, &rows) ||
        !table_judge_place_section(h, size, HF_SECTION_COUNTERS, sizeof(uint64_t), 0, &p.counters,
                                   &counters) ||
        !table_judge_place_section(h, size, HF_SECTION_MEASURES, sizeof(struct hf_measures), 1,
                                   &p.measures, &measures) ||
        !table_judge_place_section(h, size, HF_SECTION_WAITERS, sizeof(struct hf_waiter_row), 1,
                                   &p.waiters, &waiters) ||
        p.slots_there > HF_SLOTS_MAX || waiters > UINT32_MAX ||
        !table_judge_place_history(h, size, &p))
        return false;
    p.slot_room = slots < HF_SLOTS_MAX ? (uint32_t)slots : HF_SLOTS_MAX;
    if (p.text_there > p.text_room)
        p.text_there = p.text_room;
    p.index_room = entries / 2 < UINT32_MAX ? (uint32_t)(entries / 2) : UINT32_MAX;
    p.waiter_rows = (uint32_t)waiters;
    p.node_rows = rows < HF_NODES_MAX ? (uint32_t)rows : HF_NODES_MAX;
    p.counter_count = counters < HF_COUNTERS ? (uint32_t)counters : HF_COUNTERS;
    *ret_places = p;
    return true;
}

int hf_table_judge_header(const char *shm_name, const struct hf_table_header *h, uint64_t size,
                          struct hf_table_places *ret_places, char *why, size_t why_size)
{
    if (h->magic != HF_TABLE_MAGIC) {
        hf_table_say(why, why_size,
                     h->magic == 0
                         ? "/dev/shm%s has no header yet: it is just being made, or its "
                           "agent ended before it was; if this stays so, restart the agent"
                         : "/dev/shm%s is not a Holdfast table (another magic number); "
                           "remove it and restart the agent",
                     shm_name);
        return HF_ETABLE;
    }
    if (h->major != HF_TABLE_MAJOR || h->min_minor > HF_TABLE_MINOR) {
        hf_table_say(
            why, why_size,
            "/dev/shm%s has table version %u.%u and this program reads %d.%d: use programs "
            "of the agent's version (%.*s)",
            shm_name, h->major, h->minor, HF_TABLE_MAJOR, HF_TABLE_MINOR,
            (int)strnlen(h->version, sizeof(h->version)), h->version);
        return HF_EVERSION;
    }
    if (h->fingerprint != hf_layout_fingerprint()) {
        hf_table_say(why, why_size,
                     "/dev/shm%s has layout %016" PRIx64 " and this program %016" PRIx64
                     ": they were built for different machines; use the agent's build",
                     shm_name, h->fingerprint, hf_layout_fingerprint());
        return HF_EVERSION;
    }
    if (h->total_size != size) {
        hf_table_say(why, why_size,
                     "/dev/shm%s has %" PRIu64 " bytes where its header says %" PRIu64
                     ": it was truncated or damaged; restart the agent",
                     shm_name, size, h->total_size);
        return HF_ETABLE;
    }
    if (!table_judge_place_sections(h, size, ret_places)) {
        hf_table_say(why, why_size,
                     "/dev/shm%s is damaged: a section lies outside of it or has a wrong size; "
                     "restart the agent",
                     shm_name);
        return HF_ETABLE;
    }
    return 0;
}

/* --- tables of living agents ------------------------------------------------------------------ */

/* Whether a living agent has a table: it holds a write lock on the object for as long as it
 * has it open or mapped. The kernel drops the
 * lock however the agent ends, shows it across PID namespaces, and no number of a process is asked.
 * (!) Only a process that may write to the object can have such a lock: no reader can pretend to be an agent. */

static bool table_is_locked(int fd)
{
    struct flock other = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_GETLK, &other) == 0 && other.l_type == F_WRLCK;
}

static bool table_is_free(int fd)
{
    struct flock other = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_GETLK, &other) == 0 && other.l_type == F_UNLCK;
}

static void table_read_living(int fd, struct hf_table_living *ret_living)
{
    struct hf_table_living living = {.pid = 0};
    struct hf_table_header header;

    if (pread(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header) &&
        header.magic == HF_TABLE_MAGIC && header.major == HF_TABLE_MAJOR) {
        living.pid = atomic_load_explicit(&header.pid, memory_order_relaxed);
        memcpy(living.dir, header.dir, sizeof(living.dir) - 1);
    }
    *ret_living = living;
}

int hf_table_say_living(const char *agent_name, const struct hf_table_living *living, char *why,
                        size_t why_size)
{
    hf_table_say(why, why_size,
                 "an agent named '%s' of this user runs already: pid %u, in %s; stop it, or give "
                 "this one another --name",
                 agent_name, (unsigned)living->pid,
                 living->dir[0] ? living->dir : "a directory that is not known");
    return HF_EBUSY;
}

int hf_table_lock(int fd, const char *agent_name, char *why, size_t why_size)
{
    struct flock ours = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct hf_table_living living;

    if (fcntl(fd, F_OFD_SETLK, &ours) == 0 || !table_is_locked(fd))
        return 0; /* a reader's lock proves nothing, and must not keep the agent away */
    table_read_living(fd, &living);
    return hf_table_say_living(agent_name, &living, why, why_size);
}

/* A descriptor of that owner's object; -1: there is none. */
static int table_open_living(const char *shm_name, uid_t owner)
{
    int fd = shm_open(shm_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);
    struct stat st;

    if (fd < 0 || (fstat(fd, &st) == 0 && hf_table_judge_file(shm_name, &st, owner, NULL, 0) == 0))
        return fd;
    close(fd);
    return -1;
}

bool hf_table_find_living(const char *shm_name, uid_t owner, struct hf_table_living *ret_living)
{
    int fd = table_open_living(shm_name, owner);
    bool found;

    if (fd < 0)
        return false;
    found = table_is_locked(fd);
    if (found)
        table_read_living(fd, ret_living);
    close(fd);
    return found;
}

bool hf_table_may_live(const char *shm_name, uid_t owner)
{
    int fd = table_open_living(shm_name, owner);
    bool may;

    if (fd < 0)
        return false;
    may = !table_is_free(fd);
    close(fd);
    return may;
}
