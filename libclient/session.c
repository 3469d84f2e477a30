/* The lifetimes of a session (one attach) and of mapped tables. */
#include "libclient/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm/assert.h"

void hfc_map_unref(struct hfc_map *map)
{
    hf_assert(map->refs > 0, "epoch %llx", (unsigned long long)map->epoch);
    if (--map->refs)
        return;
    LIST_REMOVE(map, link);
    hf_table_close(&map->table);
    free(map);
}

void hfc_session_unref(hf_client *client, struct hfc_session *session)
{
    (void)client;
    hf_assert(session->refs > 0, "has_ring %d", session->has_ring);
    if (--session->refs)
        return;
    if (session->has_ring)
        hf_ring_client_unmap(&session->ring);
    hfc_file_close(&session->sock);
    if (session->map)
        hfc_map_unref(session->map);
    free(session);
}

/* Our present mapping of the agent's table, else a new one. Closes `fd`. Old mappings stay for the
 * handles whose words are in them. */
static int session_map_table(hf_client *client, int fd, uint64_t epoch, struct hfc_map **ret_map,
                             char *why, size_t why_size) REQUIRES(hfc_locked)
{
    struct hfc_map *map, *known;
    int status;

    map = calloc(1, sizeof(*map));
    if (!map) {
        close(fd);
        (void)snprintf(why, why_size, "%s", hf_status_text(HF_ENOMEM));
        return HF_ENOMEM;
    }
    status = hf_table_open_fd(fd, &map->table, why, why_size);
    if (status < 0) {
        free(map);
        return status;
    }
    LIST_FOREACH (known, &client->maps, link) {
        if (known->epoch == epoch && known->table.dev == map->table.dev &&
            known->table.inode == map->table.inode &&
            atomic_load(&known->table.header->state) != HF_TABLE_RETIRED) {
            hf_table_close(&map->table);
            free(map);
            known->refs++;
            *ret_map = known;
            return HF_OK;
        }
    }
    LIST_FOREACH (known, &client->maps, link)
        atomic_store(&known->replaced, true);
    map->epoch = epoch;
    map->refs = 1;
    LIST_INSERT_HEAD(&client->maps, map, link);
    *ret_map = map;
    return HF_OK;
}

/* (!) The stamp is read first, and one clock never goes back. By one that is behind the agent's this program would take its
 * leases for valid when they are another's. */
static int session_judge_clock(const struct hfc_map *map, char *why, size_t why_size)
{
    int64_t stamp = atomic_load(&map->table.header->broker_beat_ns), now = hfc_now();

    if (now >= stamp)
        return HF_OK;
    (void)snprintf(why, why_size,
                   "run the program with the host's clock, without what changes it (faketime), or "
                   "an agent in the program's time namespace: its clock is behind this agent's");
    return HF_ETIMENS;
}

void hfc_session_rouse(const struct hfc_session *session)
{
    const char bell = 0;
    ssize_t n;

    if (!hfc_file_is_ours(&session->sock))
        return;
    do
        n = send(session->sock.fd, &bell, sizeof(bell), MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR); /* no room: it rings already */
}

int hfc_session_adopt(hf_client *client, const struct hf_welcome *welcome,
                      const int fds[HF_WELCOME_FDS], char *why, size_t why_size)
{
    struct hfc_session *session = client->session;
    int status;

    status = hf_ring_client_map(fds[HF_FD_REQUESTS], fds[HF_FD_COMPLETIONS], client->beats,
                                &session->ring);
    if (status < 0) {
        (void)snprintf(why, why_size, "the rings cannot be mapped: %s", hf_status_text(status));
        close(fds[HF_FD_TABLE]);
        return status;
    }
    session->has_ring = true;
    hfc_session_rouse(session); /* the memory is there */
    hfc_poll_rings(client);
    /* A forked child must not be able to speak for its parent. */
    (void)madvise(session->ring.out, HF_RING_BYTES, MADV_DONTFORK);
    (void)madvise((void *)session->ring.in, HF_RING_BYTES, MADV_DONTFORK);
    (void)madvise(client->beats, HF_BEATS_BYTES, MADV_DONTFORK);
    status =
        session_map_table(client, fds[HF_FD_TABLE], welcome->epoch, &session->map, why, why_size);
    return status < 0 ? status : session_judge_clock(session->map, why, why_size);
}
