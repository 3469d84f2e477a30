#include "agent/process/notify.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "shm/assert.h"
#include "shm/layout.h"

bool notify_is_wanted(void)
{
    const char *path = getenv("NOTIFY_SOCKET");

    return path && *path;
}

void notify_send(const char *state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    size_t length = path ? strlen(path) : 0;
    int fd;

    if (length < 2 || length >= sizeof(address.sun_path) || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(address.sun_path, path, length);
    if (path[0] == '@')
        address.sun_path[0] = '\0'; /* the abstract namespace */
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, state, strlen(state), MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
    close(fd);
}

void notify_reloading(void)
{
    struct timespec now;
    char text[80];

    /* systemd tells it from an earlier one by this clock. */
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%lld",
             (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    notify_send(text);
}

/* Half the time after which the watchdog of the service manager ends a process that did not say WATCHDOG=1; 0 when
 * there is none. */
static hf_dur notify_watchdog(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    long long us = usec ? strtoll(usec, NULL, 10) : 0;

    if (us <= 0 || (pid && strtoll(pid, NULL, 10) != getpid()))
        return hf_ns(0);
    return hf_ns(us * HF_NS_PER_US / 2);
}

/* --- the watchdog ----------------------------------------------------------------------------- */

#define STILL_MOST  hf_ms(2500) /* where no manager has another one */
#define STILL_LEAST hf_ms(1000) /* a busy host has threads wait */

void watchdog_init(struct watchdog *dog)
{
    hf_dur half = notify_watchdog();

    /* Main's turns are not exact, and a feed too late costs a restart. */
    *dog = (struct watchdog){.feed_every = hf_dur_scale(half, 1, 2),
                             .still_most = half.ns <= 0               ? STILL_MOST
                                           : half.ns < STILL_LEAST.ns ? STILL_LEAST
                                                                      : half,
                             .fed = HF_TIME_PAST};
}

static hf_dur watchdog_look(struct progress *p, const _Atomic int64_t *beat, hf_time now)
{
    return progress_look(p, atomic_load_explicit(beat, memory_order_relaxed), now);
}

static void watchdog_say_hangs(const struct watchdog *dog, const char *thread)
{
    if (dog->feed_every.ns > 0)
        log_error("the %s thread has stood still for %lld ms: the service manager is to start "
                  "this agent again, and the next one takes its leases over",
                  thread, (long long)(dog->still_most.ns / HF_NS_PER_MS));
    else
        log_error("restart this agent (kill -ABRT %d, or its service): its %s thread has stood "
                  "still for %lld ms, and leases that nobody extends are lost; the next agent "
                  "takes over those that still stand",
                  (int)getpid(), thread, (long long)(dog->still_most.ns / HF_NS_PER_MS));
}

void watchdog_turn(struct watchdog *dog, const struct hf_table_header *header, hf_time now)
{
    hf_dur broker = watchdog_look(&dog->broker, &header->broker_beat_ns, now);
    hf_dur renewal = watchdog_look(&dog->renewal, &header->renewal_beat_ns, now);
    const char *thread = renewal.ns >= dog->still_most.ns  ? "renewal"
                         : broker.ns >= dog->still_most.ns ? "broker"
                                                           : NULL;

    hf_assert(dog->still_most.ns > 0, "feed_every %lld", (long long)dog->feed_every.ns);
    if (thread && !dog->hangs) {
        watchdog_say_hangs(dog, thread);
        if (dog->feed_every.ns > 0)
            notify_send("WATCHDOG=trigger");
    }
    if (!thread && dog->hangs)
        log_warn("all threads go on again");
    dog->hangs = thread != NULL;
    if (thread || dog->feed_every.ns <= 0 ||
        hf_time_before(now, hf_time_add(dog->fed, dog->feed_every)))
        return;
    dog->fed = now;
    notify_send("WATCHDOG=1");
}
