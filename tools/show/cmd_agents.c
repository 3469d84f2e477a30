/* holdfast agents: which agents are on this host. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/common/args.h"
#include "tools/common/text.h"
#include "tools/common/since.h"
#include "tools/output/words.h"
#include "tools/output/json.h"
#include "tools/reader/agents.h"
#include "tools/reader/life.h"
#include "tools/reader/reader_args.h"
#include "tools/commands.h"
#include "tools/show/show_internal.h"

#define WIDTH_MAX 48 /* of a column of any width */
#define NOTE_SIZE (READER_WHY_SIZE + 128 + LAST_WORDS_SIZE)

static bool cmd_agents_is_read(const struct agents_one *agent)
{
    return agent->state == AGENTS_READ;
}

static bool cmd_agents_is_up(const struct agents_one *agent)
{
    return cmd_agents_is_read(agent) && agent->life.verdict == LIFE_ALIVE;
}

/* Whose it is: the system's, a user's; with private nodes. */
static const char *cmd_agents_kind_of(const struct agents_one *agent)
{
    bool dev = cmd_agents_is_read(agent) && agent->flags & HF_TABLE_F_DEV;

    if (agent->system)
        return dev ? "system, --dev" : "system";
    return dev ? "user, --dev" : "user";
}

static const char *cmd_agents_note_of(char *out, size_t size, const struct agents_one *agent)
{
    char span[TEXT_SPAN_SIZE] = "", words[LAST_WORDS_SIZE];
    size_t length;

    out[0] = '\0';
    if (!cmd_agents_is_read(agent))
        text_escape_str(out, size, agent->why);
    else if (!cmd_agents_is_up(agent) && agent->life.last_ms >= 0)
        snprintf(out, size, "last sign of life %s ago%s",
                 text_span(span, sizeof(span), agent->life.last_ms),
                 agent->life.process == LIFE_PROCESS_STOPPED ? ", its process is stopped" : "");
    else if (agent->drained.stands)
        snprintf(out, size, "drained");
    length = strlen(out);
    if (agent->words.wall_ms)
        snprintf(out + length, size - length, "%s%s", length ? "; " : "",
                 last_words_sentence(words, sizeof(words), &agent->words, wall_now_ms()));
    return *out ? out : "-";
}

/* --- for people ---------------------------------------------------------------------------------- */

struct widths {
    int agent, user, kind, dir;
};

static void cmd_agents_widen(int *width, const char *text)
{
    int len = (int)strlen(text);

    if (len > *width)
        *width = len < WIDTH_MAX ? len : WIDTH_MAX;
}

static const char *cmd_agents_dir_of(char *out, size_t size, const struct agents_one *agent)
{
    return *agent->place.dir ? text_escape_str(out, size, agent->place.dir) : "-";
}

static void cmd_agents_measure(const struct agents_one *agent, struct widths *widths)
{
    char text[TEXT_NAME_SIZE], user[FORMAT_USER_SIZE];

    cmd_agents_widen(&widths->agent, agent->place.agent);
    cmd_agents_widen(&widths->user, format_user(user, sizeof(user), agent->place.owner));
    cmd_agents_widen(&widths->kind, cmd_agents_kind_of(agent));
    cmd_agents_widen(&widths->dir, cmd_agents_dir_of(text, sizeof(text), agent));
}

