/* Which rights the agent's user lacks: asked for once the node has refused something for want of one, before the
 * handshake's other commands and at each probe, until nothing is missing. */
#include <stdio.h>
#include <string.h>

#include "agent/redis/link_internal.h"
#include "shm/status.h"

static void acl_on_acl(struct link *link, const struct call *call, const redisReply *answer)
{
    const char *words[ACL_WORDS];

    (void)call;
    if (answer->type == REDIS_REPLY_ERROR)
        acl_note(&link->acl_asked, link->acl_at, answer->str);
    link->acl_at++;
    if (acl_ask(link->acl_at, words) > 0)
        return;
    link->acl = link->acl_asked;
    link->acl_doubted = !acl_is_complete(&link->acl);
}

int acl_survey(struct link *link)
{
    const char *words[ACL_WORDS];
    int rc = HF_OK, count;

    if (!link->acl_doubted)
        return HF_OK;
    link->acl_asked = (struct acl_lack){0};
    link->acl_at = 0;
    for (int i = 0; rc == HF_OK && (count = acl_ask(i, words)) > 0; i++)
        rc = call_own(link, acl_on_acl, count, words, NULL);
    return rc;
}

const char *acl_of_error(struct link *link, const char *text, char buffer[LINK_TEXT_MAX])
{
    char lacking[ACL_TEXT];

    link->acl_doubted = true;
    if (acl_suffices(&link->acl))
        return text;
    snprintf(buffer, LINK_TEXT_MAX, "its user lacks %s", acl_text(&link->acl, lacking));
    return buffer;
}
