/* A client: its life from hf_connect() to hf_disconnect(). */
#include "libclient/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int client_new(uint32_t role, const uint8_t *cookie, hf_client **ret_client) NO_THREAD_SAFETY
{
    hf_client *client = calloc(1, sizeof(*client));
    int status;

    if (!client) {
        hfc_fail(HF_ENOMEM, NULL);
        return HF_ENOMEM; /* explicit for analysers that see only this file */
    }
    client->role = role;
    if (cookie)
        memcpy(client->cookie, cookie, sizeof(client->cookie));
    client->backoff_ns = HFC_BACKOFF_FIRST_NS;
    client->last_try_ns = INT64_MIN;
    client->epoll = client->timer = HFC_NO_FILE;
    for (int i = 0; i < HF_GROUP_FDS; i++)
        client->group[i] = HFC_NO_FILE;
    client->timer_ns = HFC_NEVER;
    LIST_INIT(&client->maps);
    TAILQ_INIT(&client->queued);
    TAILQ_INIT(&client->flying);
    TAILQ_INIT(&client->parked);
    TAILQ_INIT(&client->wholes);
    TAILQ_INIT(&client->leases);
    TAILQ_INIT(&client->free_leases);
    status = hfc_beats_init(client);
    if (status == HF_OK && (status = hfc_pool_init(client)) < 0)
        hfc_beats_fini(client);
    if (status < 0) {
        free(client);
        return status;
    }
    pthread_mutex_init(&client->lock, NULL);
    *ret_client = client;
    return HF_OK;
}

/* Too many connect just now to an agent that works. `since_ns`: when we began. */
static bool client_is_crowded(hf_client *client, int64_t since_ns) REQUIRES(hfc_locked)
{
    int64_t now = hfc_now();

    return client->link == HFC_LINK_DOWN && client->crowded && now < since_ns + HFC_WELCOME_NS &&
           (now < since_ns + HFC_HANG_NS || !hfc_stranger_hangs(&client->place, now));
}

/* Waits for the welcome. An agent that cannot admit us just now, as when all programs of a host start at
 * once, is asked again until that has taken too long. */
static int client_attach(hf_client *client, const struct hfc_place *place) REQUIRES(hfc_locked)
{
    int64_t until_ns = hfc_now() + HFC_WELCOME_NS;
    bool interrupted;

    client->place = *place;
    client->next_try_ns = INT64_MIN;
    client->connect_until_ns = until_ns;
    do {
        interrupted = hfc_sleep(client, 0, client->next_try_ns);
        errno = 0;
        hfc_link_drive(client);
        while (client->link == HFC_LINK_HELLO && !interrupted) {
            interrupted = hfc_sleep(client, 0, client->hello_until_ns);
            hfc_link_drive(client);
        }
    } while (!interrupted && client_is_crowded(client, until_ns - HFC_WELCOME_NS));
    client->connect_until_ns = 0;
    return client->link != HFC_LINK_UP && interrupted ? HF_EINTR : client->link_status;
}

int hfc_client_open(const struct hfc_place *places, int count, uint32_t role, const uint8_t *cookie,
                    hf_client **ret_client)
{
    hf_client *client = NULL;
    int status = client_new(role, cookie, &client), error;

    if (status < 0)
        return status;
    hfc_lock(client);
    for (int i = 0; i < count; i++) {
        errno = 0;
        status = client_attach(client, &places[i]);
        /* The next place is tried only if there is no socket at all: clients of an agent that is
         * away for a moment must not go to another agent. */
        if (status != HF_ENOAGENT || (errno != ENOENT && errno != ENOTDIR))
            break;
    }
    error = errno;
    if (status == HF_ENOAGENT && count > 1 && (error == ENOENT || error == ENOTDIR))
        hfc_fail(status, "start holdfastd, or name another agent: there is none at %s, nor at %s",
                 places[0].path, places[1].path);
    else if (status < 0)
        hfc_fail(status, "%s", status == HF_EINTR ? hf_status_text(status) : client->link_text);
    hfc_unlock(client);
    if (status < 0) {
        hf_disconnect(client);
        errno = error;
        return status;
    }
    *ret_client = client;
    return HF_OK;
}

