/* The names held on any host: every node's records, page by page, merged by name and hold. */
#include "libclient/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/text.h"

#define SLOTS_FIRST 1024 /* a power of two */

/* Of one node, which gives away hundreds of keys in a millisecond: there is no end after it. */
#define NODE_MOST_NS (600 * HF_NS_PER_SEC)

/* One node may name so many locks that no other node has named yet. Healthy nodes have the same names, apart from locks that
 * are just being acquired or released, and leftovers. */
#define ALONE_MOST 100000
#define ALONE_TEXT "names more than 100000 locks that no other node has"

/* One hold of one name, as the nodes report it. */
struct found {
    uint32_t nodes; /* a bit for each that has it */
    uint64_t fence;
    int64_t since_wall_ms, pttl_ms;
    uint32_t pid, uid;
    uint8_t id[HF_KEY_ID_LEN];
    uint8_t name_len;
    uint8_t text[]; /* the name; host, command and note, each with its NUL */
};

struct list {
    struct found **slots; /* by hash; NULL is empty */
    size_t slot_count, count;
    size_t alone[HF_NODES_MAX]; /* of each node: holds that only this node has named so far */
    uint32_t left_out;          /* a bit for each node whose listing has no end */
    bool no_memory;
    const void *prefix;
    size_t prefix_len;
    uint32_t nodes;
};

struct node { /* the state of its listing */
    struct list *list;
    unsigned number;
    hf_op *op;
    struct hf_completion_entry answer;
    bool waits;           /* to be asked for its next page */
    uint64_t pages, mark; /* answers so far; the cursor of one of them */
    int64_t began_ns;
};

static size_t list_hash_of(const uint8_t *name, size_t name_len, const uint8_t *id)
{
    uint64_t hash;

    memcpy(&hash, id, sizeof(hash)); /* of a SHA-1 */
    for (size_t i = 0; i < name_len; i++)
        hash = (hash ^ name[i]) * UINT64_C(0x100000001b3);
    return (size_t)(hash ^ hash >> 32);
}

/* The hold's place, or the place for it. */
static struct found **list_place_of(struct found **slots, size_t slot_count, const uint8_t *name,
                                    size_t name_len, const uint8_t *id)
{
    size_t at = list_hash_of(name, name_len, id) & (slot_count - 1);

    while (slots[at] &&
           (slots[at]->name_len != name_len || memcmp(slots[at]->text, name, name_len) != 0 ||
            memcmp(slots[at]->id, id, HF_KEY_ID_LEN) != 0))
        at = (at + 1) & (slot_count - 1);
    return &slots[at];
}

static bool list_grow(struct list *list)
{
    size_t slot_count = list->slot_count ? 2 * list->slot_count : SLOTS_FIRST;
    struct found **slots = calloc(slot_count, sizeof(struct found *));

    if (!slots)
        return false;
    for (size_t i = 0; i < list->slot_count; i++) {
        struct found *f = list->slots[i];

        if (f)
            *list_place_of(slots, slot_count, f->text, f->name_len, f->id) = f;
    }
    free(list->slots);
    list->slots = slots;
    list->slot_count = slot_count;
    return true;
}

static struct found *list_found_new(const struct hf_listing_item *item)
{
    size_t host = strnlen(item->host, sizeof(item->host) - 1);
    size_t comm = strnlen(item->comm, sizeof(item->comm) - 1);
    size_t note = strnlen(item->note, sizeof(item->note) - 1);
    struct found *f = calloc(1, sizeof(*f) + item->name_len + host + comm + note + 3);
    uint8_t *at;

    if (!f)
        return NULL;
    f->fence = item->fence;
    f->since_wall_ms = item->since_wall_ms;
    f->pttl_ms = item->pttl_ms;
    f->pid = item->pid;
    f->uid = item->uid;
    f->name_len = item->name_len;
    memcpy(f->id, item->key_id, sizeof(f->id));
    memcpy(f->text, item->name, item->name_len);
    at = f->text + item->name_len;
    memcpy(at, item->host, host);
    memcpy(at + host + 1, item->comm, comm);
    memcpy(at + host + 1 + comm + 1, item->note, note);
    return f;
}

