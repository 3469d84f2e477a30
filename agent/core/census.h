/* Who holds a name: what each node says of its key, and what that comes to. Pure.
 *
 * A value counts as a holder by its id (agent/redis/link.h). Held: one id is on q nodes. Free: q
 * nodes have no such key, so that nobody holds it and an acquire can win. Split: neither, and what
 * the silent nodes could add would change nothing; acquires are under way, or leave remains behind.
 * Unknown: the nodes that do not answer could make it held or free. q is of the configured list.
 */
#ifndef HOLDFAST_AGENT_CORE_CENSUS_H
#define HOLDFAST_AGENT_CORE_CENSUS_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/layout.h"
#include "shm/nstime.h"

#define CENSUS_ID_LEN 40

enum census_outcome {
    CENSUS_OPEN, /* answers to come may decide it */
    CENSUS_HELD,
    CENSUS_FREE,
    CENSUS_SPLIT,
    CENSUS_UNKNOWN,
};

enum census_word { /* of one node */
                   CENSUS_NO_WORD = 0,
                   CENSUS_SILENT, /* away, an error, too late */
                   CENSUS_NO_KEY,
                   CENSUS_A_KEY,
};

struct census {
    int n, q;
    struct {
        enum census_word word;
        char id[CENSUS_ID_LEN + 1]; /* "": a key of another type */
        int64_t pttl_ms;            /* -1: never expires */
    } node[HF_NODES_MAX];
};

void census_init(struct census *c, int n, int q);
void census_silent(struct census *c, int node);
void census_no_key(struct census *c, int node);
void census_key(struct census *c, int node, const char *id, int64_t pttl_ms);

enum census_outcome census_decide(const struct census *c);
/* Whether nothing is awaited from any node. */
bool census_complete(const struct census *c);
int census_answered(const struct census *c);
/* A node that has the id that most nodes have (the first of several); -1: none has a key. */
int census_leader(const struct census *c);
/* How many nodes have what `node` has. */
int census_count(const struct census *c, int node);
/* When fewer than q nodes have `node`'s key if nobody extends it: the q-th largest of what is left
 * (of all when it is on fewer), in milliseconds; -1: never. */
int64_t census_lapse_ms(const struct census *c, int node);

#endif
