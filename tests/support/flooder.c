/* A client that asks its agent as much as the rings take, until stdin ends.
 *
 *   flooder PREFIX
 *
 * Keeps DEPTH acquires under way: tries of names that nobody has, of one name that others want too,
 * and waits that are cancelled at once; what is granted is released at once. Prints "ready" after
 * the first answer, and at the end "requests N" with the number of answers.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libclient/holdfast.h"
#include "tests/support/program.h"

#define DEPTH 32
#define NAMES 64

static const char *prefix;
static uint64_t answers, serial;

/* Every kind of request in turn. */
static hf_op *begin(hf_client *client)
{
    uint64_t turn = serial++;
    char name[200];
    struct hf_acquire_options options = {.size = sizeof(options), .name = name};
    hf_op *op = NULL;
    int status;

    if (turn % 4 == 0)
        options.name_len = (size_t)snprintf(name, sizeof(name), "wanted-by-all");
    else
        options.name_len =
            (size_t)snprintf(name, sizeof(name), "%s-%" PRIu64, prefix, turn / 4 % NAMES);
    options.wait_ms = turn % 4 == 3 ? -1 : 0;
    status = hf_acquire_start(client, &options, &op);
    if (status == HF_ELIMIT || status == HF_EFULL)
        return NULL;
    if (status < 0)
        die("acquire", hf_last_message());
    if (turn % 4 == 3) {
        hf_op_cancel(op);
        op = NULL;
        answers++;
    }
    return op;
}

/* Whether the op has ended. A refusal is an answer like any other. */
static int is_over(hf_op *op)
{
    hf_lease *lease = NULL;
    int status = hf_op_result(op, &lease);

    if (status == HF_EPENDING)
        return 0;
    if (status == HF_ENOAGENT || status == HF_EPROTO)
        die("answer", hf_last_message());
    if (status == HF_OK)
        (void)hf_release(lease);
    answers++;
    return 1;
}

static int stdin_ended(void)
{
    struct pollfd poller = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;

    return poll(&poller, 1, 0) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
}

int main(int argc, char **argv)
{
    hf_op *ops[DEPTH] = {NULL};
    hf_client *client;
    int told = 0;

    prefix = argc > 1 ? argv[1] : "flood";
    if (hf_connect(NULL, &client) < 0)
        die("connect", hf_last_message());
    while (!stdin_ended()) {
        struct pollfd poller = {.fd = hf_fd(client), .events = POLLIN};

        for (int i = 0; i < DEPTH; i++)
            if (!ops[i])
                ops[i] = begin(client);
        (void)poll(&poller, 1, 1);
        if (hf_dispatch(client) < 0)
            die("dispatch", hf_last_message());
        for (int i = 0; i < DEPTH; i++)
            if (ops[i] && is_over(ops[i]))
                ops[i] = NULL;
        if (answers && !told) {
            puts("ready");
            fflush(stdout);
            told = 1;
        }
    }
    hf_disconnect(client);
    printf("requests %" PRIu64 "\n", answers);
    return 0;
}
