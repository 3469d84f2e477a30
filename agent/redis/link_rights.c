/* Which rights the agent's user lacks: asked for once the node has refused something for want of one, before the
 * handshake's other commands and at each probe, until nothing is missing. */
#include <stdio.h>
#include <string.h>

#include "agent/redis/link_internal.h"
#include "shm/status.h"

static void on_right(struct link *link, const struct call *call, const redisReply *answer)
{
    const char *words[RIGHTS_WORDS];

    (void)call;
    if (answer->type == REDIS_REPLY_ERROR)
        rights_note(&link->rights_asked, link->rights_at, answer->str);
    link->rights_at++;
    if (rights_ask(link->rights_at, words) > 0)
        return;
    link->rights = link->rights_asked;
    link->rights_doubted = !rights_complete(&link->rights);
}

int rights_survey(struct link *link)
{
    const char *words[RIGHTS_WORDS];
    int rc = HF_OK, count;

    if (!link->rights_doubted)
        return HF_OK;
    link->rights_asked = (struct rights){0};
    link->rights_at = 0;
    for (int i = 0; rc == HF_OK && (count = rights_ask(i, words)) > 0; i++)
        rc = call_own(link, on_right, count, words, NULL);
    return rc;
}

const char *rights_of_error(struct link *link, const char *text, char buffer[LINK_TEXT_MAX])
{
    char lacking[RIGHTS_TEXT];

    link->rights_doubted = true;
    if (rights_suffice(&link->rights))
        return text;
    snprintf(buffer, LINK_TEXT_MAX, "its user lacks %s", rights_text(&link->rights, lacking));
    return buffer;
}
