/* Facts of one process from /proc. */
#ifndef HOLDFAST_TOOLS_COMMON_PROCESS_H
#define HOLDFAST_TOOLS_COMMON_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Ticks are coarse: equal start times may differ by this much. */
#define PROCESS_START_SLACK_NS (50 * INT64_C(1000000))

struct process {
    char state; /* R S D T t Z X I */
    pid_t parent;
    int64_t start_ns; /* CLOCK_BOOTTIME, rounded down to a tick */
};

/* A line of /proc/PID/stat. */
struct process_stat {
    char command[16];
    char state;
    pid_t parent;
    long threads;
    unsigned long long start; /* clock ticks since the boot */
};

/* `proc` is a descriptor of /proc; -1: it is opened by its path. 0, or -1: no such process, or /proc
 * cannot be read. */
int process_stat(int proc, pid_t pid, struct process_stat *ret_stat);

/* 0, or -1: no such process, or /proc cannot be read. */
int process_read(pid_t pid, struct process *ret_process);

/* The effective uid of a process. 0, or -1: as above. */
int process_user(pid_t pid, uid_t *ret_uid);

/* Whether pids of the PID namespace with this inode (of /proc/PID/ns/pid) are those of this process and of the /proc that it reads.
 * False where /proc cannot tell. */
bool process_pids_are_of(uint64_t pidns_inode);

/* Whether `ancestor` is `pid`, its parent, and so on up; `start_before_ns`: an ancestor that
 * started later is another process with a reused pid. */
bool process_descends(pid_t pid, pid_t ancestor, int64_t start_before_ns);

/* The soft limit on descriptors, -1 when it cannot be read. */
int64_t process_descriptor_limit(pid_t pid);

#endif
