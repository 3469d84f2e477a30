/* The script commands as callers see them, turned into arguments. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/failure.h"
#include "agent/base/token.h"
#include "agent/core/sha1.h"
#include "agent/redis/script.h"
#include "shm/text.h"
#include "agent/redis/command.h"
#include "agent/redis/link_internal.h"
#include "shm/assert.h"
#include "shm/status.h"

/* --- one script's call ------------------------------------------------------------------------ */

/* A script's run on the node: EVALSHA with its deadline, its answer, and a script that the node does not have any more. */

/* NOSCRIPT says that the script did not run, so it is loaded and the command is sent again,
 * once.
 * (!) Not a command that writes a key or makes it live longer: only its owner knows whether the lease
 * is over and its token released meanwhile. */
static bool script_reload(struct link *link, struct call *call)
{
    bool wanted = call->script == SCRIPT_RELEASE; /* however late */

    if (call->script == SCRIPT_RAISE || call->script == SCRIPT_SENTINEL ||
        call->script == SCRIPT_FLEET || call->script >= SCRIPT_QUERY)
        wanted = !call->timed_out;
    if (call->reloaded || !link->context)
        return false;
    call->reloaded = true;
    call->mark = 0; /* what was to be tracked was that attempt */
    if (call_load(link, call->script, NULL) != HF_OK || !wanted)
        return false;
    return call_send(link, call) == HF_OK;
}

/* (!) A reply from an unknown server is no answer: an acquire's may come from a server that has forgotten
 * the true holder. Then nothing is known of the command, as after NOSCRIPT, and its owner sends it once
 * more, after INFO. A release only needs to have been run. */
static bool script_counts(const struct link *link, const struct call *call)
{
    return !link->doubted || call->script == SCRIPT_RELEASE;
}

static bool script_answered(struct link *link, struct call *call, const redisReply *answer)
{
    ABOUT_NODE(link->options.address->id);
    struct link_reply reply = call_reply(call, LINK_ANSWERED, HF_NODE_ERR_NONE, link->heard);
    char text[LINK_TEXT_MAX], better[LINK_TEXT_MAX];

    reply_decode(answer, call->script, call->keys, &reply);
    /* First, so that INFO precedes the script and the commands that are sent again. */
    if (!identity_is_doubtful(link, answer) && reply.outcome == LINK_ANSWERED &&
        !script_counts(link, call)) {
        reply.outcome = LINK_ERROR;
        reply.error = HF_NODE_ERR_NOSCRIPT;
        reply.error_text = "not counted: it is in doubt who answers";
    }
    reply.doubtful = link->doubted;
    reply.tracked = tracking_stands(link, call->mark);
    if (reply.error == HF_NODE_ERR_NOSCRIPT) {
        hf_time deadline = call->deadline.item.at;

        if (script_reload(link, call)) {
            if (!call->timed_out)
                (void)loop_timer_set(link->options.loop, &call->deadline, deadline);
            return true;
        }
    }
    if (reply.error == HF_NODE_ERR_PERM)
        reply.error_text = acl_of_error(link, reply.error_text, better);
    link_copy_text(link, text, reply.error_text);
    reply.error_text = text;
    call->fn(link, &reply, call->arg);
    return false;
}

