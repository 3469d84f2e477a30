/* A fleet whose list of nodes changes while locks are held: are two agents ever holders at once?
 *
 * All interleavings of a small fleet, breadth first: servers, of which some are members; two agents
 * that want one lock; any number of others, which carry records about and may be slow for ever;
 * operators; servers that forget everything. There is no clock: whatever lasts ends at any time, but
 * a quarantine only after every count that was there when it began.
 *
 * Records are R0 (version v, complete), and of each change R1 (v+1, changing), R1' (the same, with
 * a member marked as gone) and R2 (v+1, complete). Members of v and v+1 are stayers, of v only
 * leavers, of v+1 only newcomers. An agent is narrow by R1, and by R2 until that settles. Each rule
 * below is left out once, alone or with the one that stands behind it; then there must be two holders.
 * One server may lie: it shows any of these records at any time, begun or not, or one that nobody asked for, by which no agent may
 * ever go. What it says of keys is true.
 *
 *   moves [PART]          searches whose name contains PART, of those that take seconds
 *   moves --all [PART]    the long ones, too: minutes, and some gigabytes
 *   moves --trace NAME    one search, and the shortest way to two holders, step by step
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum rule {
    NEW_WAIT = 1 << 0,        /* newcomers do not count before R2 is settled */
    OLD_OUT = 1 << 1,         /* leavers do not count from R1 on */
    Q_NEW = 1 << 2,           /* while narrow, as many as a quorum of the new list */
    Q_OLD = 1 << 3,           /* and of the old list */
    SETTLE = 1 << 4,          /* R2 settles a quarantine after it was kept */
    VOID = 1 << 5,            /* what was counted on a leaver is void from R1 on */
    STAYERS_ALL = 1 << 6,     /* complete: all stayers have R1 */
    LEAVERS_TOLD = 1 << 7,    /* the leavers that are not gone, too */
    AT_ONCE = 1 << 8,         /* the stayers at one moment */
    LEAVERS_AT_ONCE = 1 << 9, /* the leavers at the same moment */
    FROM_ANOTHER = 1 << 10, /* an empty server gets what another member showed after it was empty */
    FROM_SEAT = 1 << 11,    /* that other one is a member of the record's new list */
    QUARANTINE = 1 << 12,   /* a server that forgot grants nothing for a quarantine */
    HEALS_LATE = 1 << 13,   /* and heals count there when no round of before is under way */
    AFTER_SETTLING = 1 << 14, /* a change begins only after the one before it settled */
    ONE_POINT = 1 << 15,      /* it begins at one member, the same for all operators */
    GONE_OF_ONE = 1 << 16,    /* marks of gone members rank records of one change only */
    TTL_LESS = 1 << 17,       /* while narrow, the smaller ttl_max is granted */
    TTL_MORE = 1 << 18,       /* and quarantines are the larger one's */
    BACK_AT_STAYER = 1 << 19, /* a way back begins at a member that stays */
    BACK_CHANGING = 1 << 20,  /* where that member has the change on its way, not complete */
    BACK_TOLD = 1 << 21,      /* it is over when newcomers of the change have it, too */
    BY_MOST = 1 << 22,        /* a later record is gone by when most of the agent's list show it */
};

enum option {
    FROZEN = 1 << 0, /* a lease may keep, unextended, what it had by the record before */
    WIPES = 1 << 1,  /* a member that has left may be wiped, as often as one likes */
    TTL_UP = 1 << 2, /* the change is of ttl_max */
    TTL_DOWN = 1 << 3,
};

/* An option: this one of the plan's servers lies. */
#define LIAR(server) (((unsigned)(server) + 1) << 8)

#define SERVERS      6
#define AGENTS       2
#define CHANGES      3
#define RECORDS      (2 + 3 * CHANGES)

/* Records: 0 is none. */
#define R0  1
#define LIE RECORDS /* by the liar's own list */
enum kind { CHANGING, GONE, COMPLETE };

/* How a change begins. */
enum beginning {
    FIRST, /* from R0 */
    NEXT,  /* from what the change `of` has led to */
    BACK,  /* from the change `of` on its way: to the list before it */
};

struct change {
    const char *seat; /* the list that it leads to; none: no such change */
    enum beginning beginning;
    char gone; /* the member that may die */
    int of;
};

struct plan {
    const char *servers,
        *list; /* all, and those of R0: a letter each; another case is another address */
    struct change change[CHANGES];
};

struct search {
    const char *name;
    const struct plan *plan;
    unsigned without, options;
    uint8_t forget; /* how often servers forget */
    bool holds;     /* what must come of it */
    bool slow;
};

static const struct plan move = {"abcC", "abc", {{"abC", FIRST, 0, 0}}};
static const struct plan leaver_dies = {"abcC", "abc", {{"abC", FIRST, 'c', 0}}};
static const struct plan stayer_dies = {"abcC", "abc", {{"abC", FIRST, 'b', 0}}};
static const struct plan move_of_five = {"abcdeE", "abcde", {{"abcdE", FIRST, 0, 0}}};
static const struct plan two_to_three = {"abc", "ab", {{"abc", FIRST, 0, 0}}};
static const struct plan three_to_four = {"abcd", "abc", {{"abcd", FIRST, 0, 0}}};
static const struct plan three_to_five = {"abcde", "abc", {{"abcde", FIRST, 0, 0}}};
static const struct plan three_to_two = {"abc", "abc", {{"ab", FIRST, 0, 0}}};
static const struct plan four_to_three = {"abcd", "abcd", {{"abc", FIRST, 0, 0}}};
static const struct plan five_to_three = {"abcde", "abcde", {{"abc", FIRST, 0, 0}}};
static const struct plan and_one_dies = {"abcde", "abcde", {{"abc", FIRST, 'd', 0}}};
static const struct plan ttl_max = {"abc", "abc", {{"abc", FIRST, 0, 0}}};
/* Two operators move a, which then dies, and c. */
static const struct plan beside = {"abcAC", "abc", {{"Abc", FIRST, 'a', 0}, {"abC", FIRST, 0, 0}}};
static const struct plan in_a_row = {"abcAC", "abc", {{"abC", FIRST, 0, 0}, {"AbC", NEXT, 0, 0}}};
static const struct plan and_back = {"abcC", "abc", {{"abC", FIRST, 0, 0}, {"abc", NEXT, 0, 0}}};
static const struct plan more_then_less = {
    "abcd", "abc", {{"abcd", FIRST, 0, 0}, {"bcd", NEXT, 0, 0}}};

