/* Listings of the names that are held anywhere: each request asks one node for one page of its records,
 * whose items go to the client before the answer. The client goes on with the cursor once it has read
 * them, so that nothing piles up here.
 *
 * (!) A page keeps its node busy for less than a millisecond (agent/scripts/listing.lua), and a node has
 * one at a time, whoever asks: acquires and renewals never wait for more than one.
 *
 * (!) The next page is of the user whose last one there is longest ago. In one queue a user's only listing would wait for all pages
 * of a user with many. By agent/core/share.h it would get each third page, for it asks for the next one only after the last. */
#include "agent/broker/queries/queries.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/thread.h"
#include "agent/broker/clients/clients.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/clients/users.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/config/config.h"
#include "agent/redis/link.h"
#include "shm/assert.h"
#include "shm/text.h"
#include "shm/status.h"

/* Unanswered pages of one session: one per node. */
#define LISTINGS_MOST HF_NODES_MAX
/* The same for one user. */
#define LISTINGS_OF_USER 64

struct listing {
    LIST_ENTRY(listing) of_session; /* while it has one */
    TAILQ_ENTRY(listing) due;       /* until it is sent */
    struct queries *queries;
    struct session *session; /* NULL: nobody wants it any more */
    uint64_t id, cursor;
    int node;
    bool sent;
    uint8_t prefix[HF_NAME_MAX];
    size_t prefix_len;
};

/* Nobody wants the page any more: freed now, or at the node's answer. */
static void listing_leave(struct session *s, struct listing *listing)
{
    hf_assert(listing->session == s && s->user->listings > 0, "node %d, listings %u", listing->node,
              (unsigned)s->user->listings);
    LIST_REMOVE(listing, of_session);
    s->user->listings--;
    listing->session = NULL;
    if (!listing->sent) {
        TAILQ_REMOVE(&listing->queries->listings_due[listing->node], listing, due);
        free(listing);
    }
}

/* Answers it, if anybody waits for it. */
static void listing_end(struct listing *listing, int status, uint64_t cursor,
                        const char *text) IN_BROKER_THREAD
{
    struct hf_completion_entry answer = {
        .id = listing->id, .op = HF_OP_LISTING, .status = status, .fence = cursor};
    struct session *s = listing->session;

    if (!s)
        return;
    snprintf(answer.text, sizeof(answer.text), "%s", text);
    listing_leave(s, listing);
    session_answer(s, &answer);
}

/* False: its key is no name's, or its name was not asked for, or is not for this user to see. */
static bool listings_fill_item(const struct listing *listing, const struct link_item *item,
                               struct hf_listing_item *ret_item) IN_BROKER_THREAD
{
    const uint8_t *name;
    size_t name_len;

