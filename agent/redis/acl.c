#include "agent/redis/acl.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "agent/redis/link_internal.h"
#include "shm/compiler.h"

#define KEY LINK_FENCE_PREFIX /* no lock has this key */

/* What goes wrong in these does so behind the check of the ACL: NOSCRIPT, a wrong number of fields, a name with a blank,
 * a syntax error. */
static const struct {
    const char *name;
    bool needed;
    const char *argv[ACL_WORDS];
} commands[] = {
    {"info", true, {"INFO", "server"}},
    {"evalsha", true, {"EVALSHA", "0000000000000000000000000000000000000000", "0"}},
    {"script|load", true, {"SCRIPT", "LOAD", "return 1"}},
    {"time", true, {"TIME"}},
    {"get", true, {"GET", KEY}},
    {"set", true, {"SET", KEY, "0", "XX", "PX", "1"}},
    {"del", true, {"DEL", KEY}},
    {"pexpire", true, {"PEXPIRE", KEY, "1"}},
    {"pttl", true, {"PTTL", KEY}},
    {"hmget", true, {"HMGET", KEY, "fence"}},
    {"hset", true, {"HSET", KEY, "fence", "0", "tag"}},
    {"scan", false, {"SCAN", "0", "COUNT", "1"}},
    {"mget", false, {"MGET", KEY}},
    {"client|id", false, {"CLIENT", "ID"}},
    {"client|setname", false, {"CLIENT", "SETNAME", "a b"}},
    {"client|getname", false, {"CLIENT", "GETNAME"}},
    {"client|tracking", false, {"CLIENT", "TRACKING", "?"}},
    {"client|caching", false, {"CLIENT", "CACHING", "?"}},
    {"ping", false, {"PING"}},
};

int acl_ask(int which, const char *ret_argv[ACL_WORDS])
{
    int count = 0;

    if (which >= (int)HF_LENGTH(commands))
        return 0;
    while (count < ACL_WORDS && commands[which].argv[count]) {
        ret_argv[count] = commands[which].argv[count];
        count++;
    }
    return count;
}

void acl_note(struct acl_lack *lack, int which, const char *error)
{
    if (reply_error_class(error) != HF_NODE_ERR_PERM)
        return;
    /* "No permissions to access a key", or "...one of the keys used as arguments" */
    if (strstr(error, "access"))
        lack->keys = true;
    else
        lack->lacks |= 1u << which;
}

bool acl_suffices(const struct acl_lack *lack)
{
    bool suffice = !lack->keys;

    for (size_t i = 0; i < HF_LENGTH(commands); i++)
        suffice = suffice && !(commands[i].needed && lack->lacks >> i & 1);
    return suffice;
}

const char *acl_text(const struct acl_lack *lack, char ret_text[ACL_TEXT])
{
    const size_t room = ACL_TEXT - sizeof(" and 99 more");
    size_t used = 0;
    int left = 0;

    ret_text[0] = '\0';
    if (lack->keys)
        used = (size_t)snprintf(ret_text, ACL_TEXT, "~*");
    for (size_t i = 0; i < HF_LENGTH(commands); i++) {
        if (!(lack->lacks >> i & 1))
            continue;
        if (left > 0 || used + strlen(commands[i].name) + 2 >= room)
            left++;
        else
            used += (size_t)snprintf(ret_text + used, ACL_TEXT - used, "%s+%s", used ? " " : "",
                                     commands[i].name);
    }
    if (left)
        snprintf(ret_text + used, ACL_TEXT - used, " and %d more", left);
    return ret_text;
}

/* --- remedies --------------------------------------------------------------------------------- */

static bool remedy_begins(const char *text, const char *with)
{
    return strncasecmp(text, with, strlen(with)) == 0;
}

/* Servers of all versions say one of these. */
static bool remedy_is_unknown_command(const char *text)
{
    return remedy_begins(text, "ERR unknown command") ||
           remedy_begins(text, "ERR unknown subcommand");
}

const char *remedy_of(const char *command, const char *text, bool named, char ret_text[REMEDY_SIZE])
{
    const char *words = "";

    if (remedy_is_unknown_command(text)) {
        snprintf(ret_text, REMEDY_SIZE,
                 "allow %.12s there, which rename-command or a managed service forbids", command);
        return ret_text;
    }
    if (strcasestr(text, "unknown redis command called from"))
        words = "allow all commands of holdfastd(8) there: one is renamed or forbidden";
    else if (remedy_begins(text, "NOAUTH"))
        words = "give this node's user and password, which it wants";
    else if (remedy_begins(text, "NOPERM"))
        words = "give its user the rights of holdfastd(8)";
    else if (remedy_begins(text, "DENIED"))
        words = "set a password on it: it is in protected mode";
    else if (remedy_begins(text, "ERR max number of clients"))
        words = "raise its maxclients: it takes no more connections";
    else if (remedy_begins(text, "ERR DB index is out of range"))
        words = "give the number of a database that this server has";
    else if (!named && remedy_begins(text, "ERR"))
        words = "name the server itself: what answers there, perhaps a proxy, is no Redis";
    snprintf(ret_text, REMEDY_SIZE, "%s", words);
    return ret_text;
}

const char *remedy_of_info(const char *info)
{
    if (info && strstr(info, "redis_mode:sentinel"))
        return "name a master itself: this is a Sentinel";
    return "name the server itself: what answers there is no Redis";
}
