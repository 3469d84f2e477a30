/* holdfast doctor: what is wrong with this host's installation? */
#include <stdio.h>

#include "tools/cmd.h"
#include "tools/exitcodes.h"

int cmd_doctor(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    fputs("holdfast doctor: not here yet\n", stderr);
    return EXIT_FAILED;
}
