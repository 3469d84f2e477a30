/* Messages on stderr that never block: a guardian that has a job to kill must not wait for the
 * reader of its output. Text that does not fit at once is dropped and counted; the next message says so. One write per message; not
 * thread-safe. */
#ifndef HOLDFAST_TOOLS_RUN_SAY_H
#define HOLDFAST_TOOLS_RUN_SAY_H

#include <stdbool.h>

/* Finds out how to write to stderr without blocking. Call once, before the first say(). */
void say_init(void);

/* Starts the child that writes, where one is needed: the first say() does, too. */
void say_prepare(void);

/* "holdfast: <message>\n" */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether standard error is a terminal, as say_init() saw it. (!) To ask anew is to ask its file system, which may hang. */
bool say_is_terminal(void);

/* Whether standard error is a terminal whose lines can be rewritten, with this process in its foreground. */
bool say_can_rewrite(void);

/* The same without the '\n', cut to the terminal's width, in place of the last such line. The next say() takes it away; "" does, too. */
void say_rewrite(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Closes standard error, ours and the caller's: nothing is said from then on. */
void say_end(void);

#endif
