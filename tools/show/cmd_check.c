/* holdfast check: does the caller, or an ancestor of it, hold a lock? Does the hold with a fence last? */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "shm/status.h"
#include "tools/common/exit_code.h"
#include "tools/common/process.h"
#include "tools/common/text.h"
#include "tools/output/format.h"
#include "tools/reader/life.h"
#include "tools/reader/reader.h"
#include "tools/reader/reader_args.h"
#include "tools/show/show.h"

struct check {
    bool quiet;
    uint64_t fence; /* of the hold that is asked for; 0: of the caller or an ancestor */
    char shown[TEXT_NAME_SIZE];
};

__attribute__((format(printf, 3, 4))) static int answer(const struct check *check, int code,
                                                        const char *format, ...)
{
    FILE *file = code == EXIT_OK ? stdout : stderr;
    va_list args;

    if (check->quiet)
        return code;
    fprintf(file, "%s%s ", code == EXIT_OK ? "" : "holdfast check: ", check->shown);
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
    fputc('\n', file);
    return code;
}

/* Is it that hold, and in force? */
static int cmd_check_judge_fence(const struct check *check, const struct reader *reader,
                                 const struct hf_slot_view *view)
{
    char span[TEXT_SPAN_SIZE];
    int64_t left_ms;

    if (!reader_in_force(&reader->table, view))
        return answer(check, EXIT_NOT_HELD, "is not held on this host: its lease is over");
    if (view->fence != check->fence)
        return answer(check, EXIT_NOT_HELD, "is held with fence %" PRIu64 ", not %" PRIu64,
                      view->fence, check->fence);
    left_ms = hf_dur_ms(hf_time_since(view->deadline, reader_now()));
    return answer(check, EXIT_OK, "is held by pid %" PRIu32 " for %s more, fence %" PRIu64,
                  view->pid, text_span(span, sizeof(span), left_ms), view->fence);
}

/* Which process has the lease, and is it in force? */
static int cmd_check_judge_holder(const struct check *check, const struct reader *reader,
                                  const struct hf_slot_view *view)
{
    char user[FORMAT_USER_SIZE], span[TEXT_SPAN_SIZE];
    struct life life;
    int64_t left_ms;
    bool descends;

    /* The pids are those of the agent's PID namespace. */
    life_judge(&reader->table, &life);
    if (life.process == LIFE_PROCESS_UNSEEN && reader_in_force(&reader->table, view))
        return answer(check, EXIT_UNKNOWN,
                      "is held by pid %" PRIu32 " of another PID namespace: whether that is an "
                      "ancestor cannot be told",
                      view->pid);
    descends = process_descends(getppid(), (pid_t)view->pid, view->since.ns);
    /* Last, since the checks before took time. Only the deadline decides, even without the agent. */
    if (!reader_in_force(&reader->table, view))
        return answer(check, EXIT_NOT_HELD, "is not held on this host: its lease is over");
    left_ms = hf_dur_ms(hf_time_since(view->deadline, reader_now()));
    if (descends)
        return answer(check, EXIT_OK, "is held by pid %" PRIu32 " for %s more, fence %" PRIu64,
                      view->pid, text_span(span, sizeof(span), left_ms), view->fence);
    return answer(check, EXIT_NOT_HELD,
                  "is held by pid %" PRIu32 " (user %s), which is no ancestor of this command",
                  view->pid, format_user(user, sizeof(user), view->uid));
}

static int cmd_check_judge(const struct check *check, const struct reader *reader,
                           const struct reader_name *name)
{
    struct hf_slot_view view;
    int status = reader_find(&reader->table, name->bytes, name->len, &view);

    if (status == HF_ENOTHELD) {
        unsigned first, held = reader_slots_held(&reader->table, name->bytes, name->len, &first);

        if (held)
            return answer(
                check, EXIT_NOT_HELD,
                "is not held on this host; %u of its slots, #%u first, are: $HOLDFAST_NAME "
                "has a job's own",
                held, first);
        return answer(check, EXIT_NOT_HELD, "is not held on this host");
    }
    if (status < 0)
        return answer(check, EXIT_UNKNOWN, "cannot be read: %s", hf_status_text(status));
    return check->fence ? cmd_check_judge_fence(check, reader, &view)
                        : cmd_check_judge_holder(check, reader, &view);
}

int cmd_check(int argc, char **argv)
{
    char why[READER_WHY_SIZE] = "";
    struct reader_args args;
    struct reader_name name;
    struct reader reader;
    struct check check;
    int status,
        code = reader_args_parse(
            argc, argv, "qeF", "check [options] NAME",
            "Tells whether the calling process, or an ancestor of it, holds NAME; with a fence\n"
            "whether that hold lasts, as for a script under holdfast hold.\n"
            "Exit code: 0 it does, 3 it does not, 4 that cannot be told.",
            &args);

    if (code != READER_ARGS_GO_ON || (code = reader_args_name(argc, argv, &args, &name)) != EXIT_OK)
        return code;
    check.quiet = args.quiet;
    check.fence = args.fence;
    text_escape(check.shown, sizeof(check.shown), name.bytes, name.len);
    status = reader_open(args.agent, &reader, why, sizeof(why));
    if (status == HF_EINVAL) {
        fprintf(stderr, "holdfast check: %s\n", why);
        return EXIT_USAGE;
    }
    if (status < 0)
        return answer(&check, EXIT_UNKNOWN, "may be held or not: %s",
                      *why ? why : hf_status_text(status));
    code = cmd_check_judge(&check, &reader, &name);
    reader_close(&reader);
    return code;
}
