#include "tools/run/hold.h"

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
static size_t worst(const struct hold *hold)
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
    return hold->count ? hf_state(hold->leases[worst(hold)]) : HF_STATE_RELEASED;
}

const char *hold_reason(const struct hold *hold, const char **ret_name)
{
    size_t i = worst(hold);

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

    if (status == HF_OK)
        *ret_hold = joined;
    return status;
}
