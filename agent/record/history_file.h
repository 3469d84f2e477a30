/* History over a clean end with nothing held: the table is removed then, and the events are kept in the
 * runtime directory for the next agent's table. An ephemeral agent leaves nothing. */
#ifndef HOLDFAST_AGENT_RECORD_HISTORY_FILE_H
#define HOLDFAST_AGENT_RECORD_HISTORY_FILE_H

#include <stdbool.h>

struct agent;

/* While the table is still mapped and no thread runs. False: not kept, because memory or room is short;
 * no file is left. */
bool history_save(const struct agent *agent);
/* Into a new table, before events_begin(), if the file is of this boot, this layout and these nodes; events
 * keep their numbers. The file is removed in any case. */
void history_load(struct agent *agent);

#endif
