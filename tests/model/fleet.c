/* A fleet whose list of nodes changes while locks are held: are two agents ever holders at once?
 *
 * All interleavings of a small fleet, breadth first. Up to four servers, of which some are nodes of the list;
 * two agents that want one lock; operators who change the list by one member at a time; servers that
 * forget everything; servers that left the list and are wiped. Time is a tick; whatever lasts, lasts for some ticks,
 * so an agent that does nothing for long is one that is cut off.
 *
 * The list is a record on every server. A record is a proposal and whether it is complete. Each agent keeps the
 * highest that it saw. Each rule below is left out once, alone or with the one that stands behind it; then
 * there must be two holders.
 *
 *   fleet [PART]          searches whose name contains PART, of those that take seconds
 *   fleet --all [PART]    the long ones, too: they take minutes and up to 16 GB
 *   fleet --trace NAME    one search, and the shortest way to two holders, step by step
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum rule {
    BOTH_LISTS =
        1 << 0, /* while a change is under way, a majority of the old list and one of the new */
    COUNTS_LATE =
        1 << 1, /* a new member's key counts for nobody's validity before the change is complete */
    VOTES_LATE =
        1 << 2, /* a new member grants nothing for a quarantine after an agent saw `complete` */
    ALL_ARE_TOLD = 1 << 3,   /* complete only when every member of both lists has the record */
    LEAVER_IS_TOLD = 1 << 4, /* the member that leaves, too */
    FROM_ANOTHER =
        1
        << 5, /* a server without a record gets what was read from another member after it was seen empty */
    QUARANTINE = 1 << 6,    /* a server that forgot grants nothing for a quarantine */
    ADOPTED_FIRST = 1 << 7, /* an answer that shows a higher record counts by that record */
};

#define SERVERS 4
#define AGENTS  2
#define TTL     2 /* ticks */
#define LONG    3 /* a quarantine: longer than any lease */
#define NONE    255
#define MOST    3 /* proposals, the first list among them */

struct search {
    const char *name;
    unsigned without; /* rules */
    uint8_t list;     /* the first one: a bit for each server */
    uint8_t forget;   /* how often a server forgets */
    uint8_t changes;
    bool holds; /* what must come of it */
    bool slow;
};

static const struct search searches[] = {
    {"two nodes, a change", 0, 3, 0, 1, true, false},
    {"three nodes, a change", 0, 7, 0, 1, true, false},
    {"three nodes, a change, without BOTH_LISTS and COUNTS_LATE", BOTH_LISTS | COUNTS_LATE, 7, 0, 1,
     false, false},
    {"three nodes, a change, without VOTES_LATE", VOTES_LATE, 7, 0, 1, false, false},
    {"three nodes, a change, without ADOPTED_FIRST", ADOPTED_FIRST, 7, 0, 1, false, true},
    {"three nodes, one forgets, without QUARANTINE", QUARANTINE, 7, 1, 1, false, false},
    {"three nodes, a change, without ALL_ARE_TOLD", ALL_ARE_TOLD, 7, 0, 1, false, true},
    {"three nodes, one forgets, a change, without LEAVER_IS_TOLD", LEAVER_IS_TOLD, 7, 1, 1, false,
     true},
    {"three nodes, one forgets, a change, without FROM_ANOTHER", FROM_ANOTHER, 7, 1, 1, false,
     true},
    {"three nodes, a change, without BOTH_LISTS", BOTH_LISTS, 7, 0, 1, true, true},
    {"two nodes, one forgets, two changes", 0, 3, 1, 2, true, true},
};

/* --- the state -------------------------------------------------------------------------------- */

enum phase { NOT_BEGUN, CHANGING, COMPLETING, OVER };

struct state {
    struct {
        uint8_t record, owner, ttl, young; /* owner: agent + 1; young: ticks of its quarantine */
    } server[SERVERS];
    struct {
        uint8_t record, tries;
        uint8_t since;           /* ticks left of the quarantine after it saw `complete` */
        bool asks, holds;        /* a round is under way; it holds the lock */
        uint8_t counts[SERVERS]; /* ticks for which it counts on its key there */
        uint8_t empty, read; /* the empty server that it found, and the record that it read then */
    } agent[AGENTS];
    struct {
        uint8_t list, from, phase, told; /* from: the proposal that it replaces; told: servers */
    } proposal[MOST];
    uint8_t forget, wait; /* ticks until the next change may begin */
};

static const struct search *search;

