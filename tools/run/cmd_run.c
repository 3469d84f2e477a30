/* holdfast run: takes a lock, or several, and runs a command under it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "libclient/holdfast.h"
#include "libclient/holdfast_sets.h"
#include "tools/common/args.h"
#include "tools/common/text.h"
#include "tools/run/acquire.h"
#include "tools/run/grant.h"
#include "tools/run/job.h"
#include "tools/run/guardian.h"
#include "tools/run/lease_group.h"
#include "tools/commands.h"
#include "tools/run/run_options.h"
#include "tools/run/say.h"
#include "tools/run/signals.h"

#define NS_PER_MS INT64_C(1000000)

struct run {
    struct run_options wanted;
    struct acquire acquire;
    char (*each)[TEXT_NAME_SIZE]; /* the names of the leases, escaped, for messages */
    struct signals signals;
};

/* Like acquire_await(). (!) All that the job needs is there before the lock is asked for: nobody is kept out for a job that cannot
 * start. */
static bool cmd_run_acquire(struct run *run, hf_client *client, const struct guardian_plan *plan,
                            struct guardian *ret_guardian, hf_lease **ret_leases, int *ret_code)
{
    hf_op *op;
    int status;

    if (guardians_prepare(ret_guardian, plan) < 0) {
        say("%s: cannot prepare the guardians: %s", run->acquire.shown, guardian_problem(errno));
        *ret_code = EXIT_FAILED;
        return false;
    }
    status = acquire_begin(&run->acquire, client, &op);
    if (status < 0) {
        *ret_code = acquire_refused(&run->acquire, status);
        guardians_free(ret_guardian);
        return false;
    }
    if (acquire_await(&run->acquire, client, op, ret_leases, ret_code))
        return true;
    guardians_free(ret_guardian);
    return false;
}

static int cmd_run_hold_and_run(struct run *run, hf_client *client)
{
    struct guardian_plan plan = {
        .name = run->acquire.shown,
        .argv = run->wanted.argv,
        .on_lost = run->wanted.on_lost,
        .stop_signal = run->wanted.stop_signal,
        .heartbeat_ns = run->wanted.heartbeat_ms * NS_PER_MS,
        .once_per_ms = run->wanted.once_per_ms,
        .once_until_ns =
            run->wanted.wait_ms > 0 ? run->acquire.began_ns + run->wanted.wait_ms * NS_PER_MS : 0,
        .done_code = run->wanted.done_code,
        .retry_failed = run->wanted.retry_failed,
        .no_new_privs = run->wanted.no_new_privs,
        .verbose = run->wanted.verbose,
        .signals = &run->signals,
    };
    struct lease_group leases = {.client = client};
    struct guardian guardian;
    int code = EXIT_OK, signal, status = grant_ttl_ns(&run->acquire, client, &plan.ttl_ns);

    if (status < 0)
        return acquire_refused(&run->acquire, status);
    if (!cmd_run_acquire(run, client, &plan, &guardian, leases.lease, &code))
        return code;
    leases.count = run_options_leases(&run->wanted);
    while ((signal = acquire_signal(&run->acquire)) == SIGTSTP)
        kill(getpid(), SIGSTOP);
    if (signal || grant_names(&run->acquire, &leases, &run->each) < 0) {
        lease_group_release(&leases);
        guardians_free(&guardian);
        return signal ? EXIT_BY_SIGNAL + signal : EXIT_FAILED;
    }
    if (run->wanted.verbose)
        grant_say(&run->acquire, &leases);
    environment_set(&run->wanted, &leases);
    return guardians_run(&guardian, &leases);
}

int cmd_run(int argc, char **argv)
{
    struct run run = {0};
    bool help = false;
    hf_client *client = NULL;
    const char *slash;
    int signal = 0, status, code = run_options_parse(&run.wanted, OF_RUN, argc, argv, &help);

    if (code != EXIT_OK)
        return code;
    if (help) {
        run_options_help(OF_RUN);
        return EXIT_OK;
    }
    acquire_init(&run.acquire, &run.wanted, &run.signals);
    streams_look();
    say_init();
    if (signals_take(&run.signals) < 0) {
        say("signals: %s", strerror(errno));
        return EXIT_FAILED;
    }
    /* Conflicts show the job's name, which tells people more than ours. */
    slash = strrchr(run.wanted.argv[0], '/');
    (void)prctl(PR_SET_NAME, slash ? slash + 1 : run.wanted.argv[0]);
    status = acquire_connect(&run.acquire, &client, &signal);
    (void)prctl(PR_SET_NAME, "holdfast");
    if (signal)
        return EXIT_BY_SIGNAL + signal;
    if (status < 0)
        return acquire_refused(&run.acquire, status);
    code = cmd_run_hold_and_run(&run, client);
    hf_disconnect(client);
    free(run.each);
    return code;
}
