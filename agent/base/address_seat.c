/* Seats: addresses as connected, each in its one form. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "agent/base/address.h"

#define PATH_MOST (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)

static void seat_v4(const struct in_addr *ip, in_port_t port, char ret_seat[HF_NODE_TEXT_MAX + 1])
{
    char text[INET_ADDRSTRLEN] = "";

    (void)inet_ntop(AF_INET, ip, text, sizeof(text));
    snprintf(ret_seat, HF_NODE_TEXT_MAX + 1, "%s:%u", text, ntohs(port));
}

static void seat_v6(const struct in6_addr *ip, in_port_t port, char ret_seat[HF_NODE_TEXT_MAX + 1])
{
    char text[INET6_ADDRSTRLEN] = "";
    struct in_addr v4;

    if (IN6_IS_ADDR_V4MAPPED(ip)) {
        memcpy(&v4, &ip->s6_addr[12], sizeof(v4));
        seat_v4(&v4, port, ret_seat);
        return;
    }
    (void)inet_ntop(AF_INET6, ip, text, sizeof(text));
    snprintf(ret_seat, HF_NODE_TEXT_MAX + 1, "[%s]:%u", text, ntohs(port));
}

/* Digits only, 1 to 65535. */
static bool seat_read_port(const char *text, uint16_t *ret_port)
{
    uint32_t port = 0;

    for (const char *c = text; *c; c++) {
        if (*c < '0' || *c > '9')
            return false;
        port = port * 10 + (uint32_t)(*c - '0');
        if (port > UINT16_MAX)
            return false;
    }
    *ret_port = (uint16_t)port;
    return port > 0;
}

/* IP or [IPV6], the `length` bytes of `text`. */
static bool seat_read_host(const char *text, size_t length, uint16_t port,
                           char ret_seat[HF_NODE_TEXT_MAX + 1])
{
    char host[INET6_ADDRSTRLEN + 2];
    struct in_addr v4;
    struct in6_addr v6;

    if (length == 0 || length >= sizeof(host))
        return false;
    memcpy(host, text, length);
    host[length] = '\0';
    if (inet_pton(AF_INET, host, &v4) == 1) {
        seat_v4(&v4, htons(port), ret_seat);
        return true;
    }
    if (host[0] != '[' || host[length - 1] != ']')
        return false;
    host[length - 1] = '\0';
    if (inet_pton(AF_INET6, host + 1, &v6) != 1)
        return false;
    seat_v6(&v6, htons(port), ret_seat);
    return true;
}

bool node_address_seat_read(const char *text, char ret_seat[HF_NODE_TEXT_MAX + 1])
{
    const char *colon = strrchr(text, ':');
    uint16_t port;

    if (text[0] != '/')
        return colon && seat_read_port(colon + 1, &port) &&
               seat_read_host(text, (size_t)(colon - text), port, ret_seat);
    if (!text[1] || strlen(text) > PATH_MOST || strstr(text, NODE_ADDRESS_AS))
        return false;
    memcpy(ret_seat, text, strlen(text) + 1);
    return true;
}

/* Whether `zoned` is the IPv6 address `host` and says by which interface this host reaches it. */
static bool seat_has_zone_for(const char *zoned, const char *host)
{
    char without[HF_NODE_TEXT_MAX + 1];
    struct in6_addr a, b;

    if (!strchr(zoned, '%'))
        return false;
    snprintf(without, sizeof(without), "%.*s", (int)strcspn(zoned, "%"), zoned);
    return inet_pton(AF_INET6, without, &a) == 1 && inet_pton(AF_INET6, host, &b) == 1 &&
           memcmp(&a, &b, sizeof(a)) == 0;
}

static void seat_go_to(const char *seat, const struct node_address *like, struct node_address *to)
{
    const char *colon = strrchr(seat, ':'), *host = seat[0] == '[' ? seat + 1 : seat;
    size_t length = (size_t)(colon - host) - (host == seat ? 0 : 1);

    (void)seat_read_port(colon + 1, &to->port);
    memcpy(to->host, host, length);
    to->host[length] = '\0';
    if (!like->unix_socket && seat_has_zone_for(like->host, to->host))
        memcpy(to->host, like->host, sizeof(to->host));
}

bool node_address_from_seat(const char *seat, const struct node_address *like,
                            struct node_address *ret_address)
{
    struct node_address out = *like;
    char form[HF_NODE_TEXT_MAX + 1];

    if (!node_address_seat_read(seat, form) || strcmp(seat, form) != 0)
        return false;
    memcpy(out.text, seat, strlen(seat) + 1);
    out.as[0] = '\0';
    out.port = 0;
    out.unix_socket = seat[0] == '/';
    out.numeric = !out.unix_socket;
    out.tls = like->tls && !out.unix_socket;
    if (out.unix_socket)
        memcpy(out.host, seat, strlen(seat) + 1);
    else
        seat_go_to(seat, like, &out);
    *ret_address = out;
    return true;
}

void node_address_seat_named(const struct node_address *a, char ret_seat[HF_NODE_TEXT_MAX + 1])
{
    char text[HF_NODE_TEXT_MAX + 16];

    if (a->as[0])
        snprintf(text, sizeof(text), "%s", a->as);
    else if (a->unix_socket)
        snprintf(text, sizeof(text), "%s", a->host);
    else
        snprintf(text, sizeof(text), strchr(a->host, ':') ? "[%s]:%u" : "%s:%u", a->host, a->port);
    if (!node_address_seat_read(text, ret_seat))
        ret_seat[0] = '\0';
}

bool node_address_seat_is_private(const char *seat)
{
    return seat[0] == '/' || strncmp(seat, "127.", 4) == 0 || strncmp(seat, "[::1]", 5) == 0;
}
