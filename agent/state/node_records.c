#include "agent/state/node_records.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/state/state_file.h"
#include "agent/state/fleet_memory.h"
#include "shm/assert.h"
#include "shm/compiler.h"
#include "shm/layout.h"
#include "shm/status.h"

#define RECORDS_MAGIC UINT64_C(0x3245444f4e4648) /* "HFNODE2" */

struct node_half {
    _Atomic uint64_t seq;
    struct node_trust trust;
};

struct node_record {
    _Alignas(64) struct node_half half[2];
};

#define FILE_SIZE (STATE_FILE_HEADER + HF_NODES_MAX * sizeof(struct node_record))

struct node_records {
    char path[STATE_FILE_PATH];
    bool made; /* by us */
    void *map;
    struct node_record *node;
};

static uint64_t records_fingerprint(void)
{
    static const uint32_t facts[] = {
        HF_NODES_MAX,
        sizeof(struct node_record),
        sizeof(struct node_trust),
        offsetof(struct node_trust, facts),
        offsetof(struct node_trust, sentinel),
        offsetof(struct node_trust, nonce),
        offsetof(struct node_trust, mark),
        offsetof(struct node_trust, step_nonce),
        offsetof(struct node_trust, trace),
        offsetof(struct node_trust, until),
        offsetof(struct node_trust, low_us),
        offsetof(struct node_trust, steps),
        0x01020304,
    };

    return state_file_fingerprint(facts, HF_LENGTH(facts));
}

static struct state_file_header records_header_of(int nodes, const char *list_hash,
                                                  const struct boot_clock *clock)
{
    struct state_file_header h = {.magic = RECORDS_MAGIC,
                                  .fingerprint = records_fingerprint(),
                                  .size = FILE_SIZE,
                                  .nodes = (uint32_t)nodes};

    h.clock = *clock;
    snprintf(h.list_hash, sizeof(h.list_hash), "%s", list_hash);
    return h;
}

static int records_map_file(struct node_records *r, int fd, char *why, size_t why_size)
{
    int rc = state_file_map(r->path, fd, FILE_SIZE, &r->map, why, why_size);

    if (rc < 0)
        return rc;
    state_file_sign(r->map);
    state_file_lock(r->map, 0, FILE_SIZE);
    r->node = (struct node_record *)(void *)((char *)r->map + STATE_FILE_HEADER);
    return HF_OK;
}

static bool records_same_list(const struct state_file_header *a, const struct state_file_header *b)
{
    return a->nodes == b->nodes && a->size == b->size && strcmp(a->list_hash, b->list_hash) == 0;
}

static int records_refuse_foreign(const char *path, char *why, size_t why_size)
{
    snprintf(why, why_size, "look at %s and remove it: it is not a private file of this agent",
             path);
    return HF_ETABLE;
}

/* Leaves it mapped if it can be used. */
static int records_take_existing(struct node_records *r, int fd,
                                 const struct state_file_header *want, char *why, size_t why_size)
{
    struct state_file_header have;

    switch (state_file_judge(fd, want, &have)) {
    case STATE_FILE_FOREIGN:
        return records_refuse_foreign(r->path, why, why_size);
    case STATE_FILE_DAMAGED:
        log_warn("%s is damaged: the nodes are judged as on first contact", r->path);
        return HF_OK;
    case STATE_FILE_COPY:
        log_warn("%s is a copy: the nodes are judged as on first contact", r->path);
        return HF_OK;
    case STATE_FILE_OF_ANOTHER_CLOCK:
        log_warn(
            "%s was written in another time namespace: the nodes are judged as on first contact",
            r->path);
        return HF_OK;
    case STATE_FILE_OF_ANOTHER_BOOT:
    case STATE_FILE_OF_ANOTHER_LAYOUT:
        return HF_OK;
    case STATE_FILE_GOOD:
        break;
    }
    if (!records_same_list(&have, want))
        return HF_OK;
    return records_map_file(r, fd, why, why_size);
}

