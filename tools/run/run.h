/* The entry points of tools/run/: a command under a lock. */
#ifndef HOLDFAST_TOOLS_RUN_RUN_H
#define HOLDFAST_TOOLS_RUN_RUN_H

/* argv[0] is the subcommand's name; the return value is the exit code (tools/common/exit_code.h). */
int cmd_run(int argc, char **argv);
int cmd_hold(int argc, char **argv);
int cmd_beat(int argc, char **argv);

#endif
