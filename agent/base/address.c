#include "agent/base/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "shm/compiler.h"
#include "shm/status.h"

#define DEFAULT_PORT 6379
#define DB_MAX       65535
#define TEXT_MAX     1024 /* bytes of a whole [ID=]ADDRESS */
#define SOCKET_MAX   (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)

#define AS           NODE_ADDRESS_AS

#define LETTERS      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS       "0123456789"

struct parse {
    struct node_address out;
    char shown[TEXT_MAX]; /* the text without user and password */
    char *why;
    size_t why_size;
};

static int address_wrong(struct parse *p, const char *format, ...) HF_PRINTF(2, 3);
static int address_wrong(struct parse *p, const char *format, ...)
{
    char what[192];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    snprintf(p->why, p->why_size, "node address '%.128s': %s", p->shown, what);
    return HF_EINVAL;
}

static bool address_starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool address_consists_of(const char *text, const char *set)
{
    return *text && text[strspn(text, set)] == '\0';
}

/* Digits only, no more than `max`. */
static bool address_parse_number(const char *text, long max, long *ret_number)
{
    long number = 0;

    if (!address_consists_of(text, DIGITS))
        return false;
    for (; *text; text++) {
        number = number * 10 + (*text - '0');
        if (number > max)
            return false;
    }
    *ret_number = number;
    return true;
}

/* --- parts ------------------------------------------------------------------------------------ */

/* "%41" and the like, as in any URI. */
static int address_unescape(struct parse *p, const char *from, size_t length, char *to, size_t size,
                            const char *what)
{
    size_t n = 0;

    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)from[i];

        if (c == '%') {
            unsigned value;

            if (i + 2 >= length || !isxdigit((unsigned char)from[i + 1]) ||
                !isxdigit((unsigned char)from[i + 2]))
                return address_wrong(p, "the %s has a %% without two hexadecimal digits behind it",
                                     what);
            /* NOLINTNEXTLINE(cert-err34-c): two hexadecimal digits always fit. */
            (void)sscanf(from + i + 1, "%2x", &value);
            c = (unsigned char)value;
            i += 2;
        }
        if (c == '\0')
            return address_wrong(p, "the %s contains a zero byte", what);
        if (n + 1 >= size)
            return address_wrong(p, "the %s is longer than %zu bytes", what, size - 1);
        to[n++] = (char)c;
    }
    to[n] = '\0';
    return HF_OK;
}

/* [USER][:PASSWORD], `length` bytes */
static int address_parse_user(struct parse *p, const char *text, size_t length)
{
    const char *colon = memchr(text, ':', length);
    size_t user = colon ? (size_t)(colon - text) : length;
    int rc = address_unescape(p, text, user, p->out.user, sizeof(p->out.user), "user");

    if (rc == HF_OK && colon)
        rc = address_unescape(p, colon + 1, length - user - 1, p->out.password,
                              sizeof(p->out.password), "password");
    return rc;
}

static int address_parse_path(struct parse *p, const char *path)
{
    if (path[0] != '/')
        return address_wrong(p, "the path of a unix socket must be absolute");
    if (path[1] == '\0')
        return address_wrong(p, "the path of the unix socket is missing");
    if (strlen(path) > SOCKET_MAX)
        return address_wrong(p, "the path of a unix socket can have %zu bytes at most", SOCKET_MAX);
    p->out.unix_socket = true;
    memcpy(p->out.host, path, strlen(path) + 1);
    return HF_OK;
}

static bool address_is_v6(const char *host)
{
    char address[HF_NODE_TEXT_MAX + 1];
    struct in6_addr parsed;
    const char *zone = strchr(host, '%');

    /* With a zone ("%eth0") it is numeric as well. Other characters would be taken for parts of a URI. */
    if (zone && (zone[1] == '\0' || !address_consists_of(zone + 1, LETTERS DIGITS "._-")))
        return false;
    snprintf(address, sizeof(address), "%.*s", (int)strcspn(host, "%"), host);
    return inet_pton(AF_INET6, address, &parsed) == 1;
}

