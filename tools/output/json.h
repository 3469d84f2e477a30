/* JSON output: small wrappers over jansson. Field names are stable; docs/JSON.md lists them.
 *
 * A document is one object, written member by member, so that a list of any length needs no memory.
 * One thread. The program ends if memory runs out. */
#ifndef HOLDFAST_TOOLS_OUTPUT_JSON_H
#define HOLDFAST_TOOLS_OUTPUT_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json_out {
    FILE *file;
    bool some_member, some_element;
};

void json_begin(struct json_out *out, FILE *file);
void json_end(struct json_out *out);

/* Both take the value. */
void json_member(struct json_out *out, const char *key, json_t *value);
void json_element(struct json_out *out, json_t *value);

void json_array_begin(struct json_out *out, const char *key);
void json_array_end(struct json_out *out);

/* Any value as a line of its own on stdout, without a document; takes it. */
void json_line(json_t *value);

/* Text of unknown encoding: unchanged if it is UTF-8, else escaped as for people. */
json_t *json_text(const void *bytes, size_t len);
json_t *json_text_str(const char *string);

/* The string, null when it is empty. */
json_t *json_word(const char *string);

/* Unsigned 64-bit numbers do not fit a JSON number: decimal text. */
json_t *json_u64_text(uint64_t number);

/* Unix time as "2026-03-01T12:00:00Z"; null for 0. */
json_t *json_wall(int64_t wall_ms);

/* The same to the millisecond, never null. */
json_t *json_instant(int64_t wall_ms);

/* Sets a new value; ends the program without memory. */
void json_put(json_t *object, const char *key, json_t *value);

/* "name", exact when it is UTF-8; else escaped, and "name_hex" has the bytes. */
void json_put_name(json_t *object, const void *name, size_t len);

#endif
