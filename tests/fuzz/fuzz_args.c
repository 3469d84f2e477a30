/* Command line values of `holdfast`: durations, signals, names with and without escapes. */
#include "tests/fuzz/fuzz.h"

#include <signal.h>

#include "shm/status.h"
#include "tools/common/args.h"
#include "tools/common/text.h"
#include "tools/reader/reader_args.h"

#define HUNDRED_YEARS_MS INT64_C(3155760000000)

/* What the reading subcommands print is taken back with --escaped, and is the very name. */
static void there_and_back(const struct reader_name *name)
{
    struct reader_args escaped = {.escaped = true};
    char shown[TEXT_NAME_SIZE];
    struct reader_name back;

    text_escape(shown, sizeof(shown), name->bytes, name->len);
    fuzz_check_sentence(shown, sizeof(shown));
    FUZZ_CHECK(reader_args_bytes(&escaped, shown, &back) == HF_OK);
    FUZZ_CHECK(back.len == name->len && memcmp(back.bytes, name->bytes, name->len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct reader_args args = {.escaped = size > 0 && data[0] & 1};
    char *text = fuzz_string(&in, size);
    struct reader_name name;
    int64_t ms;
    int number;

    if (args_duration_ms(text, &ms) == HF_OK)
        FUZZ_CHECK(ms >= 0 && ms <= 2 * HUNDRED_YEARS_MS);
    if (args_signal(text, &number) == HF_OK)
        FUZZ_CHECK(number > 0 && number <= SIGRTMAX);
    if (!args_name_problem(text))
        FUZZ_CHECK(*text && strlen(text) <= HF_NAME_MAX);
    if (reader_args_bytes(&args, text, &name) == HF_OK) {
        FUZZ_CHECK(name.len <= HF_NAME_MAX);
        there_and_back(&name);
    }
    free(text);
    return 0;
}
