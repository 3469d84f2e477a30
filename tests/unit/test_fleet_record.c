/* agent/core/fleet_record.h: the text of a fleet's record, read as strictly as it is written. */
#include <stdio.h>

#include "core_fixture.h"

#include "agent/core/fleet_record.h"
#include "agent/core/sha1.h"

#define NO_KEYS "da39a3ee5e6b4b0d3255bfef95601890afd80709" /* SHA-1 of nothing */
#define KEYS    "0123456789abcdef0123456789abcdef01234567"

/* SHA-1 of a NUL 10.0.0.1:6379 NUL b NUL [2001:db8::5]:6379 NUL c NUL /run/c.sock NUL and NO_KEYS, by sha1sum */
#define FLEET "71eeecfde9f65ae87ba7d2ee576fb97e9ed7c0a1"

static const struct fleet_record three = {
    .fleet = FLEET,
    .version = 1,
    .state = FLEET_COMPLETE,
    .count = 3,
    .seat = {{.id = "a", .address = "10.0.0.1:6379"},
             {.id = "b", .address = "[2001:db8::5]:6379"},
             {.id = "c", .address = "/run/c.sock"}},
    .ttl_max_ms = 60000,
    .keys = NO_KEYS,
};
static const char three_text[] = "holdfast-fleet 1\n"
                                 "fleet " FLEET "\n"
                                 "version 1\n"
                                 "state complete\n"
                                 "ttl_max 60000\n"
                                 "keys " NO_KEYS "\n"
                                 "seat a 10.0.0.1:6379\n"
                                 "seat b [2001:db8::5]:6379\n"
                                 "seat c /run/c.sock\n";
static const char moved_text[] = "holdfast-fleet 1\n"
                                 "fleet " FLEET "\n"
                                 "version 2\n"
                                 "state changing\n"
                                 "ttl_max 90000\n"
                                 "keys " NO_KEYS "\n"
                                 "seat a 10.0.0.1:6379\n"
                                 "seat b 10.0.0.7:6379\n"
                                 "ttl_max_before 60000\n"
                                 "before a 10.0.0.1:6379\n"
                                 "before b [2001:db8::5]:6379\n";

static struct fleet_record moved(void)
{
    struct fleet_record r = three;

    r.version = 2;
    r.state = FLEET_CHANGING;
    r.count = r.before_count = 2;
    memcpy(r.before, r.seat, sizeof(r.seat));
    strcpy(r.seat[1].address, "10.0.0.7:6379");
    r.ttl_max_ms = 90000;
    r.ttl_max_before_ms = 60000;
    return r;
}

static int reads(const char *text)
{
    struct fleet_record r;

    return fleet_record_read(text, strlen(text), &r);
}

/* `text` with the first `from` in it replaced by `to`. */
static const char *with(const char *text, const char *from, const char *to)
{
    static char changed[2 * FLEET_TEXT_SIZE];
    const char *at = strstr(text, from);

    assert_non_null(at);
    snprintf(changed, sizeof(changed), "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return changed;
}

static void assert_refused(const char *from, const char *to)
{
    if (reads(with(three_text, from, to)) != HF_EINVAL)
        fail_msg("read with '%s' for '%s'", to, from);
}

static void assert_same(const struct fleet_record *a, const struct fleet_record *b)
{
    assert_string_equal(a->fleet, b->fleet);
    assert_int_equal(a->version, b->version);
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++) {
        assert_string_equal(a->seat[i].id, b->seat[i].id);
        assert_string_equal(a->seat[i].address, b->seat[i].address);
    }
    assert_int_equal(a->before_count, b->before_count);
    for (int i = 0; i < a->before_count; i++) {
        assert_string_equal(a->before[i].id, b->before[i].id);
        assert_string_equal(a->before[i].address, b->before[i].address);
    }
    assert_int_equal(a->ttl_max_ms, b->ttl_max_ms);
    assert_int_equal(a->ttl_max_before_ms, b->ttl_max_before_ms);
    assert_string_equal(a->keys, b->keys);
}