static void list_note(struct list *list, struct found *f, unsigned node)
{
    uint32_t bit = 1u << node, others = f->nodes & ~bit;

    if (!f->nodes)
        list->alone[node]++;
    else if (f->nodes == others && !(others & (others - 1)))
        list->alone[__builtin_ctz(others)]--;
    f->nodes |= bit;
}

static void list_on_item(const struct hf_listing_item *item, void *arg)
{
    struct node *node = arg;
    struct list *list = node->list;
    struct found **place;

    /* The agent answers, however many items are read before the last. */
    node->op->give_up_ns = hfc_now() + HFC_ASK_NS;
    if (list->no_memory)
        return;
    if (list->count * 2 >= list->slot_count && !list_grow(list)) {
        list->no_memory = true;
        return;
    }
    place = list_place_of(list->slots, list->slot_count, item->name, item->name_len, item->key_id);
    if (!*place) {
        *place = list_found_new(item);
        if (!*place) {
            list->no_memory = true;
            return;
        }
        list->count++;
    }
    list_note(list, *place, node->number);
    if (item->pttl_ms < (*place)->pttl_ms)
        (*place)->pttl_ms = item->pttl_ms;
}

/* --- asking the nodes ------------------------------------------------------------------------- */

static const struct hfc_kind listing_kind = {.wire_op = HF_OP_LISTING};

/* The next page; false: out of memory. */
static bool list_ask(hf_client *client, struct node *node) REQUIRES(hfc_locked)
{
    const struct list *list = node->list;

    node->op = hfc_op_new(client, &listing_kind);
    if (!node->op)
        return false;
    node->op->entry.name_len = (uint8_t)list->prefix_len;
    if (list->prefix_len)
        memcpy(node->op->entry.name, list->prefix, list->prefix_len);
    node->op->entry.slot = node->number;
    node->op->entry.target = node->answer.fence;
    node->op->deadline_ns = node->op->start_ns;
    node->op->give_up_ns = node->op->start_ns + HFC_ASK_NS;
    node->op->found = &node->answer;
    node->op->item = list_on_item;
    node->op->arg = node;
    hfc_op_begin(node->op);
    return true;
}

/* (!) By its cursors and its time alone: a node that lies may name as many keys as it likes. An honest one has no cursor
 * twice. The mark is of page 1, 2, 4, 8...: a circle of any length comes by one of them again. */
static bool list_goes_round(struct node *node)
{
    uint64_t cursor = node->answer.fence;

    if (node->pages > 0 && cursor == node->mark)
        return true;
    node->pages++;
    if ((node->pages & (node->pages - 1)) == 0)
        node->mark = cursor;
    return hfc_now() - node->began_ns > NODE_MOST_NS;
}

static int list_say_endless(hf_client *client, const struct node *node, const char *what)
    REQUIRES(hfc_locked)
{
    struct hf_node_row row = {0};

    if (client->link == HFC_LINK_UP)
        (void)hf_node_read(&client->session->map->table, node->number, &row);
    return hfc_fail(HF_ENOQUORUM, "node %.*s %s; find out what answers at its address",
                    (int)sizeof(row.id), *row.id ? row.id : "(unknown)", what);
}

/* (!) A node that is far ahead waits for the others, so a node that makes names up costs little memory, however fast it is.
 * The node that is least ahead always goes on. */
static bool list_may_go_on(const struct list *list, const struct node *node, unsigned i)
{
    if (list->alone[i] <= ALONE_MOST)
        return true;
    for (unsigned k = 0; k < list->nodes; k++)
        if (k != i && (node[k].op || node[k].waits) &&
            (list->alone[k] < list->alone[i] || (list->alone[k] == list->alone[i] && k < i)))
            return false;
    return true;
}

/* The next pages of those that may go on. Returns how many of `open` listings are open still. (!) Once a quorum has been
 * listed to the end, or no other listing is open, a node that is still far ahead makes names up. */
static int list_go_on(hf_client *client, struct list *list, struct node *node, int open, int listed,
                      int *ret_status) REQUIRES(hfc_locked)
{
    for (unsigned i = 0; i < list->nodes; i++) {
        bool last = open == 1 || listed > (int)list->nodes / 2;

        if (!node[i].waits)
            continue;
        if (last && list->nodes > 1 && list->alone[i] > ALONE_MOST) {
            node[i].waits = false;
            list->left_out |= 1u << i;
            open--;
            if (listed)
                *ret_status = list_say_endless(client, &node[i], ALONE_TEXT);
        } else if (list_may_go_on(list, node, i)) {
            node[i].waits = false;
            open -= !list_ask(client, &node[i]);
        }
    }
    return open;
}

