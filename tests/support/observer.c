/* Looks at one lease in an agent's table every millisecond and tells what changes, whatever the agent does.
 *
 *   observer NAME [AGENT]
 *
 * Lines "NOW_NS STATE VALID_UNTIL_NS FENCE"; STATE is an enum hf_lease_state as a number, 0 when there is no such lease.
 * Ends with its stdin.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libclient/holdfast_admin.h"
#include "tests/support/program.h"

/* As it is now; all 0 without one. */
static struct hf_info look(hf_view **view, const char *agent, const char *name)
{
    struct hf_info info = {.size = sizeof(info)};
    int64_t heartbeat_ns;

    if (*view && hf_view_heartbeat_ns(*view, &heartbeat_ns) == HF_ETABLE) {
        hf_view_close(*view);
        *view = NULL;
    }
    if (!*view && hf_view_open(agent, view) < 0)
        *view = NULL;
    if (!*view || hf_view_find(*view, name, strlen(name), &info) < 0)
        memset(&info, 0, sizeof(info));
    return info;
}

int main(int argc, char **argv)
{
    struct hf_info last = {0}, now;
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    hf_view *view = NULL;

    if (argc < 2)
        return 64;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%" PRId64 " 0 0 0\n", now_ns());
    while (poll(&input, 1, 1) == 0) {
        now = look(&view, argc > 2 ? argv[2] : NULL, argv[1]);
        if (now.state != last.state || now.valid_until_ns != last.valid_until_ns ||
            now.fence != last.fence)
            printf("%" PRId64 " %d %" PRId64 " %" PRIu64 "\n", now_ns(), now.state,
                   now.valid_until_ns, now.fence);
        last = now;
    }
    hf_view_close(view);
    return 0;
}
