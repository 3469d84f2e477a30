/* Invariants, checked in every build where a state machine, a slot or a handle is entered.
 *
 * (!) An assertion is about what this program alone writes. What a client, a node, a file or another process may write is input: it is
 * judged, and refused by an error code. Otherwise its author could end the program.
 *
 * Who is ended: the agent, whose leases stay valid until V and are taken over by the next agent (agent/base/failure.h has its last words); a
 * command. The library asserts only where going on could say "held" falsely: it lives in other people's programs.
 * hf_held() has no assertion, and neither has anything else that a signal handler may call.
 */
#ifndef HOLDFAST_SHM_ASSERT_H
#define HOLDFAST_SHM_ASSERT_H

#include "shm/compiler.h"

#define HF_ASSERT_TEXT 256 /* bytes, with the final NUL; longer texts are cut */

/* `holds` must be true. Behind it are a format and the values that tell what is wrong; never a token or a password. */
#define hf_assert(holds, ...)                                                                      \
    (__builtin_expect(!!(holds), 1) ? (void)0                                                      \
                                    : hf_assert_failed(__func__, __LINE__, #holds, __VA_ARGS__))

/* Reports "FUNCTION:LINE: EXPRESSION (VALUES)" and aborts. Allocates nothing. Any thread; of several the first one reports. */
_Noreturn void hf_assert_failed(const char *function, int line, const char *expression,
                                const char *format, ...) HF_PRINTF(4, 5);

/* Who hears the text, instead of standard error. Set before there are threads. */
void hf_assert_hear(void (*hear)(const char *text));

#endif
