/* Judges what leaves an agent for a node against its table and journal at that instant (the copy
 * that judge_restore() made): INTENT before the first SET, the check word at 0 before a release. */
#ifndef HOLDFAST_TESTS_AGENT_WIRE_H
#define HOLDFAST_TESTS_AGENT_WIRE_H

#include "agent/redis/script.h"
#include "tests/torture/agent_judge.h"

struct wire {
    char sha[SCRIPTS][SCRIPT_SHA_LEN + 1]; /* as a node names the scripts */
    unsigned tokens[SCRIPTS];              /* how many were seen leaving */
};

void wire_judge(struct wire *w, struct judge *j, const char *bytes, size_t size);

#endif
