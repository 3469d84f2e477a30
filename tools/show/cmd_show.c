/* holdfast show: all details of one lease, or the holder on another host if nobody here has the lock. */
#include <inttypes.h>
#include <stdio.h>

#include "tools/show/show_internal.h"
#include "tools/common/text.h"
#include "tools/common/since.h"
#include "tools/output/words.h"
#include "shm/status.h"
#include "libclient/holdfast_admin.h"
#include "tools/common/args.h"
#include "tools/reader/life.h"
#include "tools/reader/reader.h"
#include "tools/reader/reader_args.h"
#include "tools/commands.h"

/* --- who holds a name ------------------------------------------------------------------------- */

#define AHEAD_MS 60000 /* of hosts whose clocks are about right */

/* A stable word for enum hf_who_state. */
static const char *who_word_of(int state)
{
    switch (state) {
    case HF_WHO_HELD:
        return "held";
    case HF_WHO_FREE:
        return "free";
    case HF_WHO_SPLIT:
        return "split";
    default:
        return "unknown";
    }
}

static const char *who_sentence(int state)
{
    switch (state) {
    case HF_WHO_HELD:
        return "held";
    case HF_WHO_FREE:
        return "free: nobody holds it";
    case HF_WHO_SPLIT:
        return "split: nobody holds it, but several contend for it, or have left keys behind";
    default:
        return "unknown: too few nodes answered";
    }
}

static void who_print_holder(const struct hf_who_info *who)
{
    const struct hf_holder *holder = &who->holder;
    char text[4 * sizeof(holder->note) + 1], span[TEXT_SPAN_SIZE];
    int64_t now_ms = wall_now_ms();

    if (!holder->fence) {
        puts("holder    another program than a Holdfast agent, or one whose record is gone");
        return;
    }
    printf("fence     %" PRIu64 "\n", holder->fence);
    printf("host      %s%s\n",
           *holder->host ? text_escape_str(text, sizeof(text), holder->host) : "unknown",
           conflict_is_here(holder) ? " (this host)" : "");
    printf("holder    pid %" PRIu32, holder->pid);
    if (conflict_is_here(holder))
        printf(" (user %s)", format_user(text, sizeof(text), holder->uid));
    else
        printf(" (uid %" PRIu32 ")", holder->uid);
    if (*holder->command)
        printf(" command %s", text_escape_str(text, sizeof(text), holder->command));
    if (holder->since_wall_ms > 0)
        printf("\nsince     %s (%s)", text_wall(text, sizeof(text), holder->since_wall_ms),
               holder->since_wall_ms > now_ms + AHEAD_MS
                   ? "by a clock that is ahead of this host's"
                   : text_span(span, sizeof(span), now_ms - holder->since_wall_ms));
    printf("\nnote      %s\n",
           *holder->note ? text_escape_str(text, sizeof(text), holder->note) : "-");
}

static void who_print_left(const struct hf_who_info *who)
{
    char span[TEXT_SPAN_SIZE];

    if (who->holder.pttl_ms >= 0)
        printf("left      %s, unless it is renewed\n",
               text_span(span, sizeof(span), who->holder.pttl_ms));
    else if (who->holder.pttl_ms == -1)
        puts("left      its key never expires");
}

/* One line per known fact. */
static void who_print(const void *name, size_t name_len, const struct hf_who_info *who)
{
    char shown[TEXT_NAME_SIZE];

    printf("name      %s\n", text_escape(shown, sizeof(shown), name, name_len));
    printf("state     %s\n", who_sentence(who->state));
    if (who->holding) {
        who_print_holder(who);
        who_print_left(who);
        printf("id        %s\n", *who->id ? who->id : "none: its key is of another type");
    }
    if (who->forced)
        printf("forced    on %" PRIu32 " of %" PRIu32
               " nodes: it ends when its agent notices, or with the time that is left\n",
               who->forced, who->nodes);
    printf("nodes     %" PRIu32 " of %" PRIu32 " keep it for that holder, %" PRIu32
           " for nobody, %" PRIu32 " answered, quorum %" PRIu32 "\n",
           who->holding, who->nodes, who->free, who->answered, who->quorum);
}

/* --- JSON ------------------------------------------------------------------------------------- */

