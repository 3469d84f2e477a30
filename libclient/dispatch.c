/* For event loops: hf_dispatch(), when it is due next, and the callbacks. */
#include "libclient/internal.h"

#include <sys/socket.h>
#include <unistd.h>

#define LOOK_QUICK_NS 50000 /* a look at all leases that takes less is free */
#define LOOK_PAUSE    20

static int64_t dispatch_ops_next(struct hfc_ops *list, int64_t next) REQUIRES(hfc_locked)
{
    hf_op *op;

    TAILQ_FOREACH (op, list, link)
        if (!op->done && !op->abandoned)
            next = hfc_min(next, hfc_op_next(op));
    return next;
}

/* Leases with a callback come first and are checked each time. */
static int64_t dispatch_watched_next(hf_client *client, int64_t now, int64_t next)
    REQUIRES(hfc_locked)
{
    struct hfc_lease *lease;

    TAILQ_FOREACH (lease, &client->leases, link) {
        if (!lease->fn)
            break;
        if (hf_valid_until_ns(&lease->handle))
            next = hfc_min(next, hfc_lease_next(lease, now));
        if (lease->reported < HF_STATE_LOST && hf_state(&lease->handle) != lease->reported)
            next = 0;
    }
    return next;
}

/* The earliest end of a validity. There may be a million leases, and renewals only move it later: so
 * all are checked when the end found last has passed, and after nudges, since an end may have moved
 * earlier; a long check takes at most a twentieth of the time. */
static int64_t dispatch_leases_next(hf_client *client, int64_t now) REQUIRES(hfc_locked)
{
    struct hfc_lease *lease;
    int64_t next = HFC_NEVER, spent;

    if (!client->nudged && now < client->until_ns)
        return client->until_ns;
    if (now < client->look_ns)
        return client->look_ns;
    TAILQ_FOREACH (lease, &client->leases, link) {
        int64_t until_ns = hf_valid_until_ns(&lease->handle);

        if (until_ns)
            next = hfc_min(next, until_ns);
    }
    client->nudged = false;
    client->until_ns = next;
    spent = hfc_now() - now;
    client->look_ns = spent < LOOK_QUICK_NS ? INT64_MIN : now + LOOK_PAUSE * spent;
    return next;
}

/* The next instant at which hf_dispatch() has something to do without a nudge. */
static void dispatch_timer_update(hf_client *client, int64_t now) REQUIRES(hfc_locked)
{
    int64_t next = HFC_NEVER;

    if (client->timer.fd < 0)
        return;
    if (client->link == HFC_LINK_DOWN)
        next = client->next_try_ns;
    else if (client->link == HFC_LINK_HELLO)
        next = hfc_hello_next(client);
    else if (client->ring_full)
        next = now + HFC_SLICE_FULL_NS;
    hfc_poll_again(client);
    if (client->unwatched)
        next = hfc_min(next, now + HFC_UNWATCHED_NS);
    next = dispatch_watched_next(client, now, hfc_min(next, dispatch_leases_next(client, now)));
    next = dispatch_ops_next(&client->flying, next);
    next = dispatch_ops_next(&client->queued, next);
    next = dispatch_ops_next(&client->wholes, next);
    hfc_timer_set(client, next);
}

/* Nudges say nothing but "look". */
static void dispatch_eat_nudges(hf_client *client) REQUIRES(hfc_locked)
{
    char byte[8];

    if (client->link == HFC_LINK_UP)
        while (recv(client->session->sock.fd, byte, sizeof(byte), MSG_DONTWAIT) > 0)
            client->nudged = true;
}

static void dispatch_expire_all(struct hfc_ops *list, int64_t now) REQUIRES(hfc_locked)
{
    hf_op *op, *next;

    for (op = TAILQ_FIRST(list); op; op = next) {
        next = TAILQ_NEXT(op, link);
        if (!op->abandoned)
            hfc_op_expire(op, now);
    }
}

/* One callback, without the lock; false when none is due. The list is walked anew each time, since
 * anything may have changed meanwhile. */
static bool dispatch_report_change(hf_client *client) REQUIRES(hfc_locked)
{
    struct hfc_lease *lease;

    TAILQ_FOREACH (lease, &client->leases, link) {
        hf_change_fn *fn = lease->fn;
        void *arg = lease->arg;
        int state;

        if (!fn)
            break;
        if (lease->reported >= HF_STATE_LOST)
            continue;
        state = hf_state(&lease->handle);
        if (state == lease->reported)
            continue;
        lease->reported = state;
        hfc_unlock(client);
        fn(&lease->handle, state, arg);
        hfc_lock(client);
        return true;
    }
    return false;
}

static bool dispatch_report_progress(hf_client *client) REQUIRES(hfc_locked)
{
    hf_op *op;

    TAILQ_FOREACH (op, &client->flying, link)
        if (!op->abandoned && hfc_op_progress(op))
            return true;
    TAILQ_FOREACH (op, &client->queued, link)
        if (!op->abandoned && hfc_op_progress(op))
            return true;
    TAILQ_FOREACH (op, &client->wholes, link)
        if (hfc_op_progress(op))
            return true;
    return false;
}

int hf_dispatch(hf_client *client)
{
    uint64_t expirations;
    int64_t now;
    int status = hfc_client_check(client);

    if (status < 0)
        return status;
    hfc_lock(client);
    hfc_link_drive(client); /* first: below, the descriptors are used */
    if (client->timer.fd >= 0)
        (void)!read(client->timer.fd, &expirations, sizeof(expirations));
    hfc_turn_notice_end(client);
    dispatch_eat_nudges(client);
    (void)hfc_turn(client);
    (void)hfc_connect_judge(client);
    now = hfc_now();
    dispatch_expire_all(&client->queued, now);
    dispatch_expire_all(&client->flying, now);
    dispatch_expire_all(&client->wholes, now); /* they depend on the results of their parts */
    /* A state may go back and forth meanwhile: hf_dispatch() must still return. */
    for (int i = 0; i < 1000 && dispatch_report_change(client); i++)
        ;
    for (int i = 0; i < 1000 && dispatch_report_progress(client); i++)
        ;
    dispatch_timer_update(client, hfc_now());
    hfc_unlock(client);
    return HF_OK;
}

int hf_on_change(hf_lease *handle, hf_change_fn *fn, void *arg)
{
    struct hfc_lease *lease = hfc_lease_of(handle);
    int status = hfc_lease_check(handle);

    if (status < 0)
        return status;
    hfc_lock(lease->client);
    TAILQ_REMOVE(&lease->client->leases, lease, link);
    if (fn)
        TAILQ_INSERT_HEAD(&lease->client->leases, lease, link);
    else
        TAILQ_INSERT_TAIL(&lease->client->leases, lease, link);
    lease->fn = fn;
    lease->arg = arg;
    lease->reported = HF_STATE_HELD;
    dispatch_timer_update(lease->client, hfc_now());
    hfc_unlock(lease->client);
    return HF_OK;
}