static void assert_written_and_read(const struct fleet_record *r, const char *expected)
{
    char text[FLEET_TEXT_SIZE];
    size_t length = fleet_record_text(r, text);
    struct fleet_record again;

    assert_int_equal(length, strlen(text));
    if (expected)
        assert_string_equal(text, expected);
    assert_int_equal(fleet_record_read(text, length, &again), HF_OK);
    assert_same(r, &again);
}

/* --- text and back ---------------------------------------------------------------------------- */

TEST(a_record_is_written_and_read)
{
    assert_written_and_read(&three, three_text);
}

TEST(so_are_the_members_before)
{
    const struct fleet_record r = moved();

    assert_written_and_read(&r, moved_text);
}

TEST(so_is_one_under_way)
{
    struct fleet_record r = three;

    r.state = FLEET_FOUNDING;
    assert_written_and_read(&r, with(three_text, "complete", "founding"));
}

TEST(any_byte_is_safe)
{
    struct fleet_record r = three;
    char text[FLEET_TEXT_SIZE], *line;

    strcpy(r.seat[0].id, "a b\nseat x y\\\t\r\x7f\x80\xff\x01");
    strcpy(r.seat[0].address, " ");
    strcpy(r.seat[1].id, "\\");
    strcpy(r.seat[1].address, "/run/\xc3\xa4 b\n");
    assert_written_and_read(&r, NULL);
    (void)fleet_record_text(&r, text);
    line = strstr(text, "seat ");
    assert_string_equal(line,
                        "seat a\\x20b\\nseat\\x20x\\x20y\\\\\\t\\r\\x7f\\x80\\xff\\x01 \\x20\n"
                        "seat \\\\ /run/\\xc3\\xa4\\x20b\\n\n"
                        "seat c /run/c.sock\n");
}

TEST(the_longest_fits)
{
    struct fleet_record r = moved();
    char text[FLEET_TEXT_SIZE];

    r.version = UINT64_MAX / 2;
    r.count = r.before_count = HF_NODES_MAX;
    r.ttl_max_ms = r.ttl_max_before_ms = 86400000;
    for (int i = 0; i < HF_NODES_MAX; i++) {
        memset(&r.seat[i], '\x80' + i, sizeof(r.seat[i]));
        r.seat[i].id[HF_NODE_TEXT_MAX] = r.seat[i].address[HF_NODE_TEXT_MAX] = '\0';
        r.seat[i].gone = false;
        r.before[i] = r.seat[i];
    }
    assert_true(fleet_record_text(&r, text) > 2 * HF_NODES_MAX * 2 * 4 * HF_NODE_TEXT_MAX);
    assert_written_and_read(&r, NULL);
}

/* --- what is not read ------------------------------------------------------------------------- */

TEST(a_later_format_is_told_from_damage)
{
    assert_int_equal(reads(with(three_text, "fleet 1", "fleet 4")), HF_EVERSION);
    assert_int_equal(reads("holdfast-fleet 17\nwhat\x01so ever"), HF_EVERSION);
    assert_int_equal(reads("holdfast-fleet 2\n"), HF_EVERSION);
    assert_int_equal(reads("holdfast-fleet 2"), HF_EINVAL);
    assert_int_equal(reads("holdfast-fleet 02\n"), HF_EINVAL);
    assert_int_equal(reads("holdfast-fleet 99999999999999999999\n"), HF_EINVAL);
    assert_int_equal(reads("holdfast-fleet 0\n"), HF_EINVAL);
    assert_int_equal(reads("holdfast-fleet x\n"), HF_EINVAL);
    assert_int_equal(reads("Holdfast-fleet 2\n"), HF_EINVAL);
}

TEST(a_part_is_no_record)
{
    struct fleet_record r;
    const size_t whole = strlen(moved_text),
                 two = strlen(with(three_text, "seat c /run/c.sock\n", ""));

    /* Without a line of the last list it is the text of a shorter one. */
    for (size_t length = 0; length < strlen(three_text); length++) {
        bool is_one = length == two || length == two - strlen("seat b [2001:db8::5]:6379\n");

        assert_int_equal(fleet_record_read(three_text, length, &r), is_one ? HF_OK : HF_EINVAL);
    }
    for (size_t length = 0; length < whole; length++)
        assert_int_equal(fleet_record_read(moved_text, length, &r),
                         length == whole - strlen("before b [2001:db8::5]:6379\n") ? HF_OK
                                                                                   : HF_EINVAL);
}

