/* The fleet's record in the renewal thread: links go to their seats, and which answers count. */
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/renewal/renewal_internal.h"

static const char *place_of(const struct renewal_node *node)
{
    const struct fleet_record *record = node->renewal->fleet;
    const struct fleet_seat *seats;

    if (!record)
        return NULL;
    (void)fleet_record_list(record, &seats);
    return seats[node->number].address;
}

/* (!) The server there before was not the fleet's: the one at the seat is met for the first time. */
static void forget_server(struct renewal_node *node)
{
    const struct config *config = node->renewal->config;

    trust_init(&node->trust, timing_quarantine(hf_ms(config->ttl_longest_ms)),
               config->assume_fresh || config->ephemeral);
    age_init(&node->age, node->trust.word_age, false);
    servers_meet(&node->renewal->servers, node->number, "");
}

static void aim(struct renewal_node *node) IN_RENEWAL_THREAD
{
    char peer[HF_NODE_TEXT_MAX + 1];

    link_peer(node->link, peer);
    node->seated = strcmp(peer, place_of(node)) == 0;
    if (!seat_aim(&node->seat, place_of(node), peer, node->renewal->fleet_here))
        return;
    if (peer[0])
        forget_server(node);
    renewal_configure_link(node);
}

static void go_by(struct renewal *r, const struct fleet_record *record)
{
    char text[FLEET_TEXT_SIZE];
    size_t length = fleet_record_text(record, text);

    fleet_record_digest(text, length, r->fleet_digest);
}

void renewal_fleet_begin(struct renewal *r)
{
    if (!r->agent->fleet)
        return;
    r->fleet = malloc(sizeof(*r->fleet));
    if (!r->fleet)
        return; /* the broker tells it again */
    *r->fleet = *r->agent->fleet;
    r->fleet_here = r->agent->fleet_here;
    go_by(r, r->fleet);
}

void renewal_take_fleet(struct renewal *r, struct fleet_record *record, bool here)
{
    r->fleet_here = here;
    free(r->fleet);
    r->fleet = record;
    go_by(r, record);
    for (int i = 0; i < r->n; i++)
        if (link_is_up(r->node[i].link))
            aim(&r->node[i]);
}

void renewal_fleet_end(struct renewal *r)
{
    free(r->fleet);
    r->fleet = NULL;
}

void renewal_seat_up(struct renewal_node *node)
{
    char peer[HF_NODE_TEXT_MAX + 1];

    link_peer(node->link, peer);
    node->seated = node->renewal->fleet && strcmp(peer, place_of(node)) == 0;
    node->astray = node->renewal->fleet && !node->seated;
}

void renewal_mend_seats(struct renewal *r)
{
    for (int i = 0; i < r->n; i++)
        if (r->node[i].astray) {
            r->node[i].astray = false;
            aim(&r->node[i]);
        }
}

/* The broker would find it with its next probe of the node, and nothing is renewed there until then. */
void renewal_tell_another(struct renewal_node *node, const struct link_reply *reply)
{
    struct message *message;

    if (!node->renewal->fleet || !node->seated || !reply->digest[0] ||
        strcmp(reply->digest, node->renewal->fleet_digest) == 0 ||
        strcmp(reply->digest, node->another) == 0)
        return;
    memcpy(node->another, reply->digest, sizeof(node->another));
    message = message_new(MSG_ANOTHER);
    message->node_number = node->number;
    mailbox_post(&node->renewal->agent->to_broker, message);
}

bool renewal_counts(const struct renewal_node *node, const struct link_reply *reply)
{
    if (!node->renewal->fleet)
        return !reply->digest[0];
    return node->seated && node->renewal->config->counting >> node->number & 1 &&
           strcmp(reply->digest, node->renewal->fleet_digest) == 0;
}
