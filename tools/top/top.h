/* The entry point of tools/top/: the live view. */
#ifndef HOLDFAST_TOOLS_TOP_TOP_H
#define HOLDFAST_TOOLS_TOP_TOP_H

/* argv[0] is the subcommand's name; the return value is the exit code (tools/common/exit_code.h). */
int cmd_top(int argc, char **argv);

#endif