/* Reads all pages of all nodes. Returns how many nodes were listed to the end; negative: none, or no memory. */
static int list_ask_all(hf_client *client, struct list *list) REQUIRES(hfc_locked)
{
    struct node node[HF_NODES_MAX] = {0};
    int listed = 0, open = (int)list->nodes, status = HF_OK;

    for (unsigned i = 0; i < list->nodes; i++) {
        node[i].list = list;
        node[i].number = i;
        node[i].began_ns = hfc_now();
        node[i].waits = true;
    }
    while ((open = list_go_on(client, list, node, open, listed, &status)) > 0) {
        uint32_t seen = hfc_turn(client);
        int64_t next = HFC_NEVER;
        bool moved = false, flies = false;

        for (unsigned i = 0; i < list->nodes; i++) {
            hf_op *op = node[i].op;

            if (!op)
                continue;
            hfc_op_expire(op, hfc_now());
            if (!op->done) {
                next = hfc_min(next, hfc_op_next(op));
                flies = true;
                continue;
            }
            moved = true;
            node[i].op = NULL;
            if (op->status < 0) {
                status =
                    hfc_fail(op->status, "%s", *op->text ? op->text : hf_status_text(op->status));
            } else if (node[i].answer.fence == 0) {
                listed++;
            } else if (list_goes_round(&node[i])) {
                list->left_out |= 1u << i;
                status = list_say_endless(client, &node[i], "does not end its listing");
            } else {
                node[i].waits = true;
            }
            open -= !node[i].waits;
            hfc_op_abandon(op);
        }
        if (flies && !moved && hfc_sleep(client, seen, next)) {
            for (unsigned i = 0; i < list->nodes; i++)
                if (node[i].op)
                    hfc_op_abandon(node[i].op);
            return hfc_fail(HF_EINTR, NULL);
        }
    }
    return listed ? listed : status < 0 ? status : HF_ENOMEM;
}

/* --- reporting ---------------------------------------------------------------------------------- */

static int list_by_name(const void *left, const void *right)
{
    const struct found *a = *(struct found *const *)left, *b = *(struct found *const *)right;
    size_t least = a->name_len < b->name_len ? a->name_len : b->name_len;
    int order = memcmp(a->text, b->text, least);

    return order ? order : (int)a->name_len - (int)b->name_len;
}

static int list_tell(const struct list *list, const struct found *f,
                     int (*fn)(const struct hf_listed *listed, void *arg), void *arg)
{
    struct hf_listed listed = {
        .size = sizeof(listed),
        .name = f->text,
        .name_len = f->name_len,
        .holding = (uint32_t)__builtin_popcount(f->nodes & ~list->left_out),
        .holder = {.fence = f->fence,
                   .since_wall_ms = f->since_wall_ms,
                   .pttl_ms = f->pttl_ms,
                   .pid = f->pid,
                   .uid = f->uid},
    };
    const char *host = (const char *)f->text + f->name_len;
    const char *comm = host + strlen(host) + 1, *note = comm + strlen(comm) + 1;

    (void)snprintf(listed.holder.host, sizeof(listed.holder.host), "%s", host);
    (void)snprintf(listed.holder.command, sizeof(listed.holder.command), "%s", comm);
    (void)snprintf(listed.holder.note, sizeof(listed.holder.note), "%s", note);
    if (!listed.holding)
        return HF_OK;
    hf_key_id_text(f->id, listed.id);
    return fn(&listed, arg);
}

/* Moves the holds to the front of the slots, sorted. */
static void list_sort(struct list *list)
{
    size_t count = 0;

    for (size_t i = 0; i < list->slot_count; i++)
        if (list->slots[i])
            list->slots[count++] = list->slots[i];
    if (count)
        qsort(list->slots, count, sizeof(struct found *), list_by_name);
}

