#include "tools/run/hold.h"

#include <poll.h>

#include "tools/run/timeline.h"

#define JOIN_AGAIN_MS 20

int64_t hold_valid_until_ns(const struct hold *hold)
{
    int64_t first_ns = hold->count ? INT64_MAX : 0;

    for (size_t i = 0; i < hold->count; i++) {
        int64_t valid_ns = hf_valid_until_ns(hold->leases[i]);

        if (valid_ns < first_ns)
            first_ns = valid_ns;
    }
    return first_ns;
}

/* The states are numbered from good to bad. */
size_t hold_worst(const struct hold *hold)
{
    size_t found = 0;
    int state = 0;

    for (size_t i = 0; i < hold->count; i++) {
        int s = hf_state(hold->leases[i]);

        if (s > state || (s == state && hf_valid_until_ns(hold->leases[i]) <
                                            hf_valid_until_ns(hold->leases[found]))) {
            found = i;
            state = s;
        }
    }
    return found;
}

int hold_state(const struct hold *hold)
{
    return hold->count ? hf_state(hold->leases[hold_worst(hold)]) : HF_STATE_RELEASED;
}

const char *hold_reason(const struct hold *hold, const char **ret_name)
{
    size_t i = hold_worst(hold);

    *ret_name = hold->names[i];
    return hf_reason(hold->leases[i]);
}

void hold_begin_losing(const struct hold *hold)
{
    for (size_t i = 0; i < hold->count; i++)
        (void)hf_begin_losing(hold->leases[i]);
}

void hold_begin_killing(const struct hold *hold)
{
    for (size_t i = 0; i < hold->count; i++)
        (void)hf_begin_killing(hold->leases[i]);
}

void hold_beat(const struct hold *hold)
{
    for (size_t i = 0; i < hold->count; i++)
        (void)hf_beat(hold->leases[i]);
}

void hold_group(const struct hold *hold, int directory)
{
    (void)hf_job_group(hold->client, directory);
}

int hold_release(struct hold *hold)
{
    int status = hf_release_all_reaped(hold->leases, hold->count);

    hold->count = 0;
    return status;
}

void hold_free(struct hold *hold)
{
    for (size_t i = 0; i < hold->count; i++)
        hf_lease_free(hold->leases[i]);
    hold->count = 0;
}

int hold_tickets(const struct hold *hold, struct hf_ticket *ret_tickets)
{
    int status = HF_OK;

    for (size_t i = 0; i < hold->count && status == HF_OK; i++)
        status = hf_lease_ticket(hold->leases[i], &ret_tickets[i]);
    return status;
}

int hold_join(const struct hold *hold, const struct hf_ticket *tickets, struct hold *ret_hold)
{
    struct hold joined = *hold;
    int status = hf_join_all(tickets, hold->count, &joined.client, joined.leases);

    if (status < 0)
        return status;
    status = hf_fd(joined.client);
    if (status < 0) {
        hold_free(&joined);
        hf_disconnect(joined.client);
        return status;
    }
    *ret_hold = joined;
    return HF_OK;
}

int hold_join_patiently(const struct hold *hold, const struct hf_ticket *tickets,
                        int64_t patience_ns, int ended_fd, struct hold *ret_hold)
{
    int64_t until_ns = timeline_now_ns() + patience_ns;
    struct pollfd ended = {.fd = ended_fd, .events = POLLIN};
    int status;

    do
        status = hold_join(hold, tickets, ret_hold);
    while ((status == HF_ENOAGENT || status == HF_EGOING) && timeline_now_ns() < until_ns &&
           poll(&ended, 1, JOIN_AGAIN_MS) == 0);
    return status;
}

int hold_once(const struct hold *hold, int64_t period_ms, int64_t *ret_before)
{
    return hf_once(hold->leases[0], period_ms, ret_before);
}

int hold_once_ended(const struct hold *hold, int64_t period_ms, int end, int code)
{
    return hf_once_ended(hold->leases[0], period_ms, end, code);
}

int hold_once_take_back(const struct hold *hold, int64_t period_ms, int64_t before)
{
    return hf_once_take_back(hold->leases[0], period_ms, before);
}
