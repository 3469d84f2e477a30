#include "tools/common/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NS_PER_SEC INT64_C(1000000000)

static int process_read_text(int proc, pid_t pid, const char *file, char *out, size_t size)
{
    char path[64];
    ssize_t got;
    int fd;

    snprintf(path, sizeof(path), "%s%d/%s", proc < 0 ? "/proc/" : "", (int)pid, file);
    fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    got = read(fd, out, size - 1);
    close(fd);
    if (got <= 0)
        return -1;
    out[got] = '\0';
    return 0;
}

/* Parses the file's text, which it changes. */
static int process_parse_stat(char *text, struct process_stat *ret_stat)
{
    struct process_stat stat;
    char *open = strchr(text, '('), *close = strrchr(text, ')');
    int parent;

    /* pid (command) state ppid ... num_threads(20) itrealvalue starttime(22) ...; the command may
     * hold anything, so the last ')' ends it. */
    if (!open || !close || close < open)
        return -1;
    *close = '\0';
    snprintf(stat.command, sizeof(stat.command), "%s", open + 1);
    /* NOLINTNEXTLINE(cert-err34-c): the kernel writes numbers that fit. */
    if (sscanf(close + 1,
               " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu",
               &stat.state, &parent, &stat.threads, &stat.start) != 4)
        return -1;
    stat.parent = parent;
    *ret_stat = stat;
    return 0;
}

int process_stat(int proc, pid_t pid, struct process_stat *ret_stat)
{
    char text[1024];

    return process_read_text(proc, pid, "stat", text, sizeof(text)) < 0
               ? -1
               : process_parse_stat(text, ret_stat);
}

int process_read(pid_t pid, struct process *ret_process)
{
    long ticks = sysconf(_SC_CLK_TCK);
    struct process_stat stat;

    if (ticks <= 0 || process_stat(-1, pid, &stat) < 0)
        return -1;
    *ret_process = (struct process){
        .state = stat.state,
        .parent = stat.parent,
        .start_ns = (int64_t)(stat.start / (unsigned long)ticks) * NS_PER_SEC +
                    (int64_t)(stat.start % (unsigned long)ticks) * (NS_PER_SEC / ticks),
    };
    return 0;
}

int process_user(pid_t pid, uid_t *ret_uid)
{
    char text[4096], *line, *end;
    unsigned long uid;

    if (process_read_text(-1, pid, "status", text, sizeof(text)) < 0 ||
        !(line = strstr(text, "\nUid:\t")) || !(line = strchr(line + 6, '\t')))
        return -1;
    uid = strtoul(line, &end, 10); /* the real one comes before it */
    *ret_uid = (uid_t)uid;
    return end != line ? 0 : -1;
}

bool process_pids_are_of(uint64_t pidns_inode)
{
    char self[16] = "", own[16];
    struct stat st;

    snprintf(own, sizeof(own), "%d", (int)getpid());
    return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == pidns_inode &&
           readlink("/proc/self", self, sizeof(self) - 1) > 0 && strcmp(self, own) == 0;
}

bool process_descends(pid_t pid, pid_t ancestor, int64_t start_before_ns)
{
    struct process process;

    /* Parents may change meanwhile, but only upwards: the bound guards against a damaged /proc. */
    for (int depth = 0; pid > 0 && depth < 100000; depth++) {
        if (process_read(pid, &process) < 0)
            return false;
        if (pid == ancestor)
            return process.start_ns <= start_before_ns + PROCESS_START_SLACK_NS;
        pid = process.parent;
    }
    return false;
}

int64_t process_descriptor_limit(pid_t pid)
{
    static const char label[] = "Max open files";
    char text[4096], *line, *end;
    long long limit;

    if (process_read_text(-1, pid, "limits", text, sizeof(text)) < 0 ||
        !(line = strstr(text, label)))
        return -1;
    limit = strtoll(line + sizeof(label) - 1, &end, 10);
    return end != line + sizeof(label) - 1 ? limit : -1;
}