static bool rule(unsigned which)
{
    return !(search->without & which);
}

static uint8_t record_of(int proposal, bool complete)
{
    return (uint8_t)(2 * proposal + complete);
}

static int proposal_of(int record)
{
    return record / 2;
}

static bool is_complete(int record)
{
    return record & 1;
}

static unsigned bit(int server)
{
    return 1U << server;
}

static bool majority(unsigned votes, unsigned list)
{
    return 2 * __builtin_popcount(votes & list) > __builtin_popcount(list);
}

/* A proposal's number is its version. */
static bool is_above(int record, int other)
{
    return other == NONE || record > other;
}

static unsigned new_list(const struct state *s, int record)
{
    return s->proposal[proposal_of(record)].list;
}

static unsigned old_list(const struct state *s, int record)
{
    return s->proposal[s->proposal[proposal_of(record)].from].list;
}

static unsigned members(const struct state *s, int record)
{
    return new_list(s, record) | (is_complete(record) ? 0 : old_list(s, record));
}

static bool is_new(const struct state *s, int record, int server)
{
    return proposal_of(record) > 0 && !(old_list(s, record) & bit(server));
}

static bool enough(const struct state *s, int a)
{
    int record = s->agent[a].record;
    unsigned votes = 0;

    for (int i = 0; i < SERVERS; i++)
        if (s->agent[a].counts[i])
            votes |= bit(i);
    votes &= members(s, record);
    return majority(votes, new_list(s, record)) &&
           (is_complete(record) || !rule(BOTH_LISTS) || majority(votes, old_list(s, record)));
}

/* --- what an agent does ----------------------------------------------------------------------- */

static void give_up(struct state *s, int a)
{
    memset(s->agent[a].counts, 0, SERVERS);
    s->agent[a].asks = s->agent[a].holds = false;
}

static void judge(struct state *s, int a)
{
    if (s->agent[a].holds && !enough(s, a))
        give_up(s, a);
}

static void adopt(struct state *s, int a, uint8_t record)
{
    if (is_complete(record))
        s->agent[a].since = LONG;
    s->agent[a].record = record;
    for (int i = 0; i < SERVERS; i++)
        if (!(members(s, record) & bit(i)))
            s->agent[a].counts[i] = 0;
    judge(s, a);
}

static void hear(struct state *s, int a, int server)
{
    uint8_t record = s->server[server].record;

    if (record != NONE && is_above(record, s->agent[a].record))
        adopt(s, a, record);
}

static bool may_vote(const struct state *s, int a, int server)
{
    int record = s->agent[a].record;

    if (rule(QUARANTINE) && s->server[server].young)
        return false;
    return !is_new(s, record, server) || !rule(VOTES_LATE) ||
           (is_complete(record) && s->agent[a].since == 0);
}

static bool may_count(const struct state *s, int a, int server)
{
    return !is_new(s, s->agent[a].record, server) || !rule(COUNTS_LATE) ||
           is_complete(s->agent[a].record);
}

static void take_key(struct state *s, int a, int server)
{
    s->server[server].owner = (uint8_t)(a + 1);
    s->server[server].ttl = TTL;
}

static void forget(struct state *s, int server)
{
    s->server[server].record = NONE;
    s->server[server].owner = s->server[server].ttl = 0;
    s->server[server].young = LONG;
    for (int a = 0; a < AGENTS; a++)
        if (s->agent[a].empty == server)
            s->agent[a].empty = s->agent[a].read = NONE;
}

/* --- the search ------------------------------------------------------------------------------- */

struct step {
    const char *words;
    int8_t agent, server, other; /* -1: none */
};

static struct {
    struct state *states;
    struct step *steps;
    uint32_t *before; /* the state that a step led from */
    size_t count, room;
    uint64_t
        *seen; /* hashes: 64 bits, so that a state is taken for another once in 10^4 searches */
    size_t mask, now, bad;
} all;

static uint64_t hash_of(const struct state *s)
{
    const uint8_t *bytes = (const uint8_t *)s;
    uint64_t hash = 0x9E3779B97F4A7C15;

    for (size_t i = 0; i < sizeof(*s); i++) {
        hash = (hash ^ bytes[i]) * 0x100000001B3;
        hash ^= hash >> 29;
    }
    hash *= 0xBF58476D1CE4E5B9;
    hash ^= hash >> 31;
    return hash ? hash : 1;
}

static void *resize(void *array, size_t count, size_t size)
{
    void *resized = realloc(array, count * size);

    if (!resized) {
        fprintf(stderr, "fleet: no memory for %zu states\n", count);
        exit(2);
    }
    return resized;
}

