/* holdfast: finds the subcommand and calls it. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "shm/process.h"
#include "shm/text.h"
#include "shm/version.h"
#include "tools/commands.h"
#include "tools/common/args.h"
#include "tools/common/text.h"

/* It shows the fleet, or changes it. */
static int main_fleet(int argc, char **argv)
{
    return cmd_fleet_changes(argc, argv) ? cmd_fleet_change(argc, argv) : cmd_fleet(argc, argv);
}

static const struct {
    const char *name;
    int (*function)(int argc, char **argv);
    const char *description;
} subcommands[] = {
    {"run", cmd_run, "Run a command while holding a lock"},
    {"hold", cmd_hold, "Hold a lock without a command, for scripts and other languages"},
    {"status", cmd_status, "Show the agent, its nodes and the leases of this host"},
    {"top", cmd_top, "Show agent, nodes, leases and who waits, all the time"},
    {"list", cmd_list, "List the leases of this host"},
    {"show", cmd_show, "Show everything known about one lease"},
    {"held", cmd_held, "Tell whether the caller, or an ancestor of it, holds a lock"},
    {"history", cmd_history, "Show what happened to leases and nodes"},
    {"watch", cmd_watch, "Show what happens to leases and nodes, as it happens"},
    {"agents", cmd_agents, "Show which agents are on this host"},
    {"nodes", cmd_nodes, "Show the Redis nodes as the agent sees them"},
    {"fleet", main_fleet,
     "Show the fleet's record of its nodes, or change it while locks are held"},
    {"metrics", cmd_metrics, "Show the agent's metrics, for Prometheus"},
    {"wait", cmd_wait, "Wait until nobody holds a lock, on any host"},
    {"release", cmd_release, "Ask the holder of a lock to stop, or end its hold by force"},
    {"drain", cmd_drain, "Have this host grant no new lock, and wait until none is held"},
    {"undrain", cmd_undrain, "Have it grant locks again"},
    {"once", cmd_once, "Show or forget the last run of a job that runs once in a period"},
    {"beat", cmd_beat, "In a job of run --heartbeat: tell that the job makes progress"},
    {"reload", cmd_reload, "Have the agent read its configuration again"},
    {"doctor", cmd_doctor, "Look for what is wrong with this host's installation"},
};

static void main_show_help(FILE *file)
{
    fputs("Usage: holdfast <subcommand> [<args>]\n\nSubcommands:\n", file);
    for (size_t i = 0; i < sizeof(subcommands) / sizeof(subcommands[0]); i++)
        fprintf(file, "  %-8s  %s\n", subcommands[i].name, subcommands[i].description);
    fputs("\nholdfast <subcommand> --help shows the options; holdfast(1) tells the rest.\n", file);
}

static int main_finish(int code)
{
    return hf_streams_finish("holdfast", code, EXIT_FAILED);
}

static int main_unknown(const char *word)
{
    char shown[TEXT_NAME_SIZE];
    struct suggestion meant = {0};

    for (size_t i = 0; i < sizeof(subcommands) / sizeof(subcommands[0]); i++)
        suggest_try(&meant, word, strlen(word), subcommands[i].name);
    text_escape_str(shown, sizeof(shown), word);
    if (word[0] == '-')
        fprintf(stderr, "holdfast: unknown option '%s'; see holdfast --help\n", shown);
    else if (meant.known)
        fprintf(stderr, "holdfast: unknown subcommand '%s'; did you mean '%s'?\n", shown,
                meant.known);
    else
        fprintf(stderr, "holdfast: unknown subcommand '%s'; see holdfast --help\n", shown);
    return EXIT_USAGE;
}

/* argv[0] is the subcommand's name. */
static int main_call(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof(subcommands) / sizeof(subcommands[0]); i++)
        if (!strcmp(argv[0], subcommands[i].name))
            return subcommands[i].function(argc, argv);
    return main_unknown(argv[0]);
}

/* "help run" is "run --help", and "help fleet move" is "fleet move --help". */
static int main_help_of(int argc, char **argv)
{
    static char help[] = "--help";
    char *words[4] = {argv[1]};
    int count = 1;

    for (; count < 3 && count + 1 < argc; count++)
        words[count] = argv[count + 1];
    words[count++] = help;
    return main_call(count, words);
}

int main(int argc, char **argv)
{
    if (hf_streams_hold(O_CLOEXEC) < 0)
        return EXIT_FAILED;
    text_use_terminal();
    if (argc < 2) {
        fputs("holdfast: a subcommand is missing\n", stderr);
        main_show_help(stderr);
        return EXIT_USAGE;
    }
    if (!strcmp(argv[1], "help") && argc > 2)
        return main_finish(main_help_of(argc - 1, argv + 1));
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        main_show_help(stdout);
        return main_finish(EXIT_OK);
    }
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
        puts("holdfast " HOLDFAST_VERSION);
        return main_finish(EXIT_OK);
    }
    return main_finish(main_call(argc - 1, argv + 1));
}
