/* Whether a living agent has a table: it holds a write lock on the object for as long as it
 * has it open or mapped. The kernel drops the
 * lock however the agent ends, shows it across PID namespaces, and no number of a process is asked.
 * (!) Only a process that may write to the object can have such a lock: no reader can pretend to be an agent. */
#include "shm/table_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/status.h"

static bool living_is_locked(int fd)
{
    struct flock other = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_GETLK, &other) == 0 && other.l_type == F_WRLCK;
}

static void living_read_living(int fd, struct hf_table_living *ret_living)
{
    struct hf_table_living living = {.pid = 0};
    struct hf_table_header header;

    if (pread(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header) &&
        header.magic == HF_TABLE_MAGIC && header.major == HF_TABLE_MAJOR) {
        living.pid = atomic_load_explicit(&header.pid, memory_order_relaxed);
        memcpy(living.dir, header.dir, sizeof(living.dir) - 1);
    }
    *ret_living = living;
}

int hf_table_say_living(const char *agent_name, const struct hf_table_living *living, char *why,
                        size_t why_size)
{
    hf_table_say(why, why_size,
                 "an agent named '%s' of this user runs already: pid %u, in %s; stop it, or give "
                 "this one another --name",
                 agent_name, (unsigned)living->pid,
                 living->dir[0] ? living->dir : "a directory that is not known");
    return HF_EBUSY;
}

int hf_table_lock(int fd, const char *agent_name, char *why, size_t why_size)
{
    struct flock ours = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct hf_table_living living;

    if (fcntl(fd, F_OFD_SETLK, &ours) == 0 || !living_is_locked(fd))
        return 0; /* a reader's lock proves nothing, and must not keep the agent away */
    living_read_living(fd, &living);
    return hf_table_say_living(agent_name, &living, why, why_size);
}

bool hf_table_find_living(const char *shm_name, uid_t owner, struct hf_table_living *ret_living)
{
    int fd = shm_open(shm_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);
    bool found = false;
    struct stat st;

    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && hf_table_judge_file(shm_name, &st, owner, NULL, 0) == 0 &&
        living_is_locked(fd)) {
        living_read_living(fd, ret_living);
        found = true;
    }
    close(fd);
    return found;
}
