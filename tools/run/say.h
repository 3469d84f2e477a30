/* Messages on stderr that never block: a guardian that has a job to kill must not wait for whoever
 * reads its output. What does not fit at once is dropped. One write per message; not thread-safe.
 */
#ifndef HOLDFAST_TOOLS_RUN_SAY_H
#define HOLDFAST_TOOLS_RUN_SAY_H

/* Opens stderr once more without blocking where that can be done. Call once, before the first
 * say(). */
void say_init(void);

/* "holdfast: <message>\n" */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
