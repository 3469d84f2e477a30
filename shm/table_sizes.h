/* The sizes of a new table. Pure. */
#ifndef HOLDFAST_SHM_TABLE_SIZES_H
#define HOLDFAST_SHM_TABLE_SIZES_H

#include <stdint.h>

#include "shm/table.h"
#include "shm/table_map.h"

/* Leases that the agent has places for: what is configured, and at least what the journal holds. */
uint32_t hf_table_capacity_of(const struct hf_table_spec *spec);

/* Units of text for so many slots, at most. */
uint64_t hf_table_text_units_of(const struct hf_table_spec *spec, uint32_t slots);

/* Sections and sizes of a new table. */
void hf_table_lay_out(struct hf_table_header *header, const struct hf_table_spec *spec);

#endif
