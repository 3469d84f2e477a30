/* A node as configured: [ID=]ADDRESS, where ADDRESS is one of
 *   HOST:PORT  HOST  [V6ADDR]:PORT  unix:/PATH  /PATH
 *   redis://[USER][:PASSWORD]@HOST[:PORT][/DB]   the same with rediss:// for TLS   redis+unix://[USER][:PASSWORD]@/PATH[?db=DB]
 * Without an ID the address text (less user and password) is the id, so all hosts must spell it
 * alike.
 * Options may follow, in any order: ID=ADDRESS,fleet_address=SEAT where this host reaches by ADDRESS the server that the
 * fleet knows as SEAT; ADDRESS,password_file=PATH; ADDRESS,tls_name=NAME where its certificate is for NAME, not HOST.
 * A seat is numeric, as connected, and has one way to be written: IP:PORT, [V6ADDR]:PORT in the
 * form of inet_ntop(3), or /PATH; an IPv4 address mapped into IPv6 is the IPv4 address.
 */
#ifndef HOLDFAST_AGENT_BASE_ADDRESS_H
#define HOLDFAST_AGENT_BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/layout.h"

#define NODE_ADDRESS_FILE_MAX 255

struct node_address {
    char id[HF_NODE_TEXT_MAX + 1];
    char text[HF_NODE_TEXT_MAX + 1]; /* for people; without password */
    bool unix_socket;
    bool tls;
    bool numeric;                    /* host is an IP address: nothing to resolve */
    char host[HF_NODE_TEXT_MAX + 1]; /* or the socket's path */
    uint16_t port;
    /* With `tls`: whom its certificate is for, the host as configured or another. */
    char tls_name[HF_NODE_TEXT_MAX + 1];
    int db;
    char user[64];      /* "": none */
    char password[128]; /* "": no AUTH */
    /* Where the password is; "": not in a file of its own. */
    char password_file[NODE_ADDRESS_FILE_MAX + 1];
    char as[HF_NODE_TEXT_MAX + 1]; /* the seat that it is; "": none is given */
    int line;                      /* of the configuration file; 0: not of a file */
};

/* HF_OK; or HF_EINVAL, with a sentence in `why` that names the text and what is wrong with it.
 * Default: port 6379, DB 0. */
int node_address_parse(const char *text, struct node_address *ret_address, char *why,
                       size_t why_size);

/* Whether a connection to either goes to the same place: host and port, or path. */
bool node_address_same(const struct node_address *a, const struct node_address *b);
/* The same, and in the same way. */
static inline bool node_address_alike(const struct node_address *a, const struct node_address *b)
{
    return node_address_same(a, b) && a->tls == b->tls;
}

/* ID=ADDRESS and its options, without user and password. */
#define NODE_ADDRESS_AS            ",fleet_address="
#define NODE_ADDRESS_PASSWORD_FILE ",password_file="
#define NODE_ADDRESS_TLS_NAME      ",tls_name="
#define NODE_ADDRESS_SHOWN         (4 * (HF_NODE_TEXT_MAX + 1) + NODE_ADDRESS_FILE_MAX + 64)
const char *node_address_shown(const struct node_address *address,
                               char ret_text[NODE_ADDRESS_SHOWN]);

/* --- seats (agent/base/address_seat.c) -------------------------------------------------------- */

/* The one form of what a person wrote; false: it is no seat. */
bool node_address_seat_read(const char *text, char ret_seat[HF_NODE_TEXT_MAX + 1]);
/* The seat that a configured address names without a look-up; "": a name. */
void node_address_seat_named(const struct node_address *address,
                             char ret_seat[HF_NODE_TEXT_MAX + 1]);
/* A loopback address, or a path: another server on each host. */
bool node_address_seat_is_private(const char *seat);
/* The address that connects to a seat, as the node `like`: its id, user, password and database. False: it is
 * no seat in its one form. */
bool node_address_from_seat(const char *seat, const struct node_address *like,
                            struct node_address *ret_address);

/* Where a link goes: to the configuration's address until the fleet's record is known, and to the record's seat from then
 * on. A link that the configuration leads to the seat, by a name say, stays where it is for as long as it is up. Belongs to the
 * thread of its link. */

struct seat {
    const struct node_address *configured;
    bool by_record;
    struct node_address named; /* by_record: the seat, with the configuration's user and password */
};

/* At the start and at a reload. */
void seat_configure(struct seat *seat, const struct node_address *configured);
const struct node_address *seat_address(const struct seat *seat);
/* The record names this place, and the link is at `peer` now ("": nowhere). Returns whether the link has to be
 * configured anew, for seat_address() is another one. A configuration with `as` is never overruled.
 * (!) A private place is another server on each host: no link goes there unless the fleet was founded `here`. */
bool seat_aim(struct seat *seat, const char *place, const char *peer, bool here);

#endif
