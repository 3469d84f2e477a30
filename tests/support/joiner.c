/* Holds a job's lease, and lets a guardian come and go while its own session has yet to come back.
 *
 *   joiner NAME TTL_MS
 *
 * Prints "ready" with the lease in hand, then waits for a line: the agent was started again. Without a
 * word of its own to that agent it joins the lease as a guardian and leaves again; the lease is the
 * process's all the same. Exit 0: it is held 1.5 TTL later, and can be released.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libclient/holdfast_run.h"

static void need(int status, const char *what)
{
    if (status == HF_OK)
        return;
    fprintf(stderr, "joiner: %s: %d: %s\n", what, status, hf_last_message());
    exit(1);
}

int main(int argc, char **argv)
{
    struct hf_acquire_options options = {
        .size = sizeof(options), .flags = HF_ACQUIRE_JOB, .wait_ms = -1};
    hf_client *client, *guardian;
    hf_lease *lease, *joined;
    struct hf_ticket ticket;
    char line[16];

    if (argc != 3)
        return 2;
    options.name = argv[1];
    options.name_len = strlen(argv[1]);
    options.ttl_ms = (uint32_t)strtoul(argv[2], NULL, 10);
    need(hf_connect(NULL, &client), "connect");
    need(hf_acquire_with(client, &options, &lease), "acquire");
    need(hf_lease_ticket(lease, &ticket), "ticket");
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin))
        return 2;
    need(hf_join(&ticket, &guardian, &joined), "join");
    hf_disconnect(guardian);
    usleep(options.ttl_ms * 1500);
    if (!hf_held(lease)) {
        fprintf(stderr, "joiner: not held any more: %s\n", hf_reason(lease));
        return 1;
    }
    need(hf_release_reaped(lease), "release");
    hf_disconnect(client);
    return 0;
}
