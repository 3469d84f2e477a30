/* What a frame of the live view is drawn from: plain values, taken from the table once. One thread. */
#ifndef HOLDFAST_TOOLS_TOP_TOP_MODEL_H
#define HOLDFAST_TOOLS_TOP_TOP_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/layout.h"
#include "tools/reader/life.h"
#include "tools/reader/reader.h"
#include "tools/reader/reader_args.h"

#define TOP_LEASES_MOST 1000 /* the most urgent; more are counted */
#define TOP_LOSSES_MOST 20   /* the newest */
#define TOP_WORD        48
#define TOP_NOTE        200

/* Names are bytes; all other texts are escaped already. */
struct top_lease {
    uint8_t name[HF_NAME_MAX];
    size_t name_len;
    enum hf_slot_state state; /* HELD, LATE or LOSING */
    uint32_t votes, pid;
    int64_t left_ms, ttl_ms, held_ms;
    char user[TOP_WORD], note[TOP_NOTE];
};

struct top_node {
    char id[TOP_WORD], state[TOP_WORD], why[TOP_NOTE];
    bool votes;
    int64_t rtt_ns, answered_ms; /* -1: never */
};

struct top_waiter {
    uint8_t name[HF_NAME_MAX];
    size_t name_len;
    uint32_t place, pid;
    int64_t waits_ms, gives_up_ms; /* -1: never */
    char user[TOP_WORD], command[TOP_WORD];
};

struct top_loss {
    uint8_t name[HF_EVENT_TEXT];
    size_t name_len;
    const char *state; /* "lost"; "losing": it is in force; "released" before its V */
    int64_t wall_ms;
    char why[TOP_NOTE];
};

/* Zeroed it is empty; freed with top_model_free(). */
struct top_model {
    char agent[TOP_WORD], host[TOP_NOTE], version[TOP_WORD], sentence[TOP_NOTE + 64];
    enum life_verdict verdict; /* not alive: nodes, waiters and clients are those of `when` */
    char when[TOP_WORD];
    int pid;
    int64_t up_ms, wall_ms, beat_ms[LIFE_THREADS];
    bool drained;
    struct hf_table_terms terms;
    uint32_t voting, node_count;
    struct reader_counts counts;
    uint64_t waiting, clients, grants, releases, losses;
    int64_t at_ns;                    /* of this sample */
    int64_t grants_10s, releases_10s; /* in ten seconds, since the sample before; -1: not known */
    int64_t margin_ppm, lag_us;       /* of the last minutes; -1: not known */
    bool filtered;                    /* only names of a prefix are in `lease` and `waiter` */
    bool waiters_known;
    struct top_node node[HF_NODES_MAX];
    struct top_lease *lease;
    size_t lease_count;
    uint64_t lease_total; /* that would be in `lease` if it had room */
    struct top_waiter *waiter;
    size_t waiter_count;
    struct top_loss loss[TOP_LOSSES_MOST];
    size_t loss_count;
};

/* Replaces `model`; what it was before gives the rates. Ends the program if memory runs out. */
void top_model_take(struct top_model *model, const struct reader *reader,
                    const struct reader_name *prefix);
void top_model_free(struct top_model *model);

#endif
