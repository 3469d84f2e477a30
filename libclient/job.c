/* The heartbeat of a job of `holdfast run --heartbeat`: a word in a memfd that it inherits. */
#include "libclient/holdfast_run.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
