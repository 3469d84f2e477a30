/* Two processes that watch one job: the second joins the first one's lease. */
#include "libclient/internal.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libclient/holdfast_run.h"

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

static int guardian_check_tickets(const struct hf_ticket *tickets, size_t count)
{
    if (count == 0 || count > HF_EXCLUSIVE_LEASES)
        return hfc_fail(HF_EINVAL, "join 1 to %d leases at once, not %zu", HF_EXCLUSIVE_LEASES,
                        count);
    for (size_t i = 0; i < count; i++) {
        const struct hf_ticket *ticket = &tickets[i];

        if (!memchr(ticket->path, '\0', sizeof(ticket->path)) || !strchr(ticket->path, '/'))
            return hfc_fail(HF_EINVAL, "hf_join: the ticket has no path");
        if (memcmp(ticket->cookie, tickets->cookie, sizeof(ticket->cookie)) != 0 ||
            strcmp(ticket->path, tickets->path) != 0)
            return hfc_fail(HF_EINVAL, "hf_join_all: the tickets are of several clients");
    }
    return HF_OK;
}

int hf_join_all(const struct hf_ticket *tickets, size_t count, hf_client **ret_client,
                hf_lease **ret_leases)
{
    struct hfc_place places[HFC_PLACES_MAX];
    hf_lease *leases[HF_EXCLUSIVE_LEASES] = {NULL};
    hf_client *client;
    int place_count = 0, status;

    if (!tickets || !ret_client || !ret_leases)
        return hfc_fail(HF_EINVAL, "hf_join: an argument is NULL");
    status = guardian_check_tickets(tickets, count);
    if (status == HF_OK)
        status = hfc_places(tickets->path, places, &place_count);
    if (status < 0)
        return status;
    status = hfc_client_open(places, place_count, HF_ROLE_GUARDIAN, tickets->cookie, &client);
    if (status < 0)
        return status;
    hfc_lock(client);
    for (size_t i = 0; i < count && status == HF_OK; i++)
        status = hfc_lease_make(client, tickets[i].slot, tickets[i].generation, tickets[i].fence,
                                true, 0, &leases[i]);
    hfc_unlock(client);
    if (status < 0) {
        hfc_fail(status, status == HF_ELOST ? "the lease of the ticket is over" : NULL);
        hf_disconnect(client);
        return status;
    }
    for (size_t i = 0; i < count; i++)
        ret_leases[i] = leases[i];
    *ret_client = client;
    return HF_OK;
}

int hf_join(const struct hf_ticket *ticket, hf_client **ret_client, hf_lease **ret_lease)
{
    return hf_join_all(ticket, 1, ret_client, ret_lease);
}

static void guardian_close_group(const int fds[HF_GROUP_FDS])
{
    for (int i = 0; i < HF_GROUP_FDS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static int guardian_open_group(int directory, int ret_fds[HF_GROUP_FDS])
{
    static const char *const names[HF_GROUP_FDS] = {
        [HF_FD_GROUP_KILL] = "cgroup.kill", [HF_FD_GROUP_FREEZE] = "cgroup.freeze"};

    for (int i = 0; i < HF_GROUP_FDS; i++)
        ret_fds[i] = -1;
    for (int i = 0; i < HF_GROUP_FDS; i++) {
        if (!names[i])
            continue;
        ret_fds[i] = openat(directory, names[i], O_WRONLY | O_CLOEXEC);
        if (ret_fds[i] < 0)
            return hfc_fail(HF_EINVAL, "hf_job_group: %s: %m", names[i]);
    }
    ret_fds[HF_FD_GROUP] = fcntl(directory, F_DUPFD_CLOEXEC, 0);
    return ret_fds[HF_FD_GROUP] < 0 ? hfc_fail(HF_ESYS, "hf_job_group: %m") : HF_OK;
}

int hf_job_group(hf_client *client, int directory)
{
    int fds[HF_GROUP_FDS], status = hfc_client_check(client);

    if (status < 0)
        return status;
    if (client->role != HF_ROLE_GUARDIAN)
        return hfc_fail(HF_EINVAL, "hf_job_group: this client was not made by hf_join()");
    status = guardian_open_group(directory, fds);
    hfc_lock(client);
    if (status == HF_OK && client->group[HF_FD_GROUP].fd >= 0)
        status = hfc_fail(HF_EINVAL, "hf_job_group: this client has a group already");
    for (int i = 0; i < HF_GROUP_FDS && status == HF_OK; i++)
        hfc_file_keep(&client->group[i], fds[i]);
    if (status == HF_OK)
        hfc_link_tell_group(client);
    hfc_unlock(client);
    if (status < 0)
        guardian_close_group(fds);
    return status;
}

/* --- for jobs --------------------------------------------------------------------------------- */

/* The heartbeat of a job of `holdfast run --heartbeat`: a word in a memfd that it inherits. */

static uint32_t *found; /* the word, once a call has found it */

/* Sealed, of that size and with the magic number: this guards against writing to another file that
 * reuses the descriptor's number. */
static uint32_t *job_map_word(int fd)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    struct hf_job_memory *memory;
    struct stat st;
    int has = fcntl(fd, F_GET_SEALS);

    if (has < 0 || (has & seals) != seals || fstat(fd, &st) < 0 || st.st_size != sizeof(*memory))
        return NULL;
    memory = mmap(NULL, sizeof(*memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (memory->magic == HF_JOB_MAGIC)
        return &memory->beats;
    munmap(memory, sizeof(*memory));
    return NULL;
}

/* (!) secure_getenv(): the caller of a set-uid program would have it open any file for writing. */
static uint32_t *job_find_word(void)
{
    const char *text = secure_getenv("HOLDFAST_BEAT_FD");
    uint32_t *word = NULL;
    char *end;
    long fd;

    if (text) {
        fd = strtol(text, &end, 10);
        if (end != text && !*end && fd >= 0 && fd <= INT32_MAX)
            word = job_map_word((int)fd);
    }
    if (!word && (text = secure_getenv("HOLDFAST_BEAT_PATH"))) {
        int opened = open(text, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

        if (opened >= 0) {
            word = job_map_word(opened);
            close(opened);
        }
    }
    return word;
}

int hf_job_beat(void)
{
    uint32_t *word = __atomic_load_n(&found, __ATOMIC_ACQUIRE);

    if (!word) {
        uint32_t *none = NULL;

        word = job_find_word();
        if (!word)
            return 0;
        /* Two threads may map it twice: it is the same word. */
        (void)__atomic_compare_exchange_n(&found, &none, word, false, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED);
    }
    (void)__atomic_fetch_add(word, 1, __ATOMIC_RELAXED);
    return 1;
}
