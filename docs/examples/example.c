/* The calls of libholdfast, in the order in which a program would meet them.
 *
 *     holdfastd --dev &
 *     cc example.c -lholdfast -o example && ./example
 */
#include <holdfast_admin.h>
#include <holdfast_sets.h>
#include <holdfast_run.h>

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int fail(const char *what, int status)
{
    fprintf(stderr, "%s: %s (%s)\n", what, hf_strerror(status), hf_last_message());
    return 1;
}

/* The usual case: take it, work while it is held, give it back. */
static int work(hf_client *client)
{
    hf_lease *lease;
    int status = hf_acquire(client, "example/work", 10000, 5000, &lease);

    if (status < 0)
        return fail("hf_acquire", status);
    for (int i = 0; i < 1000 && hf_held(lease); i++) {
        /* A step that takes far less than hf_remaining_ms(). Whatever it writes to should refuse a
         * fence lower than one it has seen. */
    }
    printf("worked with fence %llu, %lld ms left\n", (unsigned long long)hf_fence(lease),
           (long long)hf_remaining_ms(lease));
    status = hf_release(lease);
    return status < 0 ? fail("hf_release", status) : 0;
}

static void print_progress(const struct hf_progress *progress, void *arg)
{
    (void)arg;
    printf("waiting: %s, holder pid %u on %s\n", hf_strerror(progress->reason),
           progress->holder.pid, progress->holder.host);
}

/* Somebody else has it. */
static int meet_another(hf_client *client, hf_client *other)
{
    struct hf_acquire_options options = {
        .size = sizeof(options),
        .name = "example/shared",
        .name_len = strlen("example/shared"),
        .wait_ms = 100,
        .note = "the example's second client",
        .progress = print_progress,
    };
    struct hf_holder holder;
    hf_lease *mine, *theirs;
    int status = hf_try(other, "example/shared", &theirs);

    if (status < 0)
        return fail("hf_try", status);
    status = hf_acquire_with(client, &options, &mine);
    if (status == HF_ETIMEDOUT && hf_conflict(&holder) == HF_OK)
        printf("held by %s (pid %u) on %s\n", holder.command, holder.pid, holder.host);
    else
        return fail("hf_acquire_with", status);
    status = hf_release(theirs);
    return status < 0 ? fail("hf_release", status) : 0;
}

static void print_change(hf_lease *lease, int state, void *arg)
{
    printf("lease with fence %llu is now in state %d: %s\n", (unsigned long long)hf_fence(lease),
           state, hf_reason(lease));
    *(int *)arg = state;
}

/* In an event loop: nothing here blocks but poll(). */
static int loop(hf_client *client, hf_client *other)
{
    struct hf_acquire_options options = {
        .size = sizeof(options),
        .name = "example/loop",
        .name_len = strlen("example/loop"),
        .wait_ms = 5000,
    };
    struct pollfd poll_fd = {.fd = hf_fd(client), .events = POLLIN};
    hf_lease *lease;
    hf_op *op, *unwanted;
    int status, state = HF_STATE_HELD;

    if (poll_fd.fd < 0)
        return fail("hf_fd", poll_fd.fd);
    status = hf_acquire_start(client, &options, &op);
    if (status < 0)
        return fail("hf_acquire_start", status);
    while ((status = hf_op_result(op, &lease)) == HF_EPENDING) {
        poll(&poll_fd, 1, -1);
        hf_dispatch(client);
    }
    if (status < 0)
        return fail("hf_op_result", status);

    if (hf_acquire_start(client, &options, &unwanted) == HF_OK)
        hf_op_cancel(unwanted);

    /* Hear of changes: somebody asks us to stop. */
    hf_on_change(lease, print_change, &state);
    status = hf_ask(other, "example/loop", strlen("example/loop"));
    if (status < 0)
        return fail("hf_ask", status);
    while (state == HF_STATE_HELD) {
        poll(&poll_fd, 1, -1);
        hf_dispatch(client);
    }
    status = hf_release(lease);
    return status < 0 ? fail("hf_release", status) : 0;
}

/* Two locks or none, whatever others take in whatever order; and a lock that three may hold. */
static int several(hf_client *client)
{
    const struct hf_name names[] = {hf_str("example/to"), hf_str("example/from")};
    struct hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_lease *leases[2], *slot;
    unsigned number;
    hf_op *op;
    int status;

    options.wait_ms = 5000;
    status = hf_acquire_all(client, &options, names, 2, leases);
    if (status < 0) {
        if (hf_conflict_index() >= 0)
            fprintf(stderr, "name %d is in the way\n", hf_conflict_index());
        return fail("hf_acquire_all", status);
    }
    for (int i = 0; i < 1000 && hf_held_all(leases, 2); i++) {
        /* A step that needs both. */
    }
    status = hf_release_all(leases, 2);
    if (status < 0)
        return fail("hf_release_all", status);

    options.name = "example/pool";
    options.name_len = strlen("example/pool");
    status = hf_acquire_slot(client, &options, 3, &slot, &number);
    if (status < 0)
        return fail("hf_acquire_slot", status);
    printf("slot %u of 3\n", number);
    if (hf_acquire_slot_start(client, &options, 3, &op) == HF_OK)
        hf_op_cancel(op);
    options.name = NULL;
    if (hf_acquire_all_start(client, &options, names, 2, &op) == HF_OK)
        hf_op_cancel(op);
    status = hf_slot_number(slot) == (int)number ? hf_release(slot) : HF_EINVAL;
    return status < 0 ? fail("hf_release", status) : 0;
}

