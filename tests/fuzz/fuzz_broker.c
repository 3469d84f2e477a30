/* The agent's broker, whole, against up to three clients that send what they like: hello datagrams,
 * rings, bells. No node ever answers; leases are granted by hand, and the renewal thread is a few
 * lines here. When all clients are gone, nothing of theirs may be left. */
#include "tests/fuzz/fuzz.h"
#include "tests/support/loop_turn.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/state/lease.h"
#include "agent/broker/broker.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/clients/users.h"
#include "agent/broker/locks/locks_internal.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/names.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/broker/queries/queries.h"
#include "agent/broker/rooms.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "shm/process.h"
#include "shm/ring.h"
#include "shm/slot.h"
#include "shm/status.h"
#include "tests/support/config.h"
#include "tests/support/journal.h"
#include "tests/support/raw_client.h"

#define PEERS    3
#define CAPACITY 16
#define WHY_SIZE 512

struct peer {
    int sock;
    struct session *session; /* the broker's; may be gone */
    bool fresh;              /* has said nothing yet */
    struct hf_welcome welcome;
    int fds[HF_WELCOME_FDS];
    bool attached;
    struct hf_requests_page *out; /* the client's own mapping */
    uint32_t tail, completion_head;
};

static char dir[40], path[60];
static struct config config;
static struct agent agent;
static struct broker *broker;
static struct loop *renewal_loop; /* never runs */
static uint64_t start_time;       /* of this process */
static struct peer peers[PEERS];
static bool ended[CAPACITY];           /* the lease of that slot was given back */
static uint32_t handed_over[CAPACITY]; /* the generation that was, last */

/* --- the agent -------------------------------------------------------------------------------- */

static void remove_files(void)
{
    char file[80];

    snprintf(file, sizeof(file), "%s/journal", dir);
    unlink(file);
    snprintf(file, sizeof(file), "%s/nodes", dir);
    unlink(file);
    unlink(path);
    rmdir(dir);
}

static void configure(void)
{
    char *arguments[] = {"holdfastd",  "--node",
                         "/nowhere/1", "--node",
                         "/nowhere/2", "--node",
                         "/nowhere/3", "--runtime-dir",
                         "/nowhere",   "--capacity",
                         "16",         "--clients-max",
                         "8",          "--clients-per-uid",
                         "6",          "--leases-per-uid",
                         "6",          "--waiters-per-uid",
                         "8",          NULL};
    char why[WHY_SIZE];
    int code;

    FUZZ_CHECK(config_load((int)HF_LENGTH(arguments) - 1, arguments, &config, &code, why,
                           sizeof(why)) == HF_OK);
}

static void make_stores(void)
{
    struct hf_table_spec spec = {.agent_name = "fuzz",
                                 .capacity = CAPACITY,
                                 .nodes = 3,
                                 .quorum = 2,
                                 .ttl_ms = 30000,
                                 .ttl_max_ms = 60000,
                                 .mode = 0644,
                                 .group = (gid_t)-1,
                                 .version = "0.1.0"};
    char name[32], why[WHY_SIZE];
    uint32_t found;
    bool warm;

    snprintf(name, sizeof(name), "fuzz-%d", (int)getpid());
    FUZZ_CHECK(hf_table_name(name, false, geteuid(), agent.shm_name) == 0);
    FUZZ_CHECK(hf_table_create(agent.shm_name, &spec, &agent.table, &warm, why, sizeof(why)) == 0);
    shm_unlink(agent.shm_name);
    FUZZ_CHECK(journal_open(dir, CAPACITY, 3, config.list_hash, &agent.clock, &agent.journal,
                            &found, why, sizeof(why)) == HF_OK);
    FUZZ_CHECK(node_records_open(dir, 3, config.list_hash, &agent.clock, &agent.node_records, why,
                                 sizeof(why)) == HF_OK);
    FUZZ_CHECK(lease_table_create(CAPACITY, &agent.leases) == HF_OK);
}

static void begin(void)
{
    struct stat st;

    snprintf(dir, sizeof(dir), "/dev/shm/holdfast-fuzz-%d", (int)getpid());
    snprintf(path, sizeof(path), "%s/sock", dir);
    FUZZ_CHECK(mkdir(dir, 0700) == 0);
    atexit(remove_files);
    log_init(LOG_LEVEL_ERROR);
    rcu_register_thread();
    configure();
    agent.config = &config;
    snprintf(agent.socket_path, sizeof(agent.socket_path), "%s", path);
    agent.timens_inode = stat("/proc/self/ns/time", &st) == 0 ? st.st_ino : 0;
    make_stores();
    FUZZ_CHECK(loop_create(&renewal_loop) == HF_OK);
    mailbox_init(&agent.to_renewal, renewal_loop);
    FUZZ_CHECK(broker_create(&agent, &broker) == HF_OK);
    FUZZ_CHECK(sessions_listen(broker->clients) == HF_OK);
    broker->nodes->started = broker->locks->started =
        HF_TIME_PAST; /* nothing is to be waited for any more */
    start_time = hf_process_start_time(0);
}

