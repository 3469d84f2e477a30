/* holdfast run: takes a lock, or several, and runs a command under it. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "libclient/holdfast.h"
#include "libclient/holdfast_sets.h"
#include "tools/common/exit_code.h"
#include "tools/common/text.h"
#include "tools/run/acquire.h"
#include "tools/run/environment.h"
#include "tools/run/guardians.h"
#include "tools/run/hold.h"
#include "tools/run/run.h"
#include "tools/run/run_options.h"
#include "tools/run/say.h"
#include "tools/run/signals.h"
#include "tools/run/timeline.h"

#define NS_PER_MS INT64_C(1000000)

struct run {
    struct run_options wanted;
    struct acquire acquire;
    char (*each)[TEXT_NAME_SIZE]; /* the names of the leases, escaped, for messages */
    struct signals signals;
};

/* Like acquire_await(); sets up the guardians while the agent works. */
static bool acquire(struct run *run, hf_client *client, const struct guardian_plan *plan,
                    struct guardian *ret_guardian, hf_lease **ret_leases, int *ret_code)
{
    hf_op *op;
    int status = acquire_begin(&run->acquire, client, &op);

    if (status < 0) {
        *ret_code = acquire_refused(&run->acquire, status);
        return false;
    }
    if (guardians_prepare(ret_guardian, plan) < 0) {
        say("%s: cannot prepare the guardians: %s", run->acquire.shown, strerror(errno));
        hf_op_cancel(op);
        *ret_code = EXIT_FAILED;
        return false;
    }
    if (acquire_await(&run->acquire, client, op, ret_leases, ret_code))
        return true;
    guardians_free(ret_guardian);
    return false;
}

static int name_leases(struct run *run, struct hold *hold)
{
    char name[RUN_OPTIONS_NAME_SIZE];
    int slot = hf_slot_number(hold->leases[0]);

    run->each = calloc(hold->count, sizeof(run->each[0]));
    if (!run->each)
        return HF_ENOMEM;
    for (size_t i = 0; i < hold->count; i++) {
        unsigned index = slot < 0 ? (unsigned)i : (unsigned)slot;

        text_escape_str(run->each[i], sizeof(run->each[i]),
                        run_options_name(&run->wanted, index, name));
        hold->names[i] = run->each[i];
    }
    if (slot >= 0)
        memcpy(run->acquire.shown, run->each[0], sizeof(run->acquire.shown));
    return HF_OK;
}

static void say_acquired(const struct run *run, const struct hold *hold)
{
    char span[TEXT_SPAN_SIZE];

    text_span(span, sizeof(span), (timeline_now_ns() - run->acquire.began_ns) / NS_PER_MS);
    for (size_t i = 0; i < hold->count; i++)
        say("%s: acquired after %s, fence %" PRIu64, hold->names[i], span,
            hf_fence(hold->leases[i]));
}

static int hold_and_run(struct run *run, hf_client *client)
{
    struct hf_agent_info agent = {.size = sizeof(agent)};
    struct guardian_plan plan = {
        .name = run->acquire.shown,
        .argv = run->wanted.argv,
        .on_lost = run->wanted.on_lost,
        .stop_signal = run->wanted.stop_signal,
        .heartbeat_ns = run->wanted.heartbeat_ms * NS_PER_MS,
        .no_new_privs = run->wanted.no_new_privs,
        .verbose = run->wanted.verbose,
        .signals = &run->signals,
    };
    struct hold hold = {.client = client};
    struct guardian guardian;
    int code = EXIT_OK, signal, status = hf_agent_info(client, &agent);

    if (status < 0)
        return acquire_refused(&run->acquire, status);
    if (*agent.shadowed)
        say("%s: taking it with your own agent %s, whose nodes are private (--dev); for the host's "
            "agent give --agent %s",
            run->acquire.shown, agent.agent_name, agent.shadowed);
    plan.ttl_ns = (run->wanted.ttl_ms ? run->wanted.ttl_ms : (int64_t)agent.ttl_ms) * NS_PER_MS;
    if (!acquire(run, client, &plan, &guardian, hold.leases, &code))
        return code;
    hold.count = run->wanted.count;
    while ((signal = acquire_signal(&run->acquire)) == SIGTSTP)
        kill(getpid(), SIGSTOP);
    if (signal || name_leases(run, &hold) < 0) {
        hold_release(&hold);
        guardians_free(&guardian);
        return signal ? EXIT_BY_SIGNAL + signal : EXIT_FAILED;
    }
    if (run->wanted.verbose)
        say_acquired(run, &hold);
    environment_set(&run->wanted, &hold);
    return guardians_run(&guardian, &hold);
}

int cmd_run(int argc, char **argv)
{
    struct run run = {0};
    bool help = false;
    hf_client *client = NULL;
    const char *slash;
    int signal = 0, status, code = run_options_parse(&run.wanted, argc, argv, &help);

    if (code != EXIT_OK)
        return code;
    if (help) {
        run_options_help();
        return fflush(stdout) == 0 ? EXIT_OK : EXIT_FAILED;
    }
    acquire_init(&run.acquire, &run.wanted, &run.signals);
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
    code = hold_and_run(&run, client);
    hf_disconnect(client);
    free(run.each);
    return code;
}
