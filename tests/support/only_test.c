/* HOLDFAST_ONLY_TEST=FUNCTION: a test program runs that test of it alone. The mutants' catchers ask one question each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

void hf_only_test(void); /* tests/CMakeLists.txt has every test program link it by this name */

__attribute__((constructor)) void hf_only_test(void)
{
    const char *name = getenv("HOLDFAST_ONLY_TEST");

    if (name)
        cmocka_set_test_filter(name);
}