int node_records_open(const char *dir, int nodes, const char *list_hash,
                      const struct boot_clock *clock, struct node_records **ret_records, char *why,
                      size_t why_size)
{
    const struct state_file_header want = records_header_of(nodes, list_hash, clock);
    struct node_records *r = calloc(1, sizeof(*r));
    int fd, rc = HF_OK;

    if (!r) {
        snprintf(why, why_size, "out of memory");
        return HF_ENOMEM;
    }
    snprintf(r->path, sizeof(r->path), "%s/nodes", dir);
    fd = open(r->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) {
        rc = state_file_own(r->path, fd, why, why_size);
        if (rc == HF_OK)
            rc = records_take_existing(r, fd, &want, why, why_size);
        close(fd);
    } else if (errno != ENOENT) {
        rc = state_file_say("open", r->path, why, why_size);
    }
    if (rc == HF_OK)
        state_file_unreserve(r->path);
    if (rc == HF_OK && !r->map &&
        (rc = state_file_make(r->path, "what is known of the nodes", &want, &fd, why, why_size)) ==
            HF_OK) {
        r->made = true;
        rc = records_map_file(r, fd, why, why_size);
        close(fd);
    }
    if (rc == HF_OK)
        *ret_records = r;
    else
        free(r);
    return rc;
}

/* --- another list ----------------------------------------------------------------------------- */

static int records_carry_records(const char *path, int fd, const struct state_file_header *want,
                                 const struct list_change *change, char *why, size_t why_size)
{
    struct node_record was[HF_NODES_MAX], next[HF_NODES_MAX];

    if (pread(fd, was, sizeof(was), STATE_FILE_HEADER) != (ssize_t)sizeof(was))
        return state_file_say("read", path, why, why_size);
    memset(next, 0, sizeof(next));
    for (int i = 0; i < change->nodes; i++)
        if (change->from[i] >= 0)
            memcpy(&next[i], &was[change->from[i]], sizeof(next[i]));
    return state_file_replace(path, "what is known of the nodes", want, next, sizeof(next), why,
                              why_size);
}

/* HF_OK with -1: there is none. */
static int records_open(const char *dir, char path[STATE_FILE_PATH], int *ret_fd, char *why,
                        size_t why_size)
{
    snprintf(path, STATE_FILE_PATH, "%s/nodes", dir);
    *ret_fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    return *ret_fd < 0 && errno != ENOENT ? state_file_say("open", path, why, why_size) : HF_OK;
}

int node_records_carry(const char *dir, const struct boot_clock *clock,
                       const struct list_change *change, char *why, size_t why_size)
{
    const struct state_file_header want = records_header_of(change->nodes, change->hash, clock);
    struct state_file_header have;
    char path[STATE_FILE_PATH];
    int fd, rc = records_open(dir, path, &fd, why, why_size);

    if (fd < 0)
        return rc;
    rc = state_file_own(path, fd, why, why_size);
    if (rc == HF_OK && state_file_judge(fd, &want, &have) == STATE_FILE_GOOD &&
        have.size == FILE_SIZE && list_change_is_due(change, &have))
        rc = records_carry_records(path, fd, &want, change, why, why_size);
    close(fd);
    return rc;
}

int node_records_dry_run(const char *dir, char *why, size_t why_size)
{
    const struct state_file_header want = {.magic = RECORDS_MAGIC};
    struct state_file_header have;
    char path[STATE_FILE_PATH];
    int fd, rc = records_open(dir, path, &fd, why, why_size);

    if (fd < 0)
        return rc;
    if (state_file_judge(fd, &want, &have) == STATE_FILE_FOREIGN)
        rc = records_refuse_foreign(path, why, why_size);
    close(fd);
    return rc;
}

void node_records_close(struct node_records *r)
{
    if (!r)
        return;
    (void)munmap(r->map, FILE_SIZE);
    free(r);
}

void node_records_undo(struct node_records *r)
{
    if (r && r->made)
        node_records_remove(r);
    else
        node_records_close(r);
}

void node_records_remove(struct node_records *r)
{
    if (!r)
        return;
    (void)unlink(r->path);
    node_records_close(r);
}

void node_records_put(struct node_records *r, int node, const struct node_trust *trust)
{
    struct node_half body;

    hf_assert(node >= 0 && node < HF_NODES_MAX, "node %d", node);
    hf_assert(!trust->clock_known || trust->low_us <= trust->high_us, "node %d, %lld to %lld", node,
              (long long)trust->low_us, (long long)trust->high_us);
    memset(&body, 0, sizeof(body));
    memcpy(&body.trust, trust, sizeof(body.trust));
    half_commit(r->node[node].half, sizeof(body), &body);
}

int node_records_get(const struct node_records *r, int node, struct node_trust *ret_trust)
{
    int half = half_newest(r->node[node].half, sizeof(struct node_half));

    if (half < 0)
        return half;
    memcpy(ret_trust, &r->node[node].half[half].trust, sizeof(*ret_trust));
    return HF_OK;
}
