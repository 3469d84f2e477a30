#include "tools/run/lease_group.h"

#include <poll.h>

#include "tools/run/timeline.h"

#define JOIN_AGAIN_MS 20

int64_t lease_group_valid_until_ns(const struct lease_group *leases)
{
    int64_t first_ns = leases->count ? INT64_MAX : 0;

    for (size_t i = 0; i < leases->count; i++) {
        int64_t valid_ns = hf_valid_until_ns(leases->lease[i]);

        if (valid_ns < first_ns)
            first_ns = valid_ns;
    }
    return first_ns;
}

/* The states are numbered from good to bad. */
size_t lease_group_worst(const struct lease_group *leases)
{
    size_t found = 0;
    int state = 0;

    for (size_t i = 0; i < leases->count; i++) {
        int s = hf_state(leases->lease[i]);

        if (s > state || (s == state && hf_valid_until_ns(leases->lease[i]) <
                                            hf_valid_until_ns(leases->lease[found]))) {
            found = i;
            state = s;
        }
    }
    return found;
}

int lease_group_state(const struct lease_group *leases)
{
    return leases->count ? hf_state(leases->lease[lease_group_worst(leases)]) : HF_STATE_RELEASED;
}

const char *lease_group_reason(const struct lease_group *leases, const char **ret_name)
{
    size_t i = lease_group_worst(leases);

    *ret_name = leases->names[i];
    return hf_reason(leases->lease[i]);
}

void lease_group_begin_losing(const struct lease_group *leases)
{
    for (size_t i = 0; i < leases->count; i++)
        (void)hf_begin_losing(leases->lease[i]);
}

void lease_group_begin_killing(const struct lease_group *leases)
{
    for (size_t i = 0; i < leases->count; i++)
        (void)hf_begin_killing(leases->lease[i]);
}

void lease_group_beat(const struct lease_group *leases)
{
    for (size_t i = 0; i < leases->count; i++)
        (void)hf_beat(leases->lease[i]);
}

void lease_group_tell_cgroup(const struct lease_group *leases, int directory)
{
    (void)hf_job_group(leases->client, directory);
}

int lease_group_release(struct lease_group *leases)
{
    int status = hf_release_all_reaped(leases->lease, leases->count);

    leases->count = 0;
    return status;
}

void lease_group_free(struct lease_group *leases)
{
    for (size_t i = 0; i < leases->count; i++)
        hf_lease_free(leases->lease[i]);
    leases->count = 0;
}

int lease_group_tickets(const struct lease_group *leases, struct hf_ticket *ret_tickets)
{
    int status = HF_OK;

    for (size_t i = 0; i < leases->count && status == HF_OK; i++)
        status = hf_lease_ticket(leases->lease[i], &ret_tickets[i]);
    return status;
}

int lease_group_join(const struct lease_group *leases, const struct hf_ticket *tickets,
                     struct lease_group *ret_leases)
{
    struct lease_group joined = *leases;
    int status = hf_join_all(tickets, leases->count, &joined.client, joined.lease);

    if (status < 0)
        return status;
    status = hf_fd(joined.client);
    if (status < 0) {
        lease_group_free(&joined);
        hf_disconnect(joined.client);
        return status;
    }
    *ret_leases = joined;
    return HF_OK;
}

int lease_group_join_patiently(const struct lease_group *leases, const struct hf_ticket *tickets,
                               int64_t patience_ns, int ended_fd, struct lease_group *ret_leases)
{
    int64_t until_ns = timeline_now_ns() + patience_ns;
    struct pollfd ended = {.fd = ended_fd, .events = POLLIN};
    int status;

    do
        status = lease_group_join(leases, tickets, ret_leases);
    while ((status == HF_ENOAGENT || status == HF_ESHUTDOWN || status == HF_ETABLE) &&
           timeline_now_ns() < until_ns && poll(&ended, 1, JOIN_AGAIN_MS) == 0);
    return status;
}

int lease_group_once(const struct lease_group *leases, int64_t period_ms, int64_t *ret_before)
{
    return hf_once(leases->lease[0], period_ms, ret_before);
}

int lease_group_once_ended(const struct lease_group *leases, int64_t period_ms, int end, int code)
{
    return hf_once_ended(leases->lease[0], period_ms, end, code);
}

int lease_group_once_take_back(const struct lease_group *leases, int64_t period_ms, int64_t before)
{
    return hf_once_take_back(leases->lease[0], period_ms, before);
}
