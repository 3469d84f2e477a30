/* Listings of the names that are held anywhere: each request asks one node for one page of its records,
 * whose items go to the client before the answer. The client goes on with the cursor once it has read
 * them, so that nothing piles up here.
 *
 * (!) A page keeps its node busy for less than a millisecond (agent/scripts/scan.lua), and a node has
 * one at a time, whoever asks: acquires and renewals never wait for more than one. */
#include "agent/broker/queries/scans.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/thread_role.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/clients/users.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/broker/queries/queries.h"
#include "agent/broker/queries/survey.h"
#include "shm/hex.h"
#include "shm/status.h"

/* Unanswered pages of one session: one per node. */
#define SCANS_MOST HF_NODES_MAX
/* The same for one user. */
#define SCANS_OF_USER 64

struct scan {
    LIST_ENTRY(scan) of_session; /* while it has one */
    TAILQ_ENTRY(scan) due;       /* until it is sent */
    struct queries *queries;
    struct session *session; /* NULL: nobody wants it any more */
    uint64_t id, cursor;
    int node;
    bool sent;
    uint8_t prefix[HF_NAME_MAX];
    size_t prefix_len;
};

/* Nobody wants the page any more: freed now, or at the node's answer. */
static void scan_leave(struct session *s, struct scan *scan)
{
    LIST_REMOVE(scan, of_session);
    s->user->scans--;
    scan->session = NULL;
    if (!scan->sent) {
        TAILQ_REMOVE(&scan->queries->scans_due[scan->node], scan, due);
        free(scan);
    }
}

/* Answers it, if anybody waits for it. */
static void scan_end(struct scan *scan, int status, uint64_t cursor,
                     const char *text) IN_BROKER_THREAD
{
    struct hf_completion_entry answer = {
        .id = scan->id, .op = HF_OP_SCAN, .status = status, .fence = cursor};
    struct session *s = scan->session;

    if (!s)
        return;
    snprintf(answer.text, sizeof(answer.text), "%s", text);
    scan_leave(s, scan);
    session_answer(s, &answer);
}

/* False: its key is no name's, or its name was not asked for. */
static bool fill_item(const struct scan *scan, const struct link_item *item,
                      struct hf_scan_item *ret_item)
{
    const uint8_t *name;
    size_t name_len;

    if (config_key_name(scan->queries->config, item->key, item->key_len, &name, &name_len) < 0 ||
        name_len > HF_NAME_MAX || name_len < scan->prefix_len ||
        memcmp(name, scan->prefix, scan->prefix_len) != 0)
        return false;
    *ret_item = (struct hf_scan_item){.id = scan->id,
                                      .op = HF_OP_ITEM,
                                      .fence = item->holder.fence,
                                      .since_wall_ms = item->holder.since_wall_ms,
                                      .pttl_ms = item->holder.pttl_ms,
                                      .pid = item->holder.pid,
                                      .uid = item->holder.uid,
                                      .name_len = (uint8_t)name_len};
    memcpy(ret_item->name, name, name_len);
    (void)hf_key_id_bytes(item->id, ret_item->key_id);
    snprintf(ret_item->host, sizeof(ret_item->host), "%s", item->holder.host);
    snprintf(ret_item->comm, sizeof(ret_item->comm), "%s", item->holder.comm);
    snprintf(ret_item->note, sizeof(ret_item->note), "%.95s", item->holder.note);
    return true;
}

static void scan_next(struct queries *queries, int node);

/* HF_ENOMEM: some items are missing. */
static int tell_items(const struct scan *scan, const struct link_reply *reply) IN_BROKER_THREAD
{
    int rc = HF_OK;

    for (size_t i = 0; rc == HF_OK && scan->session && i < reply->item_count; i++) {
        struct link_item item;
        struct hf_scan_item told;

        if (link_item(reply, i, &item) && fill_item(scan, &item, &told))
            rc = session_item(scan->session, (const struct hf_completion_entry *)&told);
    }
    return rc;
}