static int address_parse_port(struct parse *p, const char *text)
{
    long port;

    if (!address_parse_number(text, UINT16_MAX, &port) || port == 0)
        return address_wrong(p, "the port must be a number from 1 to 65535");
    p->out.port = (uint16_t)port;
    return HF_OK;
}

/* [V6ADDR][:PORT] with its brackets */
static int address_parse_bracketed(struct parse *p, const char *text)
{
    const char *end = strchr(text, ']');
    size_t length;

    if (!end)
        return address_wrong(p, "the bracket is not closed");
    length = (size_t)(end - text) - 1;
    if (length > HF_NODE_TEXT_MAX)
        return address_wrong(p, "the host is longer than %d bytes", HF_NODE_TEXT_MAX);
    memcpy(p->out.host, text + 1, length);
    p->out.host[length] = '\0';
    if (!address_is_v6(p->out.host))
        return address_wrong(p, "what stands in brackets must be an IPv6 address");
    p->out.numeric = true;
    if (end[1] == '\0')
        return HF_OK;
    if (end[1] != ':')
        return address_wrong(p, "only :PORT can follow the bracket");
    return address_parse_port(p, end + 2);
}

/* HOST[:PORT] or [V6ADDR][:PORT] */
static int address_parse_host(struct parse *p, const char *text)
{
    size_t length = strcspn(text, ":");
    struct in_addr parsed;

    p->out.port = DEFAULT_PORT;
    if (text[0] == '[')
        return address_parse_bracketed(p, text);
    if (text[length] == ':' && strchr(text + length + 1, ':'))
        return address_wrong(p, "an IPv6 address goes in brackets: [ADDRESS]:PORT");
    if (length == 0)
        return address_wrong(p, "the host is missing");
    if (length > HF_NODE_TEXT_MAX)
        return address_wrong(p, "the host is longer than %d bytes", HF_NODE_TEXT_MAX);
    memcpy(p->out.host, text, length);
    p->out.host[length] = '\0';
    if (!address_consists_of(p->out.host, LETTERS DIGITS "._-"))
        return address_wrong(p, "a host name has letters, digits, dots and hyphens only");
    p->out.numeric = inet_pton(AF_INET, p->out.host, &parsed) == 1;
    if (!p->out.numeric && address_consists_of(p->out.host, DIGITS "."))
        return address_wrong(p, "not an IPv4 address");
    return text[length] == ':' ? address_parse_port(p, text + length + 1) : HF_OK;
}

static int address_parse_db(struct parse *p, const char *text)
{
    long db;

    if (!address_parse_number(text, DB_MAX, &db))
        return address_wrong(p, "the database must be a number from 0 to %d", DB_MAX);
    p->out.db = (int)db;
    return HF_OK;
}

/* Behind redis:// and user: HOST[:PORT][/DB] */
static int address_parse_tcp_uri(struct parse *p, const char *text)
{
    char host[TEXT_MAX];
    const char *slash = strchr(text, '/');
    size_t length = slash ? (size_t)(slash - text) : strlen(text);
    int rc;

    memcpy(host, text, length);
    host[length] = '\0';
    rc = address_parse_host(p, host);
    return rc == HF_OK && slash && slash[1] ? address_parse_db(p, slash + 1) : rc;
}

/* Behind redis+unix:// and user: /PATH[?db=DB] */
static int address_parse_unix_uri(struct parse *p, const char *text)
{
    char path[TEXT_MAX];
    const char *query = strchr(text, '?');
    size_t length = query ? (size_t)(query - text) : strlen(text);
    int rc;

    memcpy(path, text, length);
    path[length] = '\0';
    rc = address_parse_path(p, path);
    if (rc != HF_OK || !query)
        return rc;
    if (!address_starts_with(query, "?db="))
        return address_wrong(p, "only ?db=DB can follow the path");
    return address_parse_db(p, query + 4);
}