TEST(nothing_may_stand_behind_the_end)
{
    char longer[2 * sizeof(moved_text)];
    struct fleet_record r;

    assert_refused("/run/c.sock\n", "/run/c.sock\n\n");
    assert_refused("/run/c.sock\n", "/run/c.sock\nx");
    assert_refused("/run/c.sock\n", "/run/c.sock\nkeys " NO_KEYS "\n");
    assert_int_equal(fleet_record_read(three_text, sizeof(three_text), &r), HF_EINVAL); /* a zero */
    snprintf(longer, sizeof(longer), "%sx\n", moved_text);
    assert_int_equal(reads(longer), HF_EINVAL);
}

TEST(there_is_one_way_to_write_it)
{
    assert_refused("version 1", "version 01");
    assert_refused("version 1", "version +1");
    assert_refused("version 1", "version  1");
    assert_refused("version 1", "version 1 ");
    assert_refused("version 1\nstate complete", "state complete\nversion 1");
    assert_refused("ttl_max 60000", "ttl_max 060000");
    assert_refused("ttl_max 60000", "ttl_max 60s");
    assert_refused("", " "); /* before all */
    assert_refused("seat a", "seat \\x61");
    assert_refused("seat a", "seat \\x0a");
    assert_refused("seat a", "seat a\\x5C");
    assert_refused("seat a", "seat a\\x5c");
    assert_refused("seat a", "seat a\\x");
    assert_refused("seat a", "seat a\\q");
    assert_refused("seat a", "seat a\\");
    assert_refused("seat a", "seat a\\x00");
    assert_refused("seat a", "seat a\t");
    assert_refused("seat a", "seat \xc3\xa4");
    assert_refused("seat a", "seat a ");
    assert_refused("seat a ", "seat ");
    assert_refused("seat a ", "seat  ");
    assert_refused("a 10.0.0.1:6379", "a ");
    assert_refused("\n", "\r\n");
    assert_refused("fleet " FLEET, "fleet " FLEET "0");
    assert_refused("keys " NO_KEYS, "keys DA39A3EE5E6B4B0D3255BFEF95601890AFD80709");
    assert_refused("keys " NO_KEYS, "keys da39");
    assert_refused("complete", "completed");
    assert_refused("complete", "done");
}

TEST(every_number_has_its_bounds)
{
    assert_refused("version 1", "version 0");
    assert_refused("version 1", "version ");
    assert_refused("version 1", "version 18446744073709551617");
    assert_refused("ttl_max 60000", "ttl_max 0");
    assert_refused("ttl_max 60000", "ttl_max 86400001");
    assert_refused("ttl_max 60000", "ttl_max 18446744073709611616");
    assert_int_equal(reads(with(three_text, "ttl_max 60000", "ttl_max 1")), HF_OK);
    assert_int_equal(reads(with(three_text, "ttl_max 60000", "ttl_max 86400000")), HF_OK);
    assert_int_equal(reads(with(moved_text, "version 2", "version 9223372036854775807")), HF_OK);
    assert_int_equal(reads(with(moved_text, "version 2", "version 9223372036854775808")),
                     HF_EINVAL);
    assert_int_equal(reads(with(moved_text, "before 60000", "before 86400001")), HF_EINVAL);
}

TEST(one_to_nine_members)
{
    char text[4096];
    size_t used = (size_t)(strstr(three_text, "seat ") - three_text);

    memcpy(text, three_text, used);
    text[used] = '\0';
    assert_int_equal(reads(text), HF_EINVAL);
    for (int i = 1; i <= HF_NODES_MAX + 1; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "seat n%d 10.0.0.%d:1\n", i, i);
        assert_int_equal(reads(text), i <= HF_NODES_MAX ? HF_OK : HF_EINVAL);
    }
    assert_int_equal(
        reads(with(moved_text, "before a 10.0.0.1:6379\nbefore b [2001:db8::5]:6379\n", "")),
        HF_EINVAL);
    assert_int_equal(reads(with(moved_text, "ttl_max_before 60000\n", "")), HF_EINVAL);
}

