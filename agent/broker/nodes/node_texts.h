/* Sentences about nodes, for people. */
#ifndef HOLDFAST_AGENT_BROKER_NODES_NODE_TEXTS_H
#define HOLDFAST_AGENT_BROKER_NODES_NODE_TEXTS_H

#include "agent/base/thread_role.h"
#include "agent/broker/nodes/nodes.h"
#include "shm/node_words.h"

/* What is missing for a quorum of votes and, if known, for how long. */
void nodes_explain(const struct nodes *nodes, hf_time now, char *ret_text,
                   size_t size) IN_BROKER_THREAD;
/* Why a round failed in which the nodes of the bits `errors` answered with an error. */
void nodes_explain_round(const struct nodes *nodes, uint32_t errors, char *ret_text,
                         size_t size) IN_BROKER_THREAD;
/* A number that changes with the reasons why nodes do not vote; never 0. */
uint64_t nodes_situation(const struct nodes *nodes, hf_time now) IN_BROKER_THREAD;
/* The gravest of these reasons. */
const char *node_quarantine_text(uint32_t reasons);
/* Of a node that is not known yet: why these facts would have it refused; NULL: they would not. */
const struct hf_why *node_facts_refusal(const struct config *config,
                                        const struct node_facts *facts);

#endif
