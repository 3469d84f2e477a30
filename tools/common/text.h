/* Text for people: names that cannot upset a terminal, spans and instants. Pure, but for what text_use_terminal() found; any thread. */
#ifndef HOLDFAST_TOOLS_COMMON_TEXT_H
#define HOLDFAST_TOOLS_COMMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/holdfast.h"

/* Room for any name once escaped, with the final NUL. */
#define TEXT_NAME_SIZE (4 * 255 + 1)

/* From now on text_escape() has characters of UTF-8 as they are, if standard output and standard error are terminals and the locale
 * (LC_CTYPE) is UTF-8. For main(), before there are threads. */
void text_use_terminal(void);

/* Printable ASCII as it is, but `\` as `\\`; then \n \r \t; every other byte as \xNN. On a terminal (above) printable characters that
 * hf_utf8_plain() has are as they are, too. Reversible: two different names never print the same bytes. Cut to whole characters
 * when `size` is too small. Returns `out`. */
const char *text_escape(char *out, size_t size, const void *bytes, size_t len);

/* The same without characters of UTF-8, wherever it goes. */
const char *text_escape_ascii(char *out, size_t size, const void *bytes, size_t len);

#define TEXT_JSON_SIZE 24

/* (!) A document may be shown on a terminal, and a name in it may be hostile. The character that `bytes` begin with (at least one,
 * of UTF-8), as a document of JSON has it: as it is where hf_utf8_plain() has it or it is ASCII, else as \uNNNN. Returns its length. */
size_t text_json_next(char out[TEXT_JSON_SIZE], const char *bytes, size_t len);

/* The columns that an escaped text takes, and a width for "%-*s" that leaves it in as many columns. */
int text_columns(const char *text);
int text_width(const char *text, int columns);

/* The same for C strings. */
const char *text_escape_str(char *out, size_t size, const char *string);
const char *text_escape_ascii_str(char *out, size_t size, const char *string);

#define TEXT_SPAN_SIZE 32

/* A span with its two largest units: "412ms", "12.9s", "3m12s", "4d3h"; "-" before a negative one.
 * Returns `out`. */
const char *text_span(char *out, size_t size, int64_t ms);

/* Unix time in milliseconds as "2026-03-01T12:00:00Z". Returns `out`. */
const char *text_wall(char *out, size_t size, int64_t wall_ms);

#define TEXT_INSTANT_SIZE 40

/* The same to the millisecond: "2026-03-01T12:00:00.042Z". Returns `out`. */
const char *text_instant(char *out, size_t size, int64_t wall_ms);

/* The last run of a job that runs once in a period, as people read it. */

#define ONCE_RUN_SIZE 320

/* "started 2026-01-02T03:04:05Z on host7 (pid 12, user 0), ended with 0". */
const char *once_run(char *out, size_t size, const struct hf_once_info *info);
/* A stable word for enum hf_once_end. */
const char *once_run_end(int end);

/* The line that names the holder. */

#define CONFLICT_SIZE 2048

/* "db/migrate is held by host7 pid 4121 (user postgres) command pg_dump since 2026-03-01T12:00:00Z
 * (3m12s), fence 9182, note deploy-771"; unknown facts are left out. For a holder without a record:
 * the time left of its key. `holder` NULL: nothing is known. `now_wall_ms` is Unix time. Returns
 * `out`. A user of this host is shown by name, one of another host by number. */
const char *conflict_line(char *out, size_t size, const char *name, const struct hf_holder *holder,
                          int64_t now_wall_ms);

/* Whether the holder is on this host, by its name; false when it is unknown. */
bool conflict_is_here(const struct hf_holder *holder);

#endif