TEST(an_id_or_address_is_of_one_member)
{
    assert_refused("seat b", "seat a");
    assert_refused("[2001:db8::5]:6379", "10.0.0.1:6379");
    assert_int_equal(reads(with(moved_text, "before b", "before a")), HF_EINVAL);
    assert_int_equal(reads(with(moved_text, "b [2001:db8::5]:6379", "b 10.0.0.1:6379")), HF_EINVAL);
}

TEST(no_text_is_longer_than_a_node_can_have)
{
    char id[HF_NODE_TEXT_MAX + 16] = "seat ";

    memset(id + 5, 'i', HF_NODE_TEXT_MAX);
    assert_int_equal(reads(with(three_text, "seat a", id)), HF_OK);
    memset(id + 5, 'i', HF_NODE_TEXT_MAX + 1);
    assert_refused("seat a", id);
}

/* A first version has nothing before it and is on no way to it; every later one has. */
TEST(version_state_and_members_before_fit)
{
    assert_refused("version 1", "version 2");
    assert_refused("complete", "changing");
    assert_int_equal(reads(with(moved_text, "version 2", "version 1")), HF_EINVAL);
    assert_int_equal(reads(with(moved_text, "changing", "founding")), HF_EINVAL);
    assert_int_equal(reads(with(moved_text, "changing", "complete")), HF_OK);
}

/* Only a server that leaves, and only until the change is complete. */
TEST(what_leaves_may_be_gone)
{
    const char *gone = with(moved_text, "before b", "gone b");
    struct fleet_record r;

    assert_int_equal(fleet_record_read(gone, strlen(gone), &r), HF_OK);
    assert_false(r.before[0].gone);
    assert_true(r.before[1].gone);
    assert_written_and_read(&r, gone);
    r.state = FLEET_COMPLETE;
    {
        char text[FLEET_TEXT_SIZE];

        (void)fleet_record_text(&r, text);
        assert_int_equal(reads(text), HF_EINVAL);
    }
    gone = with(moved_text, "before a", "gone a");
    assert_int_equal(fleet_record_read(gone, strlen(gone), &r), HF_OK); /* it stays, and is gone */
    assert_true(r.before[0].gone);
    assert_written_and_read(&r, gone);
    assert_int_equal(reads(with(moved_text, "seat b", "gone b")), HF_EINVAL);
}

/* --- what goes by a record -------------------------------------------------------------------- */

/* From the members of `three` to these. */
static struct fleet_record changing(int count, const struct fleet_seat *seats)
{
    struct fleet_record r = three;

    r.version = 2;
    r.state = FLEET_CHANGING;
    memcpy(r.before, r.seat, sizeof(r.seat));
    r.before_count = r.count;
    memcpy(r.seat, seats, (size_t)count * sizeof(*seats));
    r.count = count;
    r.ttl_max_before_ms = r.ttl_max_ms;
    return r;
}

static const struct fleet_seat moved_seats[] = {{.id = "a", .address = "10.0.0.1:6379"},
                                                {.id = "b", .address = "10.0.0.7:6379"},
                                                {.id = "c", .address = "/run/c.sock"}};
static const struct fleet_seat five_seats[] = {{.id = "a", .address = "10.0.0.1:6379"},
                                               {.id = "b", .address = "[2001:db8::5]:6379"},
                                               {.id = "c", .address = "/run/c.sock"},
                                               {.id = "d", .address = "10.0.0.4:6379"},
                                               {.id = "e", .address = "10.0.0.5:6379"}};

TEST(a_version_1_counts_all)
{
    for (int settled = 0; settled <= 1; settled++) {
        assert_int_equal(fleet_record_counting(&three, settled), 7);
        assert_int_equal(fleet_record_quorum(&three, settled), 2);
        assert_int_equal(fleet_record_ttl_grant_ms(&three, settled), 60000);
        assert_int_equal(fleet_record_ttl_longest_ms(&three, settled), 60000);
    }
}