/* --- the whole -------------------------------------------------------------------------------- */

/* Where the user and password end within a URI: at the last @ before host or path, since a password
 * may contain one. NULL: there is no user. */
static const char *address_user_end(const char *text)
{
    const char *authority = strstr(text, "://");

    if (!authority)
        return NULL;
    /* A socket's path may contain an @ of its own; it begins at the first slash. */
    authority += 3;
    if (address_starts_with(text, "redis+unix:")) {
        const char *slash = strchr(authority, '/');

        if (slash && slash > authority && slash[-1] == '@')
            return slash - 1;
        return slash == authority ? NULL : strrchr(authority, '@');
    }
    return strrchr(authority, '@');
}

/* The same, even if they stand in the wrong place, so that no message shows them. */
static const char *address_secret_end(const char *text)
{
    if (strstr(text, "://"))
        return address_user_end(text);
    return text[0] == '/' || address_starts_with(text, "unix:") ? NULL : strrchr(text, '@');
}

/* Behind a scheme, without an @: whether it is no [HOST][:PORT][/DB] or path. Then it may be a user and a password of
 * which the rest was cut off. */
static bool address_may_be_secret(const char *rest, bool is_unix)
{
    const char *end = *rest == '[' ? strchr(rest, ']') : NULL, *port;
    size_t length;

    if (is_unix)
        return *rest != '/';
    port = strchr(end ? end : rest, ':');
    if (!port)
        return false;
    length = strspn(port + 1, DIGITS);
    return port == rest || (port[1 + length] != '\0' && port[1 + length] != '/');
}

/* `text` without user and password. */
static void address_show(const char *text, char *to, size_t size)
{
    const char *authority = strstr(text, "://"), *at = address_secret_end(text);
    int scheme = authority ? (int)(authority + 3 - text) : 0;

    if (at)
        snprintf(to, size, "%.*s%s", scheme, text, at + 1);
    else if (authority &&
             address_may_be_secret(authority + 3, address_starts_with(text, "redis+unix:")))
        snprintf(to, size, "%.*s...", scheme, text);
    else
        snprintf(to, size, "%s", text);
}

/* ID= before an address; the length of ID, 0 when there is none. */
static size_t address_id_length(const char *text)
{
    size_t length = strcspn(text, "=/:@[?,");

    return text[length] == '=' ? length : 0;
}

static int address_parse_address(struct parse *p, const char *text)
{
    bool is_tls = address_starts_with(text, "rediss://"),
         is_tcp = is_tls || address_starts_with(text, "redis://");
    const char *at, *rest;
    int rc = HF_OK;

    if (!is_tcp && !address_starts_with(text, "redis+unix://")) {
        if (strstr(text, "://"))
            return address_wrong(p, "the scheme must be redis://, rediss:// or redis+unix://");
        if (address_starts_with(text, "unix:"))
            return address_parse_path(p, text + 5);
        return text[0] == '/' ? address_parse_path(p, text) : address_parse_host(p, text);
    }
    rest = strstr(text, "://") + 3;
    at = address_user_end(text);
    if (at) {
        rc = address_parse_user(p, rest, (size_t)(at - rest));
        rest = at + 1;
    }
    if (rc != HF_OK)
        return rc;
    rc = is_tcp ? address_parse_tcp_uri(p, rest) : address_parse_unix_uri(p, rest);
    if (rc == HF_OK && is_tls) {
        p->out.tls = true;
        memcpy(p->out.tls_name, p->out.host, sizeof(p->out.tls_name));
        p->out.tls_name[strcspn(p->out.tls_name, "%")] = '\0'; /* an IPv6 address's zone */
    }
    return rc;
}

/* --- options ---------------------------------------------------------------------------------- */

