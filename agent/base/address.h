/* A node as configured: [ID=]ADDRESS, where ADDRESS is one of
 *   HOST:PORT  HOST  [V6ADDR]:PORT  unix:/PATH  /PATH
 *   redis://[USER][:PASSWORD]@HOST[:PORT][/DB]   redis+unix://[USER][:PASSWORD]@/PATH[?db=DB]
 * Without an ID the address text (less user and password) is the id, so all hosts must spell it
 * alike.
 */
#ifndef HOLDFAST_AGENT_BASE_ADDRESS_H
#define HOLDFAST_AGENT_BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/layout.h"

struct node_address {
    char id[HF_NODE_TEXT_MAX + 1];
    char text[HF_NODE_TEXT_MAX + 1]; /* for people; without password */
    bool unix_socket;
    bool numeric;                    /* host is an IP address: nothing to resolve */
    char host[HF_NODE_TEXT_MAX + 1]; /* or the socket's path */
    uint16_t port;
    int db;
    char user[64];      /* "": none */
    char password[128]; /* "": no AUTH */
};

/* HF_OK; or HF_EINVAL, with a sentence in `why` that names the text and what is wrong with it.
 * Default: port 6379, DB 0. */
int node_address_parse(const char *text, struct node_address *ret_address, char *why,
                       size_t why_size);

/* Whether a connection to either goes to the same place: host and port, or path. */
bool node_address_same(const struct node_address *a, const struct node_address *b);

#endif