/* Buffers an owner's EVALSHA of `script`: argv[1] is filled in here. */
static int script_eval(struct link *link, enum script script, size_t keys, hf_time deadline,
                       link_reply_fn *fn, void *arg, int argc, const char **argv, size_t *lengths)
{
    struct call *call;
    uint32_t mark;
    int rc = HF_OK;

    hf_assert((unsigned)script < SCRIPTS && fn, "script %d", (int)script);
    if (call_unsent(link) > BOUNDS_LINK / 2)
        link_flush(link); /* not later: a check leaves together with what it is for */
    if (link_in_flight(link) >= LINK_IN_FLIGHT_MAX || !link->context)
        return HF_ENOQUORUM;
    if (script != SCRIPT_RELEASE)
        rc = identity_check(link);
    if (rc != HF_OK)
        return rc;
    mark = tracking_mark(link); /* right ahead of it */
    argv[0] = "EVALSHA";
    lengths[0] = 7;
    argv[1] = link->sha[script];
    lengths[1] = SCRIPT_SHA_LEN;
    call = call_new(link, argc, argv, lengths);
    if (!call)
        return HF_ENOMEM;
    call->mark = mark;
    call->script = script;
    call->keys = keys;
    call->answered = script_answered;
    call->fn = fn;
    call->arg = arg;
    rc = loop_timer_set(link->options.loop, &call->deadline, deadline);
    if (rc == HF_OK)
        rc = call_send(link, call);
    if (rc != HF_OK) {
        loop_timer_cancel(link->options.loop, &call->deadline);
        call_free(call);
    }
    return rc;
}

/* --- what is asked of a node ------------------------------------------------------------------ */

#define KEY_MAX    1024 /* bytes of a formatted key */
#define ARGS_MAX   (5 + 3 * LINK_KEYS_MAX)
#define TTL_DIGITS 12

/* Arguments of one command, with room for the numbers among them. */
struct args {
    int count;
    const char *argv[24];
    size_t lengths[24];
    char numbers[8][24];
    int numbers_used;
    char stamp[TRUST_NONCE_LEN + 1 + FLEET_DIGEST_LEN + 1];
    struct link_words words;
    char fence_key[sizeof(LINK_FENCE_PREFIX) + 2 * KEY_MAX]; /* or a pattern for them */
};

static void script_add_bytes(struct args *args, const void *bytes, size_t length)
{
    args->argv[args->count] = bytes;
    args->lengths[args->count++] = length;
}

static void script_add_text(struct args *args, const char *text)
{
    script_add_bytes(args, text ? text : "", text ? strlen(text) : 0);
}

static void script_add_token(struct args *args, const struct token *token)
{
    script_add_bytes(args, token, COMMAND_TOKEN);
}

static void script_add_number(struct args *args, int64_t number)
{
    char *room = args->numbers[args->numbers_used++];
    const char *text = hf_decimal_write(room, sizeof(args->numbers[0]), number);

    script_add_bytes(args, text, (size_t)(room + sizeof(args->numbers[0]) - text));
}

static void script_add_stamp(struct args *args, const char *nonce, const char *digest)
{
    size_t used = nonce ? strnlen(nonce, TRUST_NONCE_LEN) : 0;

    if (used > 0)
        memcpy(args->stamp, nonce, used);
    if (digest && *digest) {
        size_t length = strnlen(digest, FLEET_DIGEST_LEN);

        args->stamp[used++] = ':';
        memcpy(args->stamp + used, digest, length);
        used += length;
    }
    script_add_bytes(args, args->stamp, used);
}

/* EVALSHA and SHA are filled in by script_eval(). */
static void script_begin(struct args *args, const char *key_count)
{
    args->count = 2;
    args->numbers_used = 0;
    script_add_text(args, key_count);
    script_add_text(args, LINK_SENTINEL_KEY);
}

static void script_add_lock_keys(struct args *args, const void *key, size_t key_len)
{
    size_t prefix = sizeof(LINK_FENCE_PREFIX) - 1;

    memcpy(args->fence_key, LINK_FENCE_PREFIX, prefix);
    memcpy(args->fence_key + prefix, key, key_len);
    script_add_bytes(args, key, key_len);
    script_add_bytes(args, args->fence_key, prefix + key_len);
}

/* For a command about one name: its keys come first. HF_ENOQUORUM, HF_EINVAL. */
static int script_begin_lock(struct args *args, const struct link *link, const void *key,
                             size_t key_len)
{
    if (link->state != LINK_UP)
        return HF_ENOQUORUM;
    if (key_len > KEY_MAX)
        return HF_EINVAL;
    script_begin(args, "3");
    script_add_lock_keys(args, key, key_len);
    return HF_OK;
}

