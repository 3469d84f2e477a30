/* Processes that fork and end without end, each in a session of its own: where sessions share the processor, each has as much of it as
 * a guardian.
 *
 *   storm COUNT SECONDS
 *
 * Prints "up" and ends after so many seconds at the latest. The user's processes, the dead among them, are bounded: others need room. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/program.h"

#define PROCESSES_MAX 2000
#define PAUSE_NS      1000000

static _Noreturn void rage(time_t end)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};

    while (time(NULL) < end) {
        pid_t pid;

        (void)setsid(); /* fails where the last fork did */
        pid = fork();
        if (pid > 0)
            break;
        if (pid < 0)
            nanosleep(&pause, NULL);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    const struct rlimit limit = {.rlim_cur = PROCESSES_MAX, .rlim_max = PROCESSES_MAX};
    time_t end;

    if (argc != 3 || setrlimit(RLIMIT_NPROC, &limit) < 0)
        die("storm", strerror(errno));
    signal(SIGTERM, SIG_IGN);
    end = time(NULL) + atoi(argv[2]);
    for (int i = atoi(argv[1]); i > 0; i--)
        if (fork() == 0)
            rage(end);
    puts("up");
    fflush(stdout);
    sleep((unsigned)atoi(argv[2]));
    return 0;
}
