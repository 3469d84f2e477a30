/* The life of every token: when it was released first, when its lease was over. */
#ifndef HOLDFAST_TESTS_SIM_TOKENS_H
#define HOLDFAST_TESTS_SIM_TOKENS_H

#include "agent/base/token.h"
#include "tests/sim/sim.h"

void tokens_begin(void);
/* The word of its lease was zeroed. */
void token_ended(const struct token *token, bool is_job);
/* Its lease counts on these nodes, bit per node. */
void token_voted(const struct token *token, uint32_t nodes);
/* Whether its lease has ever counted on all of them. */
bool token_is_on(const struct token *token, uint32_t nodes);
/* By the last answer of the server that counts: it is the fleet's, and has the fleet's record. */
struct counted {
    bool acquired; /* to an acquire */
    hf_time until; /* d_i; HF_TIME_PAST: there was none */
};
/* `server`: the number of a node; where configurations lead astray, of the node for which it is taken. */
struct counted token_counted(const struct token *token, int server);
/* The host's journal is about to forget it. */
void token_freed(const struct sim_host *host, const struct token *token);
/* No key stands for long once its token was released, where nothing is in the way of that. */
void tokens_check(void);

#endif
