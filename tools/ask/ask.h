/* The entry points of tools/ask/: the subcommands for another process's hold, and for all of a host. */
#ifndef HOLDFAST_TOOLS_ASK_ASK_H
#define HOLDFAST_TOOLS_ASK_ASK_H

#include <stdbool.h>

/* argv[0] is the subcommand's name; the return value is the exit code (tools/common/exit_code.h). */
int cmd_wait(int argc, char **argv);
int cmd_release(int argc, char **argv);
int cmd_once(int argc, char **argv);
int cmd_reload(int argc, char **argv);
int cmd_drain(int argc, char **argv);
int cmd_undrain(int argc, char **argv);
/* `holdfast fleet` with a word that changes the fleet. */
bool cmd_fleet_changes(int argc, char **argv);
int cmd_fleet_change(int argc, char **argv);

#endif
