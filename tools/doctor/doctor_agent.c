/* doctor: the agent, its table, and its share of the host's resources. */
#include "tools/doctor/doctor_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "libclient/holdfast.h"
#include "shm/process.h"
#include "shm/status.h"
#include "shm/table_notes.h"
#include "shm/wire.h"
#include "tools/common/process.h"
#include "tools/common/since.h"
#include "tools/common/text.h"
#include "tools/output/words.h"
#include "tools/reader/life.h"

/* A sign of life is due every 100 ms. */
#define BEAT_LATE_MS   1000

#define CLIENTS_MODEST 256

#define START_IT       "start it: systemctl start holdfastd, or holdfastd as this user"

/* --- life ---------------------------------------------------------------------------------------- */

static const char *agent_life_remedy(const struct life *life)
{
    if (life->verdict != LIFE_HUNG)
        return START_IT;
    return life->process == LIFE_PROCESS_STOPPED
               ? "let it go on: kill -CONT PID; leases lapse while it is stopped"
               : "look at its log and its stack, then restart it: leases that are still valid "
                 "survive that";
}

static void agent_look_at_life(struct doctor *doctor, const struct reader *reader,
                               const struct life *life)
{
    char text[256], span[TEXT_SPAN_SIZE];
    int64_t worst = -1;

    if (life->verdict != LIFE_ALIVE) {
        doctor_report(doctor, FINDING_FAIL, "agent.alive", agent_life_remedy(life), "%s",
                      life_sentence(text, sizeof(text), reader->place.agent, life));
        return;
    }
    doctor_report(doctor, FINDING_OK, "agent.alive", NULL, "agent %s is alive: pid %d, up %s",
                  reader->place.agent, (int)life->pid,
                  text_span(span, sizeof(span), life->up_ms > 0 ? life->up_ms : 0));
    for (int i = 0; i < LIFE_THREADS; i++) {
        worst = life->age_ms[i] > worst ? life->age_ms[i] : worst;
        if (life->age_ms[i] > BEAT_LATE_MS)
            doctor_report(doctor, FINDING_WARN, "agent.heartbeat",
                          "give the agent more CPU (CPUWeight=, nice), and look at what starves it",
                          "the %s thread's last sign of life was %s ago, where one is due every "
                          "100 ms",
                          life_thread_name(i), text_span(span, sizeof(span), life->age_ms[i]));
    }
    if (worst <= BEAT_LATE_MS)
        doctor_report(doctor, FINDING_OK, "agent.heartbeat", NULL,
                      "all threads gave a sign of life within %s",
                      text_span(span, sizeof(span), worst > 0 ? worst : 0));
}

void doctor_agent_missing(struct doctor *doctor, int status, const char *why,
                          const struct place places[], int count)
{
    for (int i = 0; i < count && status == HF_ENOAGENT; i++) {
        pid_t pid = places_locked_by(&places[i]);

        if (pid > 0) {
            doctor_report(
                doctor, FINDING_FAIL, "agent.table",
                "restart the agent; for a user's agent: loginctl enable-linger USER, or "
                "RemoveIPC=no in logind.conf",
                "agent %s runs (pid %d), but its table /dev/shm%s is gone: it was removed "
                "(rm, or logind at logout)",
                places[i].agent, (int)pid, places[i].shm_name);
            return;
        }
    }
    if (status == HF_ENOAGENT)
        doctor_report(doctor, FINDING_FAIL, "agent.alive", START_IT, "%s", why);
    else
        doctor_report(doctor, FINDING_FAIL, "agent.table",
                      status == HF_EPERM
                          ? "join the group that may read the table, or ask as root"
                          : "follow what the message says; while this lasts, status and check "
                            "cannot tell anything (holders are not affected)",
                      "%s", why);
}

static void agent_look_at_directory(struct doctor *doctor, const struct reader *reader)
{
    char text[READER_ELSEWHERE_SIZE];

    if (reader->elsewhere)
        doctor_report(doctor, FINDING_FAIL, "agent.directory",
                      "unset HOLDFAST_RUNTIME_DIR, or name the agent's socket with --agent", "%s",
                      reader_elsewhere(text, sizeof(text), reader));
    else if (reader_is_shut(reader, text, sizeof(text)))
        doctor_report(doctor, FINDING_FAIL, "agent.directory", READER_SHUT_REMEDY, "%s", text);
    else if (*reader->dir)
        doctor_report(doctor, FINDING_OK, "agent.directory", NULL, "its directory is %s",
                      text_escape_str(text, sizeof(text), reader->dir));
}