static const struct plan given_up = {"abcC", "abc", {{"abC", FIRST, 0, 0}, {"abc", BACK, 0, 0}}};
static const struct plan given_up_as_one_dies = {
    "abcC", "abc", {{"abC", FIRST, 'b', 0}, {"abc", BACK, 0, 0}}};
static const struct plan given_up_for_a_dead_server = {
    "abcC", "abc", {{"abC", FIRST, 0, 0}, {"abc", BACK, 'C', 0}}};
static const struct plan growth_given_up = {
    "abcd", "abc", {{"abcd", FIRST, 0, 0}, {"abc", BACK, 0, 0}}};
static const struct plan shrinking_given_up = {
    "abc", "abc", {{"ab", FIRST, 0, 0}, {"abc", BACK, 0, 0}}};
/* One operator gives the change up, another one takes it for settled and begins the next. */
static const struct plan given_up_or_not = {
    "aAbcC", "abc", {{"Abc", FIRST, 0, 0}, {"abc", BACK, 0, 0}, {"AbC", NEXT, 0, 0}}};
static const struct plan ttl_max_given_up = {
    "abc", "abc", {{"abc", FIRST, 0, 0}, {"abc", BACK, 0, 0}}};

#define ANY (FROZEN | WIPES)

static const struct search searches[] = {
    {"a move", &move, 0, ANY, 3, true, false},
    {"a move, the leaver dies", &leaver_dies, 0, ANY, 2, true, false},
    {"a move, a stayer dies", &stayer_dies, 0, ANY, 1, true, false},
    {"a move of one in five", &move_of_five, 0, ANY, 1, true, true},
    {"two to three", &two_to_three, 0, ANY, 2, true, false},
    {"three to four", &three_to_four, 0, ANY, 2, true, false},
    {"three to five", &three_to_five, 0, ANY, 2, true, false},
    {"three to two", &three_to_two, 0, ANY, 2, true, false},
    {"four to three", &four_to_three, 0, ANY, 2, true, false},
    {"five to three", &five_to_three, 0, ANY, 1, true, false},
    {"five to three, a leaver dies", &and_one_dies, 0, ANY, 1, true, true},
    {"a larger ttl_max", &ttl_max, 0, FROZEN | TTL_UP, 2, true, false},
    {"a smaller ttl_max", &ttl_max, 0, FROZEN | TTL_DOWN, 2, true, false},
    {"two operators", &beside, 0, ANY, 1, true, false},
    {"two moves, nobody forgets", &in_a_row, 0, ANY, 0, true, false},
    {"two moves", &in_a_row, 0, ANY, 1, true, true},
    {"a move there and back", &and_back, 0, ANY, 1, true, true},
    {"one more, then another less", &more_then_less, 0, ANY, 1, true, false},

    {"a move given up", &given_up, 0, ANY, 1, true, true},
    {"a move given up, nobody forgets", &given_up, 0, ANY, 0, true, false},
    {"a move given up as a stayer dies", &given_up_as_one_dies, 0, ANY, 1, true, true},
    {"a move given up, the new server dies", &given_up_for_a_dead_server, 0, ANY, 1, true, true},
    {"three to four given up", &growth_given_up, 0, ANY, 1, true, false},
    {"three to two given up", &shrinking_given_up, 0, ANY, 1, true, false},
    {"a larger ttl_max given up", &ttl_max_given_up, 0, FROZEN | TTL_UP, 1, true, false},
    {"a smaller ttl_max given up", &ttl_max_given_up, 0, FROZEN | TTL_DOWN, 1, true, false},
    {"a move given up, or the next one", &given_up_or_not, 0, ANY, 0, true, false},
    {"a move given up, or the next one, one forgets", &given_up_or_not, 0, ANY, 1, true, true},
    {"a move, the first member lies", &move, 0, FROZEN | LIAR(0), 0, true, false},
    {"a move, the leaver lies", &move, 0, FROZEN | LIAR(2), 0, true, false},
    {"a move, the newcomer lies", &move, 0, FROZEN | LIAR(3), 0, true, false},
    /* One that lies is one of those that may forget: with another one they are a majority of three. */
    {"a move, the leaver lies and one forgets", &move, 0, LIAR(2), 1, false, false},
    {"a move of one in five, one lies", &move_of_five, 0, FROZEN | LIAR(0), 0, true, true},
    {"three to four, one lies", &three_to_four, 0, FROZEN | LIAR(0), 0, true, false},
    {"four to three, one lies", &four_to_three, 0, FROZEN | LIAR(0), 0, true, false},
    {"a larger ttl_max, one lies", &ttl_max, 0, FROZEN | LIAR(0) | TTL_UP, 0, true, false},
    {"a smaller ttl_max, one lies", &ttl_max, 0, FROZEN | LIAR(0) | TTL_DOWN, 0, true, false},
    {"a move, the leaver dies and one lies", &leaver_dies, 0, FROZEN | LIAR(0), 0, true, false},
    {"a move given up, one lies", &given_up, 0, FROZEN | LIAR(0), 0, true, false},
    {"two moves, one lies", &in_a_row, 0, FROZEN | LIAR(1), 0, true, true},
    {"a move, the first member lies, without BY_MOST", &move, BY_MOST, LIAR(0), 0, false, false},
    {"a move given up, without BACK_TOLD", &given_up, BACK_TOLD, 0, 1, false, false},
    {"a move, without NEW_WAIT", &move, NEW_WAIT, 0, 0, false, false},
    {"a move, without OLD_OUT", &move, OLD_OUT, 0, 0, false, false},
    {"three to five, without Q_NEW", &three_to_five, Q_NEW, 0, 0, false, false},
    {"five to three, without Q_OLD", &five_to_three, Q_OLD, 0, 0, false, false},
    {"a move, without SETTLE", &move, SETTLE, 0, 0, false, false},
    {"a move, without STAYERS_ALL", &move, STAYERS_ALL, 0, 1, false, false},
    {"a move, without LEAVERS_TOLD", &move, LEAVERS_TOLD, 0, 1, false, false},
    {"a move, without AT_ONCE", &move, AT_ONCE, WIPES, 1, false, false},
    {"a move, without LEAVERS_AT_ONCE", &move, LEAVERS_AT_ONCE, 0, 2, false, false},
    {"two moves, without LEAVERS_AT_ONCE", &in_a_row, LEAVERS_AT_ONCE, WIPES, 1, false, false},
    {"a move, without FROM_ANOTHER", &move, FROM_ANOTHER, WIPES, 1, false, false},
    {"two moves, without FROM_SEAT", &in_a_row, FROM_SEAT, WIPES, 1, false, false},
    {"a move, without QUARANTINE", &move, QUARANTINE, 0, 1, false, false},
    {"a move, without HEALS_LATE", &move, HEALS_LATE, 0, 1, false, false},
    {"two moves, without AFTER_SETTLING", &in_a_row, AFTER_SETTLING, 0, 0, false, false},
    {"two operators, without GONE_OF_ONE", &beside, GONE_OF_ONE, 0, 1, false, false},
    {"a larger ttl_max, without TTL_LESS", &ttl_max, TTL_LESS, TTL_UP, 1, false, false},
    {"a smaller ttl_max, without TTL_LESS", &ttl_max, TTL_LESS, TTL_DOWN, 1, false, false},
    {"a larger ttl_max, without TTL_MORE", &ttl_max, TTL_MORE, TTL_UP, 1, false, false},
    {"a smaller ttl_max, without TTL_MORE", &ttl_max, TTL_MORE, TTL_DOWN, 1, false, false},

    /* Without ONE_POINT, BACK_AT_STAYER or BACK_CHANGING two operators may begin two changes of which neither can end. VOID is needed
     * where LEAVERS_AT_ONCE is not kept. */
    {"two operators, without ONE_POINT", &beside, ONE_POINT, FROZEN, 1, true, false},
    {"a move given up, or the next one, without BACK_AT_STAYER", &given_up_or_not, BACK_AT_STAYER,
     0, 1, true, false},
    {"a move given up, or the next one, without BACK_CHANGING", &given_up_or_not, BACK_CHANGING, 0,
     1, true, false},

    {"a move, without VOID", &move, VOID, ANY, 3, true, false},
    {"a move, without VOID and LEAVERS_AT_ONCE", &move, VOID | LEAVERS_AT_ONCE, 0, 1, false, false},
};

