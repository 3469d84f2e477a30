#include "agent/core/fleet_record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/ballot.h"
#include "agent/core/sha1.h"
#include "agent/core/timing.h"
#include "shm/text.h"
#include "shm/status.h"

#define TTL_MAX_MOST_MS INT64_C(86400000)
#define VERSION_MOST    (UINT64_MAX / 2) /* there is always a next one */

#define GONE            "gone" /* in the place of "before" */

#define SEAT_MOST       (sizeof("before  \n") - 1 + 2 * (HF_ESCAPE_SIZE - 1) * HF_NODE_TEXT_MAX)
#define OTHERS_MOST     512 /* bytes of the other lines */
_Static_assert(2 * HF_NODES_MAX * SEAT_MOST + OTHERS_MOST <= FLEET_TEXT_SIZE, "every text fits");
_Static_assert(FLEET_ID_LEN == SHA1_HEX_LEN && FLEET_DIGEST_LEN <= SHA1_HEX_LEN, "a SHA-1");

static const char *const state_names[] = {
    [FLEET_FOUNDING] = "founding", [FLEET_CHANGING] = "changing", [FLEET_COMPLETE] = "complete"};
#define STATES (sizeof(state_names) / sizeof(state_names[0]))

/* --- writing ---------------------------------------------------------------------------------- */

/* Blanks and line ends stand between fields only. */
static size_t fleet_record_escape_byte(unsigned char byte, char text[HF_ESCAPE_SIZE])
{
    if (byte != ' ')
        return hf_escape_byte(byte, text);
    memcpy(text, "\\x20", HF_ESCAPE_SIZE);
    return HF_ESCAPE_SIZE - 1;
}

static size_t fleet_record_put_escaped(char *to, const char *text)
{
    size_t length = 0;

    for (; *text; text++)
        length += fleet_record_escape_byte((unsigned char)*text, to + length);
    return length;
}

static size_t fleet_record_put_seats(char *to, const char *word, const struct fleet_seat *seats,
                                     int count)
{
    size_t length = 0;

    for (int i = 0; i < count; i++) {
        length +=
            (size_t)snprintf(to + length, sizeof("before "), "%s ", seats[i].gone ? GONE : word);
        length += fleet_record_put_escaped(to + length, seats[i].id);
        to[length++] = ' ';
        length += fleet_record_put_escaped(to + length, seats[i].address);
        to[length++] = '\n';
    }
    return length;
}

size_t fleet_record_text(const struct fleet_record *r, char ret_text[FLEET_TEXT_SIZE])
{
    size_t length = (size_t)snprintf(ret_text, OTHERS_MOST,
                                     "holdfast-fleet %d\nfleet %s\nversion %" PRIu64
                                     "\nstate %s\nttl_max %" PRId64 "\nkeys %s\n",
                                     FLEET_FORMAT, r->fleet, r->version, state_names[r->state],
                                     r->ttl_max_ms, r->keys);

    length += fleet_record_put_seats(ret_text + length, "seat", r->seat, r->count);
    if (r->before_count > 0) {
        length += (size_t)snprintf(ret_text + length, FLEET_TEXT_SIZE - length,
                                   "ttl_max_before %" PRId64 "\n", r->ttl_max_before_ms);
        length += fleet_record_put_seats(ret_text + length, "before", r->before, r->before_count);
    }
    ret_text[length] = '\0';
    return length;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* What is left of a text. Each take_...() moves on where it returns true. What it takes too willingly, such as an
 * escape where none is needed, is found when all is written again. */
struct rest {
    const char *at, *end;
};

static bool fleet_record_take(struct rest *r, const char *word)
{
    size_t length = strlen(word);

    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0)
        return false;
    r->at += length;
    return true;
}

