#include "agent/redis/remedy.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

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
