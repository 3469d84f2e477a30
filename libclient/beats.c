/* Where leases beat: a page at one address for as long as the client lives, so that hf_beat() needs
 * no lock. Each session puts the words that its agent reads under it. */
#include "libclient/internal.h"

#include <sys/mman.h>

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
