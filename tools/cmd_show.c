/* holdfast show: everything on one lease. */
#include <stdio.h>

#include "shm/status.h"
#include "tools/cmd.h"
#include "tools/exitcodes.h"
#include "tools/format.h"
#include "tools/life.h"
#include "tools/reader.h"
#include "tools/reader_args.h"
#include "tools/show_agent.h"
#include "tools/show_lease.h"
#include "tools/text.h"

static void print(const struct reader *reader, const struct life *life,
                  const struct hf_slot_view *view, bool in_force)
{
    char sentence[256];

    show_lease(reader, view, in_force);
    if (life->verdict != LIFE_ALIVE)
        printf("agent     %s\n",
               life_sentence(sentence, sizeof(sentence), reader->place.agent, life));
}

/* The lease itself is the document, and its agent a member of it. */
static void print_json(const struct reader *reader, const struct life *life,
                       const struct hf_slot_view *view, bool in_force)
{
    json_t *lease = show_lease_json(reader, view, in_force), *value;
    struct json_out out;
    const char *key;

    json_begin(&out, stdout);
    json_object_foreach(lease, key, value) json_member(&out, key, json_incref(value));
    show_agent_json(&out, reader, life);
    json_end(&out);
    json_decref(lease);
}

int cmd_show(int argc, char **argv)
{
    struct reader_args args;
    struct reader_name name;
    struct reader reader;
    struct hf_slot_view view;
    struct life life;
    char shown[TEXT_NAME_SIZE];
    bool in_force = false;
    int status, code = reader_args_parse(
                    argc, argv, "je", "show [options] NAME",
                    "Shows everything known here about the lease NAME; one that was lost, too.\n"
                    "Exit code: 0 it is held on this host, 3 it is not, 69 no agent.",
                    &args);

    if (code != READER_ARGS_GO_ON || (code = reader_args_name(argc, argv, &args, &name)) != EXIT_OK)
        return code;
    code = reader_open_or_say("show", args.agent, &reader);
    if (code != EXIT_OK)
        return code;
    text_escape(shown, sizeof(shown), name.bytes, name.len);
    status = reader_find(&reader.table, name.bytes, name.len, &view);
    if (status == HF_OK) {
        life_judge(&reader.table, &life);
        in_force = reader_in_force(&reader.table, &view);
        (args.json ? print_json : print)(&reader, &life, &view, in_force);
    } else if (status == HF_ENOTHELD) {
        fprintf(stderr, "holdfast show: %s is not held on this host\n", shown);
    } else {
        fprintf(stderr, "holdfast show: %s cannot be read: %s\n", shown, hf_status_text(status));
    }
    reader_close(&reader);
    if (status == HF_OK)
        return format_finish("show", in_force ? EXIT_OK : EXIT_NOT_HELD);
    return exit_code_of(status);
}
