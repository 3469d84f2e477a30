#include "tests/torture/agent_wire.h"

#include <string.h>

#include "agent/core/sha1.h"
#include "shm/status.h"

/* A bulk string of 40 hex digits: a token, or a script's name. */
static bool is_forty(const char *text)
{
    return strspn(text, "0123456789abcdef") == TOKEN_LEN && text[TOKEN_LEN] == '\r';
}

static int script_of(const struct wire *w, const char *text)
{
    for (int i = 0; i < SCRIPTS; i++)
        if (memcmp(w->sha[i], text, SCRIPT_SHA_LEN) == 0)
            return i;
    return -1;
}

/* What the journal has under that token; false: nothing. */
static bool find(const struct judge *j, const char *text, uint32_t *ret_slot,
                 struct journal_lease *ret_record)
{
    struct token token;

    if (token_read(text, &token) < 0)
        return false;
    for (uint32_t slot = 0; slot < j->config.capacity; slot++) {
        struct journal_identity id;

        if (journal_get(j->journal, slot, &id, ret_record) == HF_OK &&
            memcmp(&id.token, &token, sizeof(token)) == 0) {
            *ret_slot = slot;
            return true;
        }
    }
    return false;
}

static void judge_token(struct judge *j, int script, const char *token)
{
    struct journal_lease rec;
    uint32_t slot;

    if (!find(j, token, &slot, &rec)) {
        /* The last of a release may be on its way when nothing is owed any more. */
        if (script != SCRIPT_RELEASE)
            judge_says(j, "a token leaves that the journal does not know (script %d)", script);
        return;
    }
    if (script == SCRIPT_ACQUIRE && rec.state != JOURNAL_INTENT)
        judge_says(j, "slot %u: a SET leaves, and the journal has state %d", slot, rec.state);
    if ((script == SCRIPT_HEAL || script == SCRIPT_RENEW) && !journal_is_held(rec.state))
        judge_says(j, "slot %u: script %d leaves, and the journal has state %d", slot, script,
                   rec.state);
    if (script == SCRIPT_RELEASE && journal_is_held(rec.state))
        judge_says(j, "slot %u: a release leaves, and the journal has the lease held", slot);
    if (script == SCRIPT_RELEASE &&
        atomic_load(&j->reader.slots[slot].check) >> HF_CHECK_GEN_SHIFT == rec.generation)
        judge_says(j, "slot %u: a release leaves, and the check word stands", slot);
}

/* The digest of that token, which is sent beside it. */
static bool is_tag_of(const char *token, const char *text)
{
    char tag[SHA1_HEX_LEN + 1];
    struct sha1 sha1;

    if (!token)
        return false;
    sha1_begin(&sha1);
    sha1_add(&sha1, token, TOKEN_LEN);
    sha1_end(&sha1, tag);
    return memcmp(text, tag, SHA1_HEX_LEN) == 0;
}

void wire_judge(struct wire *w, struct judge *j, const char *bytes, size_t size)
{
    const char *token = NULL;
    int script = -1;

    for (const char *at = bytes; at + 1 + TOKEN_LEN < bytes + size; at++) {
        int names;

        if (*at != '\n' || !is_forty(at + 1))
            continue;
        names = script_of(w, at + 1);
        if (names >= 0) {
            script = names;
        } else if (is_tag_of(token, at + 1)) {
            continue;
        } else if (script >= 0 && script != SCRIPT_SENTINEL && script != SCRIPT_FLEET &&
                   script < SCRIPT_QUERY) { /* these two have runs of servers */
            w->tokens[script]++;
            token = at + 1;
            judge_token(j, script, token);
        }
    }
}
