/* The file: a header, then the events of each ring in order, as they are in the table. It is written under
 * another name and renamed, so there is never a partial file. */
#include "agent/record/history_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/base/log.h"
#include "shm/history.h"
#include "shm/status.h"

#define HISTORY_MAGIC UINT64_C(0x3154534948464c48) /* "HLFHIST1" */

struct history_header {
    uint64_t magic, fingerprint;
    struct boot_clock clock;
    char list_hash[44];
    uint32_t count[HF_EVENT_RINGS];
};

static void path_of(const struct agent *agent, const char *suffix, char *ret_path, size_t size)
{
    int dir = (int)(strrchr(agent->socket_path, '/') - agent->socket_path);

    snprintf(ret_path, size, "%.*s/history%s", dir, agent->socket_path, suffix);
}

static void fill_header(const struct agent *agent, struct history_header *h)
{
    memset(h, 0, sizeof(*h));
    h->magic = HISTORY_MAGIC;
    h->fingerprint = hf_layout_fingerprint();
    h->clock = agent->clock;
    snprintf(h->list_hash, sizeof(h->list_hash), "%s", agent->config->list_hash);
}

/* --- saving ----------------------------------------------------------------------------------- */

/* All events that can be read; the caller frees them. NULL: out of memory. */
static struct hf_event *collect(const struct agent *agent, struct history_header *h,
                                size_t *ret_size)
{
    const struct hf_table *table = &agent->table;
    struct hf_event *events;
    size_t room = 0, used = 0;

    for (int ring = 0; ring < HF_EVENT_RINGS; ring++)
        room += table->event_count[ring];
    events = malloc((room + 1) * sizeof(*events));
    if (!events)
        return NULL;
    for (int ring = 0; ring < HF_EVENT_RINGS; ring++) {
        enum hf_event_ring r = (enum hf_event_ring)ring;

        for (uint64_t i = hf_events_oldest(table, r);
             i < hf_events_written(table, r) && used < room; i++)
            if (hf_event_read(table, r, i, &events[used]) == HF_OK) {
                used++;
                h->count[ring]++;
            }
    }
    *ret_size = used * sizeof(*events);
    return events;
}

static bool write_all(int fd, const void *data, size_t size)
{
    const char *p = data;

    while (size > 0) {
        ssize_t n = write(fd, p, size);

        if (n <= 0)
            return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

bool history_save(const struct agent *agent)
{
    char path[640], new_path[640];
    struct history_header h;
    struct hf_event *events;
    size_t size = 0;
    bool saved = false;
    int fd;

    path_of(agent, "", path, sizeof(path));
    path_of(agent, ".new", new_path, sizeof(new_path));
    fill_header(agent, &h);
    events = collect(agent, &h, &size);
    if (!events)
        return false;
    (void)unlink(new_path);
    fd = open(new_path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) {
        saved = write_all(fd, &h, sizeof(h)) && write_all(fd, events, size);
        saved = close(fd) == 0 && saved && rename(new_path, path) == 0;
    }
    if (fd >= 0 && !saved)
        (void)unlink(new_path);
    free(events);
    return saved;
}

/* --- loading ---------------------------------------------------------------------------------- */

static bool is_ours(const struct agent *agent, const struct history_header *h)
{
    struct history_header wanted;

    fill_header(agent, &wanted);
    if (h->magic == wanted.magic && h->clock.offset_ns != wanted.clock.offset_ns)
        log_warn("the history of the earlier agent is not loaded: it is of another time namespace");
    return h->magic == wanted.magic && h->fingerprint == wanted.fingerprint &&
           memcmp(&h->clock, &wanted.clock, sizeof(h->clock)) == 0 &&
           memcmp(h->list_hash, wanted.list_hash, sizeof(h->list_hash)) == 0;
}

static void put_all(struct agent *agent, const struct history_header *h,
                    const struct hf_event *events)
{
    for (int ring = 0; ring < HF_EVENT_RINGS; ring++)
        for (uint32_t i = 0; i < h->count[ring]; i++)
            hf_event_put(&agent->table, (enum hf_event_ring)ring, events++);
}

static void load_from(struct agent *agent, int fd)
{
    struct history_header h;
    struct hf_event *events;
    uint64_t count = 0;
    struct stat st;

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        read(fd, &h, sizeof(h)) != (ssize_t)sizeof(h) || !is_ours(agent, &h))
        return;
    for (int ring = 0; ring < HF_EVENT_RINGS; ring++)
        count += h.count[ring];
    if ((uint64_t)st.st_size != sizeof(h) + count * sizeof(*events))
        return;
    events = malloc((count + 1) * sizeof(*events));
    if (events && read(fd, events, count * sizeof(*events)) == (ssize_t)(count * sizeof(*events)))
        put_all(agent, &h, events);
    free(events);
}

void history_load(struct agent *agent)
{
    char path[640];
    int fd;

    path_of(agent, "", path, sizeof(path));
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) {
        if (!agent->warm && !agent->config->ephemeral)
            load_from(agent, fd);
        close(fd);
        (void)unlink(path);
    }
}
