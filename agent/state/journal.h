/* What must outlive the agent of each lease: one record per slot, in a 0600 file on tmpfs, mapped
 * shared (agent/state/state_file.h). agent/state/node_records.h has what the agent knows of the nodes.
 *
 * Who writes: a record's owner thread, as in agent/state/lease.h. Who reads: the next agent only. The
 * file survives a killed agent (the page cache keeps it), and no reboot (another boot id: the leases are
 * gone with their holders).
 * A record is a block about the token and two about its holders, and two state
 * halves (agent/state/state_file.h): a kill at any store leaves the older one. The newest half says which holder
 * block counts; in a hand-off the next holder is first written into the other block.
 * Order to keep (!): INTENT before the first SET leaves; d_i before the check word is raised;
 * ENDING or HANDOFF before it goes to 0. Recovery is from here, never from the table.
 */
#ifndef HOLDFAST_AGENT_STATE_JOURNAL_H
#define HOLDFAST_AGENT_STATE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/clock.h"
#include "agent/core/holder.h"
#include "agent/state/lease.h"
#include "shm/layout.h"
#include "shm/nstime.h"
#include "shm/wire.h"

struct agent;
struct journal;
struct list_change;

enum journal_state {
    JOURNAL_FREE = 0,
    JOURNAL_INTENT = 1, /* an acquire round is (or was) under way: release only */
    JOURNAL_HELD = 2,
    /* as HELD; another process of this host had it under the generation before, and that check word
     * may still stand */
    JOURNAL_HANDOFF = 3,
    JOURNAL_ENDING = 4, /* release only */
};

/* A process may hold it. */
static inline bool journal_is_held(enum journal_state state)
{
    return state == JOURNAL_HELD || state == JOURNAL_HANDOFF;
}

/* Written once per lease, before JOURNAL_INTENT; the holder's part again before JOURNAL_HANDOFF. */
struct journal_identity {
    struct token token;
    uint32_t ttl_ms;
    uint8_t name_len;
    uint8_t name[HF_NAME_MAX];
    struct holder who;
};

/* Changes whenever the lease is extended. */
struct journal_lease {
    enum journal_state state;
    enum hf_slot_state slot_state; /* LOSING is kept, */
    enum hf_loss_reason reason;    /* and why */
    uint32_t generation;
    uint64_t fence;
    /* Of the configured nodes; HF_TIME_PAST behind them. Of a lease that is over the latest is when it may be released. */
    hf_time d[HF_NODES_MAX];
};

/* Makes DIR/journal, if it is of the list before, one of the next list: each lease keeps all but what nodes said that are
 * not in the next list any more, and d is HF_TIME_PAST of those that were not in the list before. A kill at any point
 * leaves the one or the other. Whatever else is there, or nothing, is left to journal_find(), which comes next. HF_ESYS
 * (no room for a copy), or HF_EBUSY for a file that a living agent owns: nothing is changed. The caller holds DIR/lock. */
int journal_carry(const char *dir, const struct boot_clock *clock, const struct list_change *change,
                  char *why, size_t why_size);

/* (!) The lock on DIR/lock is of a path. An agent also owns the journal itself (state_file_own()), for another agent would
 * end its leases at a V that it has renewed since, and release keys that its holders believe in.
 *
 * Finds DIR/journal for that many slots (the largest capacity) and nodes, or decides to make one. A file of this boot,
 * layout and list is kept (then `ret_found` is the number of records that are not FREE). A file of another boot is
 * emptied. One that cannot be read (other layout, damaged header), or that has another list and valid leases, is
 * refused in words, and so is one that a living agent owns (HF_EBUSY). The caller holds DIR/lock, and calls journal_make() next. (!) Between the two the agent makes sure
 * that no table is left when this journal is not kept: a new journal's generations begin again, and the agent may be
 * killed right after it is made. */
int journal_find(const char *dir, uint32_t capacity, int nodes, const char *list_hash,
                 const struct boot_clock *clock, struct journal **ret_journal, uint32_t *ret_found,
                 char *why, size_t why_size);
