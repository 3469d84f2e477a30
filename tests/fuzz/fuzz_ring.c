/* The agent's side of a client's rings, against memory that a client writes as it likes: after each
 * step the agent must be where a model of two private cursors says. */
#include "tests/fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "shm/ring.h"
#include "shm/status.h"
#include "tests/support/ring_post.h"

static struct hf_ring_agent ring;
static struct hf_requests_page *hostile; /* the client's mapping of the requests */

static void map_both(void)
{
    int requests, completions;

    FUZZ_CHECK(hf_ring_agent_create(&ring, &requests, &completions) == 0);
    hostile = mmap(NULL, HF_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, requests, 0);
    FUZZ_CHECK(hostile != MAP_FAILED);
    close(requests);
    close(completions);
}

static void take(void)
{
    uint32_t head = ring.request_head, waiting = atomic_load(&hostile->tail) - head;
    struct hf_request_entry entry;
    int rc = hf_ring_take(&ring, &entry);

    FUZZ_CHECK(rc == (waiting == 0 ? 0 : waiting <= HF_RING_ENTRIES ? 1 : HF_EPROTO));
    FUZZ_CHECK(ring.request_head == head + (rc == 1));
    if (rc == 1) {
        FUZZ_CHECK(memcmp(&entry, hf_ring_place(hostile, head), sizeof(entry)) == 0);
        FUZZ_CHECK(atomic_load(&ring.out->request_head) == head + 1);
    }
}

static void post(struct fuzz_input *in)
{
    uint32_t tail = ring.completion_tail, wake = atomic_load(&ring.out->wake);
    int room = hf_ring_room(&ring), rc;
    struct hf_completion_entry entry;

    fuzz_take(in, &entry, 32);
    rc = ring_post(&ring, &entry);
    FUZZ_CHECK(rc == (room > 0 ? 0 : room == 0 ? HF_EFULL : HF_EPROTO));
    FUZZ_CHECK(ring.completion_tail == tail + (rc == 0));
    FUZZ_CHECK(atomic_load(&ring.out->tail) == ring.completion_tail || rc != 0);
    FUZZ_CHECK(atomic_load(&ring.out->wake) == wake + (rc == 0));
}

static void check_room(void)
{
    uint32_t unread = ring.completion_tail - atomic_load(&hostile->completion_head);

    FUZZ_CHECK(hf_ring_room(&ring) ==
               (unread > HF_RING_ENTRIES ? HF_EPROTO : (int)(HF_RING_ENTRIES - unread)));
}

static void arm(void)
{
    bool empty = atomic_load(&hostile->tail) == ring.request_head;

    FUZZ_CHECK(hf_ring_arm(&ring) == empty);
    FUZZ_CHECK(atomic_load(&ring.out->need_wake) == (empty ? 1u : 0u));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};

    if (!hostile)
        map_both();
    memset(hostile, 0, HF_RING_BYTES);
    memset(ring.out, 0, HF_RING_BYTES);
    ring.request_head = fuzz_near(&in, 0); /* cursors wrap */
    ring.completion_tail = fuzz_near(&in, 0);
    atomic_store(&hostile->tail, ring.request_head);
    atomic_store(&hostile->completion_head, ring.completion_tail);
    while (in.left > 0)
        switch (fuzz_u8(&in) % 8) {
        case 0:
            atomic_store(&hostile->tail, fuzz_near(&in, ring.request_head));
            break;
        case 1:
            atomic_store(&hostile->completion_head, fuzz_near(&in, ring.completion_tail));
            break;
        case 2: /* anywhere in an entry */
            fuzz_take(&in, (char *)hostile + HF_RING_HEADER + fuzz_u16(&in) % (HF_ENTRY_SIZE * 31),
                      HF_ENTRY_SIZE);
            break;
        case 3:
            take();
            break;
        case 4:
            check_room();
            break;
        case 5:
            post(&in);
            break;
        case 6:
            arm();
            break;
        case 7:
            hf_ring_disarm(&ring);
            hf_ring_signal(&ring);
            break;
        }
    return 0;
}
