#include "agent/broker/clients/answers.h"

#include <stdlib.h>

#include "shm/assert.h"
#include "shm/status.h"
#include "shm/text.h"

struct answer {
    STAILQ_ENTRY(answer) queue;
    struct hf_completion_entry entry;
};

static unsigned answers_room_in(const struct answers *a)
{
    int room = hf_ring_room(a->ring);

    return room > 0 ? (unsigned)room : 0; /* out of range: session_serve() ends it */
}

static bool answers_has_place_for(const struct answers *a, unsigned count)
{
    return answers_room_in(a) + a->spare_count >= count;
}

static void answers_spare_add(struct answers *a, struct answer *answer)
{
    STAILQ_INSERT_HEAD(&a->spare, answer, queue);
    a->spare_count++;
}

static struct answer *answers_spare_take(struct answers *a)
{
    struct answer *answer = STAILQ_FIRST(&a->spare);

    if (answer) {
        hf_assert(a->spare_count > 0, "owed %u", (unsigned)a->owed);
        STAILQ_REMOVE_HEAD(&a->spare, queue);
        a->spare_count--;
    }
    return answer;
}

static void answers_list_free(struct answer_list *list)
{
    struct answer *answer;

    while ((answer = STAILQ_FIRST(list))) {
        STAILQ_REMOVE_HEAD(list, queue);
        free(answer);
    }
}

static void answers_count_waiting(struct answers *a, int change)
{
    hf_assert(change > 0 || (a->waiting_count > 0 && *a->waiting_of_user > 0),
              "waiting %u, %u of its user", (unsigned)a->waiting_count, *a->waiting_of_user);
    a->waiting_count += (unsigned)change;
    *a->waiting_of_user += (unsigned)change;
}

void answers_init(struct answers *a, struct hf_ring_agent *ring, unsigned *waiting_of_user)
{
    *a = (struct answers){.ring = ring, .waiting_of_user = waiting_of_user};
    STAILQ_INIT(&a->waiting);
    STAILQ_INIT(&a->spare);
}

void answers_free(struct answers *a)
{
    answers_list_free(&a->waiting);
    answers_list_free(&a->spare);
    if (a->waiting_count)
        *a->waiting_of_user -= a->waiting_count;
    a->waiting_count = a->spare_count = 0;
}

int answers_reserve(struct answers *a)
{
    struct answer *answer;

    if (answers_has_place_for(a, a->owed + 1))
        return HF_OK;
    answer = malloc(sizeof(*answer));
    if (!answer)
        return HF_ENOMEM;
    answers_spare_add(a, answer);
    return HF_OK;
}

void answers_owe(struct answers *a)
{
    a->owed++;
}

void answers_owe_no_more(struct answers *a)
{
    hf_assert(a->owed > 0, "spare %u, waiting %u", (unsigned)a->spare_count,
              (unsigned)a->waiting_count);
    a->owed--;
    while (a->spare_count > a->owed)
        free(answers_spare_take(a));
}

static void answers_wait_for_room(struct answers *a, struct answer *answer,
                                  const struct hf_completion_entry *entry)
{
    answer->entry = *entry;
    STAILQ_INSERT_TAIL(&a->waiting, answer, queue);
    answers_count_waiting(a, 1);
}

static bool answers_put_in_ring(struct answers *a, const struct hf_completion_entry *entry)
{
    struct hf_completion_entry cut;

    if (entry->text[sizeof(entry->text) - 2]) {
        cut = *entry;
        hf_text_cut(cut.text, sizeof(cut.text));
        entry = &cut;
    }
    if (hf_ring_put(a->ring, entry) < 0)
        return false;
    return a->posted = true;
}

/* Behind the completions that wait already. */
static bool answers_post(struct answers *a, const struct hf_completion_entry *entry)
{
    return STAILQ_EMPTY(&a->waiting) && answers_put_in_ring(a, entry);
}

void answers_put(struct answers *a, const struct hf_completion_entry *entry)
{
    struct answer *answer;

    answers_flush(a);
    if (!answers_post(a, entry)) {
        answer = answers_spare_take(a);
        if (!answer)
            answer = malloc(sizeof(*answer));
        if (answer)
            answers_wait_for_room(a, answer, entry);
    }
    answers_owe_no_more(a);
}

int answers_put_item(struct answers *a, const struct hf_completion_entry *entry)
{
    struct answer *answer;

    answers_flush(a);
    if (answers_has_place_for(a, a->owed + 1) && answers_post(a, entry))
        return HF_OK;
    answer = malloc(sizeof(*answer));
    if (!answer)
        return HF_ENOMEM;
    answers_wait_for_room(a, answer, entry);
    return HF_OK;
}

bool answers_take_hint(const struct answers *a)
{
    return answers_room_in(a) > HF_RING_ENTRIES / 2 && answers_has_place_for(a, a->owed + 1) &&
           STAILQ_EMPTY(&a->waiting);
}

bool answers_put_hint(struct answers *a, const struct hf_completion_entry *entry)
{
    return answers_take_hint(a) && answers_post(a, entry);
}

void answers_flush(struct answers *a)
{
    struct answer *answer;

    while ((answer = STAILQ_FIRST(&a->waiting)) && answers_put_in_ring(a, &answer->entry)) {
        STAILQ_REMOVE_HEAD(&a->waiting, queue);
        answers_count_waiting(a, -1);
        /* It took the room that was set aside for an answer. */
        if (answers_has_place_for(a, a->owed))
            free(answer);
        else
            answers_spare_add(a, answer);
    }
}
