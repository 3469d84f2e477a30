/* Two processes that watch one job: the second joins the first one's lease. */
#include "libclient/internal.h"

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(((struct hf_ticket *)0)->cookie) == HF_COOKIE_LEN, "the wire's cookie");
_Static_assert(sizeof(((struct hf_ticket *)0)->path) >= HFC_PATH_MAX, "room for any socket path");

int hf_lease_ticket(hf_lease *handle, struct hf_ticket *ret_ticket)
{
    struct hfc_lease *lease = hfc_lease_of(handle);
    struct hf_ticket ticket = {0};
    hf_client *client;
    int status = hfc_lease_check(handle);

    if (status < 0)
        return status;
    if (!ret_ticket)
        return hfc_fail(HF_EINVAL, "hf_lease_ticket: ret_ticket is NULL");
    client = lease->client;
    hfc_lock(client);
    memcpy(ticket.cookie, client->cookie, sizeof(ticket.cookie));
    ticket.slot = lease->slot;
    ticket.generation = lease->generation;
    ticket.fence = lease->fence;
    (void)snprintf(ticket.path, sizeof(ticket.path), "%s", client->place.path);
    hfc_unlock(client);
    *ret_ticket = ticket;
    return HF_OK;
}

int hf_join(const struct hf_ticket *ticket, hf_client **ret_client, hf_lease **ret_lease)
{
    struct hfc_place places[HFC_PLACES_MAX];
    hf_client *client;
    int count = 0, status;

    if (!ticket || !ret_client || !ret_lease)
        return hfc_fail(HF_EINVAL, "hf_join: an argument is NULL");
    if (!memchr(ticket->path, '\0', sizeof(ticket->path)) || !strchr(ticket->path, '/'))
        return hfc_fail(HF_EINVAL, "hf_join: the ticket has no path");
    status = hfc_places(ticket->path, places, &count);
    if (status < 0)
        return status;
    status = hfc_client_open(places, count, HF_ROLE_GUARDIAN, ticket->cookie, &client);
    if (status < 0)
        return status;
    hfc_lock(client);
    status =
        hfc_lease_make(client, ticket->slot, ticket->generation, ticket->fence, true, 0, ret_lease);
    hfc_unlock(client);
    if (status < 0) {
        hfc_fail(status, status == HF_ELOST ? "the lease of the ticket is over" : NULL);
        hf_disconnect(client);
        return status;
    }
    *ret_client = client;
    return HF_OK;
}
