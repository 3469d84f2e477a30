#include "tools/output/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "shm/text.h"
#include "tools/common/args.h"
#include "tools/common/text.h"

static json_t *json_have(json_t *value)
{
    if (value)
        return value;
    fputs("holdfast: out of memory\n", stderr);
    exit(EXIT_FAILED);
}

/* jansson gives whole characters, and outside of strings it has only plain ones. */
static int json_put_plain(const char *text, size_t len, void *file)
{
    char character[TEXT_JSON_SIZE];

    for (size_t at = 0; at < len;) {
        at += text_json_next(character, text + at, len - at);
        fputs(character, file);
    }
    return 0;
}

static void json_dump(FILE *file, json_t *value)
{
    (void)json_dump_callback(json_have(value), json_put_plain, file,
                             JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(value);
}

void json_begin(struct json_out *out, FILE *file)
{
    *out = (struct json_out){.file = file};
    fputc('{', file);
}

void json_end(struct json_out *out)
{
    fputs("\n}\n", out->file);
}

static void json_begin_member(struct json_out *out, const char *key)
{
    fprintf(out->file, "%s\n\"%s\": ", out->some_member ? "," : "", key);
    out->some_member = true;
}

void json_member(struct json_out *out, const char *key, json_t *value)
{
    json_begin_member(out, key);
    json_dump(out->file, value);
}

void json_array_begin(struct json_out *out, const char *key)
{
    json_begin_member(out, key);
    fputc('[', out->file);
    out->some_element = false;
}

void json_element(struct json_out *out, json_t *value)
{
    fputs(out->some_element ? ",\n" : "\n", out->file);
    out->some_element = true;
    json_dump(out->file, value);
}

void json_array_end(struct json_out *out)
{
    fputs(out->some_element ? "\n]" : "]", out->file);
}

void json_line(json_t *value)
{
    json_dump(stdout, value);
    putchar('\n');
}

json_t *json_text(const void *bytes, size_t len)
{
    json_t *text = json_stringn(bytes, len);
    char escaped[TEXT_NAME_SIZE];

    return text ? text
                : json_have(json_string(text_escape_ascii(escaped, sizeof(escaped), bytes, len)));
}

json_t *json_text_str(const char *string)
{
    return json_text(string, strlen(string));
}

json_t *json_word(const char *string)
{
    return *string ? json_text_str(string) : json_null();
}

json_t *json_u64_text(uint64_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, number);
    return json_have(json_string(text));
}

json_t *json_wall(int64_t wall_ms)
{
    char text[TEXT_SPAN_SIZE];

    return wall_ms ? json_have(json_string(text_wall(text, sizeof(text), wall_ms))) : json_null();
}

json_t *json_instant(int64_t wall_ms)
{
    char text[TEXT_INSTANT_SIZE];

    return json_have(json_string(text_instant(text, sizeof(text), wall_ms)));
}

void json_put(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, json_have(value)) < 0)
        json_have(NULL);
}

void json_put_name(json_t *object, const void *name, size_t len)
{
    json_t *exact = json_stringn(name, len);
    char hex[2 * 255 + 1];

    if (exact) {
        json_put(object, "name", exact);
        return;
    }
    hf_hex_text(name, len < sizeof(hex) / 2 ? len : sizeof(hex) / 2, hex);
    json_put(object, "name", json_text(name, len));
    json_put(object, "name_hex", json_string(hex));
}
