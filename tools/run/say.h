/* Messages on stderr that never block: a guardian that has a job to kill must not wait for the
 * reader of its output. Text that does not fit at once is dropped. One write per message; not
 * thread-safe. */
#ifndef HOLDFAST_TOOLS_RUN_SAY_H
#define HOLDFAST_TOOLS_RUN_SAY_H

/* Reopens stderr as non-blocking if possible. Call once, before the first say(). */
void say_init(void);

/* "holdfast: <message>\n" */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
