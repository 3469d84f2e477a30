/* holdfast drain: has this host's agent grant nothing new, and waits until nothing is held. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "libclient/holdfast_admin.h"
#include "shm/status.h"
#include "shm/table_notes.h"
#include "tools/common/args.h"
#include "tools/common/since.h"
#include "tools/common/text.h"
#include "tools/commands.h"
#include "tools/control/control_internal.h"
#include "tools/output/words.h"
#include "tools/reader/reader.h"
#include "tools/reader/reader_args.h"

/* --- what is still held ----------------------------------------------------------------------- */

/* Adds one. */
static void drain_held_add(struct drain_held *held, const struct hf_slot_view *view)
{
    if (held->kept < DRAIN_KEPT)
        held->view[held->kept++] = *view;
    held->count++;
}

static const char *drain_count(char *out, size_t size, uint32_t count)
{
    if (count == 0)
        snprintf(out, size, "no lock is held");
    else
        snprintf(out, size, "%" PRIu32 " %s still held", count,
                 count == 1 ? "lock is" : "locks are");
    return out;
}

static const char *drain_names(char *out, size_t size, const struct drain_held *held)
{
    char name[TEXT_NAME_SIZE];
    size_t used = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < held->kept && used < size; i++)
        used += (size_t)snprintf(
            out + used, size - used, "%s%s", i ? ", " : "",
            text_escape(name, sizeof(name), held->view[i].name, held->view[i].name_len));
    if (held->count > held->kept && used < size)
        snprintf(out + used, size - used, " and %" PRIu32 " more", held->count - held->kept);
    return out;
}

static const char *drain_by(char *out, size_t size, int64_t since_wall_ms, uint32_t uid,
                            uint32_t pid, int64_t now_wall_ms)
{
    char user[FORMAT_USER_SIZE], wall[TEXT_SPAN_SIZE], span[TEXT_SPAN_SIZE];

    out[0] = '\0';
    if (since_wall_ms)
        snprintf(out, size, " since %s (%s) by user %s (pid %" PRIu32 ")",
                 text_wall(wall, sizeof(wall), since_wall_ms),
                 text_span(span, sizeof(span), now_wall_ms - since_wall_ms),
                 format_user(user, sizeof(user), uid), pid);
    return out;
}

/* --- draining --------------------------------------------------------------------------------- */

#define LOOK_EVERY hf_ms(200)
/* A starting agent may replace its table. */
#define AWAY_MOST hf_ms(2000)

struct draining {
    const struct reader_args *args;
    hf_client *client;
    hf_time until; /* --timeout; HF_TIME_NEVER */
    uint32_t asked;
    bool complains; /* the first look: of holders that cannot be asked */
};

/* What one look at the table finds. */
struct look {
    struct draining *draining;
    struct drain_held held;
    bool undrained; /* by somebody else */
};

/* --- what is held ----------------------------------------------------------------------------- */

static void cmd_drain_ask_holder(struct draining *d, const struct hf_slot_view *view)
{
    char shown[TEXT_NAME_SIZE];
    int status;

    if (view->state == HF_SLOT_LOSING)
        return;
    status = hf_ask(d->client, view->name, view->name_len);
    if (status == HF_OK)
        d->asked++;
    else if (status != HF_ENOTHELD && d->complains)
        fprintf(stderr, "holdfast drain: %s: %s\n",
                text_escape(shown, sizeof(shown), view->name, view->name_len), hf_last_message());
}

static void cmd_drain_on_lease(const struct hf_slot_view *view, bool in_force, void *arg)
{
    struct look *look = arg;

    (void)in_force;
    drain_held_add(&look->held, view);
    if (look->draining->args->stop_jobs)
        cmd_drain_ask_holder(look->draining, view);
}

static int cmd_drain_take_look(struct draining *d, struct look *ret_look, char why[READER_WHY_SIZE])
{
    const struct reader_filter filter = {.all = false};
    struct hf_drained drained;
    struct reader reader;
    int status = reader_open(d->args->agent, &reader, why, READER_WHY_SIZE);

    if (status < 0)
        return status;
    *ret_look = (struct look){.draining = d};
    (void)reader_walk(&reader.table, &filter, cmd_drain_on_lease, ret_look);
    hf_drained_read(&reader.table, &drained);
    ret_look->undrained = !drained.stands;
    reader_close(&reader);
    return HF_OK;
}

