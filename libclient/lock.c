/* The lock of a client, the check that this process may use a handle, and the clock. */
#include "libclient/internal.h"

void hfc_lock(hf_client *client) NO_THREAD_SAFETY
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): hfc_client_check() refuses NULL. */
    pthread_mutex_lock(&client->lock);
}

void hfc_unlock(hf_client *client) NO_THREAD_SAFETY
{
    pthread_mutex_unlock(&client->lock);
}

bool hfc_is_forked(const hf_client *client)
{
    return __atomic_load_n(client->life, __ATOMIC_RELAXED) == 0;
}

int hfc_client_check(const hf_client *client)
{
    if (!client)
        return hfc_fail(HF_EINVAL, "the client is NULL");
    if (hfc_is_forked(client))
        return hfc_fail(HF_EFORKED, "the client belongs to the process before fork()");
    return HF_OK;
}

int hfc_lease_check(const hf_lease *lease)
{
    if (!lease)
        return hfc_fail(HF_EINVAL, "the lease is NULL");
    if (!((const struct hfc_lease *)lease)->client)
        return hfc_fail(HF_EFORKED, NULL);
    return HF_OK;
}

/* --- the clock -------------------------------------------------------------------------------- */

/* The library's only clock: it runs on in suspend, as leases do. */

int64_t hfc_now(void)
{
    struct timespec t;

    if (clock_gettime(CLOCK_BOOTTIME, &t) < 0)
        return HFC_NEVER; /* every validity is over */
    return (int64_t)t.tv_sec * HF_NS_PER_SEC + t.tv_nsec;
}
