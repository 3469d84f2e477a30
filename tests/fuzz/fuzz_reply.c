/* What a node answers, as raw RESP through hiredis' reader: the scripts' answers, INFO and CONFIG
 * GET. The first byte says to which command it is the answer. */
#include "tests/fuzz/fuzz.h"

#include "agent/core/fence.h"
#include "agent/redis/link_internal.h"

static void check_holder(const struct hf_wire_holder *h)
{
    FUZZ_CHECK(memchr(h->host, '\0', sizeof(h->host)));
    FUZZ_CHECK(memchr(h->comm, '\0', sizeof(h->comm)));
    FUZZ_CHECK(memchr(h->note, '\0', sizeof(h->note)));
}

static void script_answer(const redisReply *answer, enum script script, size_t keys)
{
    struct link_reply reply = {.outcome = LINK_TIMEOUT};

    reply_decode(answer, script, keys, &reply);
    FUZZ_CHECK(reply.outcome == LINK_ANSWERED || reply.outcome == LINK_ERROR);
    FUZZ_CHECK(reply.error_text);
    if (reply.outcome == LINK_ERROR) {
        FUZZ_CHECK(reply.error != HF_NODE_ERR_NONE && *link_error_name(reply.error));
        return;
    }
    FUZZ_CHECK(memchr(reply.nonce, '\0', sizeof(reply.nonce)));
    FUZZ_CHECK(reply.node_time.us >= 0);
    FUZZ_CHECK(reply.fence <= FENCE_NODE_MAX);
    check_holder(&reply.holder);
    FUZZ_CHECK(strlen(reply.id) == 0 || strspn(reply.id, "0123456789abcdef") == LINK_ID_LEN);
    if (script == SCRIPT_RENEW || script == SCRIPT_RELEASE) {
        FUZZ_CHECK(reply.mark_count == keys);
        for (size_t i = 0; i < keys; i++)
            FUZZ_CHECK(reply.marks[i] &&
                       strchr(script == SCRIPT_RENEW ? "10fx" : "10f", reply.marks[i]));
    } else if (script == SCRIPT_SENTINEL) {
        /* Present if and only if it has a nonce. */
        FUZZ_CHECK(reply.sentinel.present == (reply.nonce[0] != '\0'));
        FUZZ_CHECK(memchr(reply.sentinel.list_hash, '\0', sizeof(reply.sentinel.list_hash)));
        FUZZ_CHECK(reply.sentinel.nodes >= 0);
    } else if (reply.verdict != VERDICT_OK && reply.verdict != VERDICT_LOW &&
               reply.verdict != VERDICT_TAKEN && reply.verdict != VERDICT_FREE) {
        FUZZ_CHECK(reply.fence == 0);
    }
}

static void info_answer(const redisReply *answer)
{
    struct node_facts facts = {0};

    if (!reply_decode_info(answer, &facts))
        return;
    FUZZ_CHECK(strlen(facts.run_id) == TRUST_RUN_ID_LEN && facts.uptime.ns >= 0);
    FUZZ_CHECK(memchr(facts.version, '\0', sizeof(facts.version)));
}

static const redisReplyObjectFunctions *hiredis_functions;

/* As agent/redis/link.c has it: hiredis would make an array of any size. */
static void *make_array(const redisReadTask *task, int elements)
{
    return elements > 1024 ? NULL : hiredis_functions->createArray(task, elements);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redisReplyObjectFunctions functions;
    redisReader *reader;
    void *answer;

    if (size < 2)
        return 0;
    reader = redisReaderCreate();
    FUZZ_CHECK(reader);
    hiredis_functions = reader->fn;
    functions = *reader->fn;
    functions.createArray = make_array;
    reader->fn = &functions;
    if (redisReaderFeed(reader, (const char *)data + 1, size - 1) == REDIS_OK)
        while (redisReaderGetReply(reader, &answer) == REDIS_OK && answer) {
            unsigned what = data[0] % (SCRIPTS + 1);

            if (what < SCRIPTS)
                script_answer(answer, (enum script)what, data[0] / (SCRIPTS + 1) % 5);
            else
                info_answer(answer);
            freeReplyObject(answer);
        }
    redisReaderFree(reader);
    return 0;
}
