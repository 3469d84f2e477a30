/* Publishes a lease in its slot, and reads it.
 *
 * Who writes: the one thread that has the lease now. Who reads: any process that mapped the table.
 * Ordering: the holder's check is one acquire load of `check`, which never lies: the writer stores
 * a later deadline only after the nodes agreed to it, and to end a lease stores 0 first and edits
 * the rest after. Observers copy the rest under `seq`, at most HF_SLOT_TRIES times, and never
 * write. A writer killed inside leaves `seq` odd: observers get HF_ETABLE, the holder's check still
 * works; the next agent rewrites the slot from its journal, which makes `seq` even again. Reading
 * is async-signal-safe and works in any thread.
 */
#ifndef HOLDFAST_SHM_SLOT_H
#define HOLDFAST_SHM_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/layout.h"
#include "shm/nstime.h"

#define HF_SLOT_TRIES 64

/* The contents of a slot, in plain memory. Names are bytes: they may contain NUL and newline. Note
 * and command end with NUL; bytes after the name, or after that NUL, are not written. */
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

/* The check word of a lease valid before `deadline`; the deadline is rounded down. 0 without a
 * deadline; one beyond the 40 bits (36 years) is cut to the largest. */
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

/* Everything except `check`: the holder and the name. The text must already be at text_off (shm/table.h). */
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

/* Stores 0 in the check word, and nothing else: the first step of a lease's end. */
void hf_slot_withdraw(struct hf_slot *slot);

/* After hf_slot_withdraw: state LOST or ENDED with its reason, V 0; the name stays readable. */
void hf_slot_end(struct hf_slot *slot, enum hf_slot_state state, enum hf_loss_reason reason);

/* Removes the name too: state FREE. */
void hf_slot_clear(struct hf_slot *slot);

struct hf_table;

/* For an agent after a killed writer: reads the slot even if a writer was inside (`ret_odd`): then it
 * may mix two leases, and only the next publish, end or clear makes it readable for others.
 * HF_ENOTHELD, HF_EINVAL as for hf_slot_read(); HF_ETABLE: the contents are impossible. */
int hf_slot_peek(const struct hf_table *table, uint32_t slot, struct hf_slot_view *ret_view,
                 bool *ret_odd);

/* The bits above name, note and comm in `lengths`. */
#define HF_SLOT_STATE_SHIFT 24

/* --- reader ----------------------------------------------------------------------------------- */

/* Copies slot number `slot`. 0; HF_ENOTHELD for a FREE slot; HF_EINVAL for a number out of range;
 * HF_ETABLE when no consistent copy could be had in HF_SLOT_TRIES tries. */
int hf_slot_read(const struct hf_table *table, uint32_t slot, struct hf_slot_view *ret_view);
/* The same if it carries `name`, else HF_ENOTHELD. */
int hf_slot_read_named(const struct hf_table *table, uint32_t slot, const void *name,
                       size_t name_len, struct hf_slot_view *ret_view);

#endif
