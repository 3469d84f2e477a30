/* A holder for the scenarios: one command a line on stdin, one answer a line on stdout.
 *
 * An answer is "ok COMMAND [KEY=VALUE...]" or "err COMMAND code=N text". Names are percent-encoded,
 * so that any byte can be in one. LEASE and OP are the numbers that an answer gave; without one the
 * last is meant.
 *
 *   connect [AGENT]                  info                            disconnect
 *   acquire NAME TTL_MS WAIT_MS [run] [beat=MS] [hold=MS] [NOTE]      try NAME
 *   start NAME TTL_MS WAIT_MS        result [OP] [TIMEOUT_MS]        cancel [OP]
 *   held|remaining|until|fence|state|reason [LEASE]                  conflict
 *   release|reaped|free|losing [LEASE]                               ask NAME
 *   wait [LEASE] STATE TIMEOUT_MS    watch [LEASE]                   dispatch TIMEOUT_MS
 *   many COUNT PREFIX TTL_MS         spin [LEASE] MS                 fork [LEASE]
 *   find NAME                        walk                            cost [LEASE]
 *   beat [LEASE]                     beats LEASE EVERY_MS MS         child [LEASE]
 *   exec PROGRAM [WORD...]
 *   cycle COUNT NAME TTL_MS WAIT_MS HOLD_US [off|losing]             quit
 *
 * `beats` beats for so long, and dispatches when it is told to. `child` forks a process that ends
 * with SIGTERM; it answers with the child's pid and what was wrong with what the library told it (0:
 * nothing).
 * `cycle` prints, for each hold, "hold FIRST_NS LAST_NS FENCE BUSY": the first clock reading after
 * the lease was held and the last one before its release. With `off` it takes no lock, for a
 * checker to prove that it can see an overlap.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libclient/holdfast_admin.h"
#include "libclient/holdfast_run.h"
#include "tests/support/program.h"

#define LEASES_MAX 4096
#define OPS_MAX    1024
#define WORDS_MAX  8

static hf_client *client;
static hf_lease *leases[LEASES_MAX];
static int lease_count;
static hf_op *ops[OPS_MAX];
static int op_count;

static char *words[WORDS_MAX];
static int word_count;

__attribute__((format(printf, 1, 2))) static void ok(const char *format, ...)
{
    va_list args;

    printf("ok %s ", words[0]);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

static void err(int code)
{
    const char *detail = hf_last_message();

    printf("err %s code=%d %s\n", words[0], code, *detail ? detail : hf_strerror(code));
}

static void ok_or_err(int code)
{
    if (code < 0)
        err(code);
    else
        ok("value=%d", code);
}

static int64_t number(int word, int64_t otherwise)
{
    return word < word_count ? strtoll(words[word], NULL, 10) : otherwise;
}

/* Undoes the percent-encoding in place. */
static size_t decode(char *text)
{
    char *from = text, *to = text;
    unsigned byte;

    if (strcmp(text, "%") == 0)
        *text = '\0';
    while (*from) {
        if (*from == '%' && sscanf(from + 1, "%2x", &byte) == 1) {
            *to++ = (char)byte;
            from += 3;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
    return (size_t)(to - text);
}

static void print_name(const uint8_t *name, size_t name_len)
{
    for (size_t i = 0; i < name_len; i++)
        printf(name[i] > 0x20 && name[i] < 0x7f && name[i] != '%' ? "%c" : "%%%02x", name[i]);
}

/* --- leases ----------------------------------------------------------------------------------- */

static int lease_number(int word)
{
    return (int)number(word, lease_count - 1);
}

static hf_lease *lease_of(int word)
{
    int i = lease_number(word);

    return i >= 0 && i < lease_count ? leases[i] : NULL;
}

static void lease_gone(int word)
{
    int i = lease_number(word);

    if (i >= 0 && i < lease_count)
        leases[i] = NULL;
}

static int keep(hf_lease *lease)
{
    if (lease_count == LEASES_MAX) {
        fprintf(stderr, "holder: more than %d leases\n", LEASES_MAX);
        exit(2);
    }
    leases[lease_count] = lease;
    return lease_count++;
}

static void answer_lease(int status, hf_lease *lease)
{
    int i;

    if (status < 0) {
        err(status);
        return;
    }
    i = keep(lease);
    ok("lease=%d fence=%" PRIu64 " remaining_ms=%" PRId64, i, hf_fence(lease),
       hf_remaining_ms(lease));
}

static void options_from_words(struct hf_acquire_options *ret_options)
{
    char *name = word_count > 1 ? words[1] : NULL;

    *ret_options = (struct hf_acquire_options){
        .size = sizeof(*ret_options),
        .name = name,
        .name_len = name ? decode(name) : 0,
        .ttl_ms = (uint32_t)number(2, 0),
        .wait_ms = number(3, 0),
    };
    for (int i = 4; i < word_count; i++) {
        if (strcmp(words[i], "run") == 0) {
            ret_options->flags |= HF_ACQUIRE_JOB;
        } else if (strncmp(words[i], "beat=", 5) == 0) {
            ret_options->heartbeat_ms = (uint32_t)strtoul(words[i] + 5, NULL, 10);
        } else if (strncmp(words[i], "hold=", 5) == 0) {
            ret_options->max_hold_ms = (uint32_t)strtoul(words[i] + 5, NULL, 10);
        } else {
            decode(words[i]);
            ret_options->note = words[i];
        }
    }
}

static void do_acquire(void)
{
    struct hf_acquire_options options;
    hf_lease *lease = NULL;
    int status;

    options_from_words(&options);
    status = hf_acquire_with(client, &options, &lease);
    answer_lease(status, lease);
}

static void do_once(void)
{
    int64_t before = 0;
    int status = hf_once(lease_of(2), number(1, 0), &before);

    if (status < 0)
        err(status);
    else
        ok("before=%" PRId64, before);
}

static void do_once_back(void)
{
    int status = hf_once_take_back(lease_of(2), number(1, 0), number(3, 0));

    if (status < 0)
        err(status);
    else
        ok("taken_back=1");
}

static void do_try(void)
{
    hf_lease *lease = NULL;
    int status = hf_try(client, word_count > 1 ? words[1] : "", &lease);

    answer_lease(status, lease);
}

static void do_many(void)
{
    int64_t count = number(1, 0);
    const char *prefix = word_count > 2 ? words[2] : "many";

    for (int64_t i = 0; i < count; i++) {
        char name[256];
        hf_lease *lease = NULL;
        struct hf_acquire_options options = {.size = sizeof(options), .name = name};
        int status;

        options.name_len = (size_t)snprintf(name, sizeof(name), "%s%" PRId64, prefix, i);
        options.ttl_ms = (uint32_t)number(3, 0);
        options.wait_ms = -1;
        status = hf_acquire_with(client, &options, &lease);
        if (status < 0) {
            err(status);
            return;
        }
        keep(lease);
    }
    ok("count=%" PRId64, count);
}

static void do_conflict(void)
{
    struct hf_holder holder;
    int status = hf_conflict(&holder);

    if (status < 0)
        err(status);
    else
        ok("host=%s pid=%u uid=%u command=%s fence=%" PRIu64 " pttl_ms=%" PRId64, holder.host,
           holder.pid, holder.uid, holder.command, holder.fence, holder.pttl_ms);
}

/* Asks again and again; says when the answer became "not held". */
static void do_spin(void)
{
    int ms_word = word_count > 2 ? 2 : 1;
    hf_lease *lease = lease_of(word_count > 2 ? 1 : WORDS_MAX);
    int64_t until = now_ns() + number(ms_word, 1000) * 1000000;
    int64_t valid_until = 0, last_held = 0, told;
    uint64_t checks = 0;

    while (now_ns() < until) {
        int64_t before = now_ns();

        checks++;
        if (!hf_held(lease)) {
            ok("held=0 checks=%" PRIu64 " last_held_ns=%" PRId64 " valid_until_ns=%" PRId64, checks,
               last_held, valid_until);
            return;
        }
        last_held = before;
        told = hf_valid_until_ns(lease);
        if (told) /* not lost since the check */
            valid_until = told;
    }
    ok("held=1 checks=%" PRIu64 " last_held_ns=%" PRId64 " valid_until_ns=%" PRId64, checks,
       last_held, valid_until);
}

static void do_wait(void)
{
    bool has_lease = word_count > 3;
    int state = (int)number(has_lease ? 2 : 1, HF_STATE_HELD);
    int64_t timeout_ms = number(has_lease ? 3 : 2, -1);

    ok_or_err(hf_wait(lease_of(has_lease ? 1 : WORDS_MAX), state, timeout_ms));
}

static void on_change(hf_lease *lease, int state, void *arg)
{
    printf("change lease=%d state=%d held=%d reason=%s\n", (int)(intptr_t)arg, state,
           hf_held(lease), hf_reason(lease));
}

static void do_watch(void)
{
    ok_or_err(hf_on_change(lease_of(1), on_change, (void *)(intptr_t)lease_number(1)));
}

static void do_dispatch(void)
{
    struct pollfd poller = {.fd = hf_fd(client), .events = POLLIN};
    int64_t until = now_ns() + number(1, 0) * 1000000;
    int turns = 0, status = 0;
    int64_t left_ms;

    do {
        left_ms = (until - now_ns()) / 1000000;
        if (poll(&poller, 1, left_ms > 0 ? (int)left_ms : 0) > 0) {
            status = hf_dispatch(client);
            turns++;
        }
    } while (left_ms > 0 && status == 0);
    if (status < 0)
        err(status);
    else
        ok("turns=%d", turns);
}

static void do_beats(void)
{
    hf_lease *lease = lease_of(1);
    int64_t every_us = number(2, 10) * 1000, until = now_ns() + number(3, 1000) * 1000000;
    int beats = 0, told = 0;

    do {
        if (hf_beat(lease)) {
            told++;
            (void)hf_dispatch(client);
        }
        beats++;
        sleep_us(every_us);
    } while (now_ns() < until);
    ok("beats=%d told=%d held=%d", beats, told, hf_held(lease));
}

/* What a forked child may do with its parent's lease: 0, or what went wrong. */
static int use_in_child(hf_lease *lease)
{
    hf_lease *mine;

    if (hf_held(lease) || hf_beat(lease) || hf_remaining_ms(lease))
        return 1;
    if (hf_state(lease) != HF_EFORKED || hf_release(lease) != HF_EFORKED)
        return 2;
    if (hf_acquire(client, "of-a-child", 0, 0, &mine) != HF_EFORKED)
        return 3;
    if (hf_dispatch(client) != HF_EFORKED || hf_begin_losing(lease) != HF_EFORKED)
        return 4;
    return 0;
}

static void do_child(void)
{
    hf_lease *lease = lease_of(1);
    int up[2], found = -1, got;
    sigset_t term;
    pid_t pid;

    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    if (pipe2(up, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
        err(HF_ESYS);
        return;
    }
    if (pid == 0) {
        sigprocmask(SIG_BLOCK, &term, NULL);
        found = use_in_child(lease);
        (void)!write(up[1], &found, sizeof(found));
        close(up[1]);
        sigwait(&term, &got);
        hf_disconnect(client);
        exit(0);
    }
    close(up[1]);
    (void)!read(up[0], &found, sizeof(found));
    close(up[0]);
    ok("pid=%d found=%d held=%d", (int)pid, found, hf_held(lease));
}

static void do_exec(void)
{
    char *argv[WORDS_MAX + 1] = {NULL};

    for (int i = 1; i < word_count; i++)
        argv[i - 1] = words[i];
    execvp(argv[0], argv);
    err(HF_ESYS);
}

static void do_fork(void)
{
    hf_lease *lease = lease_of(1);
    pid_t pid = fork();
    int status = -1;

    if (pid == 0) {
        int held = hf_held(lease), code = hf_release(lease);
        _exit(held ? 1 : code == HF_EFORKED ? 0 : 2);
    }
    waitpid(pid, &status, 0);
    ok("child=%d held=%d", WIFEXITED(status) ? WEXITSTATUS(status) : -1, hf_held(lease));
}

/* --- asynchronous ----------------------------------------------------------------------------- */

static void do_start(void)
{
    struct hf_acquire_options options;
    int status;

    options_from_words(&options);
    if (op_count == OPS_MAX) {
        fprintf(stderr, "holder: more than %d operations\n", OPS_MAX);
        exit(2);
    }
    status = hf_acquire_start(client, &options, &ops[op_count]);
    if (status < 0) {
        err(status);
        return;
    }
    ok("op=%d", op_count++);
}

static hf_op **op_of(int word)
{
    int64_t i = number(word, op_count - 1);

    return i >= 0 && i < op_count && ops[i] ? &ops[i] : NULL;
}

static void do_result(void)
{
    hf_op **op = op_of(1);
    hf_lease *lease = NULL;
    struct pollfd poller = {.fd = hf_fd(client), .events = POLLIN};
    int64_t until = now_ns() + number(2, 0) * 1000000;
    int status = HF_EINVAL;

    while (op && (status = hf_op_result(*op, &lease)) == HF_EPENDING && now_ns() < until) {
        (void)poll(&poller, 1, 20);
        (void)hf_dispatch(client);
    }
    if (op && status != HF_EPENDING)
        *op = NULL;
    answer_lease(status, lease);
}

static void do_cancel(void)
{
    hf_op **op = op_of(1);

    if (op) {
        hf_op_cancel(*op);
        *op = NULL;
    }
    ok(" ");
}

/* --- the table -------------------------------------------------------------------------------- */

static int print_info(const struct hf_info *info, void *arg)
{
    int *count = arg;

    (*count)++;
    printf("row name=");
    print_name(info->name, info->name_len);
    printf(" state=%d held=%d votes=%u pid=%u uid=%u ttl_ms=%u fence=%" PRIu64
           " valid_until_ns=%" PRId64 "\n",
           info->state, info->held, info->votes, info->pid, info->uid, info->ttl_ms, info->fence,
           info->valid_until_ns);
    return 0;
}

static void do_look(bool walk)
{
    struct hf_info info = {.size = sizeof(info)};
    hf_view *view;
    int count = 0;
    int status = hf_view_open(NULL, &view);

    if (status == HF_OK) {
        if (walk)
            status = hf_view_walk(view, print_info, &count);
        else if ((status = hf_view_find(view, words[1], decode(words[1]), &info)) == HF_OK)
            print_info(&info, &count);
        hf_view_close(view);
    }
    if (status < 0)
        err(status);
    else
        ok("count=%d", count);
}

/* --- measures --------------------------------------------------------------------------------- */

/* The check beside the bare clock read, interleaved; the least of several rounds of each. */
static void do_cost(void)
{
    enum { ROUNDS = 20, CALLS = 100000 };
    hf_lease *lease = lease_of(1);
    int64_t best_held = INT64_MAX, best_clock = INT64_MAX;
    int held = 0;

    for (int round = 0; round < ROUNDS; round++) {
        struct timespec now;
        int64_t begin = now_ns(), middle, end;

        for (int i = 0; i < CALLS; i++)
            clock_gettime(CLOCK_BOOTTIME, &now);
        middle = now_ns();
        for (int i = 0; i < CALLS; i++)
            held += hf_held(lease);
        end = now_ns();
        best_clock = middle - begin < best_clock ? middle - begin : best_clock;
        best_held = end - middle < best_held ? end - middle : best_held;
    }
    ok("held_ns=%.2f clock_ns=%.2f ratio=%.3f held=%d", (double)best_held / CALLS,
       (double)best_clock / CALLS, (double)best_held / (double)best_clock, held == ROUNDS * CALLS);
}

static void do_cycle(void)
{
    int64_t count = number(1, 1), done = 0, hold_us = number(5, 0);
    struct hf_acquire_options options = {.size = sizeof(options)};
    bool off = word_count > 6 && strcmp(words[6], "off") == 0;
    bool losing = word_count > 6 && strcmp(words[6], "losing") == 0; /* on purpose, each of them */

    options.name = words[2];
    options.name_len = decode(words[2]);
    options.ttl_ms = (uint32_t)number(3, 0);
    for (int64_t i = 0; i < count; i++) {
        hf_lease *lease = NULL;
        int64_t first, last;
        bool busy = false;
        int status = HF_OK;

        if (!off) {
            /* A try first tells whether the lock was contended. */
            options.wait_ms = 0;
            status = hf_acquire_with(client, &options, &lease);
            busy = status == HF_EBUSY;
            options.wait_ms = number(4, -1);
            if (busy)
                status = hf_acquire_with(client, &options, &lease);
            if (status < 0) {
                printf("miss code=%d %s\n", status, hf_last_message());
                continue;
            }
        }
        first = now_ns();
        if (hold_us)
            sleep_us(hold_us);
        last = now_ns();
        if (off || hf_held(lease)) {
            printf("hold %" PRId64 " %" PRId64 " %" PRIu64 " %d\n", first, last, hf_fence(lease),
                   busy);
            done++;
        } else {
            printf("miss code=%d lost while held: %s\n", HF_ELOST, hf_reason(lease));
        }
        if (losing)
            (void)hf_begin_losing(lease);
        if (!off)
            (void)hf_release(lease);
    }
    ok("done=%" PRId64, done);
}

/* --- commands --------------------------------------------------------------------------------- */

static void do_connect(void)
{
    int status = hf_connect(word_count > 1 ? words[1] : NULL, &client);

    if (status < 0)
        err(status);
    else
        ok("fd=%d", hf_fd(client));
}

static void do_info(void)
{
    struct hf_agent_info info = {.size = sizeof(info)};
    int status = hf_agent_info(client, &info);

    if (status < 0)
        err(status);
    else
        ok("name=%s pid=%u nodes=%u quorum=%u ttl_ms=%u ttl_max_ms=%u ttl_min_ms=%u version=%s",
           info.agent_name, info.agent_pid, info.nodes, info.quorum, info.ttl_ms, info.ttl_max_ms,
           info.ttl_min_ms, info.version);
}

static void do_disconnect(void)
{
    hf_disconnect(client);
    client = NULL;
    lease_count = op_count = 0;
    ok(" ");
}

static void end_lease(int (*end)(hf_lease *))
{
    int status = end(lease_of(1));

    lease_gone(1);
    ok_or_err(status);
}

static void do_free(void)
{
    hf_lease_free(lease_of(1));
    lease_gone(1);
    ok(" ");
}

static bool is(const char *word)
{
    return strcmp(words[0], word) == 0;
}

static void ask_lease(void)
{
    hf_lease *lease = lease_of(1);

    if (is("held"))
        ok("value=%d", hf_held(lease));
    else if (is("remaining"))
        ok("value=%" PRId64, hf_remaining_ms(lease));
    else if (is("until"))
        ok("value=%" PRId64, hf_valid_until_ns(lease));
    else if (is("fence"))
        ok("value=%" PRIu64, hf_fence(lease));
    else if (is("state"))
        ok("value=%d", hf_state(lease));
    else if (is("reason"))
        ok("text=%s", hf_reason(lease));
    else if (is("losing"))
        ok_or_err(hf_begin_losing(lease));
    else
        printf("err %s code=%d no such command\n", words[0], HF_EINVAL);
}

/* False at `quit`. */
static bool command(void)
{
    if (is("quit"))
        return false;
    if (is("connect"))
        do_connect();
    else if (is("info"))
        do_info();
    else if (is("disconnect"))
        do_disconnect();
    else if (is("acquire"))
        do_acquire();
    else if (is("try"))
        do_try();
    else if (is("once-back"))
        do_once_back();
    else if (is("once"))
        do_once();
    else if (is("many"))
        do_many();
    else if (is("start"))
        do_start();
    else if (is("result"))
        do_result();
    else if (is("cancel"))
        do_cancel();
    else if (is("conflict"))
        do_conflict();
    else if (is("release"))
        end_lease(hf_release);
    else if (is("reaped"))
        end_lease(hf_release_reaped);
    else if (is("free"))
        do_free();
    else if (is("ask") && word_count > 1)
        ok_or_err(hf_ask(client, words[1], decode(words[1])));
    else if (is("wait"))
        do_wait();
    else if (is("watch"))
        do_watch();
    else if (is("dispatch"))
        do_dispatch();
    else if (is("spin"))
        do_spin();
    else if (is("fork"))
        do_fork();
    else if (is("beat"))
        ok("value=%d", hf_beat(lease_of(1)));
    else if (is("beats"))
        do_beats();
    else if (is("child"))
        do_child();
    else if (is("exec") && word_count > 1)
        do_exec();
    else if ((is("find") && word_count > 1) || is("walk"))
        do_look(is("walk"));
    else if (is("cost"))
        do_cost();
    else if (is("cycle") && word_count > 2)
        do_cycle();
    else
        ask_lease();
    return true;
}

int main(void)
{
    char line[4096];

    /* A line of output is complete at once, also when the process is killed. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof(line), stdin)) {
        char *rest = NULL;

        word_count = 0;
        for (char *word = strtok_r(line, " \n", &rest); word && word_count < WORDS_MAX;
             word = strtok_r(NULL, " \n", &rest))
            words[word_count++] = word;
        if (word_count && !command())
            break;
    }
    hf_disconnect(client);
    return 0;
}