/* Over, as the renewal thread tells it when q nodes have answered. */
static void end(struct lease *lease, enum hf_slot_state state)
{
    struct message *m;

    /* As the renewal thread: once it is handed over it knows the next one only. */
    if (ended[lease->slot] || lease->generation == handed_over[lease->slot])
        return;
    ended[lease->slot] = true;
    atomic_store(&lease->state, state);
    hf_slot_withdraw(&agent.table.slots[lease->slot]);
    hf_slot_end(&agent.table.slots[lease->slot], state, HF_LOSS_NONE);
    if (lease->has_extra) {
        beats_drop(lease_extra(lease)->beats);
        lease_extra(lease)->beats = NULL;
    }
    m = message_new(MSG_ENDED);
    m->lease = lease;
    mailbox_post(&agent.to_broker, m);
}

/* Every third is refused, and released. */
static void hand_over(struct handoff *h, struct lease *from)
{
    static unsigned count;
    struct message *m = message_new(MSG_HANDED_OVER);
    struct lease *to = h->to;

    h->verdict = !from || ended[h->slot] || ++count % 3 == 0 ? HANDOFF_NOT_HELD : HANDOFF_YES;
    m->handoff = h;
    mailbox_post(&agent.to_broker, m);
    if (h->verdict != HANDOFF_YES) {
        if (from)
            end(from, HF_SLOT_ENDED);
        return;
    }
    handed_over[h->slot] = from->generation;
    memcpy(&to->fsm, &from->fsm, lease_fsm_size(from->fsm.n));
    atomic_init(&to->valid_ns, atomic_load(&from->valid_ns));
    atomic_init(&to->state, HF_SLOT_HELD);
    hf_slot_withdraw(&agent.table.slots[h->slot]);
}

static void be_the_renewal_thread(void)
{
    struct message *m, *answer;

    while ((m = mailbox_take(&agent.to_renewal))) {
        struct lease *lease = names_lease(broker->locks, m->slot, m->generation);

        /* An order for a lease may cross the news that it was handed over. */
        FUZZ_CHECK(lease || m->kind == MSG_BEATS || ended[m->slot] ||
                   m->generation == handed_over[m->slot]);
        if (m->kind == MSG_BEATS)
            beats_drop(m->beats);
        else if (m->kind == MSG_HAND_OVER)
            hand_over(m->handoff, lease);
        else if (lease && (m->kind == MSG_RELEASE || m->kind == MSG_ABANDON))
            end(lease, HF_SLOT_ENDED);
        else if (lease && m->kind == MSG_LOSE && !ended[lease->slot]) {
            hf_slot_mark(&agent.table.slots[lease->slot], HF_SLOT_LOSING, 0, m->reason);
            answer = message_new(MSG_CHANGED);
            answer->lease = lease;
            mailbox_post(&agent.to_broker, answer);
        }
        free(m);
    }
}

/* One turn of the broker's loop. What its descriptors tell is served at the begin of the next one. */
static void turn(void)
{
    loop_turn_once(broker->loop);
    be_the_renewal_thread();
}

/* --- the clients ------------------------------------------------------------------------------ */

static bool is_there(const struct session *session)
{
    struct session *s;

    LIST_FOREACH (s, &broker->clients->sessions, all)
        if (s == session)
            return true;
    return false;
}

static void leave(struct peer *p)
{
    if (p->sock < 0)
        return;
    close(p->sock);
    p->sock = -1;
    if (!p->attached)
        return;
    munmap(p->out, HF_REQUESTS_BYTES);
    for (int i = 0; i < HF_WELCOME_FDS; i++)
        close(p->fds[i]);
    p->attached = false;
}

/* Who has said nothing yet may as well be the next one: to connect costs most of an execution. */
static void come(struct peer *p)
{
    unsigned before;

    if (p->sock >= 0 && p->fresh) {
        turn();
        return;
    }
    leave(p);
    before = broker->clients->session_count;
    p->sock = raw_connect(path);
    FUZZ_CHECK(p->sock >= 0);
    turn();
    p->session =
        broker->clients->session_count > before ? LIST_FIRST(&broker->clients->sessions) : NULL;
    p->fresh = true;
}

