#include "tests/torture/agent_recover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/broker/broker.h"
#include "agent/broker/clients/clients.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/names.h"
#include "agent/broker/rooms.h"
#include "agent/base/clock.h"
#include "agent/core/timing.h"
#include "agent/base/log.h"
#include "agent/renewal/renewal_internal.h"
#include "agent/state/stores.h"
#include "shm/index.h"
#include "shm/status.h"

/* What the killed one left. */
struct left {
    int kept; /* of journal_get() */
    struct journal_identity id;
    struct journal_lease rec;
    uint32_t generation; /* the highest that anybody was ever shown */
    uint64_t word;
};

static struct agent agent;
static struct left left[SLOTS_MAX];
static hf_time began;

static void must(int rc, const char *what, const char *why)
{
    if (rc == HF_OK)
        return;
    fprintf(stderr, "recovery: %s: %s %s\n", what, hf_status_text(rc), why);
    _exit(3);
}

static void remember(const struct judge *j)
{
    for (uint32_t slot = 0; slot < j->config.capacity; slot++) {
        const struct hf_slot *s = &j->reader.slots[slot];
        struct left *l = &left[slot];

        l->kept = journal_get(j->journal, slot, &l->id, &l->rec);
        l->word = atomic_load(&s->check);
        l->generation = j->scribbled ? 0 : (uint32_t)(l->word >> HF_CHECK_GEN_SHIFT);
        if (l->kept == HF_OK && l->rec.generation > l->generation)
            l->generation = l->rec.generation;
    }
}

void recover(struct judge *j)
{
    struct message *m;
    char why[400] = "";

    remember(j);
    journal_shown_in(j->journal, hf_table_id(&j->reader)); /* a copy, which stands for the table */
    began = clock_now();
    log_init(LOG_LEVEL_ERROR);
    rcu_register_thread();
    agent = (struct agent){.config = &j->config,
                           .timens_inode = j->host.timens_inode,
                           .pidns_inode = j->host.pidns_inode};
    agent.clock = j->host.clock;
    memcpy(agent.shm_name, j->copy_shm, sizeof(agent.shm_name));
    must(stores_open(&agent, j->copy_dir, why, sizeof(why)), "stores_open", why);
    must(lease_table_create(j->config.capacity, &agent.leases), "lease_table_create", "");
    must(renewal_create(&agent, &agent.renewal), "renewal_create", "");
    must(broker_create(&agent, &agent.broker), "broker_create", "");
    while ((m = mailbox_take(&agent.to_renewal))) {
        if (m->kind == MSG_GRANTED)
            renewal_adopt(agent.renewal, m->lease, clock_now());
        free(m);
    }
    hf_table_set_state(&agent.table, HF_TABLE_ALIVE);
}

/* --- judging ---------------------------------------------------------------------------------- */

/* Killed between an extension in the journal and its check word, an agent leaves a word that ends
 * earlier: readers may have seen it end. */
static hf_time valid_of(const struct judge *j, const struct left *l)
{
    hf_time valid, shown;

    if (l->kept != HF_OK)
        return HF_TIME_PAST;
    valid = validity_qth(l->rec.d, j->n, j->q);
    shown.ns = (int64_t)((l->word & HF_CHECK_TIME_MASK) << HF_CHECK_TIME_SHIFT);
    if (l->word >> HF_CHECK_GEN_SHIFT == l->rec.generation && hf_time_before(shown, valid))
        return shown;
    return valid;
}

/* Whether V came about while it recovered: nobody can say what it found then. */
static bool at_its_end(const struct judge *j, const struct left *l)
{
    hf_time valid = valid_of(j, l);

    return hf_time_reached(valid, began) &&
           hf_time_before(valid, hf_time_add(clock_now(), hf_ms(500)));
}

/* Of a run also without its process: its tree may live. */
static bool must_stand(const struct judge *j, const struct left *l)
{
    return l->kept == HF_OK && journal_is_held(l->rec.state) && l->rec.slot_state != HF_SLOT_LOST &&
           hf_time_before(clock_now(), valid_of(j, l)) &&
           (l->id.who.is_job || client_lives(l->id.who.pid, l->id.who.birth));
}