/* --- the state -------------------------------------------------------------------------------- */

enum phase { IDLE, ASKS, HOLDS };

struct agent {
    uint8_t phase;
    uint8_t record, settled;
    uint8_t counts, lengthy; /* servers on which it counts; those for the larger ttl_max */
    uint8_t kept, kept_lengthy, kept_record, kept_settled; /* its counts by the record before */
    uint8_t old[CHANGES],
        kept_old[CHANGES]; /* of them, those from before the change was complete */
};

struct state {
    uint8_t record[SERVERS];
    uint8_t owner[SERVERS];      /* of the key: agent + 1 */
    uint16_t shown[SERVERS];     /* the server is empty: records that others showed since */
    uint8_t dead, told[CHANGES]; /* servers */
    uint16_t exists;             /* records */
    bool lied;                   /* some agent goes by the one that nobody asked for */
    uint8_t forget;
    struct agent agent[AGENTS];
};

static const struct search *search;
static struct {
    int servers, list[RECORDS], class_of[SERVERS];
    bool shuffled; /* like servers may change places: fewer states, but no way that one can read */
} fleet;

static bool rule(unsigned which)
{
    return !(search->without & which);
}

static bool option(unsigned which)
{
    return search->options & which;
}

static unsigned bit(int of)
{
    return 1U << of;
}

static int record_of(int change, enum kind kind)
{
    return 2 + 3 * change + (int)kind;
}

static int change_of(int record)
{
    return (record - 2) / 3;
}

/* -1: nobody lies. */
static int liar(void)
{
    return (int)(search->options >> 8) - 1;
}

static bool is_told_of(int record)
{
    return record == R0 || (record < RECORDS && search->plan->change[change_of(record)].seat);
}

static enum kind kind_of(int record)
{
    return record == R0 ? COMPLETE : (enum kind)((record - 2) % 3);
}

static bool is_back(int change)
{
    return search->plan->change[change].beginning == BACK;
}

static int parent_of(int change)
{
    const struct change *c = &search->plan->change[change];

    return c->beginning == FIRST ? R0 : record_of(c->of, COMPLETE);
}

static int version_of(int record)
{
    return record == R0 ? 1 : 1 + version_of(parent_of(change_of(record)));
}

static unsigned seats(int record)
{
    return (unsigned)fleet.list[record];
}

static unsigned seats_before(int record)
{
    return record == R0 ? seats(R0) : seats(parent_of(change_of(record)));
}

/* The nodes of an agent that goes by it. */
static unsigned nodes_of(int record)
{
    if (kind_of(record) == COMPLETE)
        return seats(record);
    return seats_before(record) | (rule(NEW_WAIT) ? 0 : seats(record));
}

