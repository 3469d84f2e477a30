/* The fleet record by which this agent goes, for the next agent of this boot: DIR/fleet, 0600
 * (agent/record/boot_file.h). Main reads it at the start, the broker thread writes it from then on. It is good for one
 * boot, and a damaged one for nothing: the next agent then adopts what most of its nodes have. An ephemeral agent keeps
 * none.
 */
#ifndef HOLDFAST_AGENT_RECORD_FLEET_MEMORY_H
#define HOLDFAST_AGENT_RECORD_FLEET_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "agent/core/fleet_record.h"

/* The text that an earlier agent left, with a final NUL; length 0: none. It changes nothing. `path`: of the file, ""
 * where none is kept. */
void fleet_memory_read(const char *path, const uint8_t boot_id[16], char ret_text[FLEET_TEXT_SIZE],
                       size_t *ret_length);
/* Writes or, with length 0, removes the file; then the next agent will know what this one does. HF_ESYS with `why`:
 * nothing is changed. */
int fleet_memory_keep(const char *path, const uint8_t boot_id[16], const char *text, size_t length,
                      char *why, size_t why_size);

#endif
