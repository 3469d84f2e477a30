#include "tools/show/list_all.h"

#include <inttypes.h>
#include <stdio.h>

#include "shm/status.h"
#include "libclient/holdfast_admin.h"
#include "tools/common/conflict.h"
#include "tools/common/exit_code.h"
#include "tools/common/text.h"
#include "tools/common/wall.h"
#include "tools/output/format.h"
#include "tools/output/json.h"
#include "tools/reader/reader.h"
#include "tools/show/who.h"

#define NAME_WIDTH 24

struct list {
    struct json_out *out; /* NULL: for people */
    uint32_t nodes, quorum;
    int64_t now_ms;
};

/* A name held on fewer nodes than a quorum is being acquired or released, or is left over: people
 * do not see it. */
static int list_all_print_line(const struct hf_listed *listed, void *arg)
{
    const struct list *list = arg;
    const struct hf_holder *holder = &listed->holder;
    char name[TEXT_NAME_SIZE], host[4 * sizeof(holder->host) + 1], span[TEXT_SPAN_SIZE] = "-";
    char user[FORMAT_USER_SIZE], command[4 * sizeof(holder->command) + 1], votes[32];

    if (listed->holding < list->quorum)
        return 0;
    if (conflict_is_here(holder))
        format_user(user, sizeof(user), holder->uid);
    else
        snprintf(user, sizeof(user), "%" PRIu32, holder->uid);
    if (holder->since_wall_ms > 0 && holder->since_wall_ms <= list->now_ms)
        text_span(span, sizeof(span), list->now_ms - holder->since_wall_ms);
    text_escape(name, sizeof(name), listed->name, listed->name_len);
    snprintf(votes, sizeof(votes), "%" PRIu32 "/%" PRIu32, listed->holding, list->nodes);
    printf("%-*s  %-16s  %-7" PRIu32 "  %-8s  %-6s  %-5s  %-19" PRIu64 "  %s\n",
           text_width(name, NAME_WIDTH), name,
           *holder->host ? text_escape_str(host, sizeof(host), holder->host) : "-", holder->pid,
           user, span, votes, holder->fence,
           *holder->command ? text_escape_str(command, sizeof(command), holder->command) : "-");
    return 0;
}

static int list_all_print_json(const struct hf_listed *listed, void *arg)
{
    const struct list *list = arg;
    json_t *lease = json_object();

    json_put_name(lease, listed->name, listed->name_len);
    json_put(lease, "held", json_boolean(listed->holding >= list->quorum));
    who_put_holder(lease, &listed->holder);
    json_put(lease, "id", json_word(listed->id));
    json_put(lease, "holding", json_integer(listed->holding));
    json_element(list->out, lease);
    return 0;
}

static int list_all_print_all(hf_client *client, const struct reader_args *args,
                              const struct reader_name *prefix)
{
    struct hf_agent_info info = {.size = sizeof(info)};
    struct json_out out;
    struct list list = {.now_ms = wall_now_ms()};
    uint32_t listed = 0;
    int status = hf_agent_info(client, &info);

    if (status < 0)
        return status;
    list.nodes = info.nodes;
    list.quorum = info.quorum;
    if (args->json) {
        list.out = &out;
        json_begin(&out, stdout);
        json_array_begin(&out, "leases");
    } else {
        printf("%-*s  %-16s  %-7s  %-8s  %-6s  %-5s  %-19s  %s\n", NAME_WIDTH, "NAME", "HOST",
               "PID", "USER", "HELD", "NODES", "FENCE", "COMMAND");
    }
    status = hf_list(client, prefix->bytes, prefix->len,
                     args->json ? list_all_print_json : list_all_print_line, &list, &listed);
    if (args->json) {
        json_array_end(&out);
        json_member(&out, "nodes", json_integer(info.nodes));
        json_member(&out, "quorum", json_integer(info.quorum));
        json_member(&out, "listed", json_integer(listed));
        json_end(&out);
    } else if (status == HF_OK && listed < info.nodes) {
        fflush(stdout);
        fprintf(stderr,
                "holdfast list: only %" PRIu32 " of %" PRIu32 " nodes could be listed: %s\n",
                listed, info.nodes, hf_last_message());
    }
    return status;
}

int list_all(const struct reader_args *args, const struct reader_name *prefix)
{
    hf_client *client;
    int status = hf_connect(args->agent, &client);

    if (status == HF_OK) {
        status = list_all_print_all(client, args, prefix);
        hf_disconnect(client);
    }
    if (status < 0) {
        fflush(stdout);
        fprintf(stderr, "holdfast list: %s\n", hf_last_message());
    }
    return exit_code_of(status);
}