static void cmd_agents_print_line(const struct agents_one *agent, const struct widths *widths)
{
    char dir[TEXT_NAME_SIZE], user[FORMAT_USER_SIZE], note[NOTE_SIZE], up[TEXT_SPAN_SIZE] = "-";
    char pid[16] = "-", leases[16] = "-", waiters[24] = "-", nodes[32] = "-";

    if (agent->pid > 0)
        snprintf(pid, sizeof(pid), "%d", (int)agent->pid);
    if (cmd_agents_is_read(agent)) {
        snprintf(leases, sizeof(leases), "%" PRIu32, agent->counts.leases);
        snprintf(nodes, sizeof(nodes), "-/%" PRIu32, agent->terms.nodes);
    }
    if (cmd_agents_is_up(agent)) {
        snprintf(nodes, sizeof(nodes), "%" PRIu32 "/%" PRIu32, agent->voting, agent->terms.nodes);
        snprintf(waiters, sizeof(waiters), "%" PRIu64, agent->waiters);
        text_span(up, sizeof(up), agent->life.up_ms);
    }
    printf("%-*s  %-10s  %-7s  %-*s  %-*s  %-6s  %-6s  %-7s  %-5s  %-*s  %s\n", widths->agent,
           agent->place.agent, agents_state_name(agent), pid, widths->user,
           format_user(user, sizeof(user), agent->place.owner), widths->kind,
           cmd_agents_kind_of(agent), up, leases, waiters, nodes, widths->dir,
           cmd_agents_dir_of(dir, sizeof(dir), agent),
           cmd_agents_note_of(note, sizeof(note), agent));
}

static void cmd_agents_print_left(const struct agents_share *share)
{
    char name[FORMAT_USER_SIZE];

    for (const struct agents_user *user = share->first; user; user = user->next)
        if (user->left)
            printf("and %zu more of user %s\n", user->left,
                   format_user(name, sizeof(name), user->uid));
    if (share->left)
        printf("and %zu more of other users\n", share->left);
}

static void cmd_agents_print(const struct agents *agents)
{
    struct widths widths = {(int)strlen("AGENT"), (int)strlen("USER"), (int)strlen("KIND"),
                            (int)strlen("DIRECTORY")};

    for (size_t i = 0; i < agents->count; i++)
        cmd_agents_measure(&agents->items[i], &widths);
    printf("%-*s  %-10s  %-7s  %-*s  %-*s  %-6s  %-6s  %-7s  %-5s  %-*s  %s\n", widths.agent,
           "AGENT", "STATE", "PID", widths.user, "USER", widths.kind, "KIND", "UP", "LEASES",
           "WAITERS", "NODES", widths.dir, "DIRECTORY", "NOTE");
    for (size_t i = 0; i < agents->count; i++)
        cmd_agents_print_line(&agents->items[i], &widths);
    cmd_agents_print_left(&agents->share);
}

/* --- JSON ---------------------------------------------------------------------------------------- */

static json_t *cmd_agents_number_if(bool known, json_int_t number)
{
    return known ? json_integer(number) : json_null();
}

static json_t *agent_json(const struct agents_one *agent)
{
    char user[FORMAT_USER_SIZE];
    json_t *json = json_object();
    bool known = cmd_agents_is_read(agent);
    int64_t last_ms = agent->life.last_ms;

    json_put(json, "name", json_string(agent->place.agent));
    json_put(json, "state", json_string(agents_state_name(agent)));
    json_put(json, "pid", cmd_agents_number_if(agent->pid > 0, agent->pid));
    json_put(json, "uid", json_integer(agent->place.owner));
    json_put(json, "user", json_text_str(format_user(user, sizeof(user), agent->place.owner)));
    json_put(json, "system", json_boolean(agent->system));
    json_put(json, "dev", known ? json_boolean(agent->flags & HF_TABLE_F_DEV) : json_null());
    json_put(json, "host", known ? json_word(agent->host) : json_null());
    json_put(json, "version", known ? json_word(agent->version) : json_null());
    json_put(json, "process",
             known ? json_string(life_process_name(agent->life.process)) : json_null());
    json_put(json, "up_ms", cmd_agents_number_if(cmd_agents_is_up(agent), agent->life.up_ms));
    json_put(json, "last_sign_age_ms", cmd_agents_number_if(known && last_ms >= 0, last_ms));
    json_put(json, "leases", cmd_agents_number_if(known, agent->counts.leases));
    json_put(json, "waiters",
             cmd_agents_number_if(cmd_agents_is_up(agent), (json_int_t)agent->waiters));
    json_put(json, "clients",
             cmd_agents_number_if(cmd_agents_is_up(agent), (json_int_t)agent->clients));
    json_put(json, "nodes", cmd_agents_number_if(known, agent->terms.nodes));
    json_put(json, "voting", cmd_agents_number_if(cmd_agents_is_up(agent), agent->voting));
    json_put(json, "quorum", cmd_agents_number_if(known, agent->terms.quorum));
    json_put(json, "drained", known ? json_boolean(agent->drained.stands) : json_null());
    json_put(json, "failed_assertion", show_last_words_json(&agent->words));
    json_put(json, "directory", json_word(agent->place.dir));
    json_put(json, "table",
             agent->state == AGENTS_NO_TABLE ? json_null() : json_text_str(agent->place.shm_name));
    json_put(json, "why", json_word(agent->why));
    return json;
}