/* Appends a pattern that matches the bytes themselves. Returns the new length. */
static size_t script_escape(char *pattern, size_t used, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] && strchr("*?[]\\", bytes[i]))
            pattern[used++] = '\\';
        pattern[used++] = bytes[i];
    }
    return used;
}

/* The tag is made here: a node is shared by many hosts. */
static void script_make_words(struct link_words *words, const struct link_lock *lock)
{
    if (words->tag[0] == '\0') {
        char token[TOKEN_LEN];
        struct sha1 sha1;

        token_text(lock->token, token);
        sha1_begin(&sha1);
        sha1_add(&sha1, token, sizeof(token));
        sha1_end(&sha1, words->tag);
        explicit_bzero(token, sizeof(token));
    }
    if (words->holder_len == 0 || words->fence != lock->fence) {
        words->holder_len = holder_text_write(&lock->holder, lock->fence, words->holder);
        words->fence = lock->fence;
    }
}

static void script_add_fence_and_holder(struct args *args, const struct link_lock *lock)
{
    struct link_words *words = lock->words;

    if (!words) {
        words = &args->words;
        words->tag[0] = '\0';
        words->holder_len = 0;
    }
    script_make_words(words, lock);
    script_add_number(args, (int64_t)lock->fence);
    script_add_bytes(args, words->tag, SHA1_HEX_LEN);
    script_add_bytes(args, words->holder, words->holder_len);
}

/* Acquire and heal differ only in the script. */
static int script_send_lock(struct link *link, enum script script, const struct link_lock *lock,
                            hf_time deadline, link_reply_fn *fn, void *arg)
{
    struct args args;
    int rc = script_begin_lock(&args, link, lock->key, lock->key_len);

    if (rc != HF_OK)
        return rc;
    script_add_token(&args, lock->token);
    script_add_number(&args, lock->ttl_ms);
    script_add_number(&args, lock->deadline.us);
    script_add_stamp(&args, lock->nonce, lock->digest);
    script_add_fence_and_holder(&args, lock);
    return script_eval(link, script, 1, deadline, fn, arg, args.count, args.argv, args.lengths);
}

int link_acquire(struct link *link, const struct link_lock *lock, hf_time deadline,
                 link_reply_fn *fn, void *arg)
{
    return script_send_lock(link, SCRIPT_ACQUIRE, lock, deadline, fn, arg);
}

int link_heal(struct link *link, const struct link_lock *lock, hf_time deadline, link_reply_fn *fn,
              void *arg)
{
    return script_send_lock(link, SCRIPT_HEAL, lock, deadline, fn, arg);
}

int link_raise(struct link *link, const struct link_lock *lock, hf_time deadline, link_reply_fn *fn,
               void *arg)
{
    struct args args;
    int rc = script_begin_lock(&args, link, lock->key, lock->key_len);

    if (rc != HF_OK)
        return rc;
    script_add_token(&args, lock->token);
    script_add_fence_and_holder(&args, lock);
    return script_eval(link, SCRIPT_RAISE, 1, deadline, fn, arg, args.count, args.argv,
                       args.lengths);
}

int link_query(struct link *link, const void *key, size_t key_len, bool record, hf_time deadline,
               link_reply_fn *fn, void *arg)
{
    struct args args;
    int rc = script_begin_lock(&args, link, key, key_len);

    if (rc != HF_OK)
        return rc;
    script_add_text(&args, record ? "1" : "0");
    return script_eval(link, SCRIPT_QUERY, 1, deadline, fn, arg, args.count, args.argv,
                       args.lengths);
}

int link_force(struct link *link, const struct link_force *force, hf_time deadline,
               link_reply_fn *fn, void *arg)
{
    struct args args;
    int rc = script_begin_lock(&args, link, force->key, force->key_len);

    if (rc != HF_OK)
        return rc;
    if (force->fence)
        script_add_number(&args, (int64_t)force->fence);
    else
        script_add_text(&args, "");
    script_add_text(&args, force->id);
    script_add_number(&args, force->foreign_ms);
    script_add_number(&args, force->ttl_max_ms);
    return script_eval(link, SCRIPT_FORCE, 1, deadline, fn, arg, args.count, args.argv,
                       args.lengths);
}