int hf_list(hf_client *client, const void *prefix, size_t prefix_len,
            int (*fn)(const struct hf_listed *listed, void *arg), void *arg, uint32_t *ret_nodes)
{
    struct list list = {.prefix = prefix, .prefix_len = prefix_len};
    uint32_t nodes = 0;
    int listed, status = hfc_client_check(client);

    if (status < 0)
        return status;
    if (!fn || (!prefix && prefix_len))
        return hfc_fail(HF_EINVAL, "hf_list: an argument is NULL");
    if (prefix_len > HF_NAME_MAX)
        return hfc_fail(HF_ENAME, "use a prefix of at most %d bytes, not %zu", HF_NAME_MAX,
                        prefix_len);
    hfc_lock(client);
    hfc_turn_notice_end(client);
    hfc_link_drive(client);
    if (client->link == HFC_LINK_UP)
        nodes = client->session->map->table.header->nodes;
    if (nodes == 0 || nodes > HF_NODES_MAX) {
        status = hfc_fail(HF_ENOAGENT, "%s", client->link_text);
        hfc_unlock(client);
        return status;
    }
    list.nodes = nodes;
    listed = list_ask_all(client, &list);
    hfc_unlock(client);
    if (list.no_memory)
        status = hfc_fail(HF_ENOMEM, NULL);
    else if (listed < 0)
        status = listed;
    else if ((uint32_t)listed < nodes / 2 + 1)
        status = HF_ENOQUORUM; /* the last failure's message stays */
    list_sort(&list);
    if (status == HF_OK && ret_nodes)
        *ret_nodes = (uint32_t)listed;
    for (size_t i = 0; i < list.count && status == HF_OK; i++)
        status = list_tell(&list, list.slots[i], fn, arg);
    for (size_t i = 0; i < list.count; i++)
        free(list.slots[i]);
    free(list.slots);
    return status;
}

/* --- one name --------------------------------------------------------------------------------- */

/* Who holds a name on any host; waiting for it to be free; ending a hold by force. */

static void who_fill(const struct hf_completion_entry *found, uint32_t nodes,
                     struct hf_who_info *who)
{
    *who = (struct hf_who_info){.size = sizeof(*who),
                                .state = found->query_outcome,
                                .nodes = nodes,
                                .quorum = nodes / 2 + 1,
                                .answered = found->query_answered,
                                .holding = found->query_holding,
                                .forced = found->query_forced,
                                .free = found->query_free,
                                .last_fence = found->fence};
    hfc_holder(&found->holder, &who->holder);
    hf_key_id_text(found->key_id, who->id);
}

/* From the session, so from the agent that answered. */
static uint32_t who_nodes_of(const hf_client *client) REQUIRES(hfc_locked)
{
    return client->link == HFC_LINK_UP ? client->session->map->table.header->nodes : 0;
}

static const struct hfc_kind query_kind = {.wire_op = HF_OP_QUERY, .revocable = true};
static const struct hfc_kind force_kind = {.wire_op = HF_OP_FORCE, .steady = true};

struct question {
    const struct hfc_kind *kind;
    const void *name;
    size_t name_len;
    /* query: wait until it is free */
    int64_t wait_ms;
    void (*progress)(const struct hf_progress *progress, void *arg);
    void *arg;
    /* force: the hold meant */
    uint64_t fence;
    uint8_t id[HF_KEY_ID_LEN];
};

static void who_wait_for(hf_op *op, int64_t wait_ms) REQUIRES(hfc_locked)
{
    op->entry.flags = HF_REQ_WAIT;
    op->deadline_ns = HFC_NEVER;
    if (wait_ms > 0 && wait_ms <= HFC_NEVER / HF_NS_PER_MS)
        op->deadline_ns = hfc_after(op->start_ns, wait_ms * HF_NS_PER_MS);
    op->entry.deadline_ns = op->deadline_ns;
    op->give_up_ns = hfc_after(op->deadline_ns, HFC_GRACE_NS);
}

static hf_op *who_op_of(hf_client *client, const struct question *q) REQUIRES(hfc_locked)
{
    hf_op *op = hfc_op_new_of(client, q->kind, q->name, q->name_len);

    if (!op)
        return NULL;
    op->entry.target = q->fence;
    memcpy(op->entry.key_id, q->id, sizeof(q->id));
    op->progress = q->progress;
    op->arg = q->arg;
    op->deadline_ns = op->start_ns;
    op->give_up_ns = op->start_ns + hfc_op_patience(client);
    if (q->wait_ms != 0)
        who_wait_for(op, q->wait_ms);
    return op;
}

