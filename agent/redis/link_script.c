/* The script commands as callers see them, turned into arguments. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/token.h"
#include "agent/core/sha1.h"
#include "agent/redis/command.h"
#include "agent/redis/decimal.h"
#include "agent/redis/link_internal.h"
#include "shm/status.h"

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
    const char *text = decimal_write(room, sizeof(args->numbers[0]), number);

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

/* EVALSHA and SHA are filled in by eval_script(). */
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
    return eval_script(link, script, 1, deadline, fn, arg, args.count, args.argv, args.lengths);
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
    return eval_script(link, SCRIPT_RAISE, 1, deadline, fn, arg, args.count, args.argv,
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
    return eval_script(link, SCRIPT_QUERY, 1, deadline, fn, arg, args.count, args.argv,
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
    return eval_script(link, SCRIPT_FORCE, 1, deadline, fn, arg, args.count, args.argv,
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
    return eval_script(link, SCRIPT_ONCE, 1, deadline, fn, arg, args.count, args.argv,
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
    return eval_script(link, SCRIPT_LISTING, 0, deadline, fn, arg, args.count, args.argv,
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
    const char *text = decimal_write(room, size, number);

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
    many->count = 2; /* filled in by eval_script() */
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
    return eval_script(link, SCRIPT_RENEW, count, deadline, fn, arg, many.count, many.argv,
                       many.lengths);
}

int link_release(struct link *link, const struct link_key *keys, size_t count, hf_time deadline,
                 link_reply_fn *fn, void *arg)
{
    struct many many;
    int rc = script_many_begin(&many, link, keys, count);

    if (rc != HF_OK)
        return rc;
    return eval_script(link, SCRIPT_RELEASE, count, deadline, fn, arg, many.count, many.argv,
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
    return eval_script(link, SCRIPT_SENTINEL, 0, deadline, fn, arg, args.count, args.argv,
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
    return eval_script(link, SCRIPT_FLEET, 0, deadline, fn, arg, args.count, args.argv,
                       args.lengths);
}

int link_sentinel(struct link *link, const struct link_sentinel *sentinel, hf_time deadline,
                  link_reply_fn *fn, void *arg)
{
    if (link->state != LINK_UP)
        return HF_ENOQUORUM;
    return script_sentinel(link, sentinel, deadline, fn, arg);
}