int link_once(struct link *link, const struct link_once *order, hf_time deadline, link_reply_fn *fn,
              void *arg)
{
    static const char *const words[ONCE_STEPS] = {
        [ONCE_LOOK] = "look", [ONCE_WRITE] = "write", [ONCE_TAKE_BACK] = "back",
        [ONCE_END] = "end",   [ONCE_PEEK] = "peek",   [ONCE_FORGET] = "write",
    };
    char text[HOLDER_TEXT_MAX] = "";
    struct args args;

    if (link->state != LINK_UP)
        return HF_ENOQUORUM;
    if (order->key_len > KEY_MAX)
        return HF_EINVAL;
    script_begin(&args, "2");
    memcpy(args.fence_key, LINK_ONCE_PREFIX, sizeof(LINK_ONCE_PREFIX) - 1);
    memcpy(args.fence_key + sizeof(LINK_ONCE_PREFIX) - 1, order->key, order->key_len);
    script_add_bytes(&args, args.fence_key, sizeof(LINK_ONCE_PREFIX) - 1 + order->key_len);
    script_add_number(&args, order->deadline.us);
    script_add_stamp(&args, order->nonce, order->digest);
    script_add_number(&args, (int64_t)order->fence);
    script_add_number(&args, order->turn);
    script_add_text(&args, words[order->step]);
    script_add_number(&args, order->at_us);
    script_add_number(&args, order->asker);
    script_add_number(&args, order->retention_ms);
    script_add_number(&args, order->ended);
    script_add_bytes(&args, text, order->by ? holder_text_write(order->by, 0, text) : 0);
    return script_eval(link, SCRIPT_ONCE, 1, deadline, fn, arg, args.count, args.argv,
                       args.lengths);
}

int link_listing(struct link *link, const void *prefix, size_t prefix_len, const char *suffix,
                 uint64_t cursor, hf_time deadline, link_reply_fn *fn, void *arg)
{
    char text[24];
    struct args args;
    size_t used = sizeof(LINK_FENCE_PREFIX) - 1;

    if (link->state != LINK_UP)
        return HF_ENOQUORUM;
    if (prefix_len + strlen(suffix) >= KEY_MAX)
        return HF_EINVAL;
    memcpy(args.fence_key, LINK_FENCE_PREFIX, used);
    used = script_escape(args.fence_key, used, prefix, prefix_len);
    args.fence_key[used++] = '*';
    used = script_escape(args.fence_key, used, suffix, strlen(suffix));
    snprintf(text, sizeof(text), "%" PRIu64, cursor);
    script_begin(&args, "1");
    script_add_text(&args, text);
    script_add_bytes(&args, args.fence_key, used);
    return script_eval(link, SCRIPT_LISTING, 0, deadline, fn, arg, args.count, args.argv,
                       args.lengths);
}

/* The arguments of many keys. */
struct many {
    int count;
    const char *argv[ARGS_MAX];
    size_t lengths[ARGS_MAX];
    char key_count[8], ttls[LINK_KEYS_MAX][TTL_DIGITS];
};

static void script_many_add(struct many *many, const void *bytes, size_t length)
{
    many->argv[many->count] = bytes;
    many->lengths[many->count++] = length;
}

static void script_many_add_number(struct many *many, char *room, size_t size, int64_t number)
{
    const char *text = hf_decimal_write(room, size, number);

    script_many_add(many, text, (size_t)(room + size - text));
}

