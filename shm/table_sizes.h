/* The sizes of a table: what a new one gets, and what one that is kept grows to. Pure. */
#ifndef HOLDFAST_SHM_TABLE_SIZES_H
#define HOLDFAST_SHM_TABLE_SIZES_H

#include <stdint.h>

#include "shm/table.h"
#include "shm/table_map.h"

/* Leases of a new table: what is configured, and at least what the journal holds. */
uint32_t hf_table_capacity_of(const struct hf_table_spec *spec);

/* Units of text for so many slots, at most. */
uint64_t hf_table_text_units_of(const struct hf_table_spec *spec, uint32_t slots);

/* Sections and sizes of a new table. */
void hf_table_lay_out(struct hf_table_header *header, const struct hf_table_spec *spec);

/* The maker's own bound on text within the room. */
void hf_table_bound_text(const struct hf_table_spec *spec, struct hf_table_places *places);

/* Index and text of a kept table get at least the sizes that its capacity wants. */
void hf_table_fit(struct hf_table_places *places);

/* The places that a table of ours would have if it grew to the capacity of `spec`, or as near as it has room for. */
struct hf_table_places hf_table_grown(const struct hf_table_spec *spec,
                                      const struct hf_table_places *places);

#endif