/* "3 locks are still held:", and a line for each. */
static void cmd_drain_print_held(FILE *file, const struct drain_held *held)
{
    char line[CONFLICT_SIZE], name[TEXT_NAME_SIZE], count[DRAIN_COUNT_SIZE];

    fprintf(file, "%s%s\n", drain_count(count, sizeof(count), held->count), held->count ? ":" : "");
    for (uint32_t i = 0; i < held->kept; i++) {
        const struct hf_slot_view *v = &held->view[i];
        struct hf_holder holder = {.fence = v->fence,
                                   .since_wall_ms = reader_wall_of(v->since),
                                   .pttl_ms = -2,
                                   .pid = v->pid,
                                   .uid = v->uid};

        (void)gethostname(holder.host, sizeof(holder.host) - 1);
        snprintf(holder.command, sizeof(holder.command), "%s", v->comm);
        snprintf(holder.note, sizeof(holder.note), "%s", v->note);
        text_escape(name, sizeof(name), v->name, v->name_len);
        fprintf(file, "  %s\n", conflict_line(line, sizeof(line), name, &holder, wall_now_ms()));
    }
    if (held->count > held->kept)
        fprintf(file, "  ... and %" PRIu32 " more: holdfast list\n", held->count - held->kept);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static int cmd_drain_time_is_over(const struct draining *d, const struct look *look)
{
    char span[TEXT_SPAN_SIZE];

    fflush(stdout);
    fprintf(stderr, "holdfast drain: the time (%s) is over, and this host stays drained; ",
            text_span(span, sizeof(span), d->args->timeout_ms));
    cmd_drain_print_held(stderr, &look->held);
    return EXIT_BUSY;
}

/* Until nothing is held; `look`: what was told last. */
static int cmd_drain_wait_for_none(struct draining *d, struct look *look)
{
    const struct timespec pause = {.tv_nsec = LOOK_EVERY.ns};
    char why[READER_WHY_SIZE], count[DRAIN_COUNT_SIZE], names[DRAIN_NAMES_SIZE];
    hf_time seen = reader_now();

    while (look->held.count > 0) {
        uint32_t told = look->held.count;
        int status;

        if (hf_time_reached(reader_now(), d->until))
            return cmd_drain_time_is_over(d, look);
        (void)nanosleep(&pause, NULL);
        status = cmd_drain_take_look(d, look, why);
        if (status < 0 && hf_time_before(reader_now(), hf_time_add(seen, AWAY_MOST)))
            continue;
        if (status < 0) {
            fprintf(stderr, "holdfast drain: %s; this host stays drained\n", why);
            return exit_code_of(status);
        }
        seen = reader_now();
        if (look->undrained) {
            fprintf(stderr, "holdfast drain: somebody has undrained this host meanwhile "
                            "(holdfast history); drain it again\n");
            return EXIT_ATTENTION;
        }
        if (look->held.count == told)
            continue;
        printf("%s%s%s\n", drain_count(count, sizeof(count), look->held.count),
               look->held.count ? ": " : "", drain_names(names, sizeof(names), &look->held));
    }
    return EXIT_OK;
}

/* --- the command ------------------------------------------------------------------------------ */

static void cmd_drain_print_drained(const struct hf_drain_info *info)
{
    char by[DRAIN_BY_SIZE];

    if (info->was_drained)
        printf("this host is drained already%s; holdfast undrain ends that\n",
               drain_by(by, sizeof(by), info->since_wall_ms, info->uid, info->pid, wall_now_ms()));
    else
        printf("this host is drained: it grants no lock until holdfast undrain\n");
}

static int cmd_drain_follow(struct draining *d)
{
    char why[READER_WHY_SIZE], span[TEXT_SPAN_SIZE];
    struct look look;
    int status;

    d->complains = true;
    status = cmd_drain_take_look(d, &look, why);
    d->complains = false;
    if (status < 0) {
        fprintf(stderr, "holdfast drain: %s\n", why);
        return exit_code_of(status);
    }
    cmd_drain_print_held(stdout, &look.held);
    if (d->asked)
        printf("asked %" PRIu32 " %s to stop\n", d->asked, d->asked == 1 ? "holder" : "holders");
    if (!d->args->until_none || look.held.count == 0)
        return EXIT_OK;
    printf("waiting until nothing is held%s%s; ending this command leaves the host drained\n",
           d->args->timeout_ms >= 0 ? ", at most " : "",
           d->args->timeout_ms >= 0 ? text_span(span, sizeof(span), d->args->timeout_ms) : "");
    return cmd_drain_wait_for_none(d, &look);
}

static int cmd_drain_drain(const struct reader_args *args)
{
    struct draining d = {.args = args, .until = HF_TIME_NEVER};
    struct hf_drain_info info = HF_DRAIN_INFO_INIT;
    int code, status;

    if (args->timeout_ms >= 0)
        d.until = hf_time_add(reader_now(), hf_ms(args->timeout_ms));
    status = hf_connect(args->agent, &d.client);
    if (status < 0) {
        fprintf(stderr, "holdfast drain: %s\n", hf_last_message());
        return exit_code_of(status);
    }
    status = hf_drain(d.client, &info);
    if (status == HF_OK) {
        cmd_drain_print_drained(&info);
        code = cmd_drain_follow(&d);
    } else {
        fprintf(stderr, "holdfast drain: %s\n", hf_last_message());
        code = exit_code_of(status);
    }
    hf_disconnect(d.client);
    return code;
}

int cmd_drain(int argc, char **argv)
{
    struct reader_args args;
    int code = reader_args_parse(
        argc, argv, "WTS", "drain [options]",
        "Has this host's agent grant no new lock until holdfast undrain, also after its restart, "
        "until the\nhost is booted, and shows what is still held. Locks that are held stay. For "
        "root and the agent's user.\n"
        "Exit code: 0 drained (--wait: and nothing is held), 75 the time is over, 3 undrained "
        "meanwhile,\n69 no agent, 77 not allowed.",
        &args);

    if (code != READER_ARGS_GO_ON || (code = args_none(argc, argv)) != EXIT_OK)
        return code;
    if (args.timeout_ms >= 0 && !args.until_none)
        return args_usage("drain", "give --wait, too: --timeout says how long it waits");
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    return cmd_drain_drain(&args);
}

/* --- undrain ---------------------------------------------------------------------------------- */

/* holdfast undrain: has this host's agent grant locks again. */

static void cmd_undrain_print_undrained(const struct hf_drain_info *info)
{
    char by[DRAIN_BY_SIZE];

    if (info->was_drained)
        printf("this host grants locks again; it was drained%s\n",
               drain_by(by, sizeof(by), info->since_wall_ms, info->uid, info->pid, wall_now_ms()));
    else
        printf("this host was not drained\n");
}

int cmd_undrain(int argc, char **argv)
{
    struct hf_drain_info info = HF_DRAIN_INFO_INIT;
    struct reader_args args;
    hf_client *client;
    int status,
        code = reader_args_parse(argc, argv, "", "undrain [options]",
                                 "Ends holdfast drain: this host's agent grants locks again, first "
                                 "to who waits.\n"
                                 "Exit code: 0 it does (also if it was not drained), 69 no agent, "
                                 "77 not allowed.",
                                 &args);

    if (code != READER_ARGS_GO_ON || (code = args_none(argc, argv)) != EXIT_OK)
        return code;
    status = hf_connect(args.agent, &client);
    if (status < 0) {
        fprintf(stderr, "holdfast undrain: %s\n", hf_last_message());
        return exit_code_of(status);
    }
    status = hf_undrain(client, &info);
    if (status == HF_OK)
        cmd_undrain_print_undrained(&info);
    else
        fprintf(stderr, "holdfast undrain: %s\n", hf_last_message());
    hf_disconnect(client);
    return exit_code_of(status);
}
