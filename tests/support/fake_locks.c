/* The fake agent's locks: in memory, published in a real table, answered through real rings. */
#include "tests/support/fake_agent_internal.h"

#include <sys/mman.h>
#include <time.h>

#include "shm/index.h"
#include "shm/slot.h"
#include "shm/status.h"
#include "tests/support/ring_post.h"

#define FENCE_ONE (UINT64_C(1) << 10)

static int64_t now_ns(void)
{
    struct timespec t;

    MUST(clock_gettime(CLOCK_BOOTTIME, &t) == 0);
    return (int64_t)t.tv_sec * HF_NS_PER_SEC + t.tv_nsec;
}

static bool same_name(const struct hf_request_entry *request, const void *name, size_t len)
{
    return request->name_len == len && memcmp(request->name, name, len) == 0;
}

/* --- table ------------------------------------------------------------------------------------ */

void fake_table_make(struct fake_agent *a)
{
    struct hf_table_spec spec = {
        .agent_name = a->name,
        .capacity = LEASES,
        .nodes = 3,
        .quorum = 2,
        .ttl_ms = a->options.ttl_ms,
        .ttl_max_ms = 60000,
        .mode = 0644,
        .group = (gid_t)-1,
        .version = "fake",
    };
    char why[256] = "";
    bool warm;

    if (hf_table_create(a->shm_name, &spec, &a->table, &warm, why, sizeof(why)) < 0) {
        fprintf(stderr, "fake agent: %s\n", why);
        abort();
    }
    MUST(hf_text_pool_create(&a->table, &a->text) == 0);
    hf_table_set_state(&a->table, HF_TABLE_ALIVE);
}

void fake_table_drop(struct fake_agent *a)
{
    hf_text_pool_destroy(a->text);
    hf_table_close(&a->table);
    shm_unlink(a->shm_name);
}

/* --- answers ---------------------------------------------------------------------------------- */

