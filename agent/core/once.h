/* Whether a job that is to run once in a period has run in this one: what each node says, and what that comes to. Pure.
 *
 * A record says when the job last started. Whoever is about to run it holds the lock, and
 *  1. asks all nodes. Each notes the asker's fence and turn, and from then on takes no write of an earlier one;
 *  2. needs q answers of nodes that may vote. A start that any of them has stands, unless q nodes have a later record;
 *  3. leaves it at that if a start that stands was less than nine tenths of the period ago, by the median of the nodes' clocks;
 *  4. else writes the time, and starts the job once q nodes that may vote have taken it.
 * (!) Of two that ask, a node of both majorities has the earlier one's record when the later one asks, or refuses it
 * afterwards: so only one of them starts the job, whatever becomes of the lock between. A record that is on fewer nodes
 * counts: its writer may have started the job. So step 1 waits for every node, and step 4 for q nodes only.
 *
 * (!) The time in the record is the latest at which the job may start, a little ahead of the write. An agent that has q
 * answers too late for it asks again from step 1. The next start of the job comes after a step 1, and nine tenths of the
 * period after that time. So two starts are never closer, however late a node answers. Half of the allowance is left for
 * the answer's way to the client, and for the start of the job there. The answer has that time, too: a client that hears it
 * later asks again.
 *
 * An asker may ask again: its agent was killed, or too few nodes answered. It has the same number then, and finds its own
 * record. It writes a new time before it starts the job, so the distance stays. (!) A client drops the number once it has
 * been told to start the job.
 *
 * (!) One node that lies, or has a poisoned record, neither stops the job for good nor hides a run. What lies more than a
 * minute ahead of the nodes' clocks is doubted, unless q nodes show it: such a node counts as silent. It has no vote, so a
 * start is still in every majority that decides.
 */
#ifndef HOLDFAST_AGENT_CORE_ONCE_H
#define HOLDFAST_AGENT_CORE_ONCE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/server.h"
#include "shm/layout.h"
#include "shm/nstime.h"

/* Schedules start a job a little earlier at times: cron's minute, clocks that differ, the day of 23 hours in spring. */
#define ONCE_PART 9 /* of ten */
/* The time in a record is never further ahead of its write: a start in the future counts by this at least. */
#define ONCE_ALLOWANCE_MOST_MS 4000

/* What is done for one request, in this order. */
enum once_step {
    ONCE_LOOK,
    ONCE_WRITE,
    ONCE_TAKE_BACK,
    ONCE_END,
    ONCE_PEEK,
    ONCE_FORGET,
    ONCE_STEPS
};

struct once_record {
    uint64_t fence; /* node part, of who wrote it; 0: there is none */
    int64_t turn;
    int64_t at_us; /* when the job started, by the nodes' clocks; 0: never */
    int64_t
        asker; /* a random number of who wrote it; 0: nobody's, what was found was written again */
    int64_t
        ended; /* how: enum hf_once_end, and << 8 its code; 0: it has not, or nobody could say so */
    uint64_t seen; /* with that node: the latest who asked, node part */
    int64_t seen_turn;
};

enum once_word { ONCE_AWAITED, ONCE_SILENT, ONCE_SAID, ONCE_REFUSED };

struct once {
    int n, q;
    struct twins twins; /* the caller fills it in: which nodes are one server */
    int64_t limit_us;   /* beyond it one node alone is not believed */
    struct {
        enum once_word word;
        bool votes, remembers;     /* the second: all of the period */
        struct once_record record; /* REFUSED: `seen` only */
    } node[HF_NODES_MAX];
};

enum once_outcome {
    ONCE_OPEN,   /* answers are awaited */
    ONCE_ENOUGH, /* q nodes that may vote took it */
    ONCE_FEW,    /* fewer */
    ONCE_LATE,   /* somebody with a later fence has asked: this one may not start the job */
};

/* The turn of a request's first step, which the others follow: after every one of an earlier holder of the same token, and
 * of this holder, as `held` tells; `last`: the one that this lease was given before. (!) Not that of another lease: the next
 * agent goes by `held` alone, and its turns must not be earlier. */
int64_t once_turn(unsigned handoffs, hf_dur held, int64_t last);
/* The turn of an operator's word that the last run does not count: after all of these askers, before all later ones. No step
 * of theirs that writes has that number. */
int64_t once_turn_to_forget(int64_t seen_turn);
/* All are awaited; `once_silent()` for those that are not asked. */
void once_begin(struct once *once, int n, int q, int64_t now_us);
void once_silent(struct once *once, int node);
/* It refused: it knows this later fence. */
void once_refused(struct once *once, int node, uint64_t seen);
/* The record that it had before it took the order. */
void once_said(struct once *once, int node, bool votes, bool remembers,
               const struct once_record *record);
/* (!) Not before every node that was asked has answered, or had the time: one of them may be the only one that remembers. */
enum once_outcome once_decide(const struct once *once);
/* Of a write: (!) q nodes that took it are enough, whatever the others say. A later asker then finds it on one of them. */
enum once_outcome once_taken(const struct once *once);
/* Whether that no node knows of a start in this period proves that there was none. (!) A node that restarted or forgot within the period
 * votes again long before that, and knows of no run: so q nodes that remember the whole period are needed, or the answers of all. */
bool once_proves_none(const struct once *once);
/* Whether what the node says counts for nothing: it lies too far ahead. */
bool once_doubts(const struct once *once, int node);
/* The latest who asked, of whom a node knows that is believed: only `seen` and `seen_turn`. */
struct once_record once_seen(const struct once *once);
/* The node that has the start that counts, one of this period before others; -1: there is none. */
int once_standing(const struct once *once, int64_t now_us, hf_dur period);
/* That node's record; all 0 for -1. */
struct once_record once_record_of(const struct once *once, int node);
/* (!) Whether this very asker wrote the record, and was never answered. The fence does not tell: all holders of a token that is
 * handed over have it, and each process counts its requests from 1. */
bool once_is_of(const struct once_record *record, uint64_t fence, int64_t asker);
/* Whether a node that answered has another start, or an earlier record of it; in quarantine, too, for it will vote. */
bool once_differs(const struct once *once, const struct once_record *record);
/* Whether a start at that time is of this period. A start in the future is, for up to a period: clocks were set back. */
bool once_is_done(int64_t at_us, int64_t now_us, hf_dur period);
/* How far ahead of its write a record's time is; `took`: how long a write that came too late took, 0: there was none. */
hf_dur once_allowance(hf_dur period, hf_dur took);
/* (!) How far a node's clock may be off the median: no job starts unless those of q nodes are that near. A node of both
 * majorities then has two hosts agree on the time to twice that. */
hf_dur once_clocks_apart(hf_dur period);
/* Whether a job of which q nodes have the record may still start; `until`: the time in the record, by our clock. */
bool once_is_in_time(hf_time until, hf_time now, hf_dur allowance);
/* How far back a start may lie that counts still: its record was written ahead of it. */
hf_dur once_memory(hf_dur period);
/* For how long nodes keep the record. */
hf_dur once_retention(hf_dur period);

#endif
