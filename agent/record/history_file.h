/* History over a clean end with nothing held: the table goes then, and what happened is kept in the
 * runtime directory for the next agent's table. Not of an ephemeral agent, which leaves nothing. */
#ifndef HOLDFAST_AGENT_RECORD_HISTORY_FILE_H
#define HOLDFAST_AGENT_RECORD_HISTORY_FILE_H

#include <stdbool.h>

struct agent;

/* While the table is still mapped and no thread runs. False: it is not kept, for want of memory or
 * room, and nothing is left of it. */
bool history_save(const struct agent *agent);
/* Into a new table, before events_begin(), if it is of this boot, this layout and these nodes; events
 * keep their numbers. The file goes in any case. */
void history_load(struct agent *agent);

#endif