static void nudge(struct attached *c)
{
    if (hf_ring_polled(&c->ring))
        (void)send(c->sock, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void post(struct attached *c, const struct hf_completion_entry *entry)
{
    MUST(ring_post(&c->ring, entry) == 0);
    nudge(c);
}

static void answer(struct attached *c, const struct hf_request_entry *request, int status)
{
    struct hf_completion_entry entry = {.id = request->id, .op = request->op, .status = status};

    post(c, &entry);
}

static void answer_once(struct fake_agent *a, struct attached *c,
                        const struct hf_request_entry *request)
{
    struct hf_completion_entry entry = {.id = request->id,
                                        .op = request->op,
                                        .status = a->once_status,
                                        .deadline_ns = a->once_until_ns};

    if (!(request->flags & (HF_REQ_TAKE_BACK | HF_REQ_ENDED))) {
        a->once_asker = request->target;
        a->once_asked++;
    }
    post(c, &entry);
}

static void tell_holder(struct fake_agent *a, const uint8_t *cookie)
{
    for (int i = 0; i < CLIENTS; i++) {
        struct attached *c = &a->clients[i];

        if (c->welcomed && memcmp(c->cookie, cookie, HF_COOKIE_LEN) == 0) {
            hf_ring_signal(&c->ring);
            nudge(c);
        }
    }
}

/* --- locks ------------------------------------------------------------------------------------ */

static struct held *find_lease(struct fake_agent *a, const void *name, size_t len)
{
    for (int i = 0; i < LEASES; i++)
        if (a->leases[i].used && same_name(&a->leases[i].request, name, len))
            return &a->leases[i];
    return NULL;
}

static bool is_foreign(const struct fake_agent *a, const struct hf_request_entry *request)
{
    for (int i = 0; i < FOREIGN; i++)
        if (*a->foreign[i] && same_name(request, a->foreign[i], strlen(a->foreign[i])))
            return true;
    return false;
}

static uint32_t slot_number(const struct fake_agent *a, const struct held *lease)
{
    return (uint32_t)(lease - a->leases);
}

static int64_t next_deadline(const struct held *lease)
{
    return now_ns() + (int64_t)lease->ttl_ms * 990 * HF_NS_PER_US - 2 * HF_NS_PER_MS;
}

static void publish(struct fake_agent *a, struct held *lease, const struct attached *c)
{
    const struct hf_request_entry *r = &lease->request;
    uint32_t slot = slot_number(a, lease);
    struct hf_slot_identity id = {
        .generation = lease->generation,
        .pid = (uint32_t)c->peer.pid,
        .uid = c->peer.uid,
        .ttl_ms = lease->ttl_ms,
        .flags = lease->is_job ? HF_SLOT_F_JOB : 0,
        .name_len = r->name_len,
        .note_len = r->note_len,
        .comm_len = (uint8_t)strnlen(c->hello.comm, HF_COMM_MAX),
        .fence = lease->fence,
        .since = {now_ns()},
    };

    MUST(hf_text_put(a->text, r->name, r->name_len, r->note, r->note_len, c->hello.comm,
                     id.comm_len, &id.text_off) == 0);
    lease->text_off = id.text_off;
    lease->comm_len = id.comm_len;
    hf_slot_publish(&a->table.slots[slot], &id, (hf_time){lease->deadline_ns}, 3);
    if (atomic_load(&a->table.header->slots_used) <= slot)
        atomic_store(&a->table.header->slots_used, slot + 1);
    MUST(hf_index_add(&a->table, r->name, r->name_len, slot) == 0);
}

static void grant(struct fake_agent *a, struct attached *c, const struct hf_request_entry *request)
{
    struct hf_completion_entry entry = {.id = request->id, .op = HF_OP_ACQUIRE};
    struct held *lease = a->leases;

    while (lease < a->leases + LEASES && lease->used)
        lease++;
    if (lease == a->leases + LEASES) {
        answer(c, request, HF_EFULL);
        return;
    }
    *lease = (struct held){
        .used = true,
        .is_job = request->flags & HF_REQ_JOB,
        .generation = ++a->generation[lease - a->leases],
        .ttl_ms = request->ttl_ms ? request->ttl_ms : a->options.ttl_ms,
        .fence = a->last_fence += FENCE_ONE,
        .request = *request,
    };
    lease->deadline_ns = next_deadline(lease);
    memcpy(lease->cookie, c->cookie, sizeof(lease->cookie));
    publish(a, lease, c);
    entry.slot = slot_number(a, lease);
    entry.generation = lease->generation;
    entry.fence = lease->fence;
    entry.deadline_ns = lease->deadline_ns;
    post(c, &entry);
}

static void fill_holder(struct fake_agent *a, const struct hf_request_entry *request,
                        struct hf_wire_holder *holder)
{
    const struct held *lease = find_lease(a, request->name, request->name_len);

    holder->pttl_ms = -2;
    if (lease) {
        holder->fence = lease->fence;
        holder->pid = (uint32_t)getpid();
        strcpy(holder->host, "here");
        strcpy(holder->comm, "holder");
        memcpy(holder->note, lease->request.note, lease->request.note_len);
    } else {
        holder->pid = 4711;
        strcpy(holder->host, "elsewhere");
    }
}

static bool is_free(struct fake_agent *a, const struct hf_request_entry *request)
{
    return !find_lease(a, request->name, request->name_len) && !is_foreign(a, request);
}

static void acquire(struct fake_agent *a, int client, const struct hf_request_entry *request)
{
    struct hf_completion_entry busy = {.id = request->id, .op = HF_OP_ACQUIRE, .status = HF_EBUSY};
    struct attached *c = &a->clients[client];
    struct waiting *w = a->waiters;

    if (request->name_len == 0 || memcmp(request->name, "holdfast:", 9) == 0) {
        answer(c, request, HF_ENAME);
        return;
    }
    if (is_free(a, request)) {
        grant(a, c, request);
        return;
    }
    fill_holder(a, request, &busy.holder);
    if (request->deadline_ns == 0) {
        post(c, &busy);
        return;
    }
    while (w < a->waiters + WAITERS && w->used)
        w++;
    if (w == a->waiters + WAITERS) {
        answer(c, request, HF_ELIMIT);
        return;
    }
    *w = (struct waiting){
        .used = true,
        .client = client,
        .number = ++a->last_number,
        .request = *request,
    };
    busy.op = HF_OP_PROGRESS;
    post(c, &busy);
}

static bool is_due(struct fake_agent *a, const struct waiting *w)
{
    return w->used && hf_ring_room(&a->clients[w->client].ring) > 0 &&
           (is_free(a, &w->request) || w->request.deadline_ns <= now_ns());
}

void fake_serve_waiters(struct fake_agent *a)
{
    for (;;) {
        struct waiting *first = NULL;

        for (int i = 0; i < WAITERS; i++)
            if (is_due(a, &a->waiters[i]) && (!first || a->waiters[i].number < first->number))
                first = &a->waiters[i];
        if (!first)
            return;
        first->used = false;
        if (is_free(a, &first->request))
            grant(a, &a->clients[first->client], &first->request);
        else
            answer(&a->clients[first->client], &first->request, HF_ETIMEDOUT);
    }
}

void fake_end_lease(struct fake_agent *a, struct held *lease, enum hf_slot_state state,
                    enum hf_loss_reason reason)
{
    struct hf_slot *slot = &a->table.slots[slot_number(a, lease)];

    hf_slot_withdraw(slot);
    hf_slot_end(slot, state, reason);
    hf_index_remove(&a->table, lease->request.name, lease->request.name_len, slot_number(a, lease));
    hf_text_drop(a->text, lease->text_off, lease->request.name_len, lease->request.note_len,
                 lease->comm_len);
    lease->used = false;
    tell_holder(a, lease->cookie);
}

/* Slot and generation are checked against the session's own leases. */
static struct held *own_lease(struct fake_agent *a, const struct attached *c,
                              const struct hf_request_entry *request)
{
    struct held *lease = request->slot < LEASES ? &a->leases[request->slot] : NULL;

    if (!lease || !lease->used || lease->generation != request->generation ||
        memcmp(lease->cookie, c->cookie, HF_COOKIE_LEN) != 0)
        return NULL;
    return lease;
}

static void release(struct fake_agent *a, struct attached *c,
                    const struct hf_request_entry *request)
{
    struct held *lease = own_lease(a, c, request);

    if (request->flags & HF_REQ_REAPED)
        a->saw_reaped = true;
    if (lease)
        fake_end_lease(a, lease, HF_SLOT_ENDED, HF_LOSS_NONE);
    answer(c, request, lease ? HF_OK : HF_ENOTHELD);
}

static void set_losing(struct fake_agent *a, struct held *lease, enum hf_loss_reason reason)
{
    lease->frozen = true;
    hf_slot_mark(&a->table.slots[slot_number(a, lease)], HF_SLOT_LOSING, 0, reason);
    tell_holder(a, lease->cookie);
}

void fake_handle(struct fake_agent *a, int client, const struct hf_request_entry *request)
{
    struct attached *c = &a->clients[client];
    struct held *lease;

    switch (request->op) {
    case HF_OP_ACQUIRE:
        acquire(a, client, request);
        break;
    case HF_OP_RELEASE:
        release(a, c, request);
        break;
    case HF_OP_CANCEL:
        for (int i = 0; i < WAITERS; i++) {
            struct waiting *w = &a->waiters[i];

            if (w->used && w->client == client && w->request.id == request->target) {
                w->used = false;
                answer(c, &w->request, HF_ECANCELED);
            }
        }
        break;
    case HF_OP_LOSING:
        lease = own_lease(a, c, request);
        if (lease)
            set_losing(a, lease, HF_LOSS_GUARDIAN);
        break;
    case HF_OP_STOP_HOLDER:
        lease = find_lease(a, request->name, request->name_len);
        if (lease)
            set_losing(a, lease, HF_LOSS_ASKED);
        answer(c, request, lease ? HF_OK : HF_ENOTHELD);
        break;
    case HF_OP_ONCE:
        answer_once(a, c, request);
        break;
    default:
        answer(c, request, HF_OK);
    }
}

void fake_renew(struct fake_agent *a)
{
    for (int i = 0; i < LEASES; i++) {
        struct held *lease = &a->leases[i];
        int64_t left = lease->deadline_ns - now_ns();

        if (!lease->used)
            continue;
        if (left <= 0) {
            fake_end_lease(a, lease, HF_SLOT_LOST, HF_LOSS_QUORUM);
        } else if (a->renewing && !lease->frozen &&
                   left < (int64_t)lease->ttl_ms * HF_NS_PER_MS * 2 / 3) {
            lease->deadline_ns = next_deadline(lease);
            hf_slot_extend(&a->table.slots[i], (hf_time){lease->deadline_ns}, 3);
        }
    }
    atomic_store(&a->table.header->main_beat_ns, now_ns());
}

/* --- for tests -------------------------------------------------------------------------------- */

void fake_agent_foreign(struct fake_agent *a, const char *name, bool held)
{
    int i = 0;

    pthread_mutex_lock(&a->lock);
    while (i < FOREIGN && strcmp(a->foreign[i], held ? "" : name) != 0)
        i++;
    MUST(i < FOREIGN);
    (void)snprintf(a->foreign[i], sizeof(a->foreign[i]), "%s", held ? name : "");
    pthread_mutex_unlock(&a->lock);
}

void fake_agent_change(struct fake_agent *a, const char *name, enum hf_slot_state state,
                       enum hf_loss_reason reason)
{
    struct held *lease;

    pthread_mutex_lock(&a->lock);
    lease = find_lease(a, name, strlen(name));
    MUST(lease);
    if (state == HF_SLOT_LOST) {
        fake_end_lease(a, lease, state, reason);
    } else if (state == HF_SLOT_LOSING) {
        set_losing(a, lease, reason);
    } else {
        hf_slot_mark(&a->table.slots[slot_number(a, lease)], state, 0, reason);
        tell_holder(a, lease->cookie);
    }
    pthread_mutex_unlock(&a->lock);
}

bool fake_agent_holds(struct fake_agent *a, const char *name)
{
    bool holds;

    pthread_mutex_lock(&a->lock);
    holds = find_lease(a, name, strlen(name)) != NULL;
    pthread_mutex_unlock(&a->lock);
    return holds;
}

uint32_t fake_agent_beats(struct fake_agent *a, const char *name)
{
    const struct held *lease;
    uint32_t beats = 0;

    pthread_mutex_lock(&a->lock);
    lease = find_lease(a, name, strlen(name));
    for (int i = 0; lease && i < CLIENTS; i++)
        if (a->clients[i].welcomed &&
            memcmp(a->clients[i].cookie, lease->cookie, sizeof(lease->cookie)) == 0)
            beats += atomic_load(&a->clients[i].ring.beats[lease->request.beat_word]);
    pthread_mutex_unlock(&a->lock);
    return beats;
}

unsigned fake_agent_leases(struct fake_agent *a)
{
    unsigned n = 0;

    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < LEASES; i++)
        n += a->leases[i].used;
    pthread_mutex_unlock(&a->lock);
    return n;
}

unsigned fake_agent_waiters(struct fake_agent *a)
{
    unsigned n = 0;

    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < WAITERS; i++)
        n += a->waiters[i].used;
    pthread_mutex_unlock(&a->lock);
    return n;
}
