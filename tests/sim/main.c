/* Options, workers and the report: README.md. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/wide.h"

#define JOBS_MAX     64
#define FAILURES_MAX 20
#define FEW          500 /* schedules: too few for a share of them */
#define FEW_OF_THOSE 50  /* of which a share is taken with --every */

struct failure {
    uint64_t seed;
    char check[24], text[400];
};

struct tally { /* of one worker; shared memory */
    uint64_t schedules, seen[SEENS], may[SEENS], fitting[SEENS], faults[FAULTS], wide[WIDES];
    uint64_t commands, events, digest;
    double simulated_s;
    uint64_t failed;
    struct failure failure[FAILURES_MAX];
    volatile sig_atomic_t stop; /* of the first: all stop */
};

static struct tally *tallies; /* JOBS_MAX of them */

static struct {
    uint64_t schedules, seed;
    int jobs;
    bool trace, stop_at_first, digest, any;
    double least; /* of the schedules, of each kind that must be seen */
} options = {.schedules = 1000, .seed = 1, .jobs = 1, .least = 0.05};

/* Whether what the schedule was drawn to be leaves room for it: nodes forget nothing in these, or what befalls them is
 * written. */
static bool may_have(enum sim_seen seen)
{
    bool own = wide_has(WIDE_FAR) || wide_has(WIDE_HOT);

    switch (seen) {
    case SEEN_RESTART:
        return !own && !sim.plan.gentle && !sim.plan.sleepers && !sim.plan.lies;
    case SEEN_RECOVERY:
        return !own;
    case SEEN_LOSS:
    case SEEN_FORCED:
        return !wide_has(WIDE_HOT);
    case SEEN_LIE:
        return sim.plan.lies;
    default:
        return true;
    }
}

static void run_one(struct tally *t, uint64_t seed)
{
    sim.seed = seed;
    sim.trace = options.trace;
    sim_schedule();
    t->schedules++;
    for (int i = 0; i < SEENS; i++) {
        t->seen[i] += sim.seen[i];
        t->may[i] += may_have(i);
        t->fitting[i] += sim.seen[i] && may_have(i);
    }
    for (int i = 0; i < FAULTS; i++)
        t->faults[i] += sim.plan.fault[i];
    for (int i = 0; i < WIDES; i++)
        t->wide[i] += sim.wide >> i & 1;
    t->commands += sim.commands;
    t->events += sim.events;
    t->digest += sim.digest;
    t->simulated_s += (double)sim.now / SIM_SEC;
    if (!sim.violation)
        return;
    if (t->failed < FAILURES_MAX) {
        struct failure *f = &t->failure[t->failed];

        f->seed = seed;
        snprintf(f->check, sizeof(f->check), "%s", sim.violation);
        snprintf(f->text, sizeof(f->text), "%s", sim.violation_text);
    }
    t->failed++;
}

/* Interrupted: what was run so far is reported. */
static void on_signal(int number)
{
    (void)number;
    tallies[0].stop = 1;
}

static void work(struct tally *all, int worker)
{
    struct tally *t = &all[worker];

    for (uint64_t i = (uint64_t)worker; i < options.schedules; i += (uint64_t)options.jobs) {
        if (all[0].stop)
            return;
        run_one(t, options.seed + i);
        for (int k = 0; k < options.jobs && options.stop_at_first; k++)
            if (__atomic_load_n(&all[k].failed, __ATOMIC_RELAXED))
                return;
    }
}

static void add(struct tally *sum, const struct tally *t)
{
    sum->schedules += t->schedules;
    for (int i = 0; i < SEENS; i++) {
        sum->seen[i] += t->seen[i];
        sum->may[i] += t->may[i];
        sum->fitting[i] += t->fitting[i];
    }
    for (int i = 0; i < FAULTS; i++)
        sum->faults[i] += t->faults[i];
    for (int i = 0; i < WIDES; i++)
        sum->wide[i] += t->wide[i];
    sum->commands += t->commands;
    sum->events += t->events;
    sum->digest += t->digest;
    sum->simulated_s += t->simulated_s;
    for (uint64_t i = 0; i < t->failed && i < FAILURES_MAX; i++)
        if (sum->failed + i < FAILURES_MAX)
            sum->failure[sum->failed + i] = t->failure[i];
    sum->failed += t->failed;
}

static double processor_seconds(void)
{
    struct rusage own, children;
    double sum = 0;

    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &children);
    sum += (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec);
    sum += (double)(children.ru_utime.tv_sec + children.ru_stime.tv_sec);
    sum += (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec) / 1e6;
    sum += (double)(children.ru_utime.tv_usec + children.ru_stime.tv_usec) / 1e6;
    return sum;
}

/* In the mix the kind must be in enough of all schedules. Where each has the widenings that were asked for, in half that
 * share of those that leave room for it: some widenings leave none, and some little. */
static bool is_rare(const struct tally *t, enum sim_seen seen)
{
    bool of_those = wide_every || wide_lies;
    uint64_t all = of_those ? t->may[seen] : t->schedules;
    double least = options.least / (of_those ? 2 : 1);
    double share = (double)(of_those ? t->fitting : t->seen)[seen] / (double)(all ? all : 1);

    if (seen == SEEN_LIE && !wide_lies)
        return false;
    if (share >= least || (of_those && all < FEW_OF_THOSE))
        return false;
    printf("too few schedules with: %s: %.1f %% of %" PRIu64 ", wanted are %.1f %%\n",
           sim_seen_names[seen], 100 * share, all, 100 * least);
    return true;
}

