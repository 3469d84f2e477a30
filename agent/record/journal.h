/* What of its leases must outlive the agent: one record per slot, in a 0600 file on tmpfs, mapped
 * shared (agent/record/boot_file.h). What it knows of the nodes is in agent/record/node_records.h.
 *
 * Who writes: a record's owner thread, as in agent/record/lease.h. Who reads: the next agent only. It
 * survives a killed agent (the page cache keeps it), not a reboot (boot id differs: leases are gone
 * with their owners).
 * A record is a block about the token and two about its owners, each with a CRC, and two state
 * halves (agent/record/halves.h): a kill at any store leaves the older one. The newest half says which owner
 * is the one; a lease that is handed over gets its next owner into the other block first.
 * Order to keep (!): INTENT before the first SET leaves; d_i before the check word is raised;
 * ENDING or HANDOFF before it goes to 0. Recovery is from here, never from the table.
 */
#ifndef HOLDFAST_AGENT_RECORD_JOURNAL_H
#define HOLDFAST_AGENT_RECORD_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/record/lease.h"
#include "shm/layout.h"
#include "shm/nstime.h"
#include "shm/wire.h"

struct journal;

enum journal_state {
    JOURNAL_FREE = 0,
    JOURNAL_INTENT = 1, /* an acquire round is (or was) under way: release only */
    JOURNAL_HELD = 2,
    /* as HELD; another process of this host had it under the generation before, and its word may
     * still stand */
    JOURNAL_HANDOFF = 3,
    JOURNAL_ENDING = 4, /* release only */
};

/* Somebody may hold it. */
static inline bool journal_is_held(enum journal_state state)
{
    return state == JOURNAL_HELD || state == JOURNAL_HANDOFF;
}

/* Written once per lease, before JOURNAL_INTENT; the owner's part again before JOURNAL_HANDOFF. */
struct journal_identity {
    struct token token;
    uint32_t ttl_ms, max_hold_ms, pid, uid;
    uint64_t start_time;  /* of the owner process, clock ticks since boot */
    uint64_t pidns_inode; /* of the agent: pids mean nothing elsewhere */
    uint64_t cookie_hash; /* of the client's resume cookie */
    uint64_t request_id;  /* the client's own number of the acquire: a resend is the same request */
    uint32_t heartbeat_ms, beat_word; /* 0: none */
    int64_t since_ns, since_wall_ms;
    uint8_t name_len, note_len, comm_len, run;
    uint8_t name[HF_NAME_MAX];
    char note[HF_NOTE_MAX + 1], comm[HF_COMM_MAX + 1];
};

/* Changes with every extension. */
struct journal_lease {
    enum journal_state state;
    enum hf_slot_state slot_state; /* LOSING is remembered, */
    enum hf_loss_reason reason;    /* and why */
    uint32_t generation;
    uint64_t fence;
    hf_time d[HF_NODES_MAX]; /* of the configured nodes; HF_TIME_PAST behind them */
};

/* Finds DIR/journal for that many slots and nodes, or sees that one is to be made. An existing one of this boot, layout
 * and list is kept (then `ret_found` is the number of records that are not FREE). With records it is copied into a
 * larger file if it is smaller, and kept as it is if it is larger, or if there is no room to copy it, which is
 * logged; without, one of another capacity is made anew. One of another boot is emptied; one that cannot be read
 * (other layout, CRC of the header), or that has another list and valid leases, is refused in words. The caller holds
 * DIR/lock. Then journal_make(). (!) Between the two the agent sees to it that no table is left when this journal is not
 * kept: with a new journal generations begin again, and the agent may be killed right after it is made. */
int journal_find(const char *dir, uint32_t capacity, int nodes, const char *list_hash,
                 const uint8_t boot_id[16], struct journal **ret_journal, uint32_t *ret_found,
                 char *why, size_t why_size);
int journal_make(struct journal *journal, char *why, size_t why_size); /* unless it is kept */
/* Slots that it has; and one more than the highest that had a record when it was found. */
uint32_t journal_capacity(const struct journal *journal);
uint32_t journal_slots_live(const struct journal *journal);
/* Whether it was an earlier agent's, also one with no record: then its generations go on. */
bool journal_is_kept(const struct journal *journal);
void journal_close(struct journal *journal); /* keeps the file */
/* Removes the file: nothing is held any more. */
void journal_remove(struct journal *journal);

void journal_put_identity(struct journal *journal, uint32_t slot,
                          const struct journal_identity *identity);
/* The next owner of the same token: all but token, TTL and name. The states that follow refer to it. */
void journal_put_owner(struct journal *journal, uint32_t slot,
                       const struct journal_identity *identity);
void journal_put(struct journal *journal, uint32_t slot, const struct journal_lease *state);
/* HF_ENOTHELD when FREE; HF_ETABLE when neither half can be believed. */
int journal_get(const struct journal *journal, uint32_t slot, struct journal_identity *ret_identity,
                struct journal_lease *ret_state);
/* Who had it before it was handed over (the caller knows by the fence that it was): the owner block
 * that the newest state does not refer to. HF_ETABLE when it cannot be believed. */
int journal_get_previous(const struct journal *journal, uint32_t slot,
                         struct journal_identity *ret_identity);
/* The last generation ever written for that slot, so that a new one is higher; 0 none. */
uint32_t journal_generation(const struct journal *journal, uint32_t slot);

#endif