void who_put_holder(json_t *object, const struct hf_holder *holder)
{
    char user[FORMAT_USER_SIZE];
    bool known = holder->fence != 0, here = known && conflict_is_here(holder);

    json_put(object, "fence", known ? json_u64_text(holder->fence) : json_null());
    json_put(object, "host", json_word(holder->host));
    json_put(object, "pid", known ? json_integer(holder->pid) : json_null());
    json_put(object, "uid", known ? json_integer(holder->uid) : json_null());
    json_put(object, "user",
             here ? json_text_str(format_user(user, sizeof(user), holder->uid)) : json_null());
    json_put(object, "command", json_word(holder->command));
    json_put(object, "note", json_word(holder->note));
    json_put(object, "since", json_wall(holder->since_wall_ms));
    json_put(object, "left_ms", holder->pttl_ms >= 0 ? json_integer(holder->pttl_ms) : json_null());
    json_put(object, "expires",
             holder->pttl_ms == -2 ? json_null() : json_boolean(holder->pttl_ms != -1));
}

/* The same as members of `object`, without the name. */
static void who_put(json_t *object, const struct hf_who_info *who)
{
    json_put(object, "state", json_string(who_word_of(who->state)));
    json_put(object, "held", json_boolean(who->state == HF_WHO_HELD));
    who_put_holder(object, &who->holder);
    json_put(object, "id", json_word(who->id));
    json_put(object, "last_fence", who->last_fence ? json_u64_text(who->last_fence) : json_null());
    json_put(object, "nodes", json_integer(who->nodes));
    json_put(object, "quorum", json_integer(who->quorum));
    json_put(object, "answered", json_integer(who->answered));
    json_put(object, "holding", json_integer(who->holding));
    json_put(object, "free", json_integer(who->free));
    json_put(object, "forced", json_integer(who->forced));
}

/* --- the last run ----------------------------------------------------------------------------- */

bool last_run_ask(const char *agent, const void *name, size_t name_len,
                  struct hf_once_info *ret_info)
{
    hf_client *client;
    int status = hf_connect(agent, &client);

    if (status < 0)
        return false;
    *ret_info = (struct hf_once_info)HF_ONCE_INFO_INIT;
    status = hf_once_last(client, name, name_len, ret_info);
    hf_disconnect(client);
    return status == HF_OK;
}

void last_run_put(json_t *object, const struct hf_once_info *info)
{
    bool known = *info->by.host;

    json_put(object, "started", json_instant(info->started_wall_ms));
    json_put(object, "host", known ? json_text_str(info->by.host) : json_null());
    json_put(object, "pid", known ? json_integer(info->by.pid) : json_null());
    json_put(object, "uid", known ? json_integer(info->by.uid) : json_null());
    json_put(object, "end", json_string(once_run_end(info->end)));
    json_put(object, "code",
             info->end == HF_ONCE_EXITED || info->end == HF_ONCE_KILLED ? json_integer(info->code)
                                                                        : json_null());
}

/* --- holdfast show ---------------------------------------------------------------------------- */

struct show {
    const struct reader_args *args;
    const struct reader_name *name;
    struct reader reader;
    struct life life;
    struct hf_slot_view view;
    bool found, in_force;   /* here */
    struct waiting waiting; /* here */
    struct hf_who_info who; /* anywhere; its state is 0 when the nodes were not asked */
    bool ran;               /* by run --once-per */
    struct hf_once_info run;
};

static void cmd_show_print(const struct show *show)
{
    char text[ONCE_RUN_SIZE];

    if (show->found)
        show_lease(&show->reader, &show->view, show->in_force);
    if (show->found && show->life.verdict != LIFE_ALIVE)
        printf("agent     %s\n",
               life_sentence(text, sizeof(text), show->reader.place.agent, &show->life));
    if (show->who.state && show->who.state != HF_WHO_FREE) {
        if (show->found)
            puts("\nby the nodes:");
        who_print(show->name->bytes, show->name->len, &show->who);
    }
    show_waiter_of_lease(&show->waiting);
    if (show->ran)
        printf("last run  %s\n", once_run(text, sizeof(text), &show->run));
}

