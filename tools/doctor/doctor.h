/* The entry point of tools/doctor/: what is wrong with this host's installation. */
#ifndef HOLDFAST_TOOLS_DOCTOR_DOCTOR_H
#define HOLDFAST_TOOLS_DOCTOR_DOCTOR_H

/* argv[0] is the subcommand's name; the return value is the exit code (tools/common/exit_code.h). */
int cmd_doctor(int argc, char **argv);

#endif
