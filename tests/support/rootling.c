/* A set-uid program: becomes root for good, so that its user may not kill it.
 *
 *   rootling    prints "root", or "user" where it was not let, and ignores SIGTERM for two minutes
 */
#include <signal.h>
#include <stdbool.h>

#include "tests/support/program.h"

int main(void)
{
    bool root = setgid(0) == 0 && setuid(0) == 0;

    signal(SIGTERM, SIG_IGN);
    puts(root ? "root" : "user");
    fflush(stdout);
    sleep(120);
    return 0;
}