/* Kinds of schedules that would prove nothing if they were rare. */
static int report_seen(const struct tally *t)
{
    static const enum sim_seen wanted[] = {SEEN_CONTENDED, SEEN_HANDOFF,    SEEN_LOSS,
                                           SEEN_HEAL,      SEEN_QUARANTINE, SEEN_RESTART,
                                           SEEN_RECOVERY,  SEEN_FORCED,     SEEN_LIE};
    int missing = 0;

    for (int i = 0; i < SEENS; i++)
        printf("  %-20s %9" PRIu64 "  %5.1f %%\n", sim_seen_names[i], t->seen[i],
               100.0 * (double)t->seen[i] / (double)t->schedules);
    for (int i = 0; i < WIDES; i++)
        printf("  wide: %-14s %9" PRIu64 "  %5.1f %%\n", sim_wide_names[i], t->wide[i],
               100.0 * (double)t->wide[i] / (double)t->schedules);
    for (size_t i = 0; i < HF_LENGTH(wanted) && !options.any && !t->failed; i++)
        missing += is_rare(t, wanted[i]);
    return missing;
}

static int report(const struct tally *t, double seconds)
{
    int missing;

    printf("%" PRIu64 " schedules from seed %" PRIu64 ", %.1f s with %d at a time (%.2f ms of "
           "processor each), %.0f s simulated, %.1f million commands, %.1f million events\n",
           t->schedules, options.seed, seconds, options.jobs,
           1000 * processor_seconds() / (double)(t->schedules ? t->schedules : 1), t->simulated_s,
           (double)t->commands / 1e6, (double)t->events / 1e6);
    missing = report_seen(t);
    if (options.digest)
        printf("digest %016" PRIx64 "\n", t->digest);
    for (uint64_t i = 0; i < t->failed && i < FAILURES_MAX; i++)
        printf("violation: %s: seed %" PRIu64 ": %s\n", t->failure[i].check, t->failure[i].seed,
               t->failure[i].text);
    printf("%" PRIu64 " violations\n", t->failed);
    return t->failed ? 1 : missing ? 2 : 0;
}

static void usage(void)
{
    fputs("sim [--schedules N] [--seed S] [--jobs J] [--stop-at-first] [--trace] [--digest] "
          "[--any | --least PERCENT] [--wide all|none|KIND,...] [--every] [--lies] [--groups]\n",
          stderr);
    exit(64);
}

static void parse(int argc, char **argv)
{
    static const struct option known[] = {{"schedules", required_argument, NULL, 'n'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"jobs", required_argument, NULL, 'j'},
                                          {"trace", no_argument, NULL, 't'},
                                          {"stop-at-first", no_argument, NULL, 'f'},
                                          {"digest", no_argument, NULL, 'd'},
                                          {"any", no_argument, NULL, 'a'},
                                          {"least", required_argument, NULL, 'm'},
                                          {"wide", required_argument, NULL, 'w'},
                                          {"every", no_argument, NULL, 'e'},
                                          {"lies", no_argument, NULL, 'l'},
                                          {"groups", no_argument, NULL, 'g'},
                                          {0}};
    bool schedules_given = false;
    int c;

    while ((c = getopt_long(argc, argv, "", known, NULL)) >= 0) {
        switch (c) {
        case 'n':
            options.schedules = strtoull(optarg, NULL, 10);
            schedules_given = true;
            break;
        case 's':
            options.seed = strtoull(optarg, NULL, 10);
            break;
        case 'j':
            options.jobs = atoi(optarg);
            break;
        case 't':
            options.trace = true;
            break;
        case 'f':
            options.stop_at_first = true;
            break;
        case 'd':
            options.digest = true;
            break;
        case 'a':
            options.any = true;
            break;
        case 'm':
            options.least = atof(optarg) / 100;
            break;
        case 'w':
            if (!wide_parse(optarg, &wide_allowed))
                usage();
            break;
        case 'e':
            wide_every = true;
            break;
        case 'l':
            wide_lies = true;
            break;
        case 'g':
            wide_groups = true;
            break;
        default:
            usage();
        }
    }
    if (optind < argc || options.jobs < 1 || options.jobs > JOBS_MAX)
        usage();
    if (options.trace && !schedules_given)
        options.schedules = 1;
    options.any = options.any || options.schedules < FEW;
}

static double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Plain mmap() is what the agents see. */
void *__real_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);
static struct tally *shared_tallies(void)
{
    void *map = __real_mmap(NULL, JOBS_MAX * sizeof(struct tally), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (map == MAP_FAILED) {
        perror("sim: mmap");
        exit(71);
    }
    return map;
}

int main(int argc, char **argv)
{
    static struct tally sum;
    double started = seconds_now();
    int bad = 0, missed;

    parse(argc, argv);
    setvbuf(stdout, NULL, options.trace ? _IOLBF : _IOFBF, 1 << 16);
    tallies = shared_tallies();
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    for (int i = 0; i < options.jobs && options.jobs > 1; i++) {
        pid_t pid = fork();

        if (pid < 0)
            return 71;
        if (pid == 0) {
            work(tallies, i);
            fflush(NULL);
            _exit(0);
        }
    }
    if (options.jobs == 1)
        work(tallies, 0);
    for (int status = 0; options.jobs > 1 && (wait(&status) > 0 || errno == EINTR);)
        bad |= status;
    for (int i = 0; i < options.jobs; i++)
        add(&sum, &tallies[i]);
    missed = report(&sum, seconds_now() - started);
    return missed == 1 || !bad ? missed : 3;
}