/* For one state more; the table of hashes is at most half full. */
static void make_room(void)
{
    size_t size = all.seen ? 2 * (all.mask + 1) : 1 << 16;

    if (all.count < all.room)
        return;
    free(all.seen);
    all.seen = resize(NULL, size, sizeof(*all.seen));
    memset(all.seen, 0, size * sizeof(*all.seen));
    all.mask = size - 1;
    all.room = size / 2;
    all.states = resize(all.states, all.room, sizeof(*all.states));
    all.steps = resize(all.steps, all.room, sizeof(*all.steps));
    all.before = resize(all.before, all.room, sizeof(*all.before));
    for (size_t i = 0; i < all.count; i++) {
        uint64_t hash = hash_of(&all.states[i]);
        size_t at = hash & all.mask;

        while (all.seen[at])
            at = (at + 1) & all.mask;
        all.seen[at] = hash;
    }
}

static void reach(const struct state *s, const char *words, int agent, int server, int other)
{
    uint64_t hash = hash_of(s);
    size_t at;

    make_room();
    for (at = hash & all.mask; all.seen[at]; at = (at + 1) & all.mask)
        if (all.seen[at] == hash)
            return;
    all.seen[at] = hash;
    all.states[all.count] = *s;
    all.steps[all.count] = (struct step){words, (int8_t)agent, (int8_t)server, (int8_t)other};
    all.before[all.count] = (uint32_t)all.now;
    if (s->agent[0].holds && s->agent[1].holds && !all.bad)
        all.bad = all.count;
    all.count++;
}

/* --- every step that is possible -------------------------------------------------------------- */

static void tick(const struct state *s)
{
    struct state x = *s;

    for (int i = 0; i < SERVERS; i++) {
        if (x.server[i].ttl && --x.server[i].ttl == 0)
            x.server[i].owner = 0;
        x.server[i].young -= x.server[i].young > 0;
        for (int a = 0; a < AGENTS; a++)
            x.agent[a].counts[i] -= x.agent[a].counts[i] > 0;
    }
    x.wait -= x.wait > 0;
    for (int a = 0; a < AGENTS; a++) {
        x.agent[a].since -= x.agent[a].since > 0;
        if (x.agent[a].asks)
            give_up(&x, a); /* a round is shorter than a tick */
        judge(&x, a);
    }
    reach(&x, "a tick", -1, -1, -1);
}

static void ask(const struct state *s, int a, int server)
{
    struct state x = *s;

    hear(&x, a, server);
    if (!x.agent[a].asks || !(members(&x, x.agent[a].record) & bit(server)) ||
        !may_vote(&x, a, server))
        return;
    take_key(&x, a, server);
    x.agent[a].counts[server] = TTL;
    if (enough(&x, a)) {
        x.agent[a].holds = true;
        x.agent[a].asks = false;
    }
    reach(&x, "is granted a vote", a, server, -1);
}

/* A renewal or a heal: it never asks for the record first, the answer brings it. */
static void renew(const struct state *s, int a, int server)
{
    struct state x = *s;

    if (rule(ADOPTED_FIRST))
        hear(&x, a, server);
    if (!x.agent[a].holds || !(members(&x, x.agent[a].record) & bit(server)))
        return;
    take_key(&x, a, server);
    if (may_count(&x, a, server))
        x.agent[a].counts[server] = TTL;
    reach(&x, "renews or heals", a, server, -1);
}

/* In two steps, between which anything may happen. */
static void give_to_empty(const struct state *s, int a, int server)
{
    struct state x = *s;

    if (!rule(FROM_ANOTHER)) {
        x.server[server].record = s->agent[a].record;
        reach(&x, "gives an empty server its record", a, server, -1);
        return;
    }
    for (int other = 0; other < SERVERS && s->agent[a].empty == NONE; other++) {
        if (other == server || !(members(s, s->agent[a].record) & bit(other)) ||
            s->server[other].record != s->agent[a].record)
            continue;
        x = *s;
        x.agent[a].empty = (uint8_t)server;
        x.agent[a].read = s->agent[a].record;
        reach(&x, "finds a server empty, and reads the record of another", a, server, other);
    }
}

