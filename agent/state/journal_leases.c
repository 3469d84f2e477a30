/* What the journal keeps of each lease: an identity, which two holders take turns in, and a state, of which the newest
 * half counts. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/state/fleet_memory.h"
#include "agent/state/journal_layout.h"
#include "agent/state/lease.h"
#include "shm/assert.h"
#include "shm/ring.h"
#include "shm/status.h"

/* The writer's side: a slot that has room, with holder blocks by number. */
static void leases_check(const struct journal *j, uint32_t slot)
{
    hf_assert(slot < slots_of(j) && slots_of(j) <= j->capacity, "slot %u of %u, capacity %u",
              (unsigned)slot, (unsigned)slots_of(j), (unsigned)j->capacity);
    hf_assert(j->nodes >= 1 && j->nodes <= HF_NODES_MAX, "nodes %d", j->nodes);
    hf_assert(j->half_size <= 2 * HALF_LINE && j->half_size % HALF_LINE == 0, "half_size %zu",
              j->half_size);
    hf_assert(j->fd >= 0, "slot %u", (unsigned)slot);
    hf_assert(j->holder[slot] <= 1, "slot %u, holder %u", (unsigned)slot, j->holder[slot]);
}

/* (!) Into the block that the newest state does not refer to: no state names it until the next put. */
void journal_put_holder(struct journal *j, uint32_t slot, const struct holder *who)
{
    int idle = !holder_now(j, slot);

    leases_check(j, slot);
    hf_assert(who->note_len <= HF_NOTE_MAX && who->comm_len <= HF_COMM_MAX,
              "slot %u, lengths %u, %u", (unsigned)slot, who->note_len, who->comm_len);
    record_of(j, slot)->who[idle] = *who;
    j->holder[slot] = (uint8_t)idle;
    /* Before the state that refers to it. */
    atomic_thread_fence(memory_order_release);
}

void journal_put_identity(struct journal *j, uint32_t slot, const struct journal_identity *id)
{
    struct token_block *what = &record_of(j, slot)->what;

    leases_check(j, slot);
    hf_assert(id->name_len >= 1, "slot %u", (unsigned)slot);
    memset(what, 0, sizeof(*what));
    what->ttl_ms = id->ttl_ms;
    token_text(&id->token, what->token);
    what->name_len = id->name_len;
    memcpy(what->name, id->name, sizeof(what->name));
    journal_put_holder(j, slot, &id->who);
}

void journal_put(struct journal *j, uint32_t slot, const struct journal_lease *state)
{
    union {
        struct lease_half half;
        char bytes[2 * HALF_LINE];
    } body;

    leases_check(j, slot);
    hf_assert(state->state <= JOURNAL_ENDING, "slot %u, state %d", (unsigned)slot,
              (int)state->state);
    hf_assert(state->slot_state <= HF_SLOT_ENDED, "slot %u, slot_state %d", (unsigned)slot,
              (int)state->slot_state);
    hf_assert(state->reason <= HF_LOSS_AWAY, "slot %u, reason %d", (unsigned)slot,
              (int)state->reason);
    hf_assert(state->generation <= HF_GEN_MAX, "slot %u, generation %u", (unsigned)slot,
              (unsigned)state->generation);
    hf_assert(state->generation > 0 || !journal_is_held(state->state), "slot %u, state %d",
              (unsigned)slot, (int)state->state);
    memset(body.bytes, 0, j->half_size);
    body.half.state = (uint32_t)state->state | (uint32_t)j->holder[slot] << HOLDER_SHIFT;
    body.half.slot_state = (uint32_t)state->slot_state | (uint32_t)state->reason << REASON_SHIFT;
    body.half.generation = state->generation;
    body.half.fence = state->fence;
    for (int i = 0; i < j->nodes; i++)
        body.half.d_ns[i] = state->d[i].ns;
    half_commit(halves_of(j, slot), j->half_size, &body);
}

/* HF_ETABLE: it says what no agent writes. */
static int leases_get_identity(const struct lease_record *r, int holder,
                               struct journal_identity *ret)
{
    const struct token_block *what = &r->what;
    const struct holder *who = &r->who[holder];
    struct token token;

    if (what->name_len == 0 || token_read(what->token, &token) < 0 ||
        what->token[TOKEN_LEN] != '\0' || who->note_len > HF_NOTE_MAX ||
        who->comm_len > HF_COMM_MAX || who->beat_word >= HF_BEATS)
        return HF_ETABLE;
    memset(ret, 0, sizeof(*ret));
    ret->token = token;
    ret->ttl_ms = what->ttl_ms;
    ret->name_len = what->name_len;
    memcpy(ret->name, what->name, sizeof(ret->name));
    ret->who = *who;
    return HF_OK;
}