/* --- table and room ------------------------------------------------------------------------------ */

static void agent_look_at_table(struct doctor *doctor, const struct reader *reader)
{
    char path[HF_TABLE_NAME_MAX + 16], user[FORMAT_USER_SIZE];
    uint64_t leases = hf_counter_read(&reader->table, HF_COUNTER_LEASES);
    struct stat st;

    snprintf(path, sizeof(path), "/dev/shm%s", reader->place.shm_name);
    if (stat(path, &st) == 0)
        doctor_report(doctor, FINDING_OK, "agent.table", NULL,
                      "%s is linked, of user %s, mode %04o, %zu KiB", path,
                      format_user(user, sizeof(user), (uint32_t)st.st_uid),
                      (unsigned)st.st_mode & 07777, (size_t)st.st_blocks / 2);
    if (leases > hf_table_capacity(&reader->table) / 10 * 9)
        doctor_report(doctor, FINDING_WARN, "agent.capacity",
                      "raise the agent's capacity and restart it: leases that are held stay",
                      "%" PRIu64 " of %" PRIu32 " leases are in use", leases,
                      hf_table_capacity(&reader->table));
    else
        doctor_report(doctor, FINDING_OK, "agent.capacity", NULL,
                      "%" PRIu64 " of %" PRIu32 " leases are in use", leases,
                      hf_table_capacity(&reader->table));
}

