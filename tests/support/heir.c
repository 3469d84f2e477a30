/* A job's first guardian that is killed, and a second one that comes too late.
 *
 *   heir NAME
 *
 * Takes NAME as `holdfast run` does and prints "ready"; the lease ends with this process, for nobody
 * has joined. Its child waits for a line, then joins with the ticket and prints "STATUS TEXT".
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libclient/holdfast_run.h"

static int join(int from)
{
    struct hf_ticket ticket;
    hf_client *client;
    hf_lease *lease;
    char line[16];
    int status;

    if (read(from, &ticket, sizeof(ticket)) != sizeof(ticket) || !fgets(line, sizeof(line), stdin))
        return 1;
    status = hf_join(&ticket, &client, &lease);
    printf("%d %s\n", status, status < 0 ? hf_last_message() : "joined");
    return 0;
}

int main(int argc, char **argv)
{
    struct hf_acquire_options options = {.size = sizeof(options),
                                         .flags = HF_ACQUIRE_JOB | HF_ACQUIRE_SECOND_GUARDIAN,
                                         .wait_ms = -1};
    struct hf_ticket ticket;
    hf_client *client;
    hf_lease *lease;
    int ends[2];

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 2 || pipe(ends) < 0)
        return 1;
    options.name = argv[1];
    options.name_len = strlen(argv[1]);
    if (fork() == 0) {
        close(ends[1]);
        return join(ends[0]);
    }
    if (hf_connect(NULL, &client) < 0 || hf_acquire_with(client, &options, &lease) < 0 ||
        hf_lease_ticket(lease, &ticket) < 0 ||
        write(ends[1], &ticket, sizeof(ticket)) != sizeof(ticket)) {
        fprintf(stderr, "heir: %s\n", hf_last_message());
        return 1;
    }
    puts("ready");
    pause();
    return 0;
}