TEST(a_moved_node_counts_when_its_record_has_settled)
{
    struct fleet_record r = changing(3, moved_seats);
    const struct fleet_seat *list;

    assert_true(fleet_record_can_change(&r));
    assert_int_equal(fleet_record_list(&r, &list), 3);
    assert_string_equal(list[1].address, "[2001:db8::5]:6379");
    assert_int_equal(fleet_record_counting(&r, true), 5);
    assert_int_equal(fleet_record_quorum(&r, true), 2);
    r.state = FLEET_COMPLETE;
    assert_int_equal(fleet_record_list(&r, &list), 3);
    assert_string_equal(list[1].address, "10.0.0.7:6379");
    assert_int_equal(fleet_record_counting(&r, false), 5);
    assert_int_equal(fleet_record_counting(&r, true), 7);
}

TEST(a_fleet_that_grows_needs_the_larger_majority_of_what_stays)
{
    struct fleet_record r = changing(5, five_seats);

    assert_true(fleet_record_can_change(&r));
    assert_int_equal(fleet_record_counting(&r, false), 7);
    assert_int_equal(fleet_record_quorum(&r, false), 3);
    r.state = FLEET_COMPLETE;
    assert_int_equal(fleet_record_counting(&r, false), 7);
    assert_int_equal(fleet_record_quorum(&r, false), 3);
    assert_int_equal(fleet_record_counting(&r, true), 31);
    assert_int_equal(fleet_record_quorum(&r, true), 3);
}

TEST(a_fleet_that_shrinks_keeps_the_larger_majority_until_it_has_settled)
{
    struct fleet_record r = changing(5, five_seats);
    struct fleet_seat swap[HF_NODES_MAX];

    memcpy(swap, r.seat, sizeof(swap));
    memcpy(r.seat, r.before, sizeof(swap));
    memcpy(r.before, swap, sizeof(swap));
    r.count = 3;
    r.before_count = 5;
    assert_int_equal(fleet_record_counting(&r, false), 7);
    assert_int_equal(fleet_record_quorum(&r, false), 3);
    r.state = FLEET_COMPLETE;
    assert_int_equal(fleet_record_quorum(&r, false), 3);
    assert_int_equal(fleet_record_quorum(&r, true), 2);
}

TEST(too_few_stay_where_leases_would_end)
{
    struct fleet_record r = changing(1, five_seats);

    assert_false(fleet_record_can_change(&r)); /* 3 to 1 */
    r = changing(2, five_seats);
    assert_true(fleet_record_can_change(&r)); /* 3 to 2 */
    r.before_count = 2;
    strcpy(r.seat[1].address, "10.0.0.7:6379");
    assert_false(fleet_record_can_change(&r)); /* one of two moves */
    r = changing(2, five_seats);
    r.before_count = 1;
    assert_false(fleet_record_can_change(&r)); /* 1 to 2 */
}

/* (!) Until then leases of the longer one may stand, and agents may go by quarantines of the shorter one. */
TEST(ttl_max_is_the_shorter_one_for_grants_and_the_longer_one_for_quarantines)
{
    struct fleet_record r = changing(3, three.seat);

    r.ttl_max_ms = 90000;
    assert_int_equal(fleet_record_counting(&r, false), 7);
    assert_int_equal(fleet_record_ttl_grant_ms(&r, true), 60000);
    assert_int_equal(fleet_record_ttl_longest_ms(&r, true), 90000);
    r.state = FLEET_COMPLETE;
    assert_int_equal(fleet_record_ttl_grant_ms(&r, false), 60000);
    assert_int_equal(fleet_record_ttl_grant_ms(&r, true), 90000);
    r.ttl_max_ms = 10000;
    assert_int_equal(fleet_record_ttl_grant_ms(&r, false), 10000);
    assert_int_equal(fleet_record_ttl_longest_ms(&r, false), 60000);
    assert_int_equal(fleet_record_ttl_longest_ms(&r, true), 10000);
}

