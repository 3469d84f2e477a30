/* holdfast top: the agent, its nodes, leases, who waits and what was lost, all the time. It reads the table alone, so that it
 * works with an agent that hangs; what only the agent can tell (its fleet's record, who holds a lock elsewhere) is not here. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shm/status.h"
#include "tools/common/args.h"
#include "tools/output/words.h"
#include "tools/reader/reader.h"
#include "tools/reader/reader_args.h"
#include "tools/commands.h"
#include "tools/top/top_internal.h"

#define DELAY_MS       1000
#define DELAY_LEAST_MS 100

struct top {
    const struct reader_args *args;
    const struct reader_name *prefix;
    struct reader reader;
    struct top_model model;
    struct top_canvas canvas;
    struct top_style style;
    bool live;       /* on a screen of its own */
    uint32_t frames; /* to be shown; 0: until it is told to end */
};

/* The next agent may have made another table. Until it has, the last one of the one before is shown. */
static void cmd_top_follow(struct top *top)
{
    uint32_t state = atomic_load_explicit(&top->reader.table.header->state, memory_order_acquire);
    char why[READER_WHY_SIZE];
    struct reader next;

    if (state != HF_TABLE_RETIRED &&
        hf_table_is_linked(&top->reader.table, top->reader.place.shm_name))
        return;
    if (reader_look_at(&top->reader.place, &next, why, sizeof(why)) != HF_OK)
        return;
    reader_close(&top->reader);
    top->reader = next;
}

static bool cmd_top_show(struct top *top, bool first)
{
    top_model_take(&top->model, &top->reader, top->prefix);
    top_terminal_size(&top->style.width, &top->style.height);
    if (!top->live)
        top->style.height = 0;
    top_frame_draw(&top->canvas, &top->style, &top->model);
    if (top->live)
        return top_terminal_show(top->canvas.text, top->canvas.length);
    if (!first)
        putchar('\n');
    return fwrite(top->canvas.text, 1, top->canvas.length, stdout) == top->canvas.length &&
           fflush(stdout) == 0;
}

/* Keys and another size redraw without counting as a frame that was due. */
static bool cmd_top_watch(struct top *top)
{
    int64_t delay_ms = top->args->delay_ms >= 0 ? top->args->delay_ms : DELAY_MS;
    enum top_wish wish;

    if (!cmd_top_show(top, true))
        return false;
    for (uint32_t shown = 1; !top->frames || shown < top->frames; shown += wish == TOP_DUE) {
        wish = top_terminal_wait(delay_ms);
        if (wish == TOP_QUIT)
            break;
        cmd_top_follow(top);
        if (!cmd_top_show(top, false))
            return false;
    }
    return true;
}

static int cmd_top_judge(const struct reader_args *args)
{
    if (args->once && args->count)
        return args_usage("top", "leave out -n with --once: it is one frame");
    if (args->delay_ms >= 0 && args->delay_ms < DELAY_LEAST_MS)
        return args_usage("top", "use a delay of at least %d ms", DELAY_LEAST_MS);
    return EXIT_OK;
}

/* Of a terminal whose reader went away nothing is left to be said. */
static int cmd_top_finish(bool shown)
{
    if (!shown && (errno == EPIPE || errno == EIO)) {
        format_forget();
        return EXIT_OK;
    }
    return shown ? EXIT_OK : EXIT_FAILED;
}

int cmd_top(int argc, char **argv)
{
    struct reader_args args;
    struct reader_name prefix;
    struct top top = {.args = &args, .prefix = &prefix};
    bool shown;
    int code = reader_args_parse(
        argc, argv, "et1d", "top [options] [PREFIX]",
        "Shows the agent, its nodes, the leases of this host with the validity that they have "
        "left,\n"
        "who waits and what was lost, again and again; with PREFIX, leases whose names begin with "
        "it.\n"
        "q ends it. It reads shared memory, so it works while the agent hangs. Where the output "
        "is\n"
        "no terminal it is plain, and a single frame without -n. Colours: unless NO_COLOR is set.",
        &args);

    if (code != READER_ARGS_GO_ON ||
        (code = reader_args_prefix(argc, argv, &args, &prefix)) != EXIT_OK ||
        (code = cmd_top_judge(&args)) != EXIT_OK)
        return code;
    code = reader_open_or_say("top", args.agent, &top.reader);
    if (code != EXIT_OK)
        return code;
    top.frames = args.once ? 1 : args.count;
    if (!top.frames && !top_terminal_is_there())
        top.frames = 1;
    top.live = top.frames != 1 && top_terminal_is_there();
    top.style.colour = top_terminal_has_colours();
    top.style.unicode = top_terminal_has_unicode();
    if (top.live)
        top_terminal_open();
    else
        top_terminal_watch();
    shown = cmd_top_watch(&top);
    if (top.live)
        top_terminal_close();
    code = cmd_top_finish(shown);
    top_model_free(&top.model);
    top_canvas_free(&top.canvas);
    reader_close(&top.reader);
    return code;
}
