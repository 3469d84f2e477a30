#include "agent/config/config.h"

#include <stdio.h>
#include <string.h>

#include "agent/core/sha1.h"
#include "shm/status.h"

/* Nothing can be there. */
#define NOWHERE "/dev/null/nowhere"

void config_fleet(const struct config *c, struct fleet_record *ret_record)
{
    char keys[CONFIG_KEYS_TEXT];

    memset(ret_record, 0, sizeof(*ret_record));
    ret_record->count = c->node_count;
    ret_record->ttl_max_ms = c->ttl_max_ms;
    for (int i = 0; i < c->node_count; i++)
        memcpy(ret_record->seat[i].id, c->nodes[i].id, sizeof(c->nodes[i].id));
    config_keys_text(c, keys);
    list_hash_with(NULL, 0, keys, ret_record->keys);
}

int config_place_of(const struct config *c, const char *id)
{
    for (int i = 0; i < c->node_count; i++)
        if (strcmp(c->nodes[i].id, id) == 0)
            return i;
    return -1;
}

static const struct node_address *fleet_find(const struct config *c, const char *id)
{
    int i = config_place_of(c, id);

    return i < 0 ? NULL : &c->nodes[i];
}

static bool fleet_names_any(const struct config *c, const struct fleet_seat *seats, int count)
{
    for (int i = 0; i < count; i++)
        if (config_place_of(c, seats[i].id) >= 0)
            return true;
    return false;
}

bool config_is_of(const struct config *c, const struct fleet_record *r, const char *went_by)
{
    struct fleet_record own;

    config_fleet(c, &own);
    return r->version > 1 && r->state != FLEET_FOUNDING && strcmp(r->keys, own.keys) == 0 &&
           (fleet_names_any(c, r->seat, r->count) ||
            fleet_names_any(c, r->before, r->before_count) ||
            (*went_by && strcmp(c->file_hash, went_by) == 0));
}

/* (!) Another host's private seat is another server here: who is not configured for it is led to none. */
static void fleet_lay_nowhere(struct node_address *node, const char *seat)
{
    node->unix_socket = true;
    snprintf(node->host, sizeof(node->host), "%s", NOWHERE);
    snprintf(node->text, sizeof(node->text), "%s", seat);
}

/* A text of the record that is no address leaves the node where the configuration leads, or nowhere. */
static void fleet_lay_node(struct config *c, int i, const struct config *was,
                           const struct fleet_seat *seat, bool here)
{
    const struct node_address *named = fleet_find(was, seat->id);
    struct node_address *node = &c->nodes[i];

    *node = named ? *named : was->nodes[0];
    c->named[i][0] = '\0';
    if (named)
        snprintf(c->named[i], sizeof(c->named[i]), "%s", named->as[0] ? named->as : named->text);
    else
        c->unconfigured |= 1u << i;
    if (!named) {
        node->as[0] = '\0';
        fleet_lay_nowhere(node, seat->address);
    }
    if (!node->as[0] && (here || !node_address_seat_is_private(seat->address)))
        (void)node_address_from_seat(seat->address, named ? named : &was->nodes[0], node);
    memcpy(node->id, seat->id, sizeof(node->id));
}

static void fleet_lay_nodes(struct config *c, const struct fleet_seat *seats, int count, bool here)
{
    const struct config was = *c;

    c->unconfigured = 0;
    for (int i = 0; i < count; i++)
        fleet_lay_node(c, i, &was, &seats[i], here);
    c->node_count = count;
}

hf_time config_settles(const struct config *c, const struct fleet_record *r, hf_time from)
{
    hf_time settles = fleet_record_settles(r, from);

    if (settles.ns == HF_TIME_PAST.ns || settles.ns == HF_TIME_NEVER.ns)
        return settles;
    return hf_time_max(settles, hf_time_add(from, timing_quarantine(hf_ms(c->file_ttl_max_ms))));
}

/* (!) A record that nodes brought back may be of before the file: until it has settled, quarantines are the file's at least. */
static uint32_t fleet_longest_ms(const struct config *c, const struct fleet_record *r, bool settled)
{
    uint32_t ms = (uint32_t)fleet_record_ttl_longest_ms(r, settled);

    return settled || ms > c->file_ttl_max_ms ? ms : c->file_ttl_max_ms;
}

void config_go_by(struct config *c, const struct fleet_record *r, bool settled, bool here)
{
    const struct fleet_seat *seats;
    int count = fleet_record_list(r, &seats);
    char keys[CONFIG_KEYS_TEXT], why[256];

    fleet_lay_nodes(c, seats, count, here);
    config_keys_text(c, keys);
    list_hash_with(c->nodes, c->node_count, keys, c->list_hash);
    c->by_record = true;
    c->settled = settled;
    c->quorum = fleet_record_quorum(r, settled);
    c->counting = fleet_record_counting(r, settled);
    c->ttl_max_ms = (uint32_t)fleet_record_ttl_grant_ms(r, settled);
    c->ttl_longest_ms = fleet_longest_ms(c, r, settled);
    if (c->ttl_ms > c->ttl_max_ms)
        c->ttl_ms = c->ttl_max_ms;
    /* Every ttl_max that a record may have is long enough for a TTL of that length. */
    (void)timing_derive(hf_ms(c->ttl_ms), hf_ms(c->ttl_max_ms), &c->timing, why, sizeof(why));
}

/* --- the hash of the list --------------------------------------------------------------------- */

void list_hash_with(const struct node_address *nodes, int count, const char *text, char ret_hex[41])
{
    struct sha1 s;

    sha1_begin(&s);
    for (int i = 0; i < count; i++)
        sha1_add(&s, nodes[i].id, strlen(nodes[i].id) + 1);
    sha1_add(&s, text, strlen(text));
    sha1_end(&s, ret_hex);
}

void list_hash(const struct node_address *nodes, int count, char ret_hex[41])
{
    list_hash_with(nodes, count, "", ret_hex);
}