/* What this agent goes by, and asserts, where it takes the lease up. */
static bool leases_is_possible(const struct lease_half *h, enum journal_state state)
{
    return (h->slot_state & STATE_MASK) <= HF_SLOT_ENDED &&
           h->slot_state >> REASON_SHIFT <= HF_LOSS_AWAY && h->generation <= HF_GEN_MAX &&
           ((h->generation > 0 && h->fence > 0) || !journal_is_held(state));
}

int journal_get(const struct journal *j, uint32_t slot, struct journal_identity *ret_identity,
                struct journal_lease *ret_state)
{
    const struct lease_record *r = record_of(j, slot);
    const struct lease_half *h;
    int half, rc;
    uint32_t state, holder;
    uint64_t seq;

    if (slot >= slots_of(j))
        return HF_ENOTHELD;
    half = half_newest(halves_of(j, slot), j->half_size);
    if (half < 0)
        return half;
    h = half_of(j, slot, half);
    seq = half_seq(h);
    state = h->state & STATE_MASK;
    holder = h->state >> HOLDER_SHIFT;
    if (state == JOURNAL_FREE)
        return HF_ENOTHELD;
    if (state > JOURNAL_ENDING || holder > 1 || !leases_is_possible(h, (enum journal_state)state))
        return HF_ETABLE;
    rc = leases_get_identity(r, (int)holder, ret_identity);
    if (rc < 0)
        return rc;
    ret_state->state = (enum journal_state)state;
    ret_state->slot_state = (enum hf_slot_state)(h->slot_state & STATE_MASK);
    ret_state->reason = (enum hf_loss_reason)(h->slot_state >> REASON_SHIFT);
    ret_state->generation = h->generation;
    ret_state->fence = h->fence;
    for (int i = 0; i < HF_NODES_MAX; i++)
        ret_state->d[i] = i < j->nodes ? (hf_time){h->d_ns[i]} : HF_TIME_PAST;
    /* A running agent may have put two states meanwhile, and another lease. */
    return half_newest(halves_of(j, slot), j->half_size) == half && half_seq(h) == seq ? HF_OK
                                                                                       : HF_ETABLE;
}

int journal_get_previous(const struct journal *j, uint32_t slot,
                         struct journal_identity *ret_identity)
{
    return leases_get_identity(record_of(j, slot), !holder_now(j, slot), ret_identity);
}

uint32_t journal_generation(const struct journal *j, uint32_t slot)
{
    uint32_t highest = 0;

    /* The higher one: a generation too high costs one number, a generation too low could
     * make a dead handle valid again. */
    for (int i = 0; i < 2 && slot < slots_of(j); i++) {
        uint32_t generation = half_of(j, slot, i)->generation;

        if (generation > highest && generation <= HF_GEN_MAX)
            highest = generation;
    }
    return highest;
}

/* --- another list of nodes -------------------------------------------------------------------- */

/* The journal of one list of nodes becomes that of the next one, with all its leases. */

static void carry_half(const struct journal *from, const struct journal *to, uint32_t slot,
                       int number, const struct list_change *change)
{
    const struct lease_half *was = half_of(from, slot, number);
    union {
        struct lease_half half;
        char bytes[2 * HALF_LINE];
    } next;

    memset(next.bytes, 0, sizeof(next.bytes));
    next.half.seq = half_seq(was);
    next.half.state = was->state;
    next.half.slot_state = was->slot_state;
    next.half.generation = was->generation;
    next.half.fence = was->fence;
    for (int i = 0; i < to->nodes; i++)
        next.half.d_ns[i] = change->from[i] < 0 ? HF_TIME_PAST.ns : was->d_ns[change->from[i]];
    memcpy((char *)halves_of(to, slot) + (size_t)number * to->half_size, next.bytes, to->half_size);
}

static bool carry_was_written(const struct journal *j, uint32_t slot)
{
    return half_seq(half_of(j, slot, 0)) != 0 || half_seq(half_of(j, slot, 1)) != 0;
}

static void carry_slots(const struct journal *from, const struct journal *to,
                        const struct list_change *change)
{
    uint32_t slots = slots_of(from);

    atomic_store(&page_of(to)->table, atomic_load(&page_of(from)->table));
    atomic_store(&page_of(to)->slots, slots);
    for (uint32_t slot = 0; slot < slots; slot++) {
        for (int number = 0; number < 2 && carry_was_written(from, slot); number++)
            carry_half(from, to, slot, number, change);
        memcpy(record_of(to, slot), record_of(from, slot), sizeof(struct lease_record));
    }
}