static bool is_above(int record, int other)
{
    int kind, than;

    if (record == LIE || other == LIE)
        return record == LIE && other != LIE;
    kind = kind_of(record);
    than = kind_of(other);
    if (version_of(record) != version_of(other))
        return version_of(record) > version_of(other);
    if ((kind == COMPLETE) != (than == COMPLETE))
        return kind == COMPLETE;
    return kind == GONE && than == CHANGING &&
           (!rule(GONE_OF_ONE) || change_of(record) == change_of(other));
}

static bool is_settled(int record, bool settled)
{
    return record == R0 || (kind_of(record) == COMPLETE && settled);
}

/* What may be counted anew. */
static unsigned counting(int record, bool settled)
{
    unsigned narrow = seats(record) & seats_before(record);

    if (is_settled(record, settled))
        return seats(record);
    return narrow | (rule(NEW_WAIT) ? 0 : seats(record)) |
           (rule(OLD_OUT) ? 0 : seats_before(record));
}

static int majority(unsigned list)
{
    return __builtin_popcount(list) / 2 + 1;
}

static int quorum(int record, bool settled)
{
    int now = majority(seats(record)), before = majority(seats_before(record));

    if (is_settled(record, settled) || !rule(Q_OLD))
        return now;
    return !rule(Q_NEW) || before > now ? before : now;
}

static bool enough(unsigned counts, int record, bool settled)
{
    unsigned of = counting(record, settled) | (rule(VOID) ? 0 : seats_before(record));

    return record && __builtin_popcount(counts & of) >= quorum(record, settled);
}

static unsigned claims(const struct agent *a)
{
    return a->counts | a->kept;
}

/* Whether a lease, or a quarantine, is of the larger ttl_max. */
static bool is_lengthy(const struct agent *a, bool grant)
{
    if (a->record == R0)
        return option(TTL_DOWN);
    if (is_settled(a->record, a->settled))
        return option(is_back(change_of(a->record)) ? TTL_DOWN : TTL_UP);
    return grant ? !rule(TTL_LESS) : rule(TTL_MORE);
}

/* Every count from before the change was complete has ended. */
static bool has_aged(const struct state *s, int change)
{
    return !(s->agent[0].old[change] | s->agent[0].kept_old[change] | s->agent[1].old[change] |
             s->agent[1].kept_old[change]);
}

static unsigned servers_with(const struct state *s, int record)
{
    unsigned with = 0;

    for (int i = 0; i < fleet.servers; i++)
        if (s->record[i] == record)
            with |= bit(i);
    return with & ~(unsigned)s->dead;
}

/* --- the search ------------------------------------------------------------------------------- */

struct step {
    const char *words;
    int8_t agent, server, record; /* -1: none */
};

#define WORDS (SERVERS + 1)
struct packed {
    uint64_t word[WORDS];
};

static struct {
    struct packed *states;
    struct step *steps;
    uint32_t *before; /* the state that a step led from */
    size_t count, room;
    uint64_t *seen; /* hashes: a state is taken for another once in 10^4 searches */
    size_t mask, now, bad;
} all;

/* An agent that lost too many counts does not hold; a key without a count may be gone. */
static void tidy(struct state *s)
{
    for (int i = 0; i < AGENTS; i++) {
        struct agent *a = &s->agent[i];

        if (!enough(a->kept, a->kept_record, a->kept_settled))
            a->kept = a->kept_record = a->kept_settled = 0;
        if (a->phase == HOLDS && !a->kept && !enough(a->counts, a->record, a->settled))
            a->phase = IDLE;
        if (a->phase == ASKS && !a->counts)
            a->phase = IDLE; /* it has given up */
        if (a->phase == IDLE)
            a->counts = a->kept = a->record = a->settled = a->kept_record = a->kept_settled = 0;
        a->lengthy &= a->counts;
        a->kept_lengthy &= a->kept;
        for (int c = 0; c < CHANGES; c++) {
            a->old[c] &= a->counts;
            a->kept_old[c] &= a->kept;
        }
    }
    for (int i = 0; i < fleet.servers; i++) {
        if (s->owner[i] && !(claims(&s->agent[s->owner[i] - 1]) & bit(i)))
            s->owner[i] = 0;
        if (s->record[i] || (s->dead & bit(i)))
            s->shown[i] = 0;
        if (s->dead & bit(i))
            s->record[i] = s->owner[i] = 0;
    }
}

static uint64_t put(uint64_t *word, uint64_t value, int bits)
{
    return *word = *word << bits | value;
}

static void pack(const struct state *s, int first, struct packed *ret)
{
    uint64_t rest = 0;

    memset(ret, 0, sizeof(*ret));
    for (int i = 0; i < fleet.servers; i++) {
        uint64_t *word = &ret->word[i];
        int owner = s->owner[i];

        put(word, s->record[i], 4);
        put(word, (uint64_t)(owner && first ? 3 - owner : owner), 2);
        put(word, s->shown[i] >> 1, RECORDS - 1);
        put(word, s->dead >> i & 1, 1);
        for (int c = 0; c < CHANGES; c++)
            put(word, s->told[c] >> i & 1, 1);
        for (int k = 0; k < AGENTS; k++) {
            const struct agent *a = &s->agent[k ^ first];

            put(word, a->counts >> i & 1, 1);
            put(word, a->lengthy >> i & 1, 1);
            put(word, a->kept >> i & 1, 1);
            put(word, a->kept_lengthy >> i & 1, 1);
            for (int c = 0; c < CHANGES; c++) {
                put(word, a->old[c] >> i & 1, 1);
                put(word, a->kept_old[c] >> i & 1, 1);
            }
        }
    }
    for (int k = 0; k < AGENTS; k++) {
        const struct agent *a = &s->agent[k ^ first];

        put(&rest, a->phase, 2);
        put(&rest, a->record, 4);
        put(&rest, a->settled, 1);
        put(&rest, a->kept_record, 4);
        put(&rest, a->kept_settled, 1);
    }
    put(&rest, s->exists >> 1, RECORDS - 1);
    put(&rest, s->lied, 1);
    put(&rest, s->forget, 2);
    ret->word[SERVERS] = rest;
    for (int i = 1; fleet.shuffled && i < fleet.servers; i++)
        for (int j = i;
             j > 0 && fleet.class_of[j] == fleet.class_of[j - 1] && ret->word[j] < ret->word[j - 1];
             j--) {
            uint64_t word = ret->word[j];

            ret->word[j] = ret->word[j - 1];
            ret->word[j - 1] = word;
        }
}