static json_t *cmd_agents_left_of(const struct agents_user *user, size_t left)
{
    char name[FORMAT_USER_SIZE];
    json_t *json = json_object();

    json_put(json, "uid", cmd_agents_number_if(user, user ? user->uid : 0));
    json_put(json, "user",
             user ? json_text_str(format_user(name, sizeof(name), user->uid)) : json_null());
    json_put(json, "agents", json_integer((json_int_t)left));
    return json;
}

static void cmd_agents_print_left_json(struct json_out *out, const struct agents_share *share)
{
    json_array_begin(out, "left_out");
    for (const struct agents_user *user = share->first; user; user = user->next)
        if (user->left)
            json_element(out, cmd_agents_left_of(user, user->left));
    if (share->left)
        json_element(out, cmd_agents_left_of(NULL, share->left));
    json_array_end(out);
}

static void cmd_agents_print_json(const struct agents *agents)
{
    struct json_out out;

    json_begin(&out, stdout);
    json_array_begin(&out, "agents");
    for (size_t i = 0; i < agents->count; i++)
        json_element(&out, agent_json(&agents->items[i]));
    json_array_end(&out);
    cmd_agents_print_left_json(&out, &agents->share);
    json_end(&out);
}

/* --- the command --------------------------------------------------------------------------------- */

/* An agent that ended in order needs none. */
static bool cmd_agents_wants_attention(const struct agents_one *agent)
{
    return cmd_agents_is_read(agent) && agent->life.verdict != LIFE_ALIVE &&
           agent->life.verdict != LIFE_ENDED;
}

static int cmd_agents_code_of(const struct agents *agents)
{
    for (size_t i = 0; i < agents->count; i++)
        if (cmd_agents_wants_attention(&agents->items[i]))
            return EXIT_ATTENTION;
    return agents->count ? EXIT_OK : EXIT_UNAVAILABLE;
}

int cmd_agents(int argc, char **argv)
{
    struct reader_args args;
    struct agents agents;
    int code = reader_args_parse(
        argc, argv, "j!", "agents [options]",
        "Shows which agents are on this host, the system's and every user's, those that hang\n"
        "and those that have ended. DIRECTORY/sock is what --agent takes for another user's.\n"
        "Exit code: 0, 3 one of them hangs or is dead, 69 there is none.",
        &args);

    if (code != READER_ARGS_GO_ON || (code = args_none(argc, argv)) != EXIT_OK)
        return code;
    if (agents_find(&agents) < 0) {
        fputs("holdfast agents: use a shorter runtime directory: its path is too long\n", stderr);
        return EXIT_USAGE;
    }
    (args.json ? cmd_agents_print_json : cmd_agents_print)(&agents);
    code = cmd_agents_code_of(&agents);
    if (code == EXIT_UNAVAILABLE) {
        fflush(stdout);
        fputs("holdfast agents: start holdfastd: no agent is here\n", stderr);
    }
    agents_free(&agents);
    return code;
}
