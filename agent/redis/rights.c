#include "agent/redis/rights.h"

#include <stdio.h>
#include <string.h>

#include "agent/redis/link_internal.h"
#include "shm/compiler.h"

#define KEY LINK_FENCE_PREFIX /* no lock has this key */

/* What goes wrong in these does so behind the check of rights: NOSCRIPT, a wrong number of fields, a name with a blank,
 * a syntax error. */
static const struct right {
    const char *name;
    bool needed;
    const char *argv[RIGHTS_WORDS];
} rights[] = {
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
    {"config|get", false, {"CONFIG", "GET", "appendonly"}},
    {"client|id", false, {"CLIENT", "ID"}},
    {"client|setname", false, {"CLIENT", "SETNAME", "a b"}},
    {"client|getname", false, {"CLIENT", "GETNAME"}},
    {"client|tracking", false, {"CLIENT", "TRACKING", "?"}},
    {"client|caching", false, {"CLIENT", "CACHING", "?"}},
    {"ping", false, {"PING"}},
};

int rights_ask(int which, const char *ret_argv[RIGHTS_WORDS])
{
    int count = 0;

    if (which >= (int)HF_LENGTH(rights))
        return 0;
    while (count < RIGHTS_WORDS && rights[which].argv[count]) {
        ret_argv[count] = rights[which].argv[count];
        count++;
    }
    return count;
}

void rights_note(struct rights *r, int which, const char *error)
{
    if (reply_error_class(error) != HF_NODE_ERR_PERM)
        return;
    /* "No permissions to access a key", or "...one of the keys used as arguments" */
    if (strstr(error, "access"))
        r->keys = true;
    else
        r->lacks |= 1u << which;
}

bool rights_suffice(const struct rights *r)
{
    bool suffice = !r->keys;

    for (size_t i = 0; i < HF_LENGTH(rights); i++)
        suffice = suffice && !(rights[i].needed && r->lacks >> i & 1);
    return suffice;
}

const char *rights_text(const struct rights *r, char ret_text[RIGHTS_TEXT])
{
    const size_t room = RIGHTS_TEXT - sizeof(" and 99 more");
    size_t used = 0;
    int left = 0;

    ret_text[0] = '\0';
    if (r->keys)
        used = (size_t)snprintf(ret_text, RIGHTS_TEXT, "~*");
    for (size_t i = 0; i < HF_LENGTH(rights); i++) {
        if (!(r->lacks >> i & 1))
            continue;
        if (left > 0 || used + strlen(rights[i].name) + 2 >= room)
            left++;
        else
            used += (size_t)snprintf(ret_text + used, RIGHTS_TEXT - used, "%s+%s", used ? " " : "",
                                     rights[i].name);
    }
    if (left)
        snprintf(ret_text + used, RIGHTS_TEXT - used, " and %d more", left);
    return ret_text;
}