static unsigned take(uint64_t *word, int bits)
{
    unsigned value = (unsigned)(*word & (bit(bits) - 1));

    *word >>= bits;
    return value;
}

static void take_bit(uint64_t *word, uint8_t *ret_set, int i)
{
    *ret_set |= (uint8_t)(take(word, 1) << i);
}

static void unpack(struct packed p, struct state *ret)
{
    uint64_t rest = p.word[SERVERS];

    memset(ret, 0, sizeof(*ret));
    ret->forget = (uint8_t)take(&rest, 2);
    ret->lied = take(&rest, 1);
    ret->exists = (uint16_t)(take(&rest, RECORDS - 1) << 1);
    for (int k = AGENTS - 1; k >= 0; k--) {
        struct agent *a = &ret->agent[k];

        a->kept_settled = (uint8_t)take(&rest, 1);
        a->kept_record = (uint8_t)take(&rest, 4);
        a->settled = (uint8_t)take(&rest, 1);
        a->record = (uint8_t)take(&rest, 4);
        a->phase = (uint8_t)take(&rest, 2);
    }
    for (int i = 0; i < fleet.servers; i++) {
        uint64_t *word = &p.word[i];

        for (int k = AGENTS - 1; k >= 0; k--) {
            struct agent *a = &ret->agent[k];

            for (int c = CHANGES - 1; c >= 0; c--) {
                take_bit(word, &a->kept_old[c], i);
                take_bit(word, &a->old[c], i);
            }
            take_bit(word, &a->kept_lengthy, i);
            take_bit(word, &a->kept, i);
            take_bit(word, &a->lengthy, i);
            take_bit(word, &a->counts, i);
        }
        for (int c = CHANGES - 1; c >= 0; c--)
            take_bit(word, &ret->told[c], i);
        take_bit(word, &ret->dead, i);
        ret->shown[i] = (uint16_t)(take(word, RECORDS - 1) << 1);
        ret->owner[i] = (uint8_t)take(word, 2);
        ret->record[i] = (uint8_t)take(word, 4);
    }
}

static uint64_t hash_of(const struct packed *p)
{
    uint64_t hash = 0x9E3779B97F4A7C15;

    for (int i = 0; i < WORDS; i++) {
        hash = (hash ^ p->word[i]) * 0xBF58476D1CE4E5B9;
        hash ^= hash >> 29;
    }
    hash *= 0x94D049BB133111EB;
    hash ^= hash >> 31;
    return hash ? hash : 1;
}