/* From 1. */
static bool fleet_record_take_number(struct rest *r, uint64_t most, uint64_t *ret_number)
{
    const char *at = r->at;
    uint64_t number = 0;

    for (; at < r->end && *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');

        if (number > (most - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    if (at == r->at || *r->at == '0')
        return false;
    r->at = at;
    *ret_number = number;
    return true;
}

/* A line with a time. */
static bool fleet_record_take_ms(struct rest *r, const char *word, int64_t *ret_ms)
{
    uint64_t ms;

    if (!fleet_record_take(r, word) || !fleet_record_take_number(r, TTL_MAX_MOST_MS, &ms) ||
        !fleet_record_take(r, "\n"))
        return false;
    *ret_ms = (int64_t)ms;
    return true;
}

static int fleet_record_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A line with a SHA-1. */
static bool fleet_record_take_sha1(struct rest *r, const char *word, char ret_hex[FLEET_ID_LEN + 1])
{
    const char *hex;

    if (!fleet_record_take(r, word))
        return false;
    hex = r->at;
    if (r->end - hex < FLEET_ID_LEN)
        return false;
    for (int i = 0; i < FLEET_ID_LEN; i++)
        if (fleet_record_hex_digit(hex[i]) < 0)
            return false;
    r->at += FLEET_ID_LEN;
    if (!fleet_record_take(r, "\n"))
        return false;
    memcpy(ret_hex, hex, FLEET_ID_LEN);
    ret_hex[FLEET_ID_LEN] = '\0';
    return true;
}

static bool fleet_record_take_state(struct rest *r, enum fleet_state *ret_state)
{
    for (size_t i = 0; i < STATES; i++) {
        if (fleet_record_take(r, state_names[i])) {
            *ret_state = (enum fleet_state)i;
            return fleet_record_take(r, "\n");
        }
    }
    return false;
}

/* What stands behind a backslash. */
static bool fleet_record_take_escape(struct rest *r, char *ret_byte)
{
    static const char letters[] = "\\nrt", special[] = "\\\n\r\t";
    const char *found = r->at < r->end ? memchr(letters, *r->at, sizeof(letters) - 1) : NULL;
    int high, low;

    if (found) {
        r->at++;
        *ret_byte = special[found - letters];
        return true;
    }
    if (!fleet_record_take(r, "x") || r->end - r->at < 2)
        return false;
    high = fleet_record_hex_digit(r->at[0]);
    low = fleet_record_hex_digit(r->at[1]);
    if (high < 0 || low < 0)
        return false;
    *ret_byte = (char)(unsigned char)(high << 4 | low);
    r->at += 2;
    return true;
}

/* One to HF_NODE_TEXT_MAX bytes, up to a blank or the line's end. */
static bool fleet_record_take_escaped(struct rest *r, char ret_text[HF_NODE_TEXT_MAX + 1])
{
    size_t length = 0;

    while (r->at < r->end && *r->at != ' ' && *r->at != '\n') {
        char byte = *r->at++;

        if (byte == '\\' && !fleet_record_take_escape(r, &byte))
            return false;
        if (byte == '\0' || length == HF_NODE_TEXT_MAX)
            return false;
        ret_text[length++] = byte;
    }
    ret_text[length] = '\0';
    return length > 0;
}

static bool fleet_record_is_listed(const struct fleet_seat *seats, int count,
                                   const struct fleet_seat *seat)
{
    for (int i = 0; i < count; i++)
        if (strcmp(seats[i].id, seat->id) == 0 || strcmp(seats[i].address, seat->address) == 0)
            return true;
    return false;
}

static bool fleet_record_take_seats(struct rest *r, const char *word,
                                    struct fleet_seat ret_seats[HF_NODES_MAX], int *ret_count)
{
    int count = 0;
    bool gone;

    while ((gone = fleet_record_take(r, GONE " ")) || fleet_record_take(r, word)) {
        struct fleet_seat *seat = &ret_seats[count];

        seat->gone = gone;
        if (count == HF_NODES_MAX || !fleet_record_take_escaped(r, seat->id) ||
            !fleet_record_take(r, " ") || !fleet_record_take_escaped(r, seat->address) ||
            !fleet_record_take(r, "\n") || fleet_record_is_listed(ret_seats, count, seat))
            return false;
        count++;
    }
    *ret_count = count;
    return count > 0;
}

/* Only what was there before can be on its way to something else, or gone. */
static bool fleet_record_fits_version(const struct fleet_record *r)
{
    for (int i = 0; i < r->count; i++)
        if (r->seat[i].gone)
            return false;
    for (int i = 0; i < r->before_count; i++)
        if (r->before[i].gone && r->state != FLEET_CHANGING)
            return false;
    if (r->version == 1)
        return r->before_count == 0 && r->state != FLEET_CHANGING;
    return r->before_count > 0 && r->state != FLEET_FOUNDING;
}

static bool fleet_record_take_before(struct rest *r, struct fleet_record *f)
{
    return fleet_record_take_ms(r, "ttl_max_before ", &f->ttl_max_before_ms) &&
           fleet_record_take_seats(r, "before ", f->before, &f->before_count);
}

static bool fleet_record_take_record(struct rest *r, struct fleet_record *ret_record)
{
    struct fleet_record *f = ret_record;

    if (!fleet_record_take_sha1(r, "fleet ", f->fleet) || !fleet_record_take(r, "version ") ||
        !fleet_record_take_number(r, VERSION_MOST, &f->version) || !fleet_record_take(r, "\n") ||
        !fleet_record_take(r, "state ") || !fleet_record_take_state(r, &f->state) ||
        !fleet_record_take_ms(r, "ttl_max ", &f->ttl_max_ms) ||
        !fleet_record_take_sha1(r, "keys ", f->keys) ||
        !fleet_record_take_seats(r, "seat ", f->seat, &f->count))
        return false;
    if (r->at < r->end && !fleet_record_take_before(r, f))
        return false;
    return r->at == r->end && fleet_record_fits_version(f);
}

static bool fleet_record_is_text_of(const char *text, size_t length,
                                    const struct fleet_record *record)
{
    char again[FLEET_TEXT_SIZE];

    return fleet_record_text(record, again) == length && memcmp(text, again, length) == 0;
}

int fleet_record_read(const char *text, size_t length, struct fleet_record *ret_record)
{
    struct rest rest = {.at = text, .end = text + length};
    struct fleet_record record = {.count = 0};
    uint64_t format;

    if (!fleet_record_take(&rest, "holdfast-fleet ") ||
        !fleet_record_take_number(&rest, UINT64_MAX, &format) || !fleet_record_take(&rest, "\n"))
        return HF_EINVAL;
    if (format > FLEET_FORMAT)
        return HF_EVERSION;
    if (!fleet_record_take_record(&rest, &record) ||
        !fleet_record_is_text_of(text, length, &record))
        return HF_EINVAL;
    *ret_record = record;
    return HF_OK;
}

/* --- names ------------------------------------------------------------------------------------ */

void fleet_record_name(const struct fleet_record *record, char ret_name[FLEET_ID_LEN + 1])
{
    struct sha1 s;

    sha1_begin(&s);
    for (int i = 0; i < record->count; i++) {
        const struct fleet_seat *seat = &record->seat[i];

        sha1_add(&s, seat->id, strlen(seat->id) + 1);
        sha1_add(&s, seat->address, strlen(seat->address) + 1);
    }
    sha1_add(&s, record->keys, strlen(record->keys));
    sha1_end(&s, ret_name);
}

void fleet_record_digest(const char *text, size_t length, char ret_digest[FLEET_DIGEST_LEN + 1])
{
    struct sha1 s;
    char hex[SHA1_HEX_LEN + 1];

    sha1_begin(&s);
    sha1_add(&s, text, length);
    sha1_end(&s, hex);
    memcpy(ret_digest, hex, FLEET_DIGEST_LEN);
    ret_digest[FLEET_DIGEST_LEN] = '\0';
}

void fleet_record_own_digest(const struct fleet_record *record,
                             char ret_digest[FLEET_DIGEST_LEN + 1])
{
    char text[FLEET_TEXT_SIZE];
    size_t length = fleet_record_text(record, text);

    fleet_record_digest(text, length, ret_digest);
}

/* --- what goes by a record --------------------------------------------------------------------- */

void fleet_record_complete(struct fleet_record *record)
{
    if (record->state != FLEET_CHANGING)
        return;
    record->state = FLEET_COMPLETE;
    for (int i = 0; i < record->before_count; i++)
        record->before[i].gone = false;
}

int fleet_record_gone_count(const struct fleet_record *r)
{
    int count = 0;

    for (int i = 0; i < r->before_count; i++)
        count += r->before[i].gone;
    return count;
}

bool fleet_record_same_list(const struct fleet_seat *a, int a_count, const struct fleet_seat *b,
                            int b_count)
{
    bool same = a_count == b_count;

    for (int i = 0; same && i < a_count; i++)
        same = strcmp(a[i].id, b[i].id) == 0 && strcmp(a[i].address, b[i].address) == 0;
    return same;
}

/* (!) Marks of what is gone are of one change: they make none of two changes the later one. */
bool fleet_record_is_same_change(const struct fleet_record *a, const struct fleet_record *b)
{
    return a->ttl_max_ms == b->ttl_max_ms &&
           fleet_record_same_list(a->seat, a->count, b->seat, b->count) &&
           fleet_record_same_list(a->before, a->before_count, b->before, b->before_count);
}

bool fleet_record_is_same(const struct fleet_record *a, const struct fleet_record *b)
{
    bool same = a->version == b->version && a->state == b->state &&
                strcmp(a->fleet, b->fleet) == 0 && strcmp(a->keys, b->keys) == 0 &&
                a->ttl_max_before_ms == b->ttl_max_before_ms && fleet_record_is_same_change(a, b);

    for (int i = 0; same && i < a->before_count; i++)
        same = a->before[i].gone == b->before[i].gone;
    return same;
}

int fleet_record_rank(const struct fleet_record *a, const struct fleet_record *b)
{
    if (a->version != b->version)
        return a->version < b->version ? -1 : 1;
    if (a->state != b->state)
        return a->state < b->state ? -1 : 1;
    return fleet_record_is_same_change(a, b)
               ? fleet_record_gone_count(a) - fleet_record_gone_count(b)
               : 0;
}

static bool fleet_record_is_member(const struct fleet_seat *seats, int count,
                                   const struct fleet_seat *seat)
{
    for (int i = 0; i < count; i++)
        if (strcmp(seats[i].id, seat->id) == 0 && strcmp(seats[i].address, seat->address) == 0)
            return true;
    return false;
}

bool fleet_record_stays(const struct fleet_record *r, const struct fleet_seat *seat)
{
    return fleet_record_is_member(r->seat, r->count, seat) &&
           (r->version == 1 || fleet_record_is_member(r->before, r->before_count, seat));
}

int fleet_record_list(const struct fleet_record *r, const struct fleet_seat **ret_seats)
{
    bool changing = r->state == FLEET_CHANGING;

    *ret_seats = changing ? r->before : r->seat;
    return changing ? r->before_count : r->count;
}

/* Nothing that differs between the lists counts. */
static bool fleet_record_is_narrow(const struct fleet_record *r, bool settled)
{
    return r->version > 1 && (r->state == FLEET_CHANGING || !settled);
}

uint32_t fleet_record_counting(const struct fleet_record *r, bool settled)
{
    const struct fleet_seat *list;
    int count = fleet_record_list(r, &list);
    uint32_t counting = 0;

    for (int i = 0; i < count; i++)
        if (!fleet_record_is_narrow(r, settled) || fleet_record_stays(r, &list[i]))
            counting |= 1u << i;
    return counting;
}

int fleet_record_quorum(const struct fleet_record *r, bool settled)
{
    int quorum = ballot_quorum(r->count), before = ballot_quorum(r->before_count);

    return fleet_record_is_narrow(r, settled) && before > quorum ? before : quorum;
}

hf_time fleet_record_settles(const struct fleet_record *r, hf_time from)
{
    if (r->version == 1)
        return HF_TIME_PAST;
    if (r->state == FLEET_CHANGING)
        return HF_TIME_NEVER;
    return hf_time_add(from, timing_quarantine(hf_ms(fleet_record_ttl_longest_ms(r, false))));
}

bool fleet_record_can_change(const struct fleet_record *r)
{
    int stay = 0;

    for (int i = 0; i < r->count; i++)
        stay += fleet_record_stays(r, &r->seat[i]);
    return stay >= fleet_record_quorum(r, false);
}

int64_t fleet_record_ttl_grant_ms(const struct fleet_record *r, bool settled)
{
    return fleet_record_is_narrow(r, settled) && r->ttl_max_before_ms < r->ttl_max_ms
               ? r->ttl_max_before_ms
               : r->ttl_max_ms;
}

int64_t fleet_record_ttl_longest_ms(const struct fleet_record *r, bool settled)
{
    return fleet_record_is_narrow(r, settled) && r->ttl_max_before_ms > r->ttl_max_ms
               ? r->ttl_max_before_ms
               : r->ttl_max_ms;
}

/* --- comparing -------------------------------------------------------------------------------- */

/* The first member that is another one; -1: none. */
static int fleet_record_other_id(const struct fleet_record *a, const struct fleet_record *b)
{
    for (int i = 0; i < a->count; i++)
        if (strcmp(a->seat[i].id, b->seat[i].id) != 0)
            return i;
    return -1;
}

/* An id for people: any byte may be in that of another fleet. */
struct shown {
    char text[HF_ESCAPE_SIZE * HF_NODE_TEXT_MAX + 1];
};

static struct shown fleet_record_show(const char *id)
{
    struct shown shown;

    shown.text[fleet_record_put_escaped(shown.text, id)] = '\0';
    return shown;
}

/* Hosts that write their keys by the defaults have the hash of "". */
static bool fleet_record_are_default(const char *keys)
{
    struct sha1 s;
    char hex[SHA1_HEX_LEN + 1];

    sha1_begin(&s);
    sha1_end(&s, hex);
    return strcmp(keys, hex) == 0;
}

static void fleet_record_say_keys(const struct fleet_record *theirs,
                                  const struct fleet_record *ours, const char *node, char *ret_text,
                                  size_t size)
{
    if (fleet_record_are_default(theirs->keys))
        snprintf(ret_text, size,
                 "the other hosts of node %s have no key_format, key_format_for or database, and "
                 "this host has one",
                 node);
    else if (fleet_record_are_default(ours->keys))
        snprintf(
            ret_text, size,
            "the other hosts of node %s have a key_format, key_format_for or database, and this "
            "host has none",
            node);
    else
        snprintf(
            ret_text, size,
            "the other hosts of node %s have another key_format, key_format_for or database than "
            "this host",
            node);
}

bool fleet_record_differs(const struct fleet_record *theirs, const struct fleet_record *ours,
                          const char *node, char *ret_text, size_t size)
{
    int at;

    ret_text[0] = '\0';
    if (theirs->ttl_max_ms != ours->ttl_max_ms) {
        snprintf(ret_text, size, "ttl_max is %" PRId64 " ms on node %s and %" PRId64 " ms here",
                 theirs->ttl_max_ms, node, ours->ttl_max_ms);
        return true;
    }
    if (theirs->count != ours->count) {
        snprintf(ret_text, size, "node %s belongs to a list of %d nodes, ours has %d", node,
                 theirs->count, ours->count);
        return true;
    }
    at = fleet_record_other_id(theirs, ours);
    if (at >= 0) {
        snprintf(ret_text, size,
                 "node %s belongs to a list with other ids or another order: number %d is %.48s "
                 "there and %.48s here",
                 node, at + 1, fleet_record_show(theirs->seat[at].id).text,
                 fleet_record_show(ours->seat[at].id).text);
        return true;
    }
    if (strcmp(theirs->keys, ours->keys) != 0) {
        fleet_record_say_keys(theirs, ours, node, ret_text, size);
        return true;
    }
    return false;
}
