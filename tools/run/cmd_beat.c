/* holdfast beat: tells, from within a job of `holdfast run --heartbeat`, that the job makes progress. */
#include <getopt.h>
#include <stdio.h>

#include "libclient/holdfast.h"
#include "tools/common/args.h"
#include "tools/commands.h"

static void cmd_beat_show_help(void)
{
    fputs("Usage: holdfast beat\n"
          "\n"
          "In a job of 'holdfast run --heartbeat TIME': tells that the job makes progress. A job "
          "that\n"
          "does not tell so for TIME loses its lock, and is stopped.\n"
          "\n"
          "Exit code: 0 done; 69 this is no such job, or the memory to beat in is out of reach.\n",
          stdout);
}

int cmd_beat(int argc, char **argv)
{
    static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    static char program[] = "holdfast beat"; /* getopt's messages begin with it */
    int option;

    argv[0] = program;
    optind = 0; /* parse this argv from its start */
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option != 'h') {
            fputs("holdfast beat: see holdfast beat --help\n", stderr);
            return EXIT_USAGE;
        }
        cmd_beat_show_help();
        return EXIT_OK;
    }
    if (optind < argc)
        return args_usage("beat", "it takes no arguments");
    if (hf_job_beat())
        return EXIT_OK;
    fputs("holdfast beat: this is no job of 'holdfast run --heartbeat', or descriptor "
          "$HOLDFAST_BEAT_FD was not\n"
          "passed on to it and $HOLDFAST_BEAT_PATH is out of its reach\n",
          stderr);
    return EXIT_UNAVAILABLE;
}