/* Waits for the answer, keeps its sentence, and frees the op. */
static int who_collect(hf_op *op) REQUIRES(hfc_locked)
{
    bool conflict;
    int status;

    hfc_op_wait(op);
    status = op->status;
    conflict = op->has_holder && (status == HF_EBUSY || status == HF_ETIMEDOUT);
    hfc_keep_conflict(conflict ? &op->holder : NULL);
    return hfc_op_close(op, status);
}

/* Waits for the answer. `ret_found` has what is known even after a failure, else HF_QUERY_NONE;
 * `ret_nodes`: the number of nodes. */
static int who_ask(hf_client *client, const struct question *q,
                   struct hf_completion_entry *ret_found, uint32_t *ret_nodes)
{
    hf_op *op;
    int status;

    *ret_found = (struct hf_completion_entry){.query_outcome = HF_QUERY_NONE};
    hfc_lock(client);
    op = who_op_of(client, q);
    if (!op) {
        hfc_unlock(client);
        return HF_ENOMEM;
    }
    op->found = ret_found;
    hfc_op_begin(op);
    status = who_collect(op);
    *ret_nodes = who_nodes_of(client);
    hfc_unlock(client);
    return status;
}

int hf_who(hf_client *client, const void *name, size_t name_len, struct hf_who_info *who)
{
    struct question q = {.kind = &query_kind, .name = name, .name_len = name_len};
    struct hf_completion_entry found;
    int status = hfc_name_check(client, name, name_len);
    uint32_t nodes;

    if (status < 0)
        return status;
    if (!who || who->size < sizeof(*who))
        return hfc_fail(HF_EINVAL, "hf_who: begin with HF_WHO_INFO_INIT, which sets the size");
    status = who_ask(client, &q, &found, &nodes);
    if (found.query_outcome != HF_QUERY_NONE)
        who_fill(&found, nodes, who);
    return status;
}

int hf_wait_free(hf_client *client, const void *name, size_t name_len, int64_t wait_ms,
                 void (*progress)(const struct hf_progress *progress, void *arg), void *arg)
{
    struct question q = {.kind = &query_kind,
                         .name = name,
                         .name_len = name_len,
                         .wait_ms = wait_ms,
                         .progress = progress,
                         .arg = arg};
    struct hf_completion_entry found;
    int status = hfc_name_check(client, name, name_len);
    uint32_t nodes;

    if (status < 0)
        return status;
    if (wait_ms < -1)
        return hfc_fail(HF_EINVAL, "give -1 as wait_ms to wait without limit, not %" PRId64,
                        wait_ms);
    status = who_ask(client, &q, &found, &nodes);
    if (status == HF_ETIMEDOUT &&
        (found.query_outcome == HF_QUERY_HELD || found.query_outcome == HF_QUERY_SPLIT))
        hfc_keep_conflict(&found.holder);
    if (status == HF_OK && found.query_outcome != HF_QUERY_FREE) {
        hfc_keep_conflict(&found.holder);
        status = hfc_fail(HF_EBUSY, NULL);
    }
    return status;
}

int hf_force(hf_client *client, const void *name, size_t name_len, const struct hf_who_info *seen,
             struct hf_who_info *now)
{
    struct question q = {.kind = &force_kind, .name = name, .name_len = name_len};
    struct hf_completion_entry found;
    int status = hfc_name_check(client, name, name_len);
    uint32_t nodes;

    if (status < 0)
        return status;
    if (!seen || seen->size < sizeof(*seen) || (now && now->size < sizeof(*now)))
        return hfc_fail(HF_EINVAL, "hf_force: begin with HF_WHO_INFO_INIT, which sets the size");
    if (!seen->holder.fence && !*seen->id)
        return hfc_fail(HF_EINVAL, "say which hold is meant: by its fence or its id");
    if (!seen->holder.fence && hf_key_id_bytes(seen->id, q.id) < 0)
        return hfc_fail(HF_EINVAL, "give an id of 40 hex digits: '%.40s' is none", seen->id);
    q.fence = seen->holder.fence;
    status = who_ask(client, &q, &found, &nodes);
    if (now && found.query_outcome != HF_QUERY_NONE)
        who_fill(&found, nodes, now);
    return status;
}
