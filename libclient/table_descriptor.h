/* An agent's table by its socket, for those who cannot open it by its name: in a container /dev/shm is another one. Of the
 * library's inside; the command's reader uses it, too. Any thread; no client of the caller's is touched. */
#ifndef HOLDFAST_LIBCLIENT_TABLE_DESCRIPTOR_H
#define HOLDFAST_LIBCLIENT_TABLE_DESCRIPTOR_H

#include <stddef.h>

/* A read-only descriptor of the table, for hf_table_open_fd(). `agent` as for hf_connect(). Takes a client's place at
 * the agent for a moment, and two seconds at most. HF_ENOAGENT and whatever a hello may be refused with: a sentence is in `why`. */
int hfc_table_descriptor(const char *agent, int *ret_fd, char *why, size_t why_size);

#endif
