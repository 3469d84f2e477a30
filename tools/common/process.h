/* What /proc says of one process. */
#ifndef HOLDFAST_TOOLS_COMMON_PROCESS_H
#define HOLDFAST_TOOLS_COMMON_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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

/* Takes the file's text apart (and changes it). 0, or -1: it is no such text. */
int process_stat_parse(char *text, struct process_stat *ret_stat);

/* 0, or -1: no such process, or /proc cannot be read. */
int process_read(pid_t pid, struct process *ret_process);

/* Whether `ancestor` is `pid`, its parent, and so on up; `start_before_ns`: an ancestor that was
 * started later is another one that has the number now. */
bool process_descends(pid_t pid, pid_t ancestor, int64_t start_before_ns);

/* The soft limit on descriptors, -1 when it cannot be read. */
int64_t process_descriptor_limit(pid_t pid);

#endif