static void judge_taken_up(struct judge *j, uint32_t slot, const struct left *l, uint64_t word)
{
    struct hf_slot_view view;
    uint64_t most = hf_check_pack(l->rec.generation, validity_qth(l->rec.d, j->n, j->q));
    struct lease *lease;

    if (word >> HF_CHECK_GEN_SHIFT != l->rec.generation)
        judge_says(j, "slot %u: held by a living process, and not readopted", slot);
    else if (word > most)
        judge_says(j, "slot %u: readopted for longer than the nodes said", slot);
    else if (hf_index_find(&j->reader, l->id.name, l->id.name_len, &view) != HF_OK ||
             view.slot != slot || view.generation != l->rec.generation ||
             view.pid != l->id.who.pid || view.fence != l->rec.fence ||
             !(view.flags & HF_SLOT_F_READOPTED))
        judge_says(j, "slot %u: readopted, and not to be found by its name as it was", slot);
    lease_read_begin();
    lease = lease_table_at(agent.leases, slot);
    if (!lease || lease->name_len != l->id.name_len ||
        memcmp(lease_name(lease), l->id.name, lease->name_len) != 0 ||
        memcmp(&lease->token, &l->id.token, sizeof(lease->token)) != 0)
        judge_says(j, "slot %u: readopted, and not in the lease table", slot);
    lease_read_end();
}

/* Nobody believes in it, and its token is going to be released. */
static void judge_over(struct judge *j, uint32_t slot, const struct left *l, uint64_t word)
{
    const struct name *name = agent.broker->locks->by_slot[slot];
    struct journal_identity id;
    struct journal_lease rec;

    if (word != 0)
        judge_says(j, "slot %u: over, and its word stands", slot);
    if (l->kept != HF_OK)
        return;
    if (journal_get(agent.journal, slot, &id, &rec) != HF_OK ||
        (rec.state != JOURNAL_ENDING &&
         (rec.state != JOURNAL_HELD || rec.slot_state != HF_SLOT_LOST)))
        judge_says(j, "slot %u: over, and the journal does not have its release", slot);
    if (!name || !name->undoing)
        judge_says(j, "slot %u: over, and nobody releases its token", slot);
}

/* No two texts share a unit. */
static void judge_texts(struct judge *j)
{
    bool taken[SLOTS_MAX * 16] = {false};

    for (uint32_t slot = 0; slot < j->config.capacity; slot++) {
        struct hf_slot_view view;
        uint32_t off = atomic_load(&j->reader.slots[slot].text_off), units;

        if (hf_slot_read(&j->reader, slot, &view) != HF_OK)
            continue;
        units = (uint32_t)(view.name_len + view.note_len + view.comm_len + HF_TEXT_UNIT - 1) /
                HF_TEXT_UNIT;
        for (uint32_t u = off; u < off + units && u < HF_LENGTH(taken); u++) {
            if (taken[u])
                judge_says(j, "slot %u: its text lies in another's", slot);
            taken[u] = true;
        }
    }
}

void recover_judge(struct judge *j)
{
    if (!agent.warm)
        judge_says(j, "the table was not kept");
    for (uint32_t slot = 0; slot < j->config.capacity; slot++) {
        const struct hf_slot *s = &j->reader.slots[slot];
        const struct left *l = &left[slot];
        uint64_t word = atomic_load(&s->check);
        struct hf_slot_view view, found;

        if (j->words.over[slot] != 0 && word >> HF_CHECK_GEN_SHIFT == j->words.over[slot])
            judge_says(j, "slot %u: the word of generation %u stands again", slot,
                       j->words.over[slot]);
        if (atomic_load(&s->seq) & 1)
            judge_says(j, "slot %u is odd", slot);
        if (agent.broker->locks->generations[slot] < l->generation)
            judge_says(j, "slot %u: generation %u would be used again", slot, l->generation);
        if (at_its_end(j, l))
            continue;
        if (must_stand(j, l) && (word != 0 || !j->scribbled))
            judge_taken_up(j, slot, l, word);
        else
            judge_over(j, slot, l, word);
        if (hf_slot_read(&j->reader, slot, &view) == HF_OK &&
            (hf_index_find(&j->reader, view.name, view.name_len, &found) != HF_OK ||
             found.slot != slot))
            judge_says(j, "slot %u: its name is not found", slot);
    }
    judge_texts(j);
}