static void agent_and_server(const struct state *s, int a, int server)
{
    uint8_t record = s->agent[a].record, there = s->server[server].record;
    bool member = members(s, record) & bit(server);
    int owner = s->server[server].owner;
    struct state x;

    if (!((members(s, record) | old_list(s, record)) & bit(server)))
        return;
    if (member && s->agent[a].asks && owner == 0)
        ask(s, a, server);
    if (member && s->agent[a].holds && (owner == 0 || owner == a + 1))
        renew(s, a, server);
    if (member && there != NONE && is_above(there, record)) {
        x = *s;
        hear(&x, a, server);
        reach(&x, "hears of a record", a, server, -1);
    }
    if (there != NONE && is_above(record, there)) {
        x = *s;
        x.server[server].record = record;
        reach(&x, "brings a record up to date", a, server, -1);
    }
    if (member && there == NONE)
        give_to_empty(s, a, server);
    if (s->agent[a].empty == server) {
        x = *s;
        if (there == NONE)
            x.server[server].record = s->agent[a].read;
        x.agent[a].empty = x.agent[a].read = NONE;
        reach(&x, "gives the empty server what it read", a, server, -1);
    }
    if (!s->agent[a].holds && !s->agent[a].asks && owner == a + 1) {
        x = *s;
        x.server[server].owner = x.server[server].ttl = 0;
        reach(&x, "releases", a, server, -1);
    }
}

static bool has_left(const struct state *s, int server)
{
    bool left = false;

    for (int p = 1; p <= search->changes; p++) {
        bool was = s->proposal[s->proposal[p].from].list & bit(server);
        bool is = s->proposal[p].list & bit(server);

        if (s->proposal[p].phase == OVER && was && !is)
            left = true;
        else if (s->proposal[p].phase != NOT_BEGUN && is)
            left = false;
    }
    return left;
}

static void lose_memory(const struct state *s, int server)
{
    bool left = has_left(s, server);
    struct state x = *s;

    if (s->server[server].record == NONE || (!left && !s->forget))
        return;
    forget(&x, server);
    x.forget -= !left;
    reach(&x, left ? "has left and is wiped" : "forgets", -1, server, -1);
}

/* One point for all operators: the first member of the list that is replaced. */
static void begin(const struct state *s, int p, unsigned list)
{
    unsigned from = s->proposal[p - 1].list;
    int first = __builtin_ctz(from);
    struct state x = *s;

    if (!list || list == from || s->server[first].record != record_of(p - 1, true))
        return;
    x.proposal[p].list = (uint8_t)list;
    x.proposal[p].from = (uint8_t)(p - 1);
    x.proposal[p].phase = CHANGING;
    x.proposal[p].told = (uint8_t)bit(first);
    x.server[first].record = record_of(p, false);
    reach(&x, "operator: begins a change; the new list", -1, first, (int)list);
}

static void begin_any(const struct state *s, int p)
{
    unsigned list = s->proposal[p - 1].list;

    if (s->wait || s->proposal[p - 1].phase != OVER)
        return;
    for (int i = 0; i < SERVERS; i++) {
        begin(s, p, list ^ bit(i)); /* leaves or joins */
        for (int j = 0; j < SERVERS; j++)
            if ((list & bit(i)) && !(list & bit(j)))
                begin(s, p, (list & ~bit(i)) | bit(j)); /* moves */
    }
}

static bool all_told(const struct state *s, int p, unsigned whom)
{
    unsigned told = s->proposal[p].told, list = s->proposal[p].list,
             from = s->proposal[s->proposal[p].from].list;

    return (told & whom) == whom ||
           (!rule(ALL_ARE_TOLD) && majority(told, list) && majority(told, from));
}

/* Whoever carries the change on: the command, another one, an agent. */
static void carry_on(const struct state *s, int p)
{
    uint8_t from = s->proposal[p].from;
    unsigned whom = s->proposal[p].list | (rule(LEAVER_IS_TOLD) ? s->proposal[from].list : 0);
    bool completing = s->proposal[p].phase == COMPLETING;
    struct state x = *s;

    for (int i = 0; i < SERVERS; i++) {
        bool joins = !(s->proposal[from].list & bit(i));
        uint8_t there = s->server[i].record;

        if (!(whom & bit(i)) || (s->proposal[p].told & bit(i)))
            continue;
        if (!completing && there == NONE && !joins)
            continue; /* it forgot: it gets its record as any other does */
        x = *s;
        x.proposal[p].told |= (uint8_t)bit(i);
        if ((there != NONE || !completing) && is_above(record_of(p, completing), there))
            x.server[i].record = record_of(p, completing);
        reach(&x, completing ? "operator: tells that it is complete" : "operator: tells", -1, i,
              -1);
    }
    if (!all_told(s, p, whom))
        return;
    x = *s;
    x.proposal[p].phase++;
    x.proposal[p].told = 0;
    x.wait = completing ? LONG : 0;
    reach(&x, completing ? "operator: ends" : "operator: all are told", -1, -1, -1);
}