/* The document is the lease, with its agent as a member. */
static void cmd_show_print_json(const struct show *show)
{
    json_t *lease, *value, *anywhere = NULL, *run = NULL;
    struct json_out out;
    const char *key;

    if (show->found) {
        lease = show_lease_json(&show->reader, &show->view, show->in_force);
    } else {
        lease = json_object();
        json_put_name(lease, show->name->bytes, show->name->len);
        json_put(lease, "held", json_false());
    }
    if (show->who.state) {
        anywhere = json_object();
        who_put(anywhere, &show->who);
    }
    json_put(lease, "anywhere", anywhere ? anywhere : json_null());
    if (show->ran) {
        run = json_object();
        last_run_put(run, &show->run);
    }
    json_put(lease, "last_run", run ? run : json_null());
    json_begin(&out, stdout);
    json_object_foreach(lease, key, value) json_member(&out, key, json_incref(value));
    show_waiter_json(&out, &show->waiting);
    show_agent_json(&out, &show->reader, &show->life);
    json_end(&out);
    json_decref(lease);
}

/* Unknown facts are reported on stderr, unless an earlier lease is shown. */
static void cmd_show_ask_nodes(struct show *show, const char *shown)
{
    hf_client *client;
    int status = HF_ENOAGENT;
    char why[READER_WHY_SIZE], slots[96] = "";
    unsigned first,
        held = reader_slots_held(&show->reader.table, show->name->bytes, show->name->len, &first);

    if (held)
        snprintf(slots, sizeof(slots), "; %u of its slots, #%u first, are held on this one", held,
                 first);
    if (show->life.verdict == LIFE_ALIVE) {
        status = hf_connect(show->args->agent, &client);
        if (status == HF_OK) {
            status = hf_who(client, show->name->bytes, show->name->len, &show->who);
            hf_disconnect(client);
        }
        snprintf(why, sizeof(why), "%s", hf_last_message());
    } else {
        life_sentence(why, sizeof(why), show->reader.place.agent, &show->life);
    }
    if (show->found)
        return;
    if (status < 0)
        fprintf(stderr, "holdfast show: %s is not held on this host; elsewhere: %s\n", shown, why);
    else if (show->who.state == HF_WHO_FREE && !show->args->json)
        fprintf(stderr, "holdfast show: %s is not held on any host%s\n", shown, slots);
}

int cmd_show(int argc, char **argv)
{
    struct reader_args args;
    struct reader_name name;
    struct show show = {.args = &args, .name = &name, .who = {.size = sizeof(show.who)}};
    char shown[TEXT_NAME_SIZE];
    int status,
        code = reader_args_parse(
            argc, argv, "je", "show [options] NAME",
            "Shows everything known here about the lease NAME, also if it was lost, and who waits\n"
            "for it. If nobody on this host holds it, the nodes are asked who does.\n"
            "Exit code: 0 it is held on this host, 3 it is not, 69 no agent.",
            &args);

    if (code != READER_ARGS_GO_ON || (code = reader_args_name(argc, argv, &args, &name)) != EXIT_OK)
        return code;
    code = reader_open_or_say("show", args.agent, &show.reader);
    if (code != EXIT_OK)
        return code;
    text_escape(shown, sizeof(shown), name.bytes, name.len);
    status = reader_find(&show.reader.table, name.bytes, name.len, &show.view);
    if (status == HF_OK || status == HF_ENOTHELD) {
        life_judge(&show.reader.table, &show.life);
        show.found = status == HF_OK;
        show.in_force = show.found && reader_in_force(&show.reader.table, &show.view);
        waiting_read(&show.reader.table, &show.life, name.bytes, name.len, true, &show.waiting);
        if (!show.in_force)
            cmd_show_ask_nodes(&show, shown);
        show.ran = show.life.verdict == LIFE_ALIVE &&
                   last_run_ask(args.agent, name.bytes, name.len, &show.run);
        (args.json ? cmd_show_print_json : cmd_show_print)(&show);
        waiting_free(&show.waiting);
        code = show.in_force ? EXIT_OK : EXIT_NOT_HELD;
    } else {
        fprintf(stderr, "holdfast show: %s cannot be read: %s\n", shown, hf_status_text(status));
        code = exit_code_of(status);
    }
    reader_close(&show.reader);
    return code;
}