    if (config_key_name(listing->queries->config, item->key, item->key_len, &name, &name_len) < 0 ||
        name_len > HF_NAME_MAX || name_len < listing->prefix_len ||
        memcmp(name, listing->prefix, listing->prefix_len) != 0 ||
        !rights_has(listing->session, RIGHT_SEE, name, name_len))
        return false;
    *ret_item = (struct hf_listing_item){.id = listing->id,
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

static void listing_next(struct queries *queries, int node);

/* HF_ENOMEM: some items are missing. */
static int listings_tell_items(const struct listing *listing,
                               const struct link_reply *reply) IN_BROKER_THREAD
{
    int rc = HF_OK;

    for (size_t i = 0; rc == HF_OK && listing->session && i < reply->item_count; i++) {
        struct link_item item;
        struct hf_listing_item told;

        if (link_item(reply, i, &item) && listings_fill_item(listing, &item, &told))
            rc = session_item(listing->session, (const struct hf_completion_entry *)&told);
    }
    return rc;
}

static void listings_on_page(struct link *link, const struct link_reply *reply, void *arg)
{
    struct listing *listing = arg;
    struct queries *queries = listing->queries;
    int node = link_node(link);
    char text[184];

    ASSERT_BROKER_THREAD();
    nodes_on_reply(queries->nodes, node, reply);
    if (reply->outcome == LINK_ANSWERED) {
        listing_end(listing, listings_tell_items(listing, reply), reply->cursor, "");
    } else {
        snprintf(text, sizeof(text), "node %s: %s", queries->config->nodes[node].id,
                 *reply->error_text ? reply->error_text : link_error_name(reply->error));
        listing_end(listing, HF_ENOQUORUM, 0, text);
        /* The pages behind it would wait for as long. */
        while (!TAILQ_EMPTY(&queries->listings_due[node]))
            listing_end(TAILQ_FIRST(&queries->listings_due[node]), HF_ENOQUORUM, 0, text);
    }
    if (!reply->final)
        return; /* it is asked for no other page before it has answered this one */
    queries->listing[node] = NULL;
    free(listing);
    listing_next(queries, node);
}

static int listing_send(struct listing *listing)
{
    struct queries *queries = listing->queries;
    const struct config *c = queries->config;
    const char *percent = strchr(c->key_format, '%');
    hf_time deadline = hf_time_add(clock_now(), c->timing.attempt);
    uint8_t prefix[CONFIG_KEY_MAX];
    size_t before = (size_t)(percent - c->key_format);
    int rc;

    if (!queries->nodes->node[listing->node].up ||
        queries->nodes->node[listing->node].trust.refused)
        return HF_ENOQUORUM;
    memcpy(prefix, c->key_format, before);
    memcpy(prefix + before, listing->prefix, listing->prefix_len);
    /* With several formats a name's prefix says nothing about its key's prefix. */
    rc = link_listing(queries->nodes->links[listing->node], prefix,
                      c->key_rule_count ? 0 : before + listing->prefix_len,
                      c->key_rule_count ? "" : percent + 2, listing->cursor, deadline,
                      listings_on_page, listing);
    if (rc == HF_OK)
        link_flush(queries->nodes->links[listing->node]);
    return rc;
}

/* A page of the user who has waited longest for one of that node. NULL: none is due. */
static struct listing *listing_first(struct queries *queries, int node)
{
    struct listing *listing, *first = NULL;

    TAILQ_FOREACH (listing, &queries->listings_due[node], due)
        if (!first || listing->session->user->page[node] < first->session->user->page[node])
            first = listing;
    return first;
}

/* The page that is due next on that node. */
static void listing_next(struct queries *queries, int node) IN_BROKER_THREAD
{
    struct listing *listing;
    char text[184];

    while (!queries->listing[node] && (listing = listing_first(queries, node))) {
        if (listing_send(listing) == HF_OK) {
            listing->session->user->page[node] = ++queries->page_count;
            TAILQ_REMOVE(&queries->listings_due[node], listing, due);
            listing->sent = true;
            queries->listing[node] = listing;
            return;
        }
        snprintf(text, sizeof(text), "node %s is away", queries->config->nodes[node].id);
        listing_end(listing, HF_ENOQUORUM, 0, text);
    }
}

static int listings_judge(struct queries *queries, struct session *s,
                          const struct hf_request_entry *q, char *text, size_t size)
{
    const struct listing *listing;
    int count = 0;

    if (queries->going)
        return HF_ESHUTDOWN;
    if (q->slot >= (uint32_t)queries->n) {
        snprintf(text, size, "there is no node %" PRIu32, q->slot);
        return HF_EINVAL;
    }
    LIST_FOREACH (listing, &s->listings, of_session)
        count++;
    if (count >= LISTINGS_MOST) {
        snprintf(text, size,
                 "end one first: this process has %d listings open, the limit of one connection",
                 LISTINGS_MOST);
        return HF_ELIMIT;
    }
    if (s->user->listings >= LISTINGS_OF_USER) {
        snprintf(text, size, "end one first: user %" PRIu32 " has %d listings open, the limit",
                 s->uid, LISTINGS_OF_USER);
        return HF_ELIMIT;
    }
    return HF_OK;
}

void listings_ask(struct queries *queries, struct session *s, const struct hf_request_entry *q)
{
    struct listing *listing;
    char text[184] = "";
    int rc = listings_judge(queries, s, q, text, sizeof(text));

    listing = rc == HF_OK ? calloc(1, sizeof(*listing)) : NULL;
    if (!listing) {
        query_refuse(queries, s, q, rc < 0 ? rc : HF_ENOMEM, text);
        return;
    }
    listing->queries = queries;
    listing->session = s;
    listing->id = q->id;
    listing->cursor = q->target;
    listing->node = (int)q->slot;
    listing->prefix_len = q->name_len;
    memcpy(listing->prefix, q->name, q->name_len);
    s->user->listings++;
    LIST_INSERT_HEAD(&s->listings, listing, of_session);
    TAILQ_INSERT_TAIL(&queries->listings_due[listing->node], listing, due);
    listing_next(queries, listing->node);
}

void listings_drop_session(struct session *s)
{
    while (!LIST_EMPTY(&s->listings))
        listing_leave(s, LIST_FIRST(&s->listings));
}