/* Lost when the loop below hangs for a second. */
static int beat(hf_client *client)
{
    struct hf_acquire_options options = {
        .size = sizeof(options),
        .name = "example/beat",
        .name_len = strlen("example/beat"),
        .heartbeat_ms = 1000,
    };
    hf_lease *lease;
    int status = hf_acquire_with(client, &options, &lease);

    if (status < 0)
        return fail("hf_acquire_with", status);
    for (int i = 0; i < 1000 && hf_held(lease); i++)
        if (hf_beat(lease)) /* the agent was started anew */
            hf_dispatch(client);
    status = hf_release(lease);
    if (!hf_job_beat()) /* for jobs, whose lock is another process's */
        printf("this is no job of holdfast run --heartbeat\n");
    return status < 0 ? fail("hf_release", status) : 0;
}

static int second_guardian(const struct hf_ticket *ticket)
{
    hf_client *client;
    hf_lease *lease;
    int status = hf_join(ticket, &client, &lease);

    if (status < 0)
        return fail("hf_join", status);
    /* Here it would watch the job; it finds that it must end, kills it, reaps it, and says so. */
    hf_begin_losing(lease);
    hf_wait(lease, HF_STATE_HELD, 1000);
    printf("guardian: state %d\n", hf_state(lease));
    hf_begin_killing(lease);
    status = hf_release_reaped(lease);
    hf_disconnect(client);
    return status < 0 ? fail("hf_release_reaped", status) : 0;
}

/* Two processes watch over one job, as `holdfast run` does. */
static int guard(hf_client *client)
{
    struct hf_acquire_options options = {
        .size = sizeof(options),
        .name = "example/job",
        .name_len = strlen("example/job"),
        .flags = HF_ACQUIRE_JOB | HF_ACQUIRE_SECOND_GUARDIAN,
    };
    struct hf_ticket ticket;
    hf_lease *lease;
    int code = 1, status = hf_acquire_with(client, &options, &lease);
    pid_t pid;

    if (status < 0)
        return fail("hf_acquire_with", status);
    status = hf_lease_ticket(lease, &ticket);
    if (status < 0)
        return fail("hf_lease_ticket", status);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        hf_disconnect(client); /* inherited: frees memory, touches nothing of the parent's */
        code = second_guardian(&ticket);
        fflush(stdout);
        _exit(code);
    }
    waitpid(pid, &code, 0);
    hf_lease_free(lease); /* the other one has released it */
    return code != 0;
}

static int print_info(const struct hf_info *info, void *arg)
{
    (void)arg;
    printf("%.*s: pid %u, %s\n", (int)info->name_len, (const char *)info->name, info->pid,
           info->held ? "held" : info->reason);
    return 0;
}

/* Looking needs no client, and no living agent. */
static int look(hf_client *client)
{
    struct hf_info info = HF_INFO_INIT;
    int64_t beat_ns = 0;
    hf_lease *lease;
    hf_view *view;
    int status = hf_try(client, "example/seen", &lease);

    if (status < 0)
        return fail("hf_try", status);
    status = hf_view_open(NULL, &view);
    if (status < 0)
        return fail("hf_view_open", status);
    if (hf_view_find(view, "example/seen", strlen("example/seen"), &info) == HF_OK)
        printf("valid until %lld, and its holder knows %lld\n", (long long)info.valid_until_ns,
               (long long)hf_valid_until_ns(lease));
    hf_view_walk(view, print_info, NULL);
    hf_view_heartbeat_ns(view, &beat_ns);
    printf("the agent's last sign of life: %lld\n", (long long)beat_ns);
    hf_view_close(view);
    return 0; /* hf_disconnect() has it released */
}

static int print_listed(const struct hf_listed *listed, void *arg)
{
    (void)arg;
    printf("%.*s: pid %u on %s, by the word of %u nodes\n", (int)listed->name_len,
           (const char *)listed->name, listed->holder.pid, listed->holder.host, listed->holding);
    return 0;
}

/* The nodes know who holds what on any host. */
static int ask_nodes(hf_client *client)
{
    const char *name = "example/anywhere";
    struct hf_who_info who = HF_WHO_INFO_INIT;
    hf_lease *lease;
    int status = hf_try(client, name, &lease);

    if (status < 0)
        return fail("hf_try", status);
    status = hf_who(client, name, strlen(name), &who);
    if (status < 0)
        return fail("hf_who", status);
    printf("held by pid %u on %s\n", who.holder.pid, who.holder.host);
    status = hf_list(client, "example/", strlen("example/"), print_listed, NULL, NULL);
    if (status < 0)
        return fail("hf_list", status);
    /* For root and the agent's user: whatever its holder does, it cannot be renewed any more. */
    status = hf_force(client, name, strlen(name), &who, NULL);
    if (status < 0)
        return fail("hf_force", status);
    status = hf_wait_free(client, name, strlen(name), 60000, NULL, NULL);
    hf_lease_free(lease);
    return status < 0 ? fail("hf_wait_free", status) : 0;
}

int main(void)
{
    struct hf_agent_info info = HF_AGENT_INFO_INIT;
    hf_client *client, *other;
    int status = hf_connect(NULL, &client), failed;

    if (status < 0)
        return fail("hf_connect", status);
    if (hf_agent_info(client, &info) == HF_OK)
        printf("agent %s %s: TTL %u ms, %u of %u nodes\n", info.agent_name, info.version,
               info.ttl_ms, info.quorum, info.nodes);
    status = hf_connect(NULL, &other);
    if (status < 0)
        return fail("hf_connect", status);
    failed = work(client) || meet_another(client, other) || loop(client, other) ||
             several(client) || beat(client) || guard(client) || look(client) || ask_nodes(client);
    hf_disconnect(other);
    hf_disconnect(client);
    return failed;
}