TEST(records_have_ranks)
{
    struct fleet_record first = three, before = changing(3, moved_seats), gone = before,
                        complete = before;

    gone.before[1].gone = true;
    complete.state = FLEET_COMPLETE;
    assert_true(fleet_record_rank(&first, &before) < 0);
    assert_true(fleet_record_rank(&gone, &before) > 0);
    assert_true(fleet_record_rank(&gone, &complete) < 0);
    assert_int_equal(fleet_record_rank(&complete, &complete), 0);
    strcpy(gone.seat[1].address, "10.0.0.8:6379"); /* another change */
    assert_int_equal(fleet_record_rank(&gone, &before), 0);
    first.version = 3;
    assert_true(fleet_record_rank(&complete, &first) < 0);
}

TEST(nothing_is_written_where_nothing_is_read)
{
    struct fleet_record r = three;

    assert_int_equal(fleet_record_read("x", 1, &r), HF_EINVAL);
    assert_int_equal(fleet_record_read(three_text, strlen(three_text) - 1, &r), HF_EINVAL);
    assert_same(&r, &three);
}

/* --- names ------------------------------------------------------------------------------------ */

/* Values of sha1sum(1). */
TEST(sha1_is_sha1)
{
    static const struct {
        size_t length;
        const char *hex;
    } of_x[] = {
        {0, NO_KEYS},
        {55, "cef734ba81a024479e09eb5a75b6ddae62e6abf1"},
        {56, "901305367c259952f4e7af8323f480d59f81335b"},
        {63, "0ddc4e0cccd9a12850deb5abb0853a4425559fec"},
        {64, "bb2fa3ee7afb9f54c6dfb5d021f14b1ffe40c163"},
        {1000, "c3efa690fa3fdd2e2526853eed670538ea127638"},
    };

    for (size_t i = 0; i < HF_LENGTH(of_x); i++) {
        struct sha1 s;
        char hex[SHA1_HEX_LEN + 1];

        sha1_begin(&s);
        for (size_t k = 0; k < of_x[i].length; k++)
            sha1_add(&s, "x", 1);
        sha1_end(&s, hex);
        assert_string_equal(hex, of_x[i].hex);
    }
}

TEST(the_name_is_of_members_order_and_keys)
{
    struct fleet_record r = three;
    char name[FLEET_ID_LEN + 1];

    fleet_record_name(&r, name);
    assert_string_equal(name, FLEET);
    r.state = FLEET_FOUNDING;
    r.ttl_max_ms = 1;
    fleet_record_name(&r, name);
    assert_string_equal(name, FLEET);
    strcpy(r.keys, KEYS);
    fleet_record_name(&r, name);
    assert_string_not_equal(name, FLEET);
    r = three;
    r.seat[0] = three.seat[1];
    r.seat[1] = three.seat[0];
    fleet_record_name(&r, name);
    assert_string_not_equal(name, FLEET);
    r = three;
    strcpy(r.seat[2].address, "/run/d.sock");
    fleet_record_name(&r, name);
    assert_string_not_equal(name, FLEET);
    r = three;
    strcpy(r.seat[0].id, "a1");
    strcpy(r.seat[0].address, "0.0.0.1:6379");
    fleet_record_name(&r, name);
    assert_string_not_equal(name, FLEET);
}

TEST(the_digest_is_of_the_whole_text)
{
    char digest[FLEET_DIGEST_LEN + 1], other[FLEET_DIGEST_LEN + 1], text[sizeof(three_text)];

    fleet_record_digest(three_text, strlen(three_text), digest);
    assert_string_equal(digest, "7060c177"); /* sha1sum */
    for (size_t i = 0; i < strlen(three_text); i++) {
        memcpy(text, three_text, sizeof(text));
        text[i] ^= 1;
        fleet_record_digest(text, strlen(three_text), other);
        assert_string_not_equal(digest, other);
    }
    fleet_record_digest(three_text, strlen(three_text) - 1, other);
    assert_string_not_equal(digest, other);
}

/* --- comparing -------------------------------------------------------------------------------- */

/* What is said when theirs is `three` and ours is `ours`. */
static const char *differing(const struct fleet_record *theirs, const struct fleet_record *ours)
{
    static char text[256];
    bool differs = fleet_record_differs(theirs, ours, "b", text, sizeof(text));

    assert_int_equal(differs, text[0] != '\0');
    return text;
}

