#include "tools/show/who.h"

#include <inttypes.h>
#include <stdio.h>

#include "tools/common/conflict.h"
#include "tools/common/text.h"
#include "tools/common/wall.h"
#include "tools/output/format.h"

#define AHEAD_MS 60000 /* of hosts whose clocks are about right */

/* A stable word for enum hf_who_state. */
static const char *who_word_of(int state)
{
    switch (state) {
    case HF_WHO_HELD:
        return "held";
    case HF_WHO_FREE:
        return "free";
    case HF_WHO_SPLIT:
        return "split";
    default:
        return "unknown";
    }
}

static const char *who_sentence(int state)
{
    switch (state) {
    case HF_WHO_HELD:
        return "held";
    case HF_WHO_FREE:
        return "free: nobody holds it";
    case HF_WHO_SPLIT:
        return "split: nobody holds it, but several contend for it, or have left keys behind";
    default:
        return "unknown: too few nodes answered";
    }
}

static void who_print_holder(const struct hf_who_info *who)
{
    const struct hf_holder *holder = &who->holder;
    char text[4 * sizeof(holder->note) + 1], span[TEXT_SPAN_SIZE];
    int64_t now_ms = wall_now_ms();

    if (!holder->fence) {
        puts("holder    another program than a Holdfast agent, or one whose record is gone");
        return;
    }
    printf("fence     %" PRIu64 "\n", holder->fence);
    printf("host      %s%s\n",
           *holder->host ? text_escape_str(text, sizeof(text), holder->host) : "unknown",
           conflict_is_here(holder) ? " (this host)" : "");
    printf("holder    pid %" PRIu32, holder->pid);
    if (conflict_is_here(holder))
        printf(" (user %s)", format_user(text, sizeof(text), holder->uid));
    else
        printf(" (uid %" PRIu32 ")", holder->uid);
    if (*holder->command)
        printf(" command %s", text_escape_str(text, sizeof(text), holder->command));
    if (holder->since_wall_ms > 0)
        printf("\nsince     %s (%s)", text_wall(text, sizeof(text), holder->since_wall_ms),
               holder->since_wall_ms > now_ms + AHEAD_MS
                   ? "by a clock that is ahead of this host's"
                   : text_span(span, sizeof(span), now_ms - holder->since_wall_ms));
    printf("\nnote      %s\n",
           *holder->note ? text_escape_str(text, sizeof(text), holder->note) : "-");
}

static void who_print_left(const struct hf_who_info *who)
{
    char span[TEXT_SPAN_SIZE];

    if (who->holder.pttl_ms >= 0)
        printf("left      %s, unless it is renewed\n",
               text_span(span, sizeof(span), who->holder.pttl_ms));
    else if (who->holder.pttl_ms == -1)
        puts("left      its key never expires");
}

void who_print(const void *name, size_t name_len, const struct hf_who_info *who)
{
    char shown[TEXT_NAME_SIZE];

    printf("name      %s\n", text_escape(shown, sizeof(shown), name, name_len));
    printf("state     %s\n", who_sentence(who->state));
    if (who->holding) {
        who_print_holder(who);
        who_print_left(who);
        printf("id        %s\n", *who->id ? who->id : "none: its key is of another type");
    }
    if (who->forced)
        printf("forced    on %" PRIu32 " of %" PRIu32
               " nodes: it ends when its agent notices, or with the time that is left\n",
               who->forced, who->nodes);
    printf("nodes     %" PRIu32 " of %" PRIu32 " keep it for that holder, %" PRIu32
           " for nobody, %" PRIu32 " answered, quorum %" PRIu32 "\n",
           who->holding, who->nodes, who->free, who->answered, who->quorum);
}

/* --- JSON ------------------------------------------------------------------------------------- */

void who_put_holder(json_t *object, const struct hf_holder *holder)
{
    char user[FORMAT_USER_SIZE];
    bool known = holder->fence != 0, here = known && conflict_is_here(holder);

    json_put(object, "fence", known ? json_u64_text(holder->fence) : json_null());
    json_put(object, "host", json_word(holder->host));
    json_put(object, "pid", known ? json_integer(holder->pid) : json_null());
    json_put(object, "uid", known ? json_integer(holder->uid) : json_null());
    json_put(object, "user",
             here ? json_text_str(format_user(user, sizeof(user), holder->uid)) : json_null());
    json_put(object, "command", json_word(holder->command));
    json_put(object, "note", json_word(holder->note));
    json_put(object, "since", json_wall(holder->since_wall_ms));
    json_put(object, "left_ms", holder->pttl_ms >= 0 ? json_integer(holder->pttl_ms) : json_null());
    json_put(object, "expires",
             holder->pttl_ms == -2 ? json_null() : json_boolean(holder->pttl_ms != -1));
}

void who_put(json_t *object, const struct hf_who_info *who)
{
    json_put(object, "state", json_string(who_word_of(who->state)));
    json_put(object, "held", json_boolean(who->state == HF_WHO_HELD));
    who_put_holder(object, &who->holder);
    json_put(object, "id", json_word(who->id));
    json_put(object, "last_fence", who->last_fence ? json_u64_text(who->last_fence) : json_null());
    json_put(object, "nodes", json_integer(who->nodes));
    json_put(object, "quorum", json_integer(who->quorum));
    json_put(object, "answered", json_integer(who->answered));
    json_put(object, "holding", json_integer(who->holding));
    json_put(object, "free", json_integer(who->free));
    json_put(object, "forced", json_integer(who->forced));
}
