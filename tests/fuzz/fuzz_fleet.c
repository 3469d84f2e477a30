/* The fleet's record as a node has it: any bytes. What is read is written back as it was, and all that is said of it can
 * be printed. */
#include "tests/fuzz/fuzz.h"

#include "agent/core/fleet_record.h"
#include "shm/status.h"

static void check_seats(const struct fleet_seat *seats, int count)
{
    for (int i = 0; i < count; i++) {
        FUZZ_CHECK(seats[i].id[0] && memchr(seats[i].id, '\0', sizeof(seats[i].id)));
        FUZZ_CHECK(seats[i].address[0] && memchr(seats[i].address, '\0', sizeof(seats[i].address)));
        for (int k = 0; k < i; k++) {
            FUZZ_CHECK(strcmp(seats[k].id, seats[i].id) != 0);
            FUZZ_CHECK(strcmp(seats[k].address, seats[i].address) != 0);
        }
    }
}

static void check_record(const struct fleet_record *r, const char *text, size_t length)
{
    char again[FLEET_TEXT_SIZE], digest[2][FLEET_DIGEST_LEN + 1], name[FLEET_ID_LEN + 1],
        words[256];
    static const struct fleet_record other = {
        .fleet = "", .count = 1, .seat = {{"a", "10.0.0.1:1"}}};

    FUZZ_CHECK(r->count >= 1 && r->count <= HF_NODES_MAX);
    FUZZ_CHECK(r->before_count >= 0 && r->before_count <= HF_NODES_MAX);
    FUZZ_CHECK((r->version == 1) == (r->before_count == 0));
    FUZZ_CHECK(r->ttl_max_ms >= 1 && r->ttl_max_ms <= 86400000);
    check_seats(r->seat, r->count);
    check_seats(r->before, r->before_count);
    FUZZ_CHECK(fleet_record_text(r, again) == length && memcmp(again, text, length) == 0);
    fleet_record_digest(text, length, digest[0]);
    fleet_record_digest(again, length, digest[1]);
    FUZZ_CHECK(strcmp(digest[0], digest[1]) == 0);
    fleet_record_name(r, name);
    FUZZ_CHECK(strlen(name) == FLEET_ID_LEN);
    FUZZ_CHECK(!fleet_record_differs(r, r, "a", words, sizeof(words)) && !words[0]);
    (void)fleet_record_differs(r, &other, "a", words, sizeof(words));
    fuzz_check_sentence(words, sizeof(words));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct fleet_record record;
    char *text = malloc(size ? size : 1); /* it ends where it ends: a sanitizer sees who reads on */
    int rc;

    FUZZ_CHECK(text);
    fuzz_take(&in, text, size);
    rc = fleet_record_read(text, size, &record);
    FUZZ_CHECK(rc == HF_OK || rc == HF_EINVAL || rc == HF_EVERSION);
    if (rc == HF_OK)
        check_record(&record, text, size);
    free(text);
    return 0;
}
