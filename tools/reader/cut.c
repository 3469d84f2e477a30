#include "tools/reader/cut.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/exit_code.h"

static void cut_on_bus_error(int signal)
{
    static const char text[] = "holdfast: the agent's table was cut while it was read; ask its "
                               "owner to restart the agent\n";

    (void)signal;
    if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
        _exit(EXIT_FAILED);
    _exit(EXIT_FAILED);
}

void cut_guard(void)
{
    const struct sigaction action = {.sa_handler = cut_on_bus_error};

    (void)sigaction(SIGBUS, &action, NULL);
}
