/* The entry points of the rooms of subcommands. argv[0] is the subcommand's name; the return value is the exit code
 * (tools/common/args.h). */
#ifndef HOLDFAST_TOOLS_COMMANDS_H
#define HOLDFAST_TOOLS_COMMANDS_H

#include <stdbool.h>

/* tools/control/: the subcommands for another process's hold, and for all of a host. */
int cmd_wait(int argc, char **argv);
int cmd_release(int argc, char **argv);
int cmd_once(int argc, char **argv);
int cmd_reload(int argc, char **argv);
int cmd_drain(int argc, char **argv);
int cmd_undrain(int argc, char **argv);
/* `holdfast fleet` with a word that changes the fleet. */
bool cmd_fleet_changes(int argc, char **argv);
int cmd_fleet_change(int argc, char **argv);

/* tools/doctor/: what is wrong with this host's installation. */
int cmd_doctor(int argc, char **argv);

/* tools/run/: a command under a lock. */
int cmd_run(int argc, char **argv);
int cmd_hold(int argc, char **argv);
int cmd_beat(int argc, char **argv);

/* tools/show/: the subcommands that show the state. */
int cmd_status(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_held(int argc, char **argv);
int cmd_history(int argc, char **argv);
int cmd_watch(int argc, char **argv);
int cmd_nodes(int argc, char **argv);
int cmd_fleet(int argc, char **argv);
int cmd_agents(int argc, char **argv);
int cmd_metrics(int argc, char **argv);

/* tools/top/: the live view. */
int cmd_top(int argc, char **argv);

#endif
