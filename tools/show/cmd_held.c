/* holdfast held: does the caller, or an ancestor of it, hold a lock? Does the hold with a fence last? */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "shm/status.h"
#include "tools/common/args.h"
#include "tools/common/process.h"
#include "tools/common/text.h"
#include "tools/output/words.h"
#include "tools/reader/reader.h"
#include "tools/reader/reader_args.h"
#include "tools/commands.h"

struct query {
    bool quiet;
    uint64_t fence; /* of the hold that is asked for; 0: of the caller or an ancestor */
    char shown[TEXT_NAME_SIZE];
};

__attribute__((format(printf, 3, 4))) static int cmd_held_answer(const struct query *query,
                                                                 int code, const char *format, ...)
{
    FILE *file = code == EXIT_OK ? stdout : stderr;
    va_list args;

    if (query->quiet)
        return code;
    fprintf(file, "%s%s ", code == EXIT_OK ? "" : "holdfast held: ", query->shown);
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
    fputc('\n', file);
    return code;
}

/* Is it that hold, and in force? */
static int cmd_held_judge_fence(const struct query *query, const struct reader *reader,
                                const struct hf_slot_view *view)
{
    char span[TEXT_SPAN_SIZE];
    int64_t left_ms;

    if (!reader_in_force(&reader->table, view))
        return cmd_held_answer(query, EXIT_NOT_HELD, "is not held on this host: its lease is over");
    if (view->fence != query->fence)
        return cmd_held_answer(query, EXIT_NOT_HELD, "is held with fence %" PRIu64 ", not %" PRIu64,
                               view->fence, query->fence);
    left_ms = hf_dur_ms(hf_time_since(view->deadline, reader_now()));
    return cmd_held_answer(query, EXIT_OK, "is held by pid %" PRIu32 " for %s more, fence %" PRIu64,
                           view->pid, text_span(span, sizeof(span), left_ms), view->fence);
}

/* Which process has the lease, and is it in force? */
static int cmd_held_judge_holder(const struct query *query, const struct reader *reader,
                                 const struct hf_slot_view *view)
{
    char user[FORMAT_USER_SIZE], span[TEXT_SPAN_SIZE];
    int64_t left_ms;
    bool descends;

    if (!process_pids_are_of(reader->table.header->pidns_inode) &&
        reader_in_force(&reader->table, view))
        return cmd_held_answer(query, EXIT_UNKNOWN,
                               "is held by pid %" PRIu32
                               " of another PID namespace: whether that is an "
                               "ancestor cannot be told",
                               view->pid);
    /* (!) Who has an orphan's pid now is not its holder, which may have been of another PID namespace. */
    descends = !(view->flags & HF_SLOT_F_ORPHAN) &&
               process_descends(getppid(), (pid_t)view->pid, view->since.ns);
    /* Last, since the checks before took time. Only the deadline decides, even without the agent. */
    if (!reader_in_force(&reader->table, view))
        return cmd_held_answer(query, EXIT_NOT_HELD, "is not held on this host: its lease is over");
    left_ms = hf_dur_ms(hf_time_since(view->deadline, reader_now()));
    if (descends)
        return cmd_held_answer(query, EXIT_OK,
                               "is held by pid %" PRIu32 " for %s more, fence %" PRIu64, view->pid,
                               text_span(span, sizeof(span), left_ms), view->fence);
    return cmd_held_answer(query, EXIT_NOT_HELD,
                           "is held by pid %" PRIu32
                           " (user %s), which is no ancestor of this command",
                           view->pid, format_user(user, sizeof(user), view->uid));
}

static int cmd_held_judge(const struct query *query, const struct reader *reader,
                          const struct reader_name *name)
{
    struct hf_slot_view view;
    int status = reader_find(&reader->table, name->bytes, name->len, &view);

    if (status == HF_ENOTHELD) {
        unsigned first, held = reader_slots_held(&reader->table, name->bytes, name->len, &first);

        if (held)
            return cmd_held_answer(
                query, EXIT_NOT_HELD,
                "is not held on this host; %u of its slots, #%u first, are: $HOLDFAST_NAME "
                "has a job's own",
                held, first);
        return cmd_held_answer(query, EXIT_NOT_HELD, "is not held on this host");
    }
    if (status < 0)
        return cmd_held_answer(query, EXIT_UNKNOWN, "cannot be read: %s", hf_status_text(status));
    return query->fence ? cmd_held_judge_fence(query, reader, &view)
                        : cmd_held_judge_holder(query, reader, &view);
}

int cmd_held(int argc, char **argv)
{
    char why[READER_WHY_SIZE] = "";
    struct reader_args args;
    struct reader_name name;
    struct reader reader;
    struct query query;
    int status,
        code = reader_args_parse(
            argc, argv, "qeF", "held [options] NAME",
            "Tells whether the calling process, or an ancestor of it, holds NAME; with a fence\n"
            "whether that hold lasts, as for a script under holdfast hold.\n"
            "Exit code: 0 it does, 3 it does not, 4 that cannot be told.",
            &args);

    if (code != READER_ARGS_GO_ON || (code = reader_args_name(argc, argv, &args, &name)) != EXIT_OK)
        return code;
    query.quiet = args.quiet;
    query.fence = args.fence;
    text_escape(query.shown, sizeof(query.shown), name.bytes, name.len);
    status = reader_open(args.agent, &reader, why, sizeof(why));
    if (status == HF_EINVAL) {
        fprintf(stderr, "holdfast held: %s\n", why);
        return EXIT_USAGE;
    }
    if (status < 0)
        return cmd_held_answer(&query, EXIT_UNKNOWN, "may be held or not: %s",
                               *why ? why : hf_status_text(status));
    if (reader.elsewhere)
        code = cmd_held_answer(&query, EXIT_UNKNOWN, "may be held or not: %s",
                               reader_elsewhere(why, sizeof(why), &reader));
    else
        code = cmd_held_judge(&query, &reader, &name);
    reader_close(&reader);
    return code;
}