/* (!) The file of the next list is whole before it takes the place of the other. */
static int carry_replace(const struct journal *from, const struct state_file_header *want,
                         const struct list_change *change, char *why, size_t why_size)
{
    struct journal to;
    void *map;
    int fd, rc = state_file_begin(from->path, "the journal of another list of nodes", want, &fd,
                                  why, why_size);

    if (rc < 0)
        return rc;
    rc = state_file_map(from->path, fd, want->size, &map, why, why_size);
    close(fd);
    if (rc < 0) {
        state_file_abandon(from->path);
        return rc;
    }
    journal_place(&to, map, from->capacity, want->nodes);
    carry_slots(from, &to, change);
    (void)munmap(map, want->size);
    return state_file_commit(from->path, why, why_size);
}

static int carry_file(struct journal *from, int fd, const struct boot_clock *clock,
                      const struct list_change *change, char *why, size_t why_size)
{
    struct state_file_header have, want = journal_header(0, change->nodes, change->hash, clock);
    struct stat st;
    void *map;
    int rc;

    if (state_file_judge(fd, &want, &have) != STATE_FILE_GOOD || have.nodes > HF_NODES_MAX ||
        !list_change_is_due(change, &have) || fstat(fd, &st) < 0)
        return HF_OK; /* journal_find() judges it */
    rc = state_file_view(from->path, fd, (size_t)st.st_size, &map, why, why_size);
    if (rc < 0)
        return rc;
    journal_place(from, map, HF_SLOTS_MAX, have.nodes);
    want = journal_header(slots_of(from), change->nodes, change->hash, clock);
    if (journal_page_fits(from, (uint64_t)st.st_size))
        rc = carry_replace(from, &want, change, why, why_size);
    (void)munmap(map, (size_t)st.st_size);
    return rc;
}

int journal_carry(const char *dir, const struct boot_clock *clock, const struct list_change *change,
                  char *why, size_t why_size)
{
    struct journal from = {0};
    int fd, rc;

    snprintf(from.path, sizeof(from.path), "%s/journal", dir);
    fd = open(from.path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? HF_OK : state_file_say("open", from.path, why, why_size);
    rc = state_file_own(from.path, fd, why, why_size);
    if (rc == HF_OK)
        rc = carry_file(&from, fd, clock, change, why, why_size);
    close(fd);
    return rc;
}

/* --- room for it ------------------------------------------------------------------------------ */

#define MORE (4 * HF_SLOTS_STEP)

/* As many slots as have room now, and those that may get it until the journal is carried over. */
static int carry_room_take_for_journal(const char *path, int nodes, char *why, size_t why_size)
{
    struct journal_page page;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK), rc = HF_OK;

    if (fd < 0)
        return errno == ENOENT ? HF_OK : state_file_say("open", path, why, why_size);
    if (pread(fd, &page, sizeof(page), JOURNAL_PAGE) == (ssize_t)sizeof(page)) {
        uint32_t slots = page.slots < HF_SLOTS_MAX ? page.slots : HF_SLOTS_MAX;

        slots += slots < MORE ? slots : MORE;
        rc = state_file_reserve(path, "the journal of the next list of nodes",
                                journal_size_for(slots, nodes), why, why_size);
    }
    close(fd);
    return rc;
}

int carry_room_take(const char *dir, int nodes, char *why, size_t why_size)
{
    char path[STATE_FILE_PATH];
    struct stat st;
    int rc;

    snprintf(path, sizeof(path), "%s/journal", dir);
    rc = carry_room_take_for_journal(path, nodes, why, why_size);
    if (rc == HF_OK) {
        snprintf(path, sizeof(path), "%s/nodes", dir);
        if (lstat(path, &st) == 0) /* it has one size for all lists */
            rc = state_file_reserve(path, "what is known of the next list of nodes",
                                    (size_t)st.st_size, why, why_size);
    }
    if (rc < 0)
        carry_room_give(dir);
    return rc;
}

void carry_room_give(const char *dir)
{
    char path[STATE_FILE_PATH];

    snprintf(path, sizeof(path), "%s/journal", dir);
    state_file_unreserve(path);
    snprintf(path, sizeof(path), "%s/nodes", dir);
    state_file_unreserve(path);
}
