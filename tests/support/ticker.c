/* A job that shows when it lived: it and a grandchild that left its session and its parents write the time into a file
 * every half millisecond, until they are killed.
 *
 *   ticker FILE [--obey]
 *
 * FILE gets two records of four 64-bit numbers: pid, and in CLOCK_BOOTTIME nanoseconds its start, its first SIGTERM (0:
 * none), and the latest time at which it ran. SIGTERM is noted and ignored; with --obey it ends both.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/program.h"

struct life {
    int64_t pid, start_ns, term_ns, last_ns;
};

static volatile struct life *life;
static volatile sig_atomic_t told;

static void on_term(int number)
{
    (void)number;
    if (!told)
        life->term_ns = now_ns();
    told = 1;
}

static void tick(bool obey)
{
    const struct timespec half_ms = {.tv_nsec = 500000};

    life->pid = getpid();
    life->start_ns = now_ns();
    while (!(told && obey)) {
        life->last_ns = now_ns();
        nanosleep(&half_ms, NULL);
    }
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_term};
    bool obey = argc > 2 && strcmp(argv[2], "--obey") == 0;

    if (argc < 2)
        return 64;
    life = map_file(argv[1], 2 * sizeof(*life));
    sigaction(SIGTERM, &action, NULL);
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            life++;
            tick(obey);
        }
        _exit(0);
    }
    tick(obey);
    return 0;
}
