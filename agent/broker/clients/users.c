/* The account of each user: how much it uses of the shared limits, and how much it may. */
#include "agent/broker/clients/users.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/broker/clients/clients.h"
#include "agent/core/bucket.h"
#include "shm/status.h"

/* Connections beyond clients_per_uid that may stay until their hello, to be told why they are refused. */
#define STRANGERS_OF_ONE 8
/* A quiet user may ask at once for as much as in this time; above a sweep, else it misses its rate. */
#define BURST (250 * HF_NS_PER_MS)
/* Connections of one user in the long run. A quiet user may make as many at once, and one more for each of its places. The
 * broker needs 20 us for each that it lets in and 10 us for one that it turns away, and in a storm others are queued behind
 * them. */
#define CONNECTS_PER_S 1000
/* Attaches of one user in the long run: each makes and maps memory. A user that is quiet may take all of its places at once. */
#define ATTACHES_PER_S 50
/* Between two log lines about a user that asks for too much. */
#define TELL_EVERY (60 * HF_NS_PER_SEC)

struct user *user_get(struct clients *clients, uint32_t uid)
{
    struct user *u;

    LIST_FOREACH (u, &clients->users, all)
        if (u->uid == uid)
            return u;
    u = calloc(1, sizeof(*u));
    if (!u)
        return NULL;
    u->uid = uid;
    LIST_INSERT_HEAD(&clients->users, u, all);
    return u;
}

void users_destroy(struct clients *clients)
{
    struct user *u;

    while ((u = LIST_FIRST(&clients->users))) {
        LIST_REMOVE(u, all);
        free(u);
    }
}

bool user_is_trusted(const struct user *u)
{
    return u->uid == 0 || u->uid == geteuid();
}

/* (!) Of `all` places some are for root and the agent's user. */
static uint64_t user_reserve(const struct user *u, uint64_t all)
{
    return user_is_trusted(u) ? 0 : all / 16;
}

/* (!) No other user has more than three quarters of the places that the reserve and the others leave: so some are left for whoever
 * comes next. `own`: with the one that is asked for. */
static bool user_is_fair(const struct user *u, uint64_t all, uint64_t others, uint64_t own)
{
    uint64_t taken = others + user_reserve(u, all), left = all > taken ? all - taken : 0;

    return user_is_trusted(u) || own <= left - left / 4;
}

uint64_t user_text_units(size_t name_len, size_t note_len)
{
    return (name_len + note_len + HF_COMM_MAX + HF_TEXT_UNIT - 1) / HF_TEXT_UNIT;
}

/* Those of ended sessions, too, whose memory is open: each place is as much memory and as many descriptors. */
static unsigned user_places_for_clients(const struct user *u)
{
    return u->sessions + u->kept;
}

static void user_say_kept(const struct user *u, char *text, size_t size)
{
    if (u->kept)
        snprintf(text, size, " (%u of them ended, and their memory is still open)", u->kept);
    else
        *text = '\0';
}

bool user_may_connect(const struct clients *clients, struct user *u, uint32_t strangers,
                      hf_time now)
{
    uint32_t most = clients->config->clients_per_uid, all = clients->config->clients_max;

    if (!user_is_trusted(u) &&
        !bucket_take(&u->connected_until, hf_ns(HF_NS_PER_SEC / CONNECTS_PER_S),
                     CONNECTS_PER_S + (int64_t)(most ? most : all), now))
        return false;
    /* A quarter of these, too, is for root and the agent's user. */
    if (clients->session_count + clients->kept_count >=
        all + strangers - (user_is_trusted(u) ? 0 : strangers / 4))
        return false;
    return !most || user_places_for_clients(u) < most + STRANGERS_OF_ONE;
}

int user_judge_attach(const struct clients *clients, const struct user *u, bool known, char *text,
                      size_t size)
{
    const struct config *c = clients->config;
    unsigned all = clients->session_count + clients->kept_count, own = user_places_for_clients(u);
    char kept[64];

    user_say_kept(u, kept, sizeof(kept));
    if (all > c->clients_max - user_reserve(u, c->clients_max)) {
        snprintf(text, size, "all %" PRIu32 " places for clients are taken; raise %s",
                 c->clients_max,
                 c->descriptors_bound ? "the agent's limit of descriptors (LimitNOFILE=, ulimit -n)"
                                      : "the agent's clients_max");
        return HF_EFULL;
    }
    if (!c->clients_per_uid)
        return HF_OK;
    if (own > c->clients_per_uid) {
        snprintf(text, size, "user %" PRIu32 " has %u clients%s, the limit (clients_per_uid)",
                 u->uid, own - 1, kept);
        return HF_ELIMIT;
    }
    if (!known && !user_is_fair(u, c->clients_max, all - own, own)) {
        snprintf(text, size,
                 "user %" PRIu32
                 " has %u clients%s, its share of the places that others leave; end "
                 "some, or raise the agent's clients_max",
                 u->uid, own - 1, kept);
        return HF_EFULL;
    }
    return HF_OK;
}