int hf_connect(const char *agent, hf_client **ret_client)
{
    struct hfc_place places[HFC_PLACES_MAX];
    int count = 0, status;

    if (!ret_client)
        return hfc_fail(HF_EINVAL, "hf_connect: ret_client is NULL");
    status = hfc_places(agent, places, &count);
    if (status < 0)
        return status;
    return hfc_client_open(places, count, HF_ROLE_HOLDER, NULL, ret_client);
}

int hf_connect_start(const char *agent, hf_client **ret_client)
{
    struct hfc_place places[HFC_PLACES_MAX];
    hf_client *client = NULL;
    int count = 0, status;

    if (!ret_client)
        return hfc_fail(HF_EINVAL, "hf_connect_start: ret_client is NULL");
    status = hfc_places(agent, places, &count);
    if (status < 0)
        return status;
    status = client_new(HF_ROLE_HOLDER, NULL, &client);
    if (status < 0)
        return status;
    hfc_lock(client);
    memcpy(client->places, places, sizeof(places));
    client->places_left = count;
    client->place = client->places[0];
    client->started_ns = hfc_now();
    client->next_try_ns = INT64_MIN;
    client->connect_status = HF_EPENDING;
    (void)hfc_connect_judge(client);
    hfc_unlock(client);
    *ret_client = client;
    return HF_OK;
}

int hfc_connect_judge(hf_client *client)
{
    int error;

    while (client->connect_status == HF_EPENDING) {
        errno = 0;
        hfc_link_drive(client);
        error = errno;
        if (client->link == HFC_LINK_HELLO)
            return HF_EPENDING;
        if (client->link == HFC_LINK_DOWN && client->last_try_ns < client->started_ns)
            return HF_EPENDING; /* the next try is not due */
        /* As in client_attach(): the next place only if there is no socket at all. */
        if (client->link == HFC_LINK_DOWN && client->link_status == HF_ENOAGENT &&
            (error == ENOENT || error == ENOTDIR) && client->places_left > 1) {
            client->places_left--;
            client->place = client->places[1];
            client->next_try_ns = INT64_MIN;
            continue;
        }
        if (client_is_crowded(client, client->started_ns)) {
            client->last_try_ns = INT64_MIN;
            return HF_EPENDING;
        }
        client->connect_status = client->link == HFC_LINK_UP ? HF_OK : client->link_status;
    }
    return client->connect_status;
}

int hf_connect_result(hf_client *client)
{
    int status = hfc_client_check(client);

    if (status < 0)
        return status;
    hfc_lock(client);
    status = hfc_connect_judge(client);
    if (status == HF_EPENDING)
        hfc_fail(status, NULL);
    else if (status < 0)
        hfc_fail(status, "%s", client->link_text);
    hfc_unlock(client);
    return status;
}

/* In a forked child: descriptors and memory only. The rings are not mapped here, and the lock may
 * have been held by a thread that does not exist. */
static void client_forget(hf_client *client) NO_THREAD_SAFETY
{
    struct hfc_session *session = client->session;

    /* Without a session nothing shows whose they are. */
    if (!session || !hfc_file_is_ours(&session->sock))
        hfc_link_forget_files(client);
    if (session) {
        session->has_ring = false;
        session->refs = 1;
        hfc_session_unref(client, session);
    }
}

/* A lease whose end the agent has not heard of yet. */
static bool client_owes_a_word(hf_client *client) REQUIRES(hfc_locked)
{
    struct hfc_lease *lease;

    TAILQ_FOREACH (lease, &client->leases, link)
        if (hf_valid_until_ns(&lease->handle))
            return true;
    return false;
}

