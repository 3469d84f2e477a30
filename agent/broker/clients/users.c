/* The account of each user: how much it uses of the shared limits, and how much it may. */
#include "agent/broker/clients/users.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/broker/clients/clients.h"
#include "agent/core/share.h"
#include "shm/assert.h"
#include "shm/status.h"

/* Connections beyond clients_per_uid that may stay until their hello, to be told why they are refused. */
#define STRANGERS_OF_ONE 8
/* A quiet user may ask at once for as much as in this time; above a sweep, else it misses its rate. */
#define BURST (250 * HF_NS_PER_MS)
/* As many leases are looked at in the time of one request. */
#define LOOKS_FOR_ONE 64
/* Connections of one user in the long run. A quiet user may make as many at once, and one more for each of its places. The
 * broker needs 20 us for each that it lets in and 10 us for one that it turns away, and in a storm others are queued behind
 * them. */
#define CONNECTS_PER_S 1000
/* Attaches of one user in the long run: each makes and maps memory. A user that is quiet may take all of its places at once. */
#define ATTACHES_PER_S 50
/* What takes longer is measured by the thread's own time, from the next one on: it may have waited for the processor. */
#define LONG_WAKE HF_NS_PER_MS
/* One in fifty of a processor is one user's, and 10 ms at once. */
#define TOLL        50
#define TOLL_AHEAD  (TOLL * 10 * HF_NS_PER_MS)
#define SUSPECT_FOR (60 * HF_NS_PER_SEC)
/* Between two log lines about a user that asks for too much. */
#define TELL_EVERY (60 * HF_NS_PER_SEC)

struct user *user_get(struct clients *clients, uint32_t uid)
{
    struct user *u;

    uid = subuids_owner(&clients->config->subuids, uid);
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
    return u->sessions + u->kept - u->shared;
}

static void user_say_kept(const struct user *u, char *text, size_t size)
{
    if (u->kept)
        snprintf(text, size, " (%u of them ended, and their memory is still open)", u->kept);
    else
        *text = '\0';
}

/* Who has the most, and more than this one will have. */
static struct user *user_with_strangers(const struct clients *clients, const struct user *u)
{
    struct user *other, *most = NULL;

    LIST_FOREACH (other, &clients->users, all)
        if (other->strangers > (most ? most->strangers : 0))
            most = other;
    return most && (user_is_trusted(u) || most->strangers > u->strangers + 1) ? most : NULL;
}

bool user_may_connect(const struct clients *clients, struct user *u, uint32_t strangers,
                      hf_time now, struct user **ret_makes_room)
{
    struct user *makes_room = NULL;
    uint32_t most = clients->config->clients_per_uid, all = clients->config->clients_max;

    if (user_is_tolled(u, now))
        return false;
    if (!user_is_trusted(u) &&
        !bucket_take(&u->connected_until, hf_ns(HF_NS_PER_SEC / CONNECTS_PER_S),
                     CONNECTS_PER_S + (int64_t)(most ? most : all), now))
        return false;
    /* A quarter of these, too, is for root and the agent's user. */
    if (clients->session_count + clients->kept_count - clients->shared_count >=
        all + strangers - (user_is_trusted(u) ? 0 : strangers / 4)) {
        makes_room = user_with_strangers(clients, u);
        if (!makes_room)
            return false;
    }
    if (most && user_places_for_clients(u) >= most + STRANGERS_OF_ONE)
        return false;
    *ret_makes_room = makes_room;
    return true;
}

void user_stranger_comes(struct clients *clients, struct user *u)
{
    clients->stranger_count++;
    u->strangers++;
}

void user_stranger_goes(struct clients *clients, struct user *u)
{
    hf_assert(clients->stranger_count > 0 && u->strangers > 0, "strangers %u, of user %u %u",
              clients->stranger_count, (unsigned)u->uid, u->strangers);
    clients->stranger_count--;
    u->strangers--;
}

void user_shares(struct clients *clients, struct user *u)
{
    clients->shared_count++;
    u->shared++;
}