static void expand(const struct state *s)
{
    tick(s);
    for (int a = 0; a < AGENTS; a++) {
        if (!s->agent[a].holds && !s->agent[a].asks && s->agent[a].tries &&
            (a == 0 || !s->agent[0].tries)) { /* which of the two is first says nothing */
            struct state x = *s;

            x.agent[a].tries--;
            x.agent[a].asks = true;
            reach(&x, "begins a round", a, -1, -1);
        }
        for (int i = 0; i < SERVERS; i++)
            agent_and_server(s, a, i);
    }
    for (int i = 0; i < SERVERS; i++)
        lose_memory(s, i);
    for (int p = 1; p <= search->changes; p++)
        if (s->proposal[p].phase == NOT_BEGUN)
            begin_any(s, p);
        else if (s->proposal[p].phase != OVER)
            carry_on(s, p);
}

/* --- the whole -------------------------------------------------------------------------------- */

static void start(void)
{
    struct state s;

    memset(&s, 0, sizeof(s));
    s.proposal[0].list = search->list;
    s.proposal[0].phase = OVER;
    s.forget = search->forget;
    for (int i = 0; i < SERVERS; i++)
        s.server[i].record = search->list & bit(i) ? record_of(0, true) : NONE;
    for (int a = 0; a < AGENTS; a++) {
        s.agent[a].record = record_of(0, true);
        s.agent[a].tries = 1;
        s.agent[a].empty = s.agent[a].read = NONE;
    }
    free(all.seen);
    all.seen = NULL;
    all.count = all.room = all.bad = all.now = 0;
    reach(&s, "", -1, -1, -1);
}

static bool run(void)
{
    start();
    for (; all.now < all.count && !all.bad; all.now++) {
        struct state s = all.states[all.now]; /* they move when there are more */

        expand(&s);
    }
    return !all.bad;
}

static void print_record(uint8_t record)
{
    if (record == NONE)
        printf(" -");
    else
        printf(" %d%s", proposal_of(record) + 1, is_complete(record) ? "" : "?");
}

static void print_state(const struct state *s)
{
    printf("    records");
    for (int i = 0; i < SERVERS; i++)
        print_record(s->server[i].record);
    printf("; keys");
    for (int i = 0; i < SERVERS; i++)
        printf(" %c", s->server[i].owner ? "01"[s->server[i].owner - 1] : '-');
    for (int a = 0; a < AGENTS; a++) {
        printf("; agent %d", a);
        print_record(s->agent[a].record);
        printf(" counts on");
        for (int i = 0; i < SERVERS; i++)
            if (s->agent[a].counts[i])
                printf(" s%d", i);
        if (s->agent[a].holds)
            printf(" HOLDS");
    }
    putchar('\n');
}

static void print_way(size_t to)
{
    const struct step *step = &all.steps[to];

    if (to == 0)
        return;
    print_way(all.before[to]);
    if (step->agent >= 0)
        printf("agent %d ", step->agent);
    if (step->server >= 0)
        printf("s%d ", step->server);
    printf("%s", step->words);
    if (step->other >= 0)
        printf(" %d", step->other);
    putchar('\n');
    print_state(&all.states[to]);
}

int main(int argc, char **argv)
{
    bool slow = argc > 1 && strcmp(argv[1], "--all") == 0;
    bool trace = argc > 2 && strcmp(argv[1], "--trace") == 0;
    const char *part = argc > 1 + slow + trace ? argv[1 + slow + trace] : "";
    int failed = 0;

    for (size_t i = 0; i < sizeof(searches) / sizeof(searches[0]); i++) {
        bool holds;

        search = &searches[i];
        if (trace ? strcmp(search->name, part) != 0
                  : !strstr(search->name, part) || (search->slow && !slow))
            continue;
        holds = run();
        failed += holds != search->holds;
        printf("%s model: fleet: %s (%s, %zu states)\n", holds == search->holds ? "ok" : "not ok",
               search->name, holds ? "holds" : "two holders", all.count);
        (void)fflush(stdout);
        if (trace && !holds)
            print_way(all.bad);
    }
    return failed != 0;
}