static void say_hello(struct peer *p, struct fuzz_input *in, uint8_t how)
{
    struct hf_hello hello = {.magic = HF_WIRE_MAGIC,
                             .major = HF_WIRE_MAJOR,
                             .minor = HF_WIRE_MINOR,
                             .fingerprint = hf_wire_fingerprint(),
                             .start_time = start_time,
                             .timens_inode = agent.timens_inode,
                             .boottime_ns = clock_now().ns,
                             .role = how & 1 ? HF_ROLE_GUARDIAN : HF_ROLE_HOLDER,
                             .nudge = how & 2};
    size_t size = sizeof(hello), offset;

    if (how & 4) /* another's cookie, or one's own of an earlier session */
        memcpy(hello.cookie, peers[how / 8 % PEERS].welcome.cookie, sizeof(hello.cookie));
    if (how >= 0xc0) {
        offset = fuzz_u8(in) % sizeof(hello);
        fuzz_take(in, (char *)&hello + offset, offset + 8 < sizeof(hello) ? 8 : 1);
    }
    if (how >= 0xf0)
        size = fuzz_u8(in);
    p->fresh = false;
    (void)send(p->sock, &hello, size < sizeof(hello) ? size : sizeof(hello),
               MSG_NOSIGNAL | MSG_DONTWAIT);
    turn();
}

static void ring_bell(const struct peer *p)
{
    const char bell = 0;

    (void)send(p->sock, &bell, sizeof(bell), MSG_DONTWAIT | MSG_NOSIGNAL);
    turn();
}

static void take_welcome(struct peer *p)
{
    struct hf_ring_client ring; /* only so that the rings are allocated and sealed */
    char why[WHY_SIZE] = "";
    int fds[HF_WELCOME_FDS];
    bool again;

    if (p->attached || p->sock < 0 ||
        hfc_welcome(p->sock, &p->welcome, fds, &again, why, sizeof(why)) < 0)
        return;
    memcpy(p->fds, fds, sizeof(fds));
    p->out = mmap(NULL, HF_REQUESTS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
                  p->fds[HF_FD_REQUESTS], 0);
    FUZZ_CHECK(p->out != MAP_FAILED);
    p->tail = p->completion_head = 0;
    p->attached = true;
    FUZZ_CHECK(hf_ring_client_map(dup(p->fds[HF_FD_REQUESTS]), dup(p->fds[HF_FD_COMPLETIONS]), NULL,
                                  &ring) == 0);
    hf_ring_client_unmap(&ring);
    ring_bell(p);
}

static void ask(struct peer *p, struct fuzz_input *in)
{
    struct hf_request_entry q = {.op = fuzz_u8(in) % (HF_OP_ITEM + 1),
                                 .flags = fuzz_u8(in),
                                 .id = 1 + fuzz_u8(in) % 12,
                                 .target = 1 + fuzz_u8(in) % 12,
                                 .slot = fuzz_u8(in) % (CAPACITY + 2)};
    uint8_t how = fuzz_u8(in);

    q.generation = q.slot < CAPACITY ? broker->locks->generations[q.slot] - (how & 1) : how;
    q.deadline_ns = how & 2 ? INT64_MAX : 0;
    q.name_len = how & 4 ? 1 : fuzz_u8(in);
    memset(q.name, 'a' + how / 16 % 8, sizeof(q.name));
    if (how & 8) {
        q.note_len = fuzz_u8(in);
        q.heartbeat_ms = fuzz_u16(in);
        q.beat_word = fuzz_u16(in);
        q.ttl_ms = fuzz_u32(in);
        q.max_hold_ms = fuzz_u32(in);
        q.asked_ns = (int64_t)fuzz_u64(in);
    }
    memcpy((void *)hf_ring_place(p->out, p->tail), &q, sizeof(q));
    atomic_store(&p->out->tail, ++p->tail);
    ring_bell(p);
}

/* A round was won: the broker's word to the client, without the nodes. */
static void grant(struct peer *p, char letter, uint64_t request_id, bool is_job)
{
    struct session *s = p->session;
    struct name *name;
    struct lease *lease;

    if (!is_there(s) || !s->client || name_get(broker->locks, &letter, 1, &name) < 0 ||
        name_lease(name) || name->state->round || name->undoing)
        return;
    name_activate(name);
    lease = lease_new(broker->nodes->n,
                      &(struct lease_words){.name = &letter,
                                            .name_len = 1,
                                            .key = &letter,
                                            .key_len = 1,
                                            .holder = &(struct holder){.pid = s->pid}});
    FUZZ_CHECK(lease);
    lease->slot = name->slot;
    lease->generation = name->generation = ++broker->locks->generations[name->slot];
    lease->fence = UINT64_C(1) << 30;
    lease->ttl_ms = 30000;
    lease->uid = s->uid;
    lease->request_id = request_id;
    lease->is_job = is_job;
    lease->since = clock_now();
    atomic_init(&lease->state, HF_SLOT_HELD);
    atomic_init(&lease->valid_ns, hf_time_add(lease->since, hf_ms(lease->ttl_ms)).ns);
    if (name_publish(name, lease, false, (hf_time){INT64_MAX / 2}, 3, 0) < 0) {
        lease_free(lease);
        name_park(name);
        return;
    }
    ended[name->slot] = false;
    grant_hold(name, lease, s->client);
    FUZZ_CHECK(answers_reserve(&s->answers) == HF_OK); /* nobody asked for this one */
    answers_owe(&s->answers);
    grant_answer(s, lease);
    turn();
}