/* For renew and release: the keys, then the token of each. */
static int script_many_begin(struct many *many, const struct link *link,
                             const struct link_key *keys, size_t count)
{
    if (link->state != LINK_UP)
        return HF_ENOQUORUM;
    if (count == 0 || count > LINK_KEYS_MAX)
        return HF_EINVAL;
    many->count = 2; /* filled in by script_eval() */
    script_many_add_number(many, many->key_count, sizeof(many->key_count), (int64_t)count + 1);
    script_many_add(many, LINK_SENTINEL_KEY, sizeof(LINK_SENTINEL_KEY) - 1);
    for (size_t i = 0; i < count; i++)
        script_many_add(many, keys[i].key, keys[i].key_len);
    for (size_t i = 0; i < count; i++)
        script_many_add(many, keys[i].token, COMMAND_TOKEN);
    return HF_OK;
}

int link_renew(struct link *link, const struct link_key *keys, size_t count, hf_time deadline,
               link_reply_fn *fn, void *arg)
{
    struct many many;
    size_t ttls = 1;
    int rc = script_many_begin(&many, link, keys, count);

    if (rc != HF_OK)
        return rc;
    script_many_add(&many, link->tracking.next ? "1" : "0", 1);
    for (size_t i = 1; i < count && ttls == 1; i++)
        if (keys[i].ttl_ms != keys[0].ttl_ms)
            ttls = count;
    for (size_t i = 0; i < ttls; i++)
        script_many_add_number(&many, many.ttls[i], TTL_DIGITS, keys[i].ttl_ms);
    return script_eval(link, SCRIPT_RENEW, count, deadline, fn, arg, many.count, many.argv,
                       many.lengths);
}

int link_release(struct link *link, const struct link_key *keys, size_t count, hf_time deadline,
                 link_reply_fn *fn, void *arg)
{
    struct many many;
    int rc = script_many_begin(&many, link, keys, count);

    if (rc != HF_OK)
        return rc;
    return script_eval(link, SCRIPT_RELEASE, count, deadline, fn, arg, many.count, many.argv,
                       many.lengths);
}

int script_sentinel(struct link *link, const struct link_sentinel *sentinel, hf_time deadline,
                    link_reply_fn *fn, void *arg)
{
    struct args args;

    script_begin(&args, "1");
    script_add_text(&args, sentinel->make ? "1" : "0");
    if (sentinel->other)
        script_add_stamp(&args, sentinel->other_nonce, sentinel->other);
    else
        script_add_text(&args, sentinel->replace ? "1" : "0");
    script_add_text(&args, sentinel->nonce);
    script_add_number(&args, sentinel->wall.ms);
    script_add_number(&args, sentinel->ttl_max_ms);
    script_add_number(&args, sentinel->nodes);
    script_add_text(&args, sentinel->list_hash);
    script_add_text(&args, sentinel->stepped ? sentinel->stepped : "");
    return script_eval(link, SCRIPT_SENTINEL, 0, deadline, fn, arg, args.count, args.argv,
                       args.lengths);
}

int link_fleet(struct link *link, const struct link_fleet *fleet, hf_time deadline,
               link_reply_fn *fn, void *arg)
{
    struct args args;

    if (link->state != LINK_UP)
        return HF_ENOQUORUM;
    script_begin(&args, "1");
    script_add_number(&args, fleet->deadline.us);
    script_add_stamp(&args, fleet->nonce, fleet->digest);
    script_add_text(&args, fleet->record);
    script_add_text(&args, fleet->by);
    script_add_text(&args, fleet->sure);
    return script_eval(link, SCRIPT_FLEET, 0, deadline, fn, arg, args.count, args.argv,
                       args.lengths);
}

int link_sentinel(struct link *link, const struct link_sentinel *sentinel, hf_time deadline,
                  link_reply_fn *fn, void *arg)
{
    if (link->state != LINK_UP)
        return HF_ENOQUORUM;
    return script_sentinel(link, sentinel, deadline, fn, arg);
}

/* --- what the agent's user may ---------------------------------------------------------------- */

/* Which rights the agent's user lacks: asked for once the node has refused something for want of one, before the
 * handshake's other commands and at each probe, until nothing is missing. */

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