static int address_take_as(struct parse *p, const char *seat, bool has_id)
{
    if (!has_id)
        return address_wrong(
            p,
            "give it an id, ID=ADDRESS%sSEAT: hosts that reach a node by different "
            "addresses know it by its id",
            AS);
    if (seat[0] != '/' && strchr(seat, '@')) /* a password, perhaps */
        return address_wrong(p, "write fleet_address=IP:PORT, fleet_address=[IPV6]:PORT or "
                                "fleet_address=/PATH, without a user");
    if (!node_address_seat_read(seat, p->out.as))
        return address_wrong(p,
                             "write fleet_address=IP:PORT, fleet_address=[IPV6]:PORT or "
                             "fleet_address=/PATH, in numbers as holdfast "
                             "fleet shows it: '%.48s' is none of these",
                             seat);
    return HF_OK;
}

static int address_take_password_file(struct parse *p, const char *path, bool has_id)
{
    (void)has_id;
    if (*path == '\0' || strlen(path) > NODE_ADDRESS_FILE_MAX)
        return address_wrong(p, "write password_file=PATH with 1 to %d bytes",
                             NODE_ADDRESS_FILE_MAX);
    if (p->out.password[0])
        return address_wrong(p, "give its password there or in password_file, not in both");
    memcpy(p->out.password_file, path, strlen(path) + 1);
    return HF_OK;
}

static int address_take_tls_name(struct parse *p, const char *name, bool has_id)
{
    (void)has_id;
    if (!p->out.tls)
        return address_wrong(p, "tls_name goes with rediss://");
    if (*name == '\0' || strlen(name) > HF_NODE_TEXT_MAX ||
        (!address_is_v6(name) && !address_consists_of(name, LETTERS DIGITS "._-")))
        return address_wrong(p, "write tls_name=HOST, a host name or an IP address");
    memcpy(p->out.tls_name, name, strlen(name) + 1);
    return HF_OK;
}

static const struct option {
    const char *mark;
    int (*take)(struct parse *p, const char *value, bool has_id);
} options[] = {{AS, address_take_as},
               {NODE_ADDRESS_PASSWORD_FILE, address_take_password_file},
               {NODE_ADDRESS_TLS_NAME, address_take_tls_name}};

/* The first option in `text`; NULL: none. */
static char *address_find_option(char *text, const struct option **ret_option)
{
    char *first = NULL;

    for (size_t i = 0; i < HF_LENGTH(options); i++) {
        char *at = strstr(text, options[i].mark);

        if (at && (!first || at < first)) {
            first = at;
            *ret_option = &options[i];
        }
    }
    return first;
}

/* Cuts the options off an address, of which the rest is shown from then on. Returns the first one; NULL: none. They
 * stand behind user and password. */
static int address_cut_options(struct parse *p, char *address, char **ret_options)
{
    const char *secret = address_secret_end(address);
    const struct option *option = NULL;
    char *at = address_find_option(address, &option);

    *ret_options = at;
    if (!at)
        return HF_OK;
    if (secret && at < secret)
        return address_wrong(
            p,
            "write %%2C for the comma of a user or password with %s in it; no @ may "
            "stand behind another %s",
            option->mark, option->mark);
    *at = '\0';
    address_show(address, p->shown, sizeof(p->shown));
    *at = ',';
    return HF_OK;
}

static int address_take_options(struct parse *p, char *at, bool has_id)
{
    const struct option *option = NULL, *next = NULL;
    uint32_t seen = 0;
    int rc = HF_OK;

    if (at)
        (void)address_find_option(at, &option);
    while (at && rc == HF_OK) {
        const char *value = at + strlen(option->mark);
        uint32_t bit = 1u << (option - options);

        at = address_find_option(at + 1, &next);
        if (at)
            *at = '\0';
        rc = seen & bit ? address_wrong(p, "%s is given twice", option->mark + 1)
                        : option->take(p, value, has_id);
        seen |= bit;
        if (at) {
            *at = ',';
            option = next;
        }
    }
    return rc;
}