static void lose(uint32_t slot)
{
    struct lease *lease = names_lease(broker->locks, slot, broker->locks->generations[slot]);

    if (lease)
        end(lease, HF_SLOT_LOST);
    turn();
}

static void step(struct fuzz_input *in)
{
    uint8_t what = fuzz_u8(in), bytes[256];
    struct peer *p = &peers[what / 16 % PEERS];
    size_t offset;

    switch (what % 16) {
    case 0:
        if (p->attached)
            turn();
        else
            come(p);
        return;
    case 1: /* the way that a client comes in */
        come(p);
        say_hello(p, in, 0);
        take_welcome(p);
        return;
    case 2:
        lose(fuzz_u8(in) % CAPACITY);
        return;
    case 3:
        leave(p);
        turn();
        return;
    default:
        break;
    }
    if (p->sock < 0)
        return;
    switch (what % 16) {
    case 4:
        say_hello(p, in, fuzz_u8(in));
        take_welcome(p);
        return;
    case 5:
        offset = fuzz_u8(in);
        fuzz_take(in, bytes, offset);
        p->fresh = false;
        (void)send(p->sock, bytes, offset, MSG_NOSIGNAL | MSG_DONTWAIT);
        turn();
        return;
    case 6:
    case 7: {
        uint8_t name = fuzz_u8(in), id = fuzz_u8(in);

        grant(p, (char)('a' + name % 8), id % 12, name & 0x80);
        return;
    }
    default:
        break;
    }
    if (!p->attached)
        return;
    switch (what % 16) {
    case 8:
    case 9:
    case 10:
    case 11:
        ask(p, in);
        return;
    case 12:
        offset = fuzz_u16(in) % (HF_REQUESTS_BYTES - 64);
        fuzz_take(in, (char *)p->out + offset, fuzz_u8(in) % 65);
        ring_bell(p);
        return;
    case 13:
        atomic_store(&p->out->tail, fuzz_near(in, p->tail));
        ring_bell(p);
        return;
    case 14:
        atomic_store(&p->out->completion_head, fuzz_near(in, ++p->completion_head));
        turn();
        return;
    case 15: /* the socket is full */
        for (int i = 0; i < 1000 && send(p->sock, &what, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1; i++)
            ;
        turn();
        return;
    }
}

static void check_nothing_left(void)
{
    struct user *u;

    FUZZ_CHECK(broker->clients->session_count == 0 && broker->clients->active_count == 0);
    FUZZ_CHECK(broker->locks->waiter_count == 0 && LIST_EMPTY(&broker->clients->sessions));
    FUZZ_CHECK(LIST_EMPTY(&broker->clients->all) && TAILQ_EMPTY(&broker->clients->active));
    FUZZ_CHECK(broker->locks->round_count == 0);
    LIST_FOREACH (u, &broker->clients->users, all)
        FUZZ_CHECK(!u->sessions && !u->leases && !u->waiters && !u->text_units && !u->queries &&
                   !u->listings);
    FUZZ_CHECK(LIST_EMPTY(&broker->queries->fanouts) && broker->queries->waiting_count == 0);
    for (uint32_t i = 0; i < broker->locks->slots_used; i++)
        FUZZ_CHECK(!broker->locks->by_slot[i] || broker->locks->by_slot[i]->idle);
}

static int lowest_free_descriptor(void)
{
    int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);

    close(fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    int descriptors;

    if (!broker)
        begin();
    descriptors = lowest_free_descriptor();
    for (int i = 0; i < PEERS; i++)
        peers[i] = (struct peer){.sock = -1};
    while (in.left > 0)
        step(&in);
    for (int i = 0; i < PEERS; i++)
        leave(&peers[i]);
    for (int i = 0;
         i < 2000 && (broker->clients->session_count || !LIST_EMPTY(&broker->clients->all)); i++)
        turn();
    turn(); /* the steps of names that were left last */
    check_nothing_left();
    FUZZ_CHECK(lowest_free_descriptor() == descriptors);
    return 0;
}