static void *resize(void *array, size_t count, size_t size)
{
    void *resized = realloc(array, count * size);

    if (!resized) {
        fprintf(stderr, "moves: no memory for %zu states\n", count);
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

static void reach(const struct state *reached, const char *words, int agent, int server, int record)
{
    struct state s = *reached;
    struct packed p, other;
    uint64_t hash;
    size_t at;

    tidy(&s);
    pack(&s, 0, &p);
    if (fleet.shuffled) { /* which agent is the first says nothing either */
        pack(&s, 1, &other);
        if (memcmp(&other, &p, sizeof(p)) < 0)
            p = other;
    }
    hash = hash_of(&p);
    make_room();
    for (at = hash & all.mask; all.seen[at]; at = (at + 1) & all.mask)
        if (all.seen[at] == hash)
            return;
    all.seen[at] = hash;
    all.states[all.count] = p;
    all.steps[all.count] = (struct step){words, (int8_t)agent, (int8_t)server, (int8_t)record};
    all.before[all.count] = (uint32_t)all.now;
    if (((s.agent[0].phase == HOLDS && s.agent[1].phase == HOLDS) || s.lied) && !all.bad)
        all.bad = all.count;
    all.count++;
}

/* --- records ---------------------------------------------------------------------------------- */

/* The server has another record, or none: those that are empty may be given what it shows. */
static void show(struct state *s, int server)
{
    int record = s->record[server];

    if (!record || record == LIE ||
        !((rule(FROM_SEAT) ? seats(record) : nodes_of(record)) & bit(server)))
        return;
    for (int i = 0; i < SERVERS; i++)
        if (i != server && i < fleet.servers && !s->record[i] && (nodes_of(record) & bit(i)))
            s->shown[i] |= (uint16_t)bit(record);
}

static void write_record(const struct state *s, int server, int record, const char *words)
{
    struct state x = *s;

    x.record[server] = (uint8_t)record;
    for (int c = 0; c < CHANGES; c++)
        if (record == record_of(c, CHANGING) || record == record_of(c, GONE))
            x.told[c] |= (uint8_t)bit(server);
    /* Only those who have to be told matter. */
    for (int c = 0; c < CHANGES; c++)
        x.told[c] &= (uint8_t)(seats_before(record_of(c, CHANGING)) &
                               ~(rule(AT_ONCE) ? seats(record_of(c, CHANGING)) : 0));
    show(&x, server);
    reach(&x, words, -1, server, record);
}

/* Any agent, by any record that there is; each write names what it replaces. */
static void spread(const struct state *s, int server)
{
    if (s->dead & bit(server))
        return;
    for (int r = R0; r < RECORDS; r++) {
        unsigned nodes;

        if (!(s->exists & bit(r)))
            continue;
        nodes = nodes_of(r);
        /* Of a way back the command's agent tells those that come back, too, so that most of its list have it. */
        if (r != R0 && is_back(change_of(r)) && kind_of(r) != COMPLETE && s->record[server])
            nodes |= seats(r);
        if (!(nodes & bit(server)))
            continue;
        if (s->record[server] ? is_above(r, s->record[server])
                              : !rule(FROM_ANOTHER) || (s->shown[server] & bit(r)))
            write_record(s, server, r,
                         s->record[server] ? "is brought up to" : "was empty and is given");
    }
}

static void forget(const struct state *s, int server, const char *words, int cost)
{
    struct state x = *s;

    x.record[server] = x.owner[server] = x.shown[server] = 0;
    for (int i = 0; i < fleet.servers; i++)
        if (!(s->dead & bit(i)))
            show(&x, i);
    x.forget -= (uint8_t)cost;
    reach(&x, words, -1, server, -1);
}

static bool has_left(const struct state *s, int server)
{
    bool left = false;

    for (int c = 0; c < CHANGES; c++)
        if (s->exists & bit(record_of(c, COMPLETE)))
            left = (left || (seats_before(record_of(c, COMPLETE)) & bit(server))) &&
                   !(seats(record_of(c, COMPLETE)) & bit(server));
    return left;
}

static void lose_memory(const struct state *s, int server)
{
    if (!s->record[server] || (s->dead & bit(server)))
        return;
    if (option(WIPES) && has_left(s, server))
        forget(s, server, "has left and is wiped", 0);
    else if (s->forget)
        forget(s, server, "forgets", 1);
}

static void lie(const struct state *s)
{
    for (int r = R0; liar() >= 0 && r <= LIE; r++)
        if (r != s->record[liar()] && (r == LIE || is_told_of(r)) && !(s->dead & bit(liar())))
            write_record(s, liar(), r, "lies, and shows");
}

/* It is one that the agent may go by. */
static bool supports(int shown, int record, int by)
{
    if (shown == record)
        return true;
    if (!shown || shown == LIE || record == LIE || shown == R0 || kind_of(record) == COMPLETE)
        return false;
    if (change_of(shown) == change_of(record))
        return is_above(shown, record);
    return kind_of(record) == CHANGING && version_of(record) == version_of(by) + 1 &&
           seats_before(record) == seats(by) && version_of(shown) == version_of(record) + 1 &&
           seats_before(shown) == seats(record);
}

/* Most of those that an agent by that record asks show the other one. */
static bool is_shown_by_most(const struct state *s, int by, int record)
{
    int count = 0;

    for (int i = 0; i < fleet.servers; i++)
        count +=
            (nodes_of(by) & bit(i)) && !(s->dead & bit(i)) && supports(s->record[i], record, by);
    return count >= (rule(BY_MOST) ? majority(nodes_of(by)) : 1);
}

static void mark_complete(struct state *x, int c)
{
    x->exists |= (uint16_t)bit(record_of(c, COMPLETE));
    for (int i = 0; i < AGENTS; i++) {
        x->agent[i].old[c] = x->agent[i].counts;
        x->agent[i].kept_old[c] = x->agent[i].kept;
    }
    x->told[c] = 0;
}

/* A record that only liars showed is gone by. */
static void believe(const struct state *s)
{
    for (int by = R0; liar() >= 0 && by < RECORDS; by++)
        for (int r = R0 + 1; (s->exists & bit(by)) && r <= LIE; r++) {
            struct state x = *s;

            if ((r == LIE ? s->lied : s->exists & bit(r)) || !(r == LIE || is_told_of(r)) ||
                !is_above(r, by) || !is_shown_by_most(s, by, r))
                continue;
            if (r == LIE)
                x.lied = true;
            else if (kind_of(r) == COMPLETE)
                mark_complete(&x, change_of(r));
            else
                x.exists |= (uint16_t)bit(r);
            reach(&x, "some agent believes", -1, -1, r);
        }
}

static bool has_second_operator(void)
{
    const struct change *c = search->plan->change;

    return c[1].seat && c[1].beginning == FIRST;
}

static void begin(const struct state *s, int c)
{
    int parent = parent_of(c);

    if (parent != R0 && (!(s->exists & bit(parent)) ||
                         (rule(AFTER_SETTLING) && !has_aged(s, search->plan->change[c].of))))
        return;
    for (int i = 0; i < fleet.servers; i++) {
        struct state x = *s;

        if (!(seats(parent) & bit(i)) || (s->dead & bit(i)))
            continue;
        if (s->record[i] == parent) {
            x.exists |= (uint16_t)bit(record_of(c, CHANGING));
            write_record(&x, i, record_of(c, CHANGING), "operator: begins a change here, with");
        }
        if ((has_second_operator() || search->plan->change[2].seat) && rule(ONE_POINT))
            break;
    }
}

/* An operator gives a change up that is on its way. */
static void begin_back(const struct state *s, int c)
{
    int of = search->plan->change[c].of;
    unsigned list = seats_before(record_of(of, CHANGING));

    if (rule(BACK_AT_STAYER))
        list &= seats(record_of(of, CHANGING));
    for (int i = 0; i < fleet.servers; i++) {
        struct state x = *s;

        if (!(list & bit(i)) || (s->dead & bit(i)))
            continue;
        if (s->record[i] == record_of(of, CHANGING) || s->record[i] == record_of(of, GONE) ||
            (!rule(BACK_CHANGING) && s->record[i] == record_of(of, COMPLETE))) {
            x.exists |= (uint16_t)bit(record_of(c, CHANGING));
            write_record(&x, i, record_of(c, CHANGING), "operator: gives the change up here, by");
        }
        if (rule(ONE_POINT))
            return;
    }
}

static void mark_gone(const struct state *s, int c)
{
    char gone = search->plan->change[c].gone;
    struct state x = *s;

    if (!gone || (s->exists & bit(record_of(c, GONE))))
        return;
    x.dead |= (uint8_t)bit((int)(strchr(search->plan->servers, gone) - search->plan->servers));
    x.exists |= (uint16_t)bit(record_of(c, GONE));
    reach(&x, "operator: a member has died and is marked as gone, by", -1, -1, record_of(c, GONE));
}

static bool may_complete(const struct state *s, int c, int record)
{
    unsigned with = servers_with(s, record), stay = seats(record) & seats_before(record),
             leave = seats_before(record) & ~seats(record), lack;

    if (kind_of(record) == GONE || is_back(c)) {
        stay &= ~(unsigned)s->dead;
        leave &= ~(unsigned)s->dead;
    }
    lack = stay & ~(rule(AT_ONCE) ? with : s->told[c]);
    if (is_back(c) && !rule(BACK_TOLD))
        leave = 0;
    if (rule(STAYERS_ALL) ? lack : __builtin_popcount(lack) > 1)
        return false;
    if (!rule(LEAVERS_TOLD))
        return true;
    with = servers_with(s, record_of(c, CHANGING)) | servers_with(s, record_of(c, GONE));
    return !(leave & ~(rule(LEAVERS_AT_ONCE) ? with : s->told[c]));
}

static void complete(const struct state *s, int c)
{
    for (enum kind kind = CHANGING; kind <= GONE; kind++) {
        struct state x = *s;

        if (!(s->exists & bit(record_of(c, kind))) || !may_complete(s, c, record_of(c, kind)))
            continue;
        mark_complete(&x, c);
        reach(&x, "some agent decides", -1, -1, record_of(c, COMPLETE));
        return;
    }
}

static void change(const struct state *s, int c)
{
    if (!search->plan->change[c].seat)
        return;
    if (!(s->exists & bit(record_of(c, CHANGING)))) {
        if (!is_back(c))
            begin(s, c);
        else if (s->exists & bit(record_of(search->plan->change[c].of, CHANGING)))
            begin_back(s, c);
        return;
    }
    mark_gone(s, c);
    if (!(s->exists & bit(record_of(c, COMPLETE))))
        complete(s, c);
}

/* --- what an agent does ----------------------------------------------------------------------- */

static bool may_have(const struct state *s, int a, int server, bool heals)
{
    for (int i = 0; i < AGENTS; i++) {
        const struct agent *other = &s->agent[i];
        bool at_once = heals ? !rule(HEALS_LATE) : !rule(QUARANTINE);

        if (i == a || !(claims(other) & bit(server)))
            continue;
        if (s->owner[server] == i + 1)
            return false;
        /* It forgot the other one's key. */
        if (at_once)
            continue;
        if (is_lengthy(&s->agent[a], false) ||
            (claims(other) & bit(server) & ~(other->lengthy | other->kept_lengthy)))
            return false;
        if (!option(TTL_UP | TTL_DOWN))
            return false;
    }
    return true;
}

static void count(const struct state *s, int a, int server)
{
    struct state x = *s;
    struct agent *agent = &x.agent[a];
    bool holds = agent->phase == HOLDS;
    unsigned record = nodes_of(agent->record);

    if (!is_settled(agent->record, agent->settled) && rule(OLD_OUT))
        record &= seats(agent->record);
    if ((s->dead & bit(server)) || s->record[server] != agent->record || !(record & bit(server)) ||
        !may_have(s, a, server, holds))
        return;
    x.owner[server] = (uint8_t)(a + 1);
    agent->counts |= (uint8_t)bit(server);
    agent->lengthy &= (uint8_t)~bit(server);
    if (option(TTL_UP | TTL_DOWN) && is_lengthy(agent, true))
        agent->lengthy |= (uint8_t)bit(server);
    for (int c = 0; c < CHANGES; c++)
        agent->old[c] &= (uint8_t)~bit(server);
    if (!holds && enough(agent->counts, agent->record, agent->settled))
        agent->phase = HOLDS;
    reach(&x, holds ? "renews or heals" : "is granted a vote", a, server, agent->record);
}

/* An idle agent may go by any record that there is: by which shows when it asks. */
static void begin_round(const struct state *s, int a)
{
    for (int r = R0; r < RECORDS; r++)
        for (int settled = 0; settled < 2; settled++) {
            struct state x = *s;

            if (!(s->exists & bit(r)) || (settled && (r == R0 || kind_of(r) != COMPLETE)) ||
                (settled && rule(SETTLE) && !has_aged(s, change_of(r))))
                continue;
            x.agent[a].phase = ASKS;
            x.agent[a].record = (uint8_t)r;
            x.agent[a].settled = (uint8_t)settled;
            for (int i = 0; i < fleet.servers; i++)
                count(&x, a, i);
        }
}

/* Its lease stays if enough of what it counts does so by that record, too; or as it was. */
static void go_by(const struct state *s, int a, int record, int server)
{
    struct state x = *s;
    struct agent *agent = &x.agent[a];
    unsigned stay = seats(record) & (seats_before(record) | nodes_of(agent->record));

    agent->record = (uint8_t)record;
    agent->settled = 0;
    agent->counts &= (uint8_t)(rule(VOID) && rule(OLD_OUT) ? stay : 0xff);
    reach(&x, "goes by a record", a, server, record);
    if (!option(FROZEN))
        return;
    if (enough(s->agent[a].counts, s->agent[a].record, s->agent[a].settled)) {
        agent->kept = s->agent[a].counts;
        agent->kept_lengthy = s->agent[a].lengthy;
        agent->kept_record = s->agent[a].record;
        agent->kept_settled = s->agent[a].settled;
        memcpy(agent->kept_old, s->agent[a].old, sizeof(agent->kept_old));
        reach(&x, "keeps what it has, and goes by a record", a, server, record);
    }
}

static void hear(const struct state *s, int a)
{
    int record = s->agent[a].record;

    for (int i = 0; i < fleet.servers; i++)
        if (s->record[i] && s->record[i] != LIE && (nodes_of(record) & bit(i)) &&
            is_above(s->record[i], record) && is_shown_by_most(s, record, s->record[i]))
            go_by(s, a, s->record[i], i);
    if (kind_of(record) != COMPLETE && (s->exists & bit(record_of(change_of(record), COMPLETE))))
        go_by(s, a, record_of(change_of(record), COMPLETE), -1);
    if (record != R0 && kind_of(record) == COMPLETE && !s->agent[a].settled &&
        (!rule(SETTLE) || has_aged(s, change_of(record)))) {
        struct state x = *s;

        x.agent[a].settled = 1;
        reach(&x, "its record has settled", a, -1, record);
    }
}

static void lapse(const struct state *s, int a)
{
    for (int i = 0; i < fleet.servers; i++) {
        struct state x = *s;

        if (s->agent[a].counts & bit(i)) {
            x.agent[a].counts &= (uint8_t)~bit(i);
            reach(&x, "a count ends", a, i, -1);
        }
        x = *s;
        if (s->agent[a].kept & bit(i)) {
            x.agent[a].kept &= (uint8_t)~bit(i);
            reach(&x, "a count by the record before ends", a, i, -1);
        }
    }
}

static void expand(const struct state *s)
{
    for (int a = 0; a < AGENTS; a++) {
        if (s->agent[a].phase == IDLE)
            begin_round(s, a);
        else
            for (int i = 0; i < fleet.servers; i++)
                count(s, a, i);
        if (s->agent[a].phase == HOLDS)
            hear(s, a);
        lapse(s, a);
    }
    for (int i = 0; i < fleet.servers; i++) {
        spread(s, i);
        lose_memory(s, i);
    }
    for (int c = 0; c < CHANGES; c++)
        change(s, c);
    lie(s);
    believe(s);
}

/* --- the whole -------------------------------------------------------------------------------- */

static int list_of(const char *names)
{
    int list = 0;

    for (; *names; names++)
        list |= (int)bit((int)(strchr(search->plan->servers, *names) - search->plan->servers));
    return list;
}

static bool are_alike(int i, int j)
{
    bool alike = i != liar() && j != liar();

    for (int r = R0; r < RECORDS; r++)
        if ((fleet.list[r] >> i & 1) != (fleet.list[r] >> j & 1))
            alike = false;
    for (int c = 0; c < CHANGES; c++)
        if (search->plan->change[c].gone == search->plan->servers[i] ||
            search->plan->change[c].gone == search->plan->servers[j])
            alike = false;
    return alike;
}

static void start(bool shuffled)
{
    struct state s;
    bool side = has_second_operator() || is_back(1);

    memset(&s, 0, sizeof(s));
    memset(&fleet, 0, sizeof(fleet));
    fleet.servers = (int)strlen(search->plan->servers);
    fleet.shuffled = shuffled;
    fleet.list[R0] = list_of(search->plan->list);
    for (int c = 0; c < CHANGES; c++)
        for (enum kind kind = CHANGING; kind <= COMPLETE; kind++)
            fleet.list[record_of(c, kind)] =
                search->plan->change[c].seat ? list_of(search->plan->change[c].seat) : 0;
    for (int i = 0; i < fleet.servers; i++)
        fleet.class_of[i] =
            i && !(side && i == 1) && are_alike(i, i - 1) ? fleet.class_of[i - 1] : i;
    s.forget = search->forget;
    s.exists = (uint8_t)bit(R0);
    for (int i = 0; i < fleet.servers; i++)
        s.record[i] = seats(R0) & bit(i) ? R0 : 0;
    free(all.seen);
    all.seen = NULL;
    all.count = all.room = all.bad = all.now = 0;
    reach(&s, "", -1, -1, -1);
}

static bool run(bool shuffled)
{
    start(shuffled);
    for (; all.now < all.count && !all.bad; all.now++) {
        struct state s;

        unpack(all.states[all.now], &s);
        expand(&s);
    }
    return !all.bad;
}

static void print_record(int record)
{
    static const char *const words[] = {" changing", " changing, gone", ""};

    if (record == 0)
        printf("-");
    else if (record == LIE)
        printf("a lie");
    else
        printf("%d%s%s", version_of(record),
               record == R0 || !change_of(record) ? ""
               : is_back(change_of(record))       ? " back"
               : has_second_operator()            ? "'"
                                                  : "",
               words[kind_of(record)]);
}

static void print_servers(unsigned set)
{
    for (int i = 0; i < fleet.servers; i++)
        if (set & bit(i))
            putchar(search->plan->servers[i]);
}

static void print_state(const struct state *s)
{
    printf("   ");
    for (int i = 0; i < fleet.servers; i++) {
        printf(" %c:", search->plan->servers[i]);
        if (s->dead & bit(i))
            printf("dead");
        else
            print_record(s->record[i]);
        if (s->owner[i])
            printf("=%d", s->owner[i]);
    }
    for (int i = 0; i < AGENTS; i++) {
        const struct agent *a = &s->agent[i];

        if (a->phase == IDLE)
            continue;
        printf("; agent %d at ", i + 1);
        print_record(a->record);
        printf("%s %s ", a->settled ? " settled" : "",
               a->phase == HOLDS ? "HOLDS by" : "has votes of");
        print_servers(a->counts);
        if (a->kept) {
            printf(" and, as before, ");
            print_servers(a->kept);
        }
    }
    putchar('\n');
}

static void print_way(size_t to)
{
    const struct step *step = &all.steps[to];
    struct state s;

    if (to == 0)
        return;
    print_way(all.before[to]);
    if (step->agent >= 0)
        printf("agent %d ", step->agent + 1);
    if (step->server >= 0)
        printf("%c ", search->plan->servers[step->server]);
    printf("%s", step->words);
    if (step->record >= 0) {
        putchar(' ');
        print_record(step->record);
    }
    putchar('\n');
    unpack(all.states[to], &s);
    print_state(&s);
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
        holds = run(!trace);
        failed += holds != search->holds;
        printf("%s model: moves: %s (%s, %zu states)\n", holds == search->holds ? "ok" : "not ok",
               search->name, holds ? "holds" : "two holders", all.count);
        (void)fflush(stdout);
        if (trace && !holds)
            print_way(all.bad);
    }
    return failed != 0;
}