/* The id is the first `length` bytes of `text`, or the address. */
static int address_parse_id(struct parse *p, const char *text, size_t length)
{
    if (length == 0) {
        memcpy(p->out.id, p->out.text, sizeof(p->out.id));
        return HF_OK;
    }
    if (length > HF_NODE_TEXT_MAX)
        return address_wrong(p, "the id is longer than %d bytes", HF_NODE_TEXT_MAX);
    memcpy(p->out.id, text, length);
    p->out.id[length] = '\0';
    if (!address_consists_of(p->out.id, LETTERS DIGITS "._-"))
        return address_wrong(
            p, "its id '%s' has other characters than letters, digits, '.', '-' and '_'",
            p->out.id);
    return HF_OK;
}

int node_address_parse(const char *text, struct node_address *ret_address, char *why,
                       size_t why_size)
{
    struct parse p = {.why = why, .why_size = why_size};
    size_t id = address_id_length(text);
    char address[TEXT_MAX], *more;
    int rc;

    if (strlen(text) >= TEXT_MAX) {
        snprintf(p.shown, sizeof(p.shown), "...");
        return address_wrong(&p, "longer than %d bytes", TEXT_MAX - 1);
    }
    snprintf(address, sizeof(address), "%s", text + (id ? id + 1 : 0));
    address_show(address, p.shown, sizeof(p.shown));
    if (*address == '\0')
        return address_wrong(&p, "it is empty");
    if (text[0] == '=')
        return address_wrong(&p, "the id before = is empty");
    for (const char *c = address; *c; c++) {
        if (!isgraph((unsigned char)*c))
            return address_wrong(
                &p, "it contains a blank or a control character; in a user or password "
                    "write %%20 for a blank");
    }
    rc = address_cut_options(&p, address, &more);
    if (rc != HF_OK)
        return rc;
    if (more)
        *more = '\0';
    rc = address_parse_address(&p, address);
    if (more)
        *more = ',';
    if (rc == HF_OK)
        rc = address_take_options(&p, more, id > 0);
    if (rc != HF_OK)
        return rc;
    if (strlen(p.shown) > HF_NODE_TEXT_MAX)
        return address_wrong(&p, "longer than %d bytes", HF_NODE_TEXT_MAX);
    memcpy(p.out.text, p.shown, strlen(p.shown) + 1);
    rc = address_parse_id(&p, text, id);
    if (rc == HF_OK)
        *ret_address = p.out;
    return rc;
}

const char *node_address_shown(const struct node_address *a, char ret_text[NODE_ADDRESS_SHOWN])
{
    bool named = a->tls && strncmp(a->tls_name, a->host, strcspn(a->host, "%")) != 0;

    snprintf(ret_text, NODE_ADDRESS_SHOWN, "%s=%s%s%s%s%s%s%s", a->id, a->text, a->as[0] ? AS : "",
             a->as, a->password_file[0] ? NODE_ADDRESS_PASSWORD_FILE : "", a->password_file,
             named ? NODE_ADDRESS_TLS_NAME : "", named ? a->tls_name : "");
    return ret_text;
}

bool node_address_same(const struct node_address *a, const struct node_address *b)
{
    return a->unix_socket == b->unix_socket && a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* --- where a link goes ---------------------------------------------------------------------- */

void seat_configure(struct seat *seat, const struct node_address *configured)
{
    struct node_address named;

    seat->configured = configured;
    seat->by_record = seat->by_record && !configured->as[0] &&
                      node_address_from_seat(seat->named.text, configured, &named);
    if (seat->by_record)
        seat->named = named;
}

const struct node_address *seat_address(const struct seat *seat)
{
    return seat->by_record ? &seat->named : seat->configured;
}

bool seat_aim(struct seat *seat, const char *place, const char *peer, bool here)
{
    struct node_address named;

    if (seat->configured->as[0] || strcmp(peer, place) == 0 ||
        (seat->by_record && strcmp(seat->named.text, place) == 0) ||
        !node_address_from_seat(place, seat->configured, &named) ||
        node_address_same(&named, seat->configured) ||
        (node_address_seat_is_private(place) && !here))
        return false;
    seat->named = named;
    seat->by_record = true;
    return true;
}
