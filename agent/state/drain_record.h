/* The drain, for the next agent of this boot: DIR/drain, 0600 (agent/state/state_file.h), which exists while the agent
 * is drained. Main reads it at the start, the broker thread makes and removes it from then on. An ephemeral agent keeps
 * none: nothing outlives it.
 *
 * (!) A file that cannot be read stands for a drain: an operator's word must not be lost with a block of a disk or a
 * version. Everybody who is refused hears of it then, and `holdfast undrain` removes the file; the other way round
 * nobody would hear. A file of another boot stands for none.
 */
#ifndef HOLDFAST_AGENT_STATE_DRAIN_RECORD_H
#define HOLDFAST_AGENT_STATE_DRAIN_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/clock.h"
#include "shm/table_notes.h"

/* What an earlier agent left. `path`: of the file, "" where none is kept. */
void drain_record_read(const char *path, const struct boot_clock *clock,
                       struct hf_drained *ret_drained);
/* Makes or removes the file; then the next agent will be as `drained` says. HF_ESYS with `why`: nothing is changed. */
int drain_record_keep(const char *path, const struct boot_clock *clock,
                      const struct hf_drained *drained, char *why, size_t why_size);

/* The sentence for who is refused, or waits: since when, by whom, and the remedy. `agent`: the agent's name. */
#define DRAIN_RECORD_TEXT 184
void drain_record_say(const struct hf_drained *drained, const char *agent,
                      char ret_text[DRAIN_RECORD_TEXT]);

#endif
