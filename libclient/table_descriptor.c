#include "libclient/table_descriptor.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libclient/internal.h"

#define PATIENCE_NS (INT64_C(2) * HF_NS_PER_SEC)

static void descriptor_keep_table(const int fds[HF_WELCOME_FDS])
{
    for (int i = 0; i < HF_WELCOME_FDS; i++)
        if (i != HF_FD_TABLE)
            close(fds[i]);
}

static int descriptor_ask_for_table(const struct hfc_place *place, int *ret_fd, char *why,
                                    size_t why_size)
{
    static const uint8_t no_cookie[HF_COOKIE_LEN];
    const int64_t until = hfc_now() + PATIENCE_NS;
    struct hf_welcome welcome;
    bool again;
    int fds[HF_WELCOME_FDS], sock,
        status = hfc_hello(place, HF_ROLE_HOLDER, no_cookie, PATIENCE_NS, &sock, why, why_size);

    if (status < 0)
        return status;
    while ((status = hfc_welcome(sock, &welcome, fds, &again, why, why_size)) == HF_EPENDING) {
        struct pollfd wait = {.fd = sock, .events = POLLIN};
        int64_t left = until - hfc_now();

        if (left <= 0) {
            (void)snprintf(why, why_size, "the agent at %s does not answer", place->path);
            status = HF_ENOAGENT;
            break;
        }
        (void)poll(&wait, 1, (int)(left / 1000000) + 1);
    }
    close(sock);
    if (status < 0)
        return status;
    descriptor_keep_table(fds);
    *ret_fd = fds[HF_FD_TABLE];
    return HF_OK;
}

int hfc_table_descriptor(const char *agent, int *ret_fd, char *why, size_t why_size)
{
    struct hfc_place places[HFC_PLACES_MAX];
    int count = 0, status = hfc_places(agent, places, &count);

    if (status < 0) {
        (void)snprintf(why, why_size, "%s", hf_last_message());
        return status;
    }
    status = HF_ENOAGENT;
    for (int i = 0; i < count && status == HF_ENOAGENT; i++)
        status = descriptor_ask_for_table(&places[i], ret_fd, why, why_size);
    return status;
}
