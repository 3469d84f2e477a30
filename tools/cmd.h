/* The subcommands. argv[0] is the subcommand's name; the return value is the exit code
 * (tools/exitcodes.h). */
#ifndef HOLDFAST_TOOLS_CMD_H
#define HOLDFAST_TOOLS_CMD_H

int cmd_run(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_history(int argc, char **argv);
int cmd_watch(int argc, char **argv);
int cmd_nodes(int argc, char **argv);
int cmd_wait(int argc, char **argv);
int cmd_release(int argc, char **argv);
int cmd_beat(int argc, char **argv);
int cmd_doctor(int argc, char **argv);

#endif
