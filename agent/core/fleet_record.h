/* The fleet record: who the nodes of a fleet are, as every node keeps it beside its sentinel. Pure.
 *
 * On a node it is a text (fleet_record_text()), the same bytes on every node of the fleet. Its digest is
 * the start of the text's SHA-1. Every answer of a script tells the digest, so that an agent knows by
 * which record a node goes without reading it.
 * A record of version 2 or later has the members before it, too. Members of both, by id and address, stay; the
 * others leave or are new. While it is narrow (changing, or complete and not settled for this agent), only those that stay count,
 * and as many as either list's quorum. docs/SAFETY.md, "A fleet that changes", has the argument.
 * A seat is an address: a vote of a node counts only from the server at the address that the record
 * names. A text of a later format is refused in words, never guessed at.
 */
#ifndef HOLDFAST_AGENT_CORE_FLEET_RECORD_H
#define HOLDFAST_AGENT_CORE_FLEET_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/layout.h"
#include "shm/nstime.h"

#define FLEET_FORMAT     1  /* of texts */
#define FLEET_ID_LEN     40 /* hex characters */
#define FLEET_DIGEST_LEN 8
/* Bytes of a text with its NUL: two lists of nodes, each byte of ids and addresses escaped. */
#define FLEET_TEXT_SIZE 24576
/* Of a sentence that names addresses; what does not fit is left away. */
#define FLEET_WAITS_SIZE 512

enum fleet_state {
    FLEET_FOUNDING, /* not yet on every node: nobody goes by it */
    FLEET_CHANGING, /* on its way to the members */
    FLEET_COMPLETE,
};

struct fleet_seat {
    char id[HF_NODE_TEXT_MAX + 1];
    char address[HF_NODE_TEXT_MAX + 1]; /* IP:PORT, [IP]:PORT, or the path of a unix socket */
    bool gone; /* of `before`: by the operator's word this server is stopped for good */
};

/* Comparable by its text only. */
struct fleet_record {
    char fleet[FLEET_ID_LEN + 1]; /* fleet_record_name() of the version 1 */
    uint64_t version;             /* from 1 */
    enum fleet_state state;
    int count;
    struct fleet_seat seat[HF_NODES_MAX]; /* in the fleet's order */
    int before_count;                     /* of version - 1; 0 in version 1 */
    struct fleet_seat before[HF_NODES_MAX];
    int64_t ttl_max_ms, ttl_max_before_ms; /* before: 0 in version 1 */
    char keys[FLEET_ID_LEN + 1];           /* SHA-1 of key formats and database */
};

/* The fleet's own name: SHA-1 of the members (ids and addresses in order) and of `keys`. */
void fleet_record_name(const struct fleet_record *record, char ret_name[FLEET_ID_LEN + 1]);

/* Writes the text. Returns its length, without the final NUL. */
size_t fleet_record_text(const struct fleet_record *record, char ret_text[FLEET_TEXT_SIZE]);

/* HF_OK; HF_EVERSION: a later format; HF_EINVAL: no such text. (!) Only a text that fleet_record_text() writes is
 * read: what is read and written again has the same digest. */
int fleet_record_read(const char *text, size_t length, struct fleet_record *ret_record);

/* The digest of a record. */
void fleet_record_own_digest(const struct fleet_record *record,
                             char ret_digest[FLEET_DIGEST_LEN + 1]);
/* The digest of a text. */
void fleet_record_digest(const char *text, size_t length, char ret_digest[FLEET_DIGEST_LEN + 1]);

/* --- what goes by a record --------------------------------------------------------------------- */

/* Which of two records of one fleet is the later one: < 0, 0, > 0. Two of one rank may differ: then the one that was
 * seen first stays. */
int fleet_record_rank(const struct fleet_record *a, const struct fleet_record *b);
/* Whether they have the same text. */
bool fleet_record_is_same(const struct fleet_record *a, const struct fleet_record *b);
/* Whether they lead from one list to another one as the other does; what is gone and whether it is complete aside. */
bool fleet_record_is_same_change(const struct fleet_record *a, const struct fleet_record *b);
/* The same ids and addresses in the same order. */
bool fleet_record_same_list(const struct fleet_seat *a, int a_count, const struct fleet_seat *b,
                            int b_count);
/* Whether a member is in both lists; of version 1 all are. */
bool fleet_record_stays(const struct fleet_record *record, const struct fleet_seat *seat);
/* Makes a changing record the complete one: the same bytes, whoever does it. */
void fleet_record_complete(struct fleet_record *record);
/* How many of the members before are gone. */
int fleet_record_gone_count(const struct fleet_record *record);
/* The list of nodes of an agent that goes by it: the members before while it is changing, else its members.
 * Returns their number. */
int fleet_record_list(const struct fleet_record *record, const struct fleet_seat **ret_seats);
/* The nodes of that list that count, bit per place. `settled`: this agent has gone by it for a quarantine. */
uint32_t fleet_record_counting(const struct fleet_record *record, bool settled);
/* When a record that this agent has gone by since `from` has settled: HF_TIME_PAST, it has (version 1); HF_TIME_NEVER, it
 * does not (it is changing). */
hf_time fleet_record_settles(const struct fleet_record *record, hf_time from);
/* How many of them are a majority. */
int fleet_record_quorum(const struct fleet_record *record, bool settled);
/* Whether those that stay are enough for either quorum, so that leases go on meanwhile. */
bool fleet_record_can_change(const struct fleet_record *record);
/* The longest TTL that may be granted, and the longest that a lease of the fleet may still have, in milliseconds. */
int64_t fleet_record_ttl_grant_ms(const struct fleet_record *record, bool settled);
int64_t fleet_record_ttl_longest_ms(const struct fleet_record *record, bool settled);

/* Which of a list of ids, ttl_max and key formats differs from a record, in words that say both; `ret_text` is ""
 * where nothing does. `node`: the id of the node that said so. Returns whether something differs. */
bool fleet_record_differs(const struct fleet_record *theirs, const struct fleet_record *ours,
                          const char *node, char *ret_text, size_t size);

#endif
