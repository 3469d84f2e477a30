/* Facts of a process from the kernel, read by both ends of the attach socket. Any thread. */
#ifndef HOLDFAST_SHM_PROCESS_H
#define HOLDFAST_SHM_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The start of a process, in clock ticks since the boot: tells it from a later one with its pid.
 * `pid` 0: the caller. Returns 0 when it is gone (errno ENOENT or ESRCH) or /proc cannot be read. */
uint64_t hf_process_start_time(pid_t pid);
/* Tells a process from every other of this boot, by a pidfd of it alone (its inode, Linux 6.9). (!) No file of it is read: the owner
 * of a process makes each read of its /proc/PID/stat as slow as it likes. Has HF_BIRTH_OF_PIDFD, which no start time has. Returns 0
 * where the kernel does not tell. */
#define HF_BIRTH_OF_PIDFD (UINT64_C(1) << 63)
uint64_t hf_process_birth(int pidfd);
/* Whether the kernel gives a descriptor of the process that connected (SO_PEERPIDFD, Linux 6.5), whatever /proc shows. */
bool hf_process_peers_known(void);

/* Which file an open one is. A renamed file is the same one; a copy, and a file that was moved to another file system, is
 * another one. Each file that outlives an agent has its own in its header, so an agent knows a copy. Any thread. */

struct hf_file_id {
    uint64_t device; /* of the file system: major << 32 | minor; used again once that is gone */
    uint64_t inode;  /* (!) of a copy on another file system perhaps the same */
    int64_t born_ns; /* CLOCK_REALTIME; 0: the file system does not tell, and the others decide */
};
_Static_assert(sizeof(struct hf_file_id) == 24, "compared as bytes");

/* 0, or HF_ESYS with errno. */
int hf_file_id(int fd, struct hf_file_id *ret_id);

/* The three standard streams of a program, which its caller may have closed, and whose output may be full. */

/* Call first of all. Occupies the numbers of closed streams, so that no file or socket gets one. An occupied stream fails like a
 * closed one: input cannot be read, and output cannot be written. `flags`: O_CLOEXEC, so that programs which this one executes
 * find it closed again; or 0. 0, or -1. */
int hf_streams_hold(int flags);

/* Call at the end. Returns `code`, or `failed` with a message on stderr if standard output did not take everything. */
int hf_streams_finish(const char *who, int code, int failed);

#endif
