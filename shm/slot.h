/* Publishing a lease in its slot, and reading it.
 *
 * Who writes: the one thread that owns the lease now. Who reads: any process that mapped the table.
 * Ordering: the owner's check is one acquire load of `check`, which never lies: the writer stores a
 * later deadline only after the nodes agreed to it, and to end a lease stores 0 first and edits the
 * rest after. Observers copy the rest under `seq`, at most HF_SLOT_TRIES times, and never write.
 * A writer killed inside leaves `seq` odd: observers get HF_ETABLE, the owner's check still works;
 * the next agent writes it anew from its journal, which makes it even again.
 * Reading is async-signal-safe and works in any thread.
 */
#ifndef HOLDFAST_SHM_SLOT_H
#define HOLDFAST_SHM_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/layout.h"
#include "shm/nstime.h"

#define HF_SLOT_TRIES 64

/* What a slot says, in plain memory. Names are bytes: they may hold NUL and newline. Note and command
 * end with NUL; what is behind the name, or behind that, is not written. */
struct hf_slot_view {
    uint32_t slot, generation;
    enum hf_slot_state state;
    uint32_t flags; /* enum hf_slot_flag */
    enum hf_loss_reason reason;
    uint32_t votes;   /* nodes whose d_i stands */
    hf_time deadline; /* V; ns 0 when none */
    hf_time since;
    uint64_t fence;
    uint32_t pid, uid, ttl_ms;
    uint8_t name_len, note_len, comm_len;
    uint8_t name[HF_NAME_MAX];
    char note[HF_NOTE_MAX + 1];
    char comm[HF_COMM_MAX + 1];
};

/* The check word of a lease valid before `deadline`; the deadline is rounded down. 0 for a deadline
 * that is none; one beyond the 40 bits (36 years) is cut to the largest. */
static inline uint64_t hf_check_pack(uint32_t generation, hf_time deadline)
{
    uint64_t time;

    if (deadline.ns <= 0)
        return 0;
    time = (uint64_t)deadline.ns >> HF_CHECK_TIME_SHIFT;
    if (time > HF_CHECK_TIME_MASK)
        time = HF_CHECK_TIME_MASK;
    return (uint64_t)generation << HF_CHECK_GEN_SHIFT | time;
}

/* Whether `word` says at `now` that generation `generation` holds. */
static inline bool hf_check_holds(uint64_t word, uint32_t generation, hf_time now)
{
    return word >> HF_CHECK_GEN_SHIFT == generation && generation != 0 &&
           (uint64_t)now.ns >> HF_CHECK_TIME_SHIFT < (word & HF_CHECK_TIME_MASK);
}

/* --- writer ----------------------------------------------------------------------------------- */

/* Everything but `check`: who holds what. The text must already stand at text_off (shm/table.h). */
struct hf_slot_identity {
    uint32_t generation, pid, uid, ttl_ms, text_off, flags;
    uint8_t name_len, note_len, comm_len;
    uint64_t fence;
    hf_time since;
};

/* Writes the identity with state HELD, V and votes, then raises the check word last. */
void hf_slot_publish(struct hf_slot *slot, const struct hf_slot_identity *id, hf_time deadline,
                     uint32_t votes);

/* Moves V of the present lease: check word and fields. V may also move back (a voided vote). */
void hf_slot_extend(struct hf_slot *slot, hf_time deadline, uint32_t votes);

/* State, flags and reason of the present lease; the check word is left as it is. */
void hf_slot_mark(struct hf_slot *slot, enum hf_slot_state state, uint32_t flags,
                  enum hf_loss_reason reason);

/* Check word to 0, at once and alone: the first thing done to end a lease. */
void hf_slot_withdraw(struct hf_slot *slot);

/* After hf_slot_withdraw: state LOST or ENDED with its reason, V 0; the name stays readable. */
void hf_slot_end(struct hf_slot *slot, enum hf_slot_state state, enum hf_loss_reason reason);

/* Forgets the name too: state FREE. */
void hf_slot_clear(struct hf_slot *slot);

struct hf_table;

/* For the agent that finds it after a killed writer: what stands in the slot, whether a writer was
 * inside or not (`ret_odd`): then it may be of two leases, and only the next publish, end or clear
 * makes it readable for others. HF_ENOTHELD, HF_EINVAL as hf_slot_read(); HF_ETABLE: no sense in it. */
int hf_slot_peek(const struct hf_table *table, uint32_t slot, struct hf_slot_view *ret_view,
                 bool *ret_odd);

/* What is above name, note and comm in `lengths`. */
#define HF_SLOT_STATE_SHIFT 24

/* --- reader ----------------------------------------------------------------------------------- */

/* Copies slot number `slot`. 0; HF_ENOTHELD for a FREE slot; HF_EINVAL for a number out of range;
 * HF_ETABLE when no consistent copy could be had in HF_SLOT_TRIES tries. */
int hf_slot_read(const struct hf_table *table, uint32_t slot, struct hf_slot_view *ret_view);
/* The same if it carries `name`, else HF_ENOTHELD. */
int hf_slot_read_named(const struct hf_table *table, uint32_t slot, const void *name,
                       size_t name_len, struct hf_slot_view *ret_view);

#endif
