/* Leases for people and as JSON. */
#ifndef HOLDFAST_TOOLS_SHOW_SHOW_LEASE_H
#define HOLDFAST_TOOLS_SHOW_SHOW_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/output/json.h"
#include "tools/reader/reader.h"

/* The table of leases on stdout, with a heading. Returns their number; `ret_unreadable` as for
 * reader_walk(). */
uint32_t show_lease_list(const struct reader *reader, const struct reader_filter *filter,
                         uint32_t *ret_unreadable);

/* The same as the array "leases". */
uint32_t show_lease_list_json(struct json_out *out, const struct reader *reader,
                              const struct reader_filter *filter, uint32_t *ret_unreadable);

/* All details of one lease, one per line. */
void show_lease(const struct reader *reader, const struct hf_slot_view *view, bool in_force);
json_t *show_lease_json(const struct reader *reader, const struct hf_slot_view *view,
                        bool in_force);

/* "12 slots could not be read ..." on stderr, if any. */
void show_lease_unreadable(const char *subcommand, uint32_t unreadable);

#endif
