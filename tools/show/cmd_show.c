/* holdfast show: all details of one lease, or the holder on another host if nobody here has the lock. */
#include <stdio.h>

#include "shm/status.h"
#include "libclient/holdfast_admin.h"
#include "tools/common/exit_code.h"
#include "tools/common/once_run.h"
#include "tools/common/text.h"
#include "tools/output/format.h"
#include "tools/reader/life.h"
#include "tools/reader/reader.h"
#include "tools/reader/reader_args.h"
#include "tools/show/last_run.h"
#include "tools/show/show.h"
#include "tools/show/show_agent.h"
#include "tools/show/show_lease.h"
#include "tools/show/show_waiter.h"
#include "tools/show/who.h"

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
