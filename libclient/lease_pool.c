/* Where handles live: pages that the kernel empties in a forked child (MADV_WIPEONFORK), so that a
 * child holds nothing without a system call or an atfork handler. */
#include "libclient/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "shm/assert.h"

#define CELL        (sizeof(struct hfc_lease))
#define CHUNK_FIRST ((size_t)4096)
#define CHUNK_MAX                                                                                  \
    ((int64_t)1024 * 1024) /* chunks double, so that a million handles are few mappings */

static void *pool_chunk_add(hf_client *client) REQUIRES(hfc_locked)
{
    struct hfc_chunk *chunk = malloc(sizeof(*chunk));
    int error;

    if (!chunk)
        return NULL;
    chunk->bytes = CHUNK_FIRST;
    if (client->chunks)
        chunk->bytes = (size_t)hfc_min((int64_t)client->chunks->bytes * 2, CHUNK_MAX);
    chunk->memory =
        mmap(NULL, chunk->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk->memory == MAP_FAILED) {
        free(chunk);
        return NULL;
    }
    if (madvise(chunk->memory, chunk->bytes, MADV_WIPEONFORK) < 0) {
        error = errno;
        munmap(chunk->memory, chunk->bytes);
        free(chunk);
        errno = error;
        return NULL;
    }
    chunk->next = client->chunks;
    client->chunks = chunk;
    return chunk->memory;
}

static void pool_cells_add(hf_client *client, struct hfc_lease *cells, size_t from, size_t count)
    REQUIRES(hfc_locked)
{
    for (size_t i = from; i < count; i++)
        TAILQ_INSERT_TAIL(&client->free_leases, &cells[i], link);
}

int hfc_pool_init(hf_client *client)
{
    struct hfc_lease *cells;
    uint64_t *life;

    errno = ENOMEM;
    cells = pool_chunk_add(client);
    if (!cells)
        return errno == ENOMEM ? hfc_fail(HF_ENOMEM, NULL)
                               : hfc_fail(HF_ESYS, "no memory that fork() empties (Linux 4.14)");
    /* The first cell is the life word's. */
    life = (uint64_t *)(void *)cells;
    *life = 1;
    client->life = life;
    pool_cells_add(client, cells, 1, CHUNK_FIRST / CELL);
    return HF_OK;
}

struct hfc_lease *hfc_pool_take(hf_client *client)
{
    struct hfc_lease *lease;

    if (TAILQ_EMPTY(&client->free_leases)) {
        struct hfc_lease *cells = pool_chunk_add(client);

        if (!cells)
            return NULL;
        pool_cells_add(client, cells, 0, client->chunks->bytes / CELL);
    }
    lease = TAILQ_FIRST(&client->free_leases);
    TAILQ_REMOVE(&client->free_leases, lease, link);
    TAILQ_INSERT_TAIL(&client->leases, lease, link);
    return lease;
}

void hfc_pool_give(struct hfc_lease *lease)
{
    hf_client *client = lease->client;

    hf_assert(__atomic_load_n(&lease->handle.hf_private_generation, __ATOMIC_RELAXED) == 0,
              "slot %u, generation %u", (unsigned)lease->slot, (unsigned)lease->generation);
    TAILQ_REMOVE(&client->leases, lease, link);
    /* First in, first out: a handle used after its release by mistake stays dead for long. */
    TAILQ_INSERT_TAIL(&client->free_leases, lease, link);
}

void hfc_pool_free(hf_client *client)
{
    while (client->chunks) {
        struct hfc_chunk *chunk = client->chunks;

        client->chunks = chunk->next;
        munmap(chunk->memory, chunk->bytes);
        free(chunk);
    }
}

/* --- where leases beat ------------------------------------------------------------------------ */

/* Where leases beat: a page at one address for as long as the client lives, so that hf_beat() needs
 * no lock. Each session puts the words that its agent reads under it. */

int hfc_beats_init(hf_client *client)
{
    void *page =
        mmap(NULL, HF_BEATS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return hfc_fail(HF_ENOMEM, NULL);
    (void)madvise(page, HF_BEATS_BYTES, MADV_DONTFORK);
    client->beats = page;
    client->beats_used[0] = 1; /* word 0 is nobody's */
    return HF_OK;
}

void hfc_beats_fini(hf_client *client)
{
    munmap(client->beats, HF_BEATS_BYTES);
}

uint32_t hfc_beats_take(hf_client *client)
{
    for (uint32_t i = 0; i < HF_LENGTH(client->beats_used); i++)
        if (~client->beats_used[i]) {
            uint32_t bit = (uint32_t)__builtin_ctzll(~client->beats_used[i]);

            client->beats_used[i] |= UINT64_C(1) << bit;
            return i * 64 + bit;
        }
    return 0;
}

void hfc_beats_give(hf_client *client, uint32_t word)
{
    if (word)
        client->beats_used[word / 64] &= ~(UINT64_C(1) << word % 64);
}
