/* The next agent, on the copy of a killed one's table and journal: the functions that ship, without
 * threads and nodes. In a child: nothing is cleaned up. */
#ifndef HOLDFAST_TESTS_AGENT_RECOVER_H
#define HOLDFAST_TESTS_AGENT_RECOVER_H

#include "tests/torture/agent_judge.h"

void recover(struct judge *j);
/* Whether everything is as the journal said; into `j->wrong`. */
void recover_judge(struct judge *j);

#endif
