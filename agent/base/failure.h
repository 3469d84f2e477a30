/* The agent's end by a failed assertion (shm/assert.h): one line in the log, and last words in the table, both with the lock, the node and the
 * thread that it was about. Main thread, but for what says otherwise. */
#ifndef HOLDFAST_AGENT_BASE_FAILURE_H
#define HOLDFAST_AGENT_BASE_FAILURE_H

#include <stddef.h>

#include "shm/layout.h"

/* From now on assertions that fail are reported by this file. */
void failure_hear(void);

/* The table that the last words go to; NULL, before it is unmapped: none. */
void failure_into(struct hf_table_header *header);

/* What a thread works on. Any thread; the pointers are valid until the scope ends. */
struct failure_about {
    const void *lock;
    size_t lock_len;
    const char *node;
};
struct failure_about failure_about_lock(const void *lock, size_t lock_len);
struct failure_about failure_about_node(const char *node);
void failure_about_before(const struct failure_about *before);

/* Stands among the declarations of a block: until its end the thread works on that lock, or on that node. */
#define FAILURE_SCOPE                                                                              \
    __attribute__((cleanup(failure_about_before), unused)) const struct failure_about
#define ABOUT_LOCK(name, name_len)                                                                 \
    FAILURE_SCOPE about_lock_before = failure_about_lock(name, name_len)
#define ABOUT_NODE(id) FAILURE_SCOPE about_node_before = failure_about_node(id)

#endif