TEST(where_host_and_fleet_differ_both_are_said)
{
    struct fleet_record ours = three, theirs = three;

    assert_string_equal(differing(&three, &ours), "");
    ours.ttl_max_ms = 30000;
    assert_string_equal(differing(&three, &ours),
                        "ttl_max is 60000 ms on node b and 30000 ms here");
    ours = three;
    ours.count = 2;
    assert_string_equal(differing(&three, &ours),
                        "node b belongs to a list of 3 nodes, ours has 2");
    ours = three;
    ours.seat[1] = three.seat[2];
    ours.seat[2] = three.seat[1];
    assert_string_equal(differing(&three, &ours),
                        "node b belongs to a list with other ids or another "
                        "order: number 2 is b there and c here");
    ours = three;
    strcpy(ours.keys, KEYS);
    assert_string_equal(differing(&three, &ours),
                        "the other hosts of node b have no key_format, "
                        "key_format_for or database, and this host has one");
    assert_string_equal(differing(&ours, &three),
                        "the other hosts of node b have a key_format, "
                        "key_format_for or database, and this host has none");
    theirs = ours;
    theirs.keys[0] = 'f';
    assert_string_equal(differing(&theirs, &ours),
                        "the other hosts of node b have another key_format, "
                        "key_format_for or database than this host");
}

/* In which only the record counts. */
TEST(another_address_is_no_difference)
{
    struct fleet_record ours = three;

    strcpy(ours.seat[0].address, "10.9.9.9:1");
    strcpy(ours.fleet, KEYS);
    assert_string_equal(differing(&three, &ours), "");
}

TEST(no_id_upsets_a_terminal)
{
    struct fleet_record theirs = three;
    const char *text;

    memset(theirs.seat[0].id, '\x1b', HF_NODE_TEXT_MAX);
    text = differing(&theirs, &three);
    assert_null(strchr(text, '\x1b'));
    assert_non_null(strstr(text, "number 1 is \\x1b\\x1b"));
    assert_non_null(strstr(text, " there and a here"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_written_and_read),
        cmocka_unit_test(so_are_the_members_before),
        cmocka_unit_test(so_is_one_under_way),
        cmocka_unit_test(any_byte_is_safe),
        cmocka_unit_test(the_longest_fits),
        cmocka_unit_test(a_later_format_is_told_from_damage),
        cmocka_unit_test(a_part_is_no_record),
        cmocka_unit_test(nothing_may_stand_behind_the_end),
        cmocka_unit_test(there_is_one_way_to_write_it),
        cmocka_unit_test(every_number_has_its_bounds),
        cmocka_unit_test(one_to_nine_members),
        cmocka_unit_test(an_id_or_address_is_of_one_member),
        cmocka_unit_test(no_text_is_longer_than_a_node_can_have),
        cmocka_unit_test(version_state_and_members_before_fit),
        cmocka_unit_test(nothing_is_written_where_nothing_is_read),
        cmocka_unit_test(what_leaves_may_be_gone),
        cmocka_unit_test(a_version_1_counts_all),
        cmocka_unit_test(a_moved_node_counts_when_its_record_has_settled),
        cmocka_unit_test(a_fleet_that_grows_needs_the_larger_majority_of_what_stays),
        cmocka_unit_test(a_fleet_that_shrinks_keeps_the_larger_majority_until_it_has_settled),
        cmocka_unit_test(too_few_stay_where_leases_would_end),
        cmocka_unit_test(ttl_max_is_the_shorter_one_for_grants_and_the_longer_one_for_quarantines),
        cmocka_unit_test(records_have_ranks),
        cmocka_unit_test(sha1_is_sha1),
        cmocka_unit_test(the_name_is_of_members_order_and_keys),
        cmocka_unit_test(the_digest_is_of_the_whole_text),
        cmocka_unit_test(where_host_and_fleet_differ_both_are_said),
        cmocka_unit_test(another_address_is_no_difference),
        cmocka_unit_test(no_id_upsets_a_terminal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