void user_shares_no_more(struct clients *clients, struct user *u)
{
    hf_assert(clients->shared_count > 0 && u->shared > 0, "shared %u, of user %u %u",
              clients->shared_count, (unsigned)u->uid, u->shared);
    clients->shared_count--;
    u->shared--;
}

/* (!) Not beside memory that ended sessions left, or one place would have any number of these. */
bool user_may_share(const struct clients *clients, const struct user *u)
{
    return user_is_trusted(u) || (clients->config->guardians_fit && u->kept == 0);
}

int user_judge_attach(const struct clients *clients, const struct user *u, bool known, char *text,
                      size_t size)
{
    const struct config *c = clients->config;
    unsigned all = clients->session_count - clients->stranger_count + clients->kept_count -
                   clients->shared_count + 1;
    unsigned own = user_places_for_clients(u), others = all - (own - u->strangers + 1);
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
    if (!known && !user_is_fair(u, c->clients_max, others, own)) {
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

static hf_dur user_spent(void)
{
    struct timespec spent;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    return hf_ns(spent.tv_sec * HF_NS_PER_SEC + spent.tv_nsec);
}

struct toll user_toll_begin(const struct user *u)
{
    struct toll toll = {.begun = clock_now()};

    if (hf_time_before(toll.begun, u->suspect_until))
        toll.spent = user_spent();
    return toll;
}

void user_toll_end(struct user *u, struct toll toll)
{
    hf_time now = clock_now();
    hf_dur spent = hf_ns(0);

    if (hf_time_since(now, toll.begun).ns < LONG_WAKE || user_is_trusted(u))
        return;
    if (hf_time_before(toll.begun, u->suspect_until))
        spent = hf_ns(user_spent().ns - toll.spent.ns);
    u->suspect_until = hf_time_add(now, hf_ns(SUSPECT_FOR));
    if (spent.ns < LONG_WAKE)
        return;
    bucket_use(&u->tolled_until, hf_ns(TOLL * spent.ns), now);
    if (!user_is_tolled(u, now) || !hf_time_reached(now, u->tell_again))
        return;
    u->tell_again = hf_time_add(now, hf_ns(TELL_EVERY));
    log_warn("user %" PRIu32
             " is woken later: so many of its processes or descriptors wait for one "
             "wake-up that it takes %" PRId64 " ms of a processor; end them",
             u->uid, hf_dur_ms(spent));
}

bool user_is_tolled(const struct user *u, hf_time now)
{
    return hf_time_before(now, bucket_next(u->tolled_until, hf_ns(TOLL_AHEAD), now));
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

static void user_pay(const struct clients *clients, struct user *u, unsigned requests, hf_time now)
{
    uint32_t rate = clients->config->requests_per_uid;

    if (rate)
        bucket_use(&u->paid_until, hf_ns(HF_NS_PER_SEC / rate * requests), now);
}

void user_asked(const struct clients *clients, struct user *u, hf_time now)
{
    user_pay(clients, u, 1, now);
}

bool user_may_have_searched(const struct clients *clients, struct user *u, unsigned leases,
                            hf_time now)
{
    return leases < LOOKS_FOR_ONE || user_may_ask(clients, u, now);
}

void user_searched(const struct clients *clients, struct user *u, unsigned looked_at, hf_time now)
{
    user_pay(clients, u, looked_at / LOOKS_FOR_ONE, now);
}

int user_judge_fanout(const struct user *u, unsigned most, unsigned taken, char *text, size_t size)
{
    hf_assert(u->fanouts <= taken, "fan-outs %u of %u", u->fanouts, taken);
    if (taken >= most) {
        snprintf(text, size, "the agent has %u queries under way, the limit; try again", taken);
        return HF_ELIMIT;
    }
    if (!user_is_fair(u, most, taken - u->fanouts, u->fanouts + 1)) {
        snprintf(
            text, size,
            "user %" PRIu32
            " has %u queries under way, its share of the %u that the agent may have; try again",
            u->uid, u->fanouts, most);
        return HF_ELIMIT;
    }
    return HF_OK;
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
