/* agent/state/lease.h: each reason of a loss has a counter of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/state/lease.h"
#include "shm/wordings.h"

static void each_reason_has_a_counter_of_its_name(void **state)
{
    unsigned reason = HF_LOSS_NONE + 1;

    (void)state;
    for (; strcmp(hf_loss_word(reason), "unknown") != 0; reason++) {
        enum hf_counter counter;
        char name[64];

        if (!hf_loss_counter(reason, &counter))
            fail_msg("%s has no counter", hf_loss_word(reason));
        (void)snprintf(name, sizeof(name), "losses_%s", hf_loss_word(reason));
        assert_string_equal(hf_counter_name(counter), name);
    }
    assert_true(reason > HF_LOSS_AWAY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_reason_has_a_counter_of_its_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