static void on_page(struct link *link, const struct link_reply *reply, void *arg)
{
    struct scan *scan = arg;
    struct queries *queries = scan->queries;
    int node = link_node(link);
    char text[184];

    is_broker_thread();
    nodes_on_reply(queries->nodes, node, reply);
    if (reply->outcome == LINK_ANSWERED) {
        scan_end(scan, tell_items(scan, reply), reply->cursor, "");
    } else {
        snprintf(text, sizeof(text), "node %s: %s", queries->config->nodes[node].id,
                 *reply->error_text ? reply->error_text : link_error_name(reply->error));
        scan_end(scan, HF_ENOQUORUM, 0, text);
        /* The pages behind it would wait for as long. */
        while (!TAILQ_EMPTY(&queries->scans_due[node]))
            scan_end(TAILQ_FIRST(&queries->scans_due[node]), HF_ENOQUORUM, 0, text);
    }
    if (!reply->final)
        return; /* it is asked for no other page before it has answered this one */
    queries->scanning[node] = NULL;
    free(scan);
    scan_next(queries, node);
}

static int scan_send(struct scan *scan)
{
    struct queries *queries = scan->queries;
    const struct config *c = queries->config;
    const char *percent = strchr(c->key_format, '%');
    hf_time deadline = hf_time_add(clock_now(), c->timing.attempt);
    uint8_t prefix[CONFIG_KEY_MAX];
    size_t before = (size_t)(percent - c->key_format);
    int rc;

    if (!queries->nodes->node[scan->node].up || queries->nodes->node[scan->node].trust.refused)
        return HF_ENOQUORUM;
    memcpy(prefix, c->key_format, before);
    memcpy(prefix + before, scan->prefix, scan->prefix_len);
    /* With several formats a name's prefix says nothing about its key's prefix. */
    rc = link_scan(queries->nodes->links[scan->node], prefix,
                   c->key_rule_count ? 0 : before + scan->prefix_len,
                   c->key_rule_count ? "" : percent + 2, scan->cursor, deadline, on_page, scan);
    if (rc == HF_OK)
        link_flush(queries->nodes->links[scan->node]);
    return rc;
}

/* The page that is due next on that node. */
static void scan_next(struct queries *queries, int node) IN_BROKER_THREAD
{
    struct scan *scan;
    char text[184];

    while (!queries->scanning[node] && (scan = TAILQ_FIRST(&queries->scans_due[node]))) {
        if (scan_send(scan) == HF_OK) {
            TAILQ_REMOVE(&queries->scans_due[node], scan, due);
            scan->sent = true;
            queries->scanning[node] = scan;
            return;
        }
        snprintf(text, sizeof(text), "node %s is away", queries->config->nodes[node].id);
        scan_end(scan, HF_ENOQUORUM, 0, text);
    }
}

static int judge(struct queries *queries, struct session *s, const struct hf_request_entry *q,
                 char *text, size_t size)
{
    const struct scan *scan;
    int count = 0;

    if (queries->draining)
        return HF_EGOING;
    if (q->slot >= (uint32_t)queries->n) {
        snprintf(text, size, "there is no node %" PRIu32, q->slot);
        return HF_EINVAL;
    }
    LIST_FOREACH (scan, &s->scans, of_session)
        count++;
    if (count >= SCANS_MOST) {
        snprintf(text, size, "this process already has %d lists open, the limit of one connection",
                 SCANS_MOST);
        return HF_ELIMIT;
    }
    if (s->user->scans >= SCANS_OF_USER) {
        snprintf(text, size, "user %" PRIu32 " already has %d lists open, the limit", s->uid,
                 SCANS_OF_USER);
        return HF_ELIMIT;
    }
    return HF_OK;
}

void scans_ask(struct queries *queries, struct session *s, const struct hf_request_entry *q)
{
    struct scan *scan;
    char text[184] = "";
    int rc = judge(queries, s, q, text, sizeof(text));

    scan = rc == HF_OK ? calloc(1, sizeof(*scan)) : NULL;
    if (!scan) {
        struct hf_completion_entry answer = {
            .id = q->id, .op = q->op, .status = rc < 0 ? rc : HF_ENOMEM};

        hf_counter_add(&queries->agent->table, HF_COUNTER_REFUSED, 1);
        memcpy(answer.text, text, sizeof(text));
        session_answer(s, &answer);
        return;
    }
    scan->queries = queries;
    scan->session = s;
    scan->id = q->id;
    scan->cursor = q->target;
    scan->node = (int)q->slot;
    scan->prefix_len = q->name_len;
    memcpy(scan->prefix, q->name, q->name_len);
    s->user->scans++;
    LIST_INSERT_HEAD(&s->scans, scan, of_session);
    TAILQ_INSERT_TAIL(&queries->scans_due[scan->node], scan, due);
    scan_next(queries, scan->node);
}

void scans_drop_session(struct session *s)
{
    while (!LIST_EMPTY(&s->scans))
        scan_leave(s, LIST_FIRST(&s->scans));
}
