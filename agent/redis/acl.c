#include "agent/redis/acl.h"

#include <stdio.h>
#include <string.h>

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
