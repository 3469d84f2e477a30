#include "agent/state/drain_record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/state/state_file.h"
#include "shm/bases.h"
#include "shm/status.h"

#define RECORD_MAGIC   UINT64_C(0x314e4941524446) /* "FDRAIN1" */
#define RECORD_VERSION 1

struct record {
    int64_t since_wall_ms;
    uint32_t uid, pid;
};

#define FILE_SIZE (STATE_FILE_HEADER + sizeof(struct record))

static struct state_file_header drain_record_header_of(const struct boot_clock *clock)
{
    struct state_file_header h = {
        .magic = RECORD_MAGIC, .fingerprint = RECORD_VERSION, .size = FILE_SIZE};

    h.clock = *clock;
    return h;
}

/* Of another boot: it stands for no drain. */
static bool drain_record_is_over(int fd, const struct boot_clock *clock,
                                 struct hf_drained *ret_drained)
{
    const struct state_file_header want = drain_record_header_of(clock);
    struct state_file_header have;
    struct record r;

    switch (state_file_judge(fd, &want, &have)) {
    case STATE_FILE_OF_ANOTHER_BOOT:
        return true;
    case STATE_FILE_OF_ANOTHER_CLOCK: /* it has no BOOTTIME in it */
    case STATE_FILE_COPY:             /* a host that an operator drained stays drained */
    case STATE_FILE_GOOD:
        if (pread(fd, &r, sizeof(r), STATE_FILE_HEADER) == (ssize_t)sizeof(r)) {
            ret_drained->since_wall_ms = r.since_wall_ms;
            ret_drained->uid = r.uid;
            ret_drained->pid = r.pid;
        }
        return false;
    case STATE_FILE_OF_ANOTHER_LAYOUT:
    case STATE_FILE_DAMAGED:
    case STATE_FILE_FOREIGN:
        break;
    }
    return false;
}

void drain_record_read(const char *path, const struct boot_clock *clock,
                       struct hf_drained *ret_drained)
{
    struct hf_drained found = {.stands = true};
    int fd;

    *ret_drained = (struct hf_drained){.stands = false};
    if (!*path)
        return;
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return;
    if (fd >= 0 && drain_record_is_over(fd, clock, &found)) {
        close(fd);
        (void)unlink(path);
        return;
    }
    if (fd >= 0)
        close(fd);
    if (!found.since_wall_ms)
        log_warn("%s cannot be read: this agent counts as drained", path);
    *ret_drained = found;
}

int drain_record_keep(const char *path, const struct boot_clock *clock,
                      const struct hf_drained *drained, char *why, size_t why_size)
{
    const struct state_file_header want = drain_record_header_of(clock);
    const struct record r = {
        .since_wall_ms = drained->since_wall_ms, .uid = drained->uid, .pid = drained->pid};

    if (!*path)
        return HF_OK;
    if (!drained->stands)
        return state_file_remove(path, why, why_size);
    return state_file_replace(path, "the drain", &want, &r, sizeof(r), why, why_size);
}

void drain_record_say(const struct hf_drained *drained, const char *agent,
                      char ret_text[DRAIN_RECORD_TEXT])
{
    bool is_default = strcmp(agent, HF_DEFAULT_AGENT) == 0;
    time_t seconds = (time_t)(drained->since_wall_ms / 1000);
    char since[64] = "", who[24] = "";
    struct tm tm;

    if (drained->since_wall_ms && gmtime_r(&seconds, &tm)) {
        (void)strftime(since, sizeof(since), " since %Y-%m-%dT%H:%M:%SZ", &tm);
        snprintf(who, sizeof(who), " by user %" PRIu32, drained->uid);
    }
    snprintf(ret_text, DRAIN_RECORD_TEXT,
             "this host is drained%s%s: it grants no lock until holdfast undrain%s%s", since, who,
             is_default ? "" : " --agent ", is_default ? "" : agent);
}
