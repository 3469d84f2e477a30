/* The entry points of tools/show/: the subcommands that show the state. */
#ifndef HOLDFAST_TOOLS_SHOW_SHOW_H
#define HOLDFAST_TOOLS_SHOW_SHOW_H

/* argv[0] is the subcommand's name; the return value is the exit code (tools/common/exit_code.h). */
int cmd_status(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_history(int argc, char **argv);
int cmd_watch(int argc, char **argv);
int cmd_nodes(int argc, char **argv);
int cmd_fleet(int argc, char **argv);
int cmd_agents(int argc, char **argv);
int cmd_metrics(int argc, char **argv);

#endif