/* Most of it is room to grow, without memory. */
static uint64_t agent_table_bytes(const struct reader *reader)
{
    char path[HF_TABLE_NAME_MAX + 16];
    struct stat st;

    snprintf(path, sizeof(path), "/dev/shm%s", reader->place.shm_name);
    return stat(path, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

static void agent_look_at_shm(struct doctor *doctor, const struct reader *reader)
{
    uint64_t need = agent_table_bytes(reader), room;
    struct statvfs fs;

    if (statvfs("/dev/shm", &fs) < 0)
        return;
    room = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (room < need)
        doctor_report(doctor, FINDING_WARN, "host.shm",
                      "free some of it, or give it more room (mount -o remount,size=...; "
                      "--shm-size of a container): an agent that replaces its table needs as much",
                      "/dev/shm has %" PRIu64 " KiB left, and the table takes %" PRIu64 " KiB",
                      room / 1024, need / 1024);
    else
        doctor_report(doctor, FINDING_OK, "host.shm", NULL,
                      "/dev/shm has %" PRIu64 " MiB left, the table takes %" PRIu64 " KiB",
                      room / 1024 / 1024, need / 1024);
}

static void agent_look_at_descriptors(struct doctor *doctor, const struct reader *reader,
                                      const struct life *life)
{
    uint64_t clients = hf_counter_read(&reader->table, HF_COUNTER_CLIENTS);
    int64_t limit, fit, most;
    bool tight;

    if (life->verdict == LIFE_DEAD || life->verdict == LIFE_ENDED)
        return;
    limit = life->process == LIFE_PROCESS_UNSEEN ? -1 : process_descriptor_limit(life->pid);
    if (limit < 0) {
        doctor_report(doctor, FINDING_NOTE, "agent.descriptors", NULL,
                      "the agent's limit on descriptors cannot be read from here");
        return;
    }
    fit = hf_sessions_fit(limit, reader->table.header->nodes);
    most = (int64_t)hf_counter_read(&reader->table, HF_COUNTER_CLIENTS_MAX);
    tight = most < CLIENTS_MODEST || (uint64_t)most / 10 * 9 < clients;
    doctor_report(doctor, tight ? FINDING_WARN : FINDING_OK, "agent.descriptors",
                  !tight       ? NULL
                  : most < fit ? "raise the agent's clients_max"
                               : "raise LimitNOFILE= in the unit, or ulimit -n",
                  "a limit of %" PRId64 " descriptors has room for %" PRId64
                  " clients, and %" PRId64 " may attach; %" PRIu64 " are attached",
                  limit, fit, most, clients);
}

/* --- how it runs --------------------------------------------------------------------------------- */

static void agent_look_at_renewals(struct doctor *doctor, const struct reader *reader)
{
    int64_t lag_ms =
        (int64_t)hf_counter_read(&reader->table, HF_COUNTER_RENEW_LAG_MAX_NS) / HF_NS_PER_MS;
    int64_t most_ms = reader->table.header->ttl_ms / 10;
    uint64_t losses = hf_counter_read(&reader->table, HF_COUNTER_LOSSES);
    char lag[TEXT_SPAN_SIZE];

    text_span(lag, sizeof(lag), lag_ms);
    if (lag_ms > most_ms)
        doctor_report(doctor, FINDING_WARN, "agent.renewals",
                      "give the agent more CPU; a pause of the machine shows like this, too",
                      "a renewal came %s late since the start; a tenth of the TTL is the aim", lag);
    else
        doctor_report(doctor, FINDING_OK, "agent.renewals", NULL,
                      "renewals were at most %s late since the start", lag);
    if (losses)
        doctor_report(doctor, FINDING_NOTE, "agent.losses",
                      "see holdfast history: when and why each was lost, and through which node",
                      "%" PRIu64 " leases were lost since the start", losses);
}

static void agent_look_at_version(struct doctor *doctor, const struct reader *reader)
{
    char agents[4 * sizeof(reader->version)], own[24];

    snprintf(own, sizeof(own), "%d.%d.", HF_VERSION_MAJOR, HF_VERSION_MINOR);
    text_escape_str(agents, sizeof(agents), reader->version);
    if (strncmp(agents, own, strlen(own)) != 0)
        doctor_report(doctor, FINDING_WARN, "agent.version",
                      "restart the agent: leases that are valid survive that",
                      "the agent is of version %s and this command of %s*", agents, own);
}

static void agent_look_at_flags(struct doctor *doctor, const struct reader *reader)
{
    uint32_t flags = reader->table.header->flags;

    if (flags & HF_TABLE_F_DEV)
        doctor_report(doctor, FINDING_NOTE, "agent.dev", NULL,
                      "its nodes are private ones (--dev): locks exclude this host only, and end "
                      "with the agent");
    if (flags & HF_TABLE_F_ASSUME_FRESH)
        doctor_report(doctor, FINDING_NOTE, "agent.assume_fresh", NULL,
                      "it was started with --assume-fresh: the operator vouched for the nodes, "
                      "which skipped their first quarantine");
    if (flags & HF_TABLE_F_ALLOW_EVICTION)
        doctor_report(doctor, FINDING_WARN, "agent.allow_eviction",
                      "set maxmemory-policy noeviction on the nodes, and drop allow_eviction",
                      "allow_eviction is set: nodes that run out of memory may forget locks");
    if (flags & HF_TABLE_F_ALLOW_REPLICAS)
        doctor_report(doctor, FINDING_WARN, "agent.allow_replicas",
                      "detach the nodes' replicas, and drop allow_replicas",
                      "allow_replicas is set: a failover of a node may give away locks that are "
                      "held");
}

static void agent_look_at_drain(struct doctor *doctor, const struct reader *reader)
{
    char wall[TEXT_SPAN_SIZE], user[FORMAT_USER_SIZE];
    struct hf_drained drained;

    hf_drained_read(&reader->table, &drained);
    if (drained.stands && drained.since_wall_ms)
        doctor_report(doctor, FINDING_WARN, "agent.drained",
                      "holdfast undrain, once the host may have locks again",
                      "it is drained since %s by user %s: it grants no lock",
                      text_wall(wall, sizeof(wall), drained.since_wall_ms),
                      format_user(user, sizeof(user), drained.uid));
    else if (drained.stands)
        doctor_report(doctor, FINDING_WARN, "agent.drained", "holdfast undrain",
                      "it counts as drained, and grants no lock: the record of its drain cannot be "
                      "read");
}

static void agent_look_at_last_words(struct doctor *doctor, const struct reader *reader)
{
    struct hf_last_words words;
    char text[LAST_WORDS_SIZE];

    if (hf_last_words_read(reader->table.header, &words))
        doctor_report(doctor, FINDING_WARN, "agent.assertion",
                      "report it with the agent's log of that time; a stop in order (systemctl "
                      "stop) removes this warning",
                      "agent %s: %s", reader->place.agent,
                      last_words_sentence(text, sizeof(text), &words, wall_now_ms()));
}

/* Whether the mount at /proc hides other users' processes from all but root. */
static bool agent_proc_hides(void)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    bool hides = false;
    char *line = NULL;
    size_t size = 0;

    if (!file)
        return false;
    while (getline(&line, &size, file) > 0) {
        const char *options = strstr(line, " - proc "), *how;

        if (!options || !strstr(line, " /proc "))
            continue;
        how = strstr(options, "hidepid=");
        hides = how && strncmp(how, "hidepid=0", 9) != 0 && strncmp(how, "hidepid=off", 11) != 0 &&
                !strstr(options, "gid="); /* the last one is on top */
    }
    free(line);
    fclose(file);
    return hides;
}

static void agent_look_at_proc(struct doctor *doctor, const struct reader *reader)
{
    if (reader->table.header->flags & HF_TABLE_F_USER || hf_process_peers_known() ||
        !agent_proc_hides())
        return;
    doctor_report(doctor, FINDING_WARN, "host.proc",
                  "mount /proc with gid= of a group of the agent's, or update to Linux 6.5",
                  "/proc hides other users' processes (hidepid), and this kernel does not tell the "
                  "agent who connects: it refuses their programs");
}

/* systemd ends a user's services and removes the user's shared memory with the last session. */
static void agent_look_at_linger(struct doctor *doctor, const struct reader *reader)
{
    char user[FORMAT_USER_SIZE], path[FORMAT_USER_SIZE + 32];

    if (!(reader->table.header->flags & HF_TABLE_F_USER) || access("/run/systemd/system", F_OK) < 0)
        return;
    format_user(user, sizeof(user), reader->table.header->uid);
    snprintf(path, sizeof(path), "/var/lib/systemd/linger/%s", user);
    if (access(path, F_OK) < 0)
        doctor_report(doctor, FINDING_NOTE, "agent.linger", NULL,
                      "this agent of user %s ends with that user's last login session, unless "
                      "loginctl enable-linger %s is given",
                      user, user);
}

void doctor_agent_look(struct doctor *doctor, const struct reader *reader, const struct life *life)
{
    agent_look_at_life(doctor, reader, life);
    agent_look_at_directory(doctor, reader);
    agent_look_at_table(doctor, reader);
    agent_look_at_shm(doctor, reader);
    agent_look_at_descriptors(doctor, reader, life);
    agent_look_at_renewals(doctor, reader);
    agent_look_at_version(doctor, reader);
    agent_look_at_flags(doctor, reader);
    agent_look_at_drain(doctor, reader);
    agent_look_at_last_words(doctor, reader);
    agent_look_at_linger(doctor, reader);
    agent_look_at_proc(doctor, reader);
}

/* --- jobs ------------------------------------------------------------------------------------- */

/* doctor: jobs that are stopped for good. Their killers may not end them, and have frozen their control group: they act no
 * more, but keep memory and files. With $HOLDFAST_RUNTIME_DIR, which names some agents, none is looked for. */

#define JOB_PREFIX "holdfast-run-" /* tools/run/cgroup.c */
#define DEPTH_MAX  32
#define DYING_NS   200000000 /* every job that is killed is frozen for a moment */

struct walk {
    struct doctor *doctor;
    char path[4096]; /* of the directory that is looked at */
};

static bool jobs_is_stopped(int dir)
{
    char text[256];
    int fd = openat(dir, "cgroup.events", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    return strstr(text, "populated 1\n") && strstr(text, "frozen 1\n");
}

static void jobs_look_at_job(struct walk *w, int dir)
{
    const struct timespec dying = {.tv_nsec = DYING_NS};
    char remedy[sizeof(w->path) + 64];

    if (!jobs_is_stopped(dir))
        return;
    nanosleep(&dying, NULL);
    if (!jobs_is_stopped(dir))
        return;
    snprintf(remedy, sizeof(remedy), "as root: xargs kill -9 < %s/cgroup.procs", w->path);
    doctor_report(w->doctor, FINDING_WARN, "leftover.job", remedy,
                  "a job whose guardians or agent could not end it is stopped for good in %s",
                  w->path);
}

static void jobs_walk(struct walk *w, int parent, const char *name, int depth)
{
    int fd = openat(parent, name, O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    size_t length = strlen(w->path);
    struct dirent *entry;

    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    if (strncmp(name, JOB_PREFIX, strlen(JOB_PREFIX)) == 0)
        jobs_look_at_job(w, fd);
    while (depth < DEPTH_MAX && (entry = readdir(dir))) {
        if (entry->d_type != DT_DIR || strcmp(entry->d_name, ".") == 0 ||
            strcmp(entry->d_name, "..") == 0 ||
            length + 1 + strlen(entry->d_name) >= sizeof(w->path))
            continue;
        snprintf(w->path + length, sizeof(w->path) - length, "/%s", entry->d_name);
        jobs_walk(w, fd, entry->d_name, depth + 1);
        w->path[length] = '\0';
    }
    closedir(dir);
}

void doctor_jobs_look(struct doctor *doctor)
{
    struct walk w = {.doctor = doctor, .path = "/sys/fs/cgroup"};

    if (!getenv("HOLDFAST_RUNTIME_DIR"))
        jobs_walk(&w, AT_FDCWD, w.path, 0);
}