/* An agent that is just restarting would keep the leases for as long as this process lives: it gets
 * a moment to come back and see the socket close. */
static void client_reach_agent(hf_client *client) REQUIRES(hfc_locked)
{
    int64_t until_ns = hfc_now() + HFC_GRACE_NS;

    if (client->role != HF_ROLE_HOLDER || !client_owes_a_word(client))
        return;
    hfc_turn_notice_end(client);
    while (client->link != HFC_LINK_UP && hfc_now() < until_ns &&
           !hfc_link_is_hopeless(client->link_status)) {
        uint32_t seen = hfc_turn(client);

        if (client->link != HFC_LINK_UP)
            hfc_sleep(client, seen, until_ns);
    }
}

static void client_farewell(hf_client *client)
{
    struct hfc_lease *lease;

    hfc_lock(client);
    client_reach_agent(client);
    TAILQ_FOREACH (lease, &client->leases, link)
        __atomic_store_n(&lease->handle.hf_private_generation, 0, __ATOMIC_RELEASE);
    if (client->session) {
        /* When the socket ends the agent releases everything. Closing is not enough while a forked
         * child has the socket too. */
        if (hfc_file_is_ours(&client->session->sock))
            (void)shutdown(client->session->sock.fd, SHUT_RDWR);
        else
            hfc_link_forget_files(client);
        hfc_session_unref(client, client->session);
        client->session = NULL;
    }
    hfc_unlock(client);
    hfc_beats_fini(client);
    pthread_mutex_destroy(&client->lock);
}

void hf_disconnect(hf_client *client) NO_THREAD_SAFETY
{
    struct hfc_map *map;

    if (!client)
        return;
    if (hfc_is_forked(client))
        client_forget(client);
    else
        client_farewell(client);
    hfc_file_close(&client->epoll);
    hfc_file_close(&client->timer);
    for (int i = 0; i < HF_GROUP_FDS; i++)
        hfc_file_close(&client->group[i]);
    hfc_ops_free(client);
    while ((map = LIST_FIRST(&client->maps))) { /* maps that leases kept */
        map->refs = 1;
        hfc_map_unref(map);
    }
    hfc_pool_free(client);
    free(client);
}

int hf_agent_info(hf_client *client, struct hf_agent_info *ret_info)
{
    struct hf_agent_info info = {0};
    const struct hf_table_header *header;
    struct hf_table_terms terms;
    int status = hfc_client_check(client);

    if (status < 0)
        return status;
    if (!ret_info || ret_info->size < sizeof(info))
        return hfc_fail(HF_EINVAL,
                        "hf_agent_info: begin with HF_AGENT_INFO_INIT, which sets the size");
    hfc_lock(client);
    hfc_turn_notice_end(client);
    hfc_link_drive(client);
    if (client->link != HFC_LINK_UP) {
        status = hfc_fail(HF_ENOAGENT, "%s", client->link_text);
        hfc_unlock(client);
        return status;
    }
    header = client->session->map->table.header;
    info.size = sizeof(info);
    info.ttl_ms = client->welcome.ttl_ms;
    info.ttl_max_ms = client->welcome.ttl_max_ms;
    info.ttl_min_ms = client->welcome.ttl_min_ms;
    terms = hf_table_terms(&client->session->map->table);
    info.nodes = terms.nodes;
    info.quorum = terms.quorum;
    info.agent_pid = atomic_load(&header->pid);
    info.agent_pidns = header->pidns_inode;
    (void)snprintf(info.agent_name, sizeof(info.agent_name), "%.*s", HF_AGENT_NAME_MAX,
                   header->agent_name);
    memcpy(info.version, client->welcome.version, sizeof(info.version));
    if ((header->flags & HF_TABLE_F_DEV) && *client->place.others &&
        hfc_is_served(client->place.others))
        (void)snprintf(info.shadowed, sizeof(info.shadowed), "%s", client->place.others);
    hfc_unlock(client);
    *ret_info = info;
    return HF_OK;
}