/* Unless a file is kept. With room for the first slots, of which there is one or more. */
int journal_make(struct journal *journal, uint32_t first, char *why, size_t why_size);
/* Room for slots below `slots`; the broker's thread. HF_EFULL: there is none, and nothing has changed. (!) No other slot is
 * ever written. */
int journal_take_slots(struct journal *journal, uint32_t slots);
uint32_t journal_slots(const struct journal *journal); /* that have room */
/* What journal_find() would do with DIR/journal. Nothing is changed, and no lock is needed: the agent that writes it may
 * run. */
struct journal_view {
    bool refused, dropped; /* else it is kept if `journal` is there, and made anew if not */
    bool other_list;       /* REFUSED because of it; DROPPED records may be, too */
    bool copy;             /* of another agent's journal: made anew */
    /* Of the leases in it, for journal_get() and journal_close() alone: there if it is kept, and with another list.
     * What is being written gives HF_ETABLE: ask again. */
    struct journal *journal;
    uint32_t live; /* records that are not FREE */
    hf_time until; /* when the last of them is over */
    int nodes;     /* of its list */
    char list_hash[41];
};
/* What is said of a copy in DIR. */
#define JOURNAL_IS_COPY                                                                            \
    "%s/journal is a copy of a journal: its leases are neither readopted nor released, and end "   \
    "at their "                                                                                    \
    "V; move an agent's files only by mv within one file system, and never copy them"
/* HF_OK; with REFUSED a sentence in `why`. HF_ENOMEM, HF_ESYS (errno): it cannot be looked at. */
int journal_dry_run(const char *dir, uint32_t capacity, int nodes, const char *list_hash,
                    const struct boot_clock *clock, struct journal_view *ret_view, char *why,
                    size_t why_size);
/* One more than the highest slot with a record when it was found. */
uint32_t journal_slots_live(const struct journal *journal);
/* Whether it was an earlier agent's, with records or without: then its generations go on. */
bool journal_is_kept(const struct journal *journal);
/* (!) The table that shows its leases, as hf_table_id(); 0: none was named (an earlier version's, or a new one). A word
 * in another table is out of reach and stands until its V, so an agent takes leases over only by this one. It names its
 * own once the journal says of each lease whether it took it over, and before it grants any. */
uint64_t journal_table(const struct journal *journal);
void journal_shown_in(struct journal *journal, uint64_t table_id);
void journal_close(struct journal *journal); /* keeps the file */
/* As journal_close(), where every record is FREE: an agent of another layout may make the file anew. */
void journal_close_empty(struct journal *journal);
/* Removes the file: of an agent that leaves nothing, or whose start is refused. */
void journal_remove(struct journal *journal);

void journal_put_identity(struct journal *journal, uint32_t slot,
                          const struct journal_identity *identity);
/* Writes the next holder of the same token. Later states refer to it. */
void journal_put_holder(struct journal *journal, uint32_t slot, const struct holder *who);
void journal_put(struct journal *journal, uint32_t slot, const struct journal_lease *state);
/* HF_ENOTHELD when FREE; HF_ETABLE when it says what no agent writes, or is being written. */
int journal_get(const struct journal *journal, uint32_t slot, struct journal_identity *ret_identity,
                struct journal_lease *ret_state);
/* The holder before a hand-off (the caller knows by the fence that there was one): the holder block that
 * the newest state does not refer to. An agent that was killed in the next hand-off left a mixture of both holders: no process
 * is that. HF_ETABLE when it says what no agent writes. */
int journal_get_previous(const struct journal *journal, uint32_t slot,
                         struct journal_identity *ret_identity);
/* The last generation ever written for that slot, so that a new one is higher; 0 none. */
uint32_t journal_generation(const struct journal *journal, uint32_t slot);

/* Stores a lease's journal record and slot in the order that recovery and readers need. Called by the
 * thread that owns the lease: the broker at first, then the renewal thread. */

/* Journals its votes and state as they are now. */
void lease_journal(struct agent *agent, const struct lease *lease, enum journal_state state);

/* (!) It is LOST or ENDED: journal, check word, then everything else. The first byte of a release leaves
 * after that. */
void lease_record_end(struct agent *agent, struct lease *lease);

#endif
