/* holdfast wait: until nobody holds a name. */
#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "shm/status.h"
#include "libclient/holdfast_admin.h"
#include "tools/commands.h"
#include "tools/common/args.h"
#include "tools/common/text.h"
#include "tools/common/since.h"
#include "tools/reader/reader.h"
#include "tools/reader/reader_args.h"

#define ROOM_MS 300 /* before an agent that is full is asked again: as much more at random */

struct waiting {
    const struct reader_args *args;
    char shown[TEXT_NAME_SIZE];
    bool said;
};

/* Reports the holder, once. */
static void cmd_wait_on_progress(const struct hf_progress *progress, void *arg)
{
    struct waiting *waiting = arg;
    char line[CONFLICT_SIZE];

    if (waiting->said || waiting->args->quiet || progress->reason != HF_EBUSY)
        return;
    waiting->said = true;
    fprintf(stderr, "holdfast wait: %s; waiting\n",
            conflict_line(line, sizeof(line), waiting->shown, &progress->holder, wall_now_ms()));
}

static void cmd_wait_say_why_not(const struct waiting *waiting, int status)
{
    char line[CONFLICT_SIZE];
    struct hf_holder holder;

    if (waiting->args->quiet)
        return;
    if (exit_code_of(status) == EXIT_BUSY && hf_conflict(&holder) == HF_OK)
        fprintf(stderr, "holdfast wait: %s%s\n",
                conflict_line(line, sizeof(line), waiting->shown, &holder, wall_now_ms()),
                status == HF_ETIMEDOUT ? "; the wait is over" : "");
    else
        fprintf(stderr, "holdfast wait: %s: %s\n", waiting->shown, hf_last_message());
}

static int wait_once(struct waiting *waiting, const struct reader_name *name, int64_t wait_ms)
{
    hf_client *client;
    int status = hf_connect(waiting->args->agent, &client);

    if (status < 0)
        return status;
    status = hf_wait_free(client, name->bytes, name->len, wait_ms, cmd_wait_on_progress, waiting);
    hf_disconnect(client);
    return status;
}

static int64_t cmd_wait_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* An agent that is full is asked again while time is left: others end. */
static int wait_for_room(struct waiting *waiting, const struct reader_name *name)
{
    int64_t began_ms = cmd_wait_now_ms(), wait_ms = waiting->args->wait_ms;

    for (;;) {
        int64_t left_ms = wait_ms > 0 ? wait_ms - (cmd_wait_now_ms() - began_ms) : wait_ms;
        int status = wait_once(waiting, name, wait_ms > 0 && left_ms < 1 ? 1 : left_ms);

        if ((status != HF_EFULL && status != HF_ELIMIT) || left_ms <= 1)
            return status;
        (void)poll(NULL, 0, ROOM_MS + (int)((unsigned)getpid() % ROOM_MS));
    }
}

int cmd_wait(int argc, char **argv)
{
    struct reader_args args;
    struct reader_name name;
    struct waiting waiting = {.args = &args};
    int status,
        code = reader_args_parse(
            argc, argv, "weq", "wait [options] NAME",
            "Waits until nobody holds NAME on any host, and takes nothing: another may have "
            "it the next\nmoment. With -w 0 it looks once.\n"
            "Exit code: 0 nobody holds it, 75 the wait is over, 69 no agent, or too few nodes "
            "answer.",
            &args);

    if (code != READER_ARGS_GO_ON || (code = reader_args_name(argc, argv, &args, &name)) != EXIT_OK)
        return code;
    text_escape(waiting.shown, sizeof(waiting.shown), name.bytes, name.len);
    status = wait_for_room(&waiting, &name);
    if (status < 0)
        cmd_wait_say_why_not(&waiting, status);
    return exit_code_of(status);
}