int user_judge_rate(const struct clients *clients, struct user *u, hf_time now, char *text,
                    size_t size)
{
    const struct config *c = clients->config;

    if (user_is_trusted(u) ||
        bucket_take(&u->attached_until, hf_ns(HF_NS_PER_SEC / ATTACHES_PER_S),
                    c->clients_per_uid ? c->clients_per_uid : c->clients_max, now))
        return HF_OK;
    snprintf(text, size, "user %" PRIu32 " attaches more than %d times a second; try again later",
             u->uid, ATTACHES_PER_S);
    return HF_ELIMIT;
}

bool user_may_hold(const struct clients *clients, const struct user *u)
{
    return !clients->config->leases_per_uid || u->leases < clients->config->leases_per_uid;
}

bool user_may_ask(const struct clients *clients, struct user *u, hf_time now)
{
    uint32_t rate = clients->config->requests_per_uid;

    if (!rate || hf_time_reached(now, bucket_next(u->paid_until, hf_ns(BURST), now)))
        return true;
    if (hf_time_reached(now, u->tell_again)) {
        log_warn("user %" PRIu32 " asks for more than %" PRIu32
                 " requests a second, the limit (requests_per_uid): the others wait",
                 u->uid, rate);
        u->tell_again = hf_time_add(now, hf_ns(TELL_EVERY));
    }
    return false;
}

void user_asked(const struct clients *clients, struct user *u, hf_time now)
{
    uint32_t rate = clients->config->requests_per_uid;

    if (rate)
        bucket_use(&u->paid_until, hf_ns(HF_NS_PER_SEC / rate), now);
}

static uint64_t user_places_of_others(const struct clients *clients, const struct user *u)
{
    const struct user *other;
    uint64_t places = 0;

    LIST_FOREACH (other, &clients->users, all)
        if (other != u)
            places += other->leases + other->waiters;
    return places;
}

/* A name that is held or waited for takes a place in the table, and its text takes units. Without this
 * bound a user could hold as many as allowed and wait for as many more, until no place is left. */
static int user_judge_places(const struct clients *clients, const struct user *u, uint64_t units,
                             char *text, size_t size)
{
    const struct config *c = clients->config;
    uint64_t capacity = c->capacity, others = user_places_of_others(clients, u);
    uint64_t own = u->leases + u->waiters + 1;
    uint64_t most = c->leases_per_uid > c->waiters_per_uid ? c->leases_per_uid : c->waiters_per_uid;
    uint64_t most_units = clients->agent->table.text_units * most / capacity;

    if (!c->leases_per_uid || !c->waiters_per_uid)
        return HF_OK;
    if (u->leases + u->waiters >= most) {
        snprintf(text, size,
                 "release locks, or have leases_per_uid and waiters_per_uid raised: user %" PRIu32
                 " already holds or waits for %" PRIu64 " locks, the limit",
                 u->uid, most);
        return HF_ELIMIT;
    }
    if (!user_is_fair(u, capacity, others, own)) {
        snprintf(text, size,
                 "release locks, or have the capacity raised: user %" PRIu32
                 " holds or waits for %u locks, its share of the places that others leave",
                 u->uid, u->leases + u->waiters);
        return HF_EFULL;
    }
    if (u->text_units + units > most_units) {
        snprintf(text, size,
                 "use shorter names and notes, or have the capacity raised: those of the locks of "
                 "user %" PRIu32 " take %" PRIu64 " KiB, its share (leases_per_uid)",
                 u->uid, most_units * HF_TEXT_UNIT / 1024);
        return HF_ELIMIT;
    }
    return HF_OK;
}

void user_say_held(const struct clients *clients, const struct user *u, char *text, size_t size)
{
    snprintf(text, size,
             "release locks, or have leases_per_uid raised: user %" PRIu32 " already holds %" PRIu32
             " locks, the limit",
             u->uid, clients->config->leases_per_uid);
}

int user_judge_acquire(const struct clients *clients, const struct user *u, uint64_t units,
                       char *text, size_t size)
{
    const struct config *c = clients->config;

    if (c->waiters_per_uid && u->waiters >= c->waiters_per_uid) {
        snprintf(text, size,
                 "wait for fewer locks, or have waiters_per_uid raised: user %" PRIu32
                 " already waits for %" PRIu32 ", the limit",
                 u->uid, c->waiters_per_uid);
        return HF_ELIMIT;
    }
    if (!user_may_hold(clients, u)) {
        user_say_held(clients, u, text, size);
        return HF_ELIMIT;
    }
    return user_judge_places(clients, u, units, text, size);
}
