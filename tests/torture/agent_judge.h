/* Judges what an agent leaves in its table and journal when it is killed: as readers and the next
 * agent find it, in a copy of both.
 */
#ifndef HOLDFAST_TESTS_AGENT_JUDGE_H
#define HOLDFAST_TESTS_AGENT_JUDGE_H

#include "agent/agent.h"
#include "agent/config/config.h"
#include "agent/process/host.h"
#include "shm/compiler.h"
#include "shm/slot.h"
#include "tests/torture/stores.h"

#define SLOTS_MAX 64
#define FACTS_MAX 64
#define NAMES_MAX 16

/* A lease as it was first seen whole. */
struct fact {
    uint32_t slot, generation;
    struct hf_slot_view view;
};

struct whole {
    void *at;
    size_t size;
    struct hf_file_id file;
};

struct judge {
    struct config config;
    struct host host;
    char live_shm[HF_TABLE_NAME_MAX], copy_shm[HF_TABLE_NAME_MAX];
    char live_dir[512], copy_dir[512];
    /* the four files, whole */
    struct whole live_table, live_journal, copy_table, copy_journal;
    uint8_t *table_bytes, *journal_bytes; /* of the live ones, when the watching began */
    struct hf_table reader;               /* the copy, as others have it */
    struct journal *journal;              /* the copy's */
    int n, q;
    struct words {
        uint32_t stood[SLOTS_MAX], over[SLOTS_MAX]; /* generations: last seen, and gone to 0 */
    } words;
    struct fact fact[FACTS_MAX];
    int facts;
    char name[NAMES_MAX][HF_NAME_MAX + 1]; /* leases that stand through all moments */
    int names;
    bool may_fall;  /* V moves back: until the word is lowered it may be above the journal's */
    bool scribbled; /* the table may say that a lease ran out */
    char wrong[400];
};

void judge_says(struct judge *j, const char *format, ...) HF_PRINTF(2, 3);

/* Maps the agent's files and makes the copies. Ends the program on failure. */
void judge_open(struct judge *j);
void judge_close(struct judge *j);

/* What is watched of the live files. */
int judge_regions(const struct judge *j, struct region ret_regions[REGIONS_MAX]);
/* Before the watching: what is not watched is as it is now. */
void judge_begin(struct judge *j);
/* The copy becomes moment `i` of the live files. */
void judge_restore(const struct judge *j, const struct store_log *log, uint32_t i);

/* The copy is the agent's next state: a word that it took back must never stand again. */
void judge_follow(struct judge *j);
/* What stands in the copy, for readers and for the next agent; `wrong` says what is wrong. */
void judge_state(struct judge *j);
/* Then another agent starts on the copy, in a child. */
void judge_recovery(struct judge *j);
/* The same, and each state that killing that agent leaves is judged, too, with one more recovery of
 * every `every`th. Returns how many there are. */
unsigned judge_recovery_stores(struct judge *j, unsigned every);

#endif
