/* Sends each request to the room that answers it. Apart from the rings, so that the simulator runs it, too. */
#include "agent/broker/rooms.h"
#include "agent/broker/clients/answers.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/locks/locks_internal.h"
#include "agent/broker/queries/queries.h"
#include "shm/status.h"

void dispatch_request(struct locks *locks, struct queries *queries, struct session *s,
                      const struct hf_request_entry *q)
{
    if (q->id == 0 || q->note_len > HF_NOTE_MAX) {
        session_end(s, "a request without a number, or with lengths out of range");
        return;
    }
    hf_counter_add(&s->clients->agent->table, HF_COUNTER_REQUESTS, 1);
    if (q->op != HF_OP_CANCEL && q->op != HF_OP_LOSING) /* which have no answer */
        answers_owe(&s->answers);
    switch (q->op) {
    case HF_OP_ACQUIRE:
        request_acquire(locks, s, q);
        return;
    case HF_OP_RELEASE:
        request_release(locks, s, q);
        return;
    case HF_OP_STOP_HOLDER:
        request_stop_holder(locks, s, q);
        return;
    case HF_OP_QUERY:
        query_ask(queries, s, q);
        return;
    case HF_OP_FORCE:
        forces_ask(queries, s, q);
        return;
    case HF_OP_ONCE:
        onces_ask(queries, s, q);
        return;
    case HF_OP_DRAIN:
        drains_ask(locks, s, q);
        return;
    case HF_OP_LISTING:
        listings_ask(queries, s, q);
        return;
    case HF_OP_PING: {
        struct hf_completion_entry pong = {.id = q->id, .op = HF_OP_PING, .status = HF_OK};

        session_answer(s, &pong);
        return;
    }
    case HF_OP_CANCEL:
        request_cancel(s, q->target);
        query_cancel(s, q->target);
        return;
    case HF_OP_LOSING:
        request_losing(locks, s, q);
        return;
    default:
        session_end(s, "an unknown request");
        return;
    }
}
