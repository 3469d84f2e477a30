/* A small table as its agent writes it and as others read it, and what is to be seen in it.
 * Include once, after cmocka.h. */
#ifndef HOLDFAST_TESTS_TORTURE_WORLD_H
#define HOLDFAST_TESTS_TORTURE_WORLD_H

#include "shm/compiler.h"
#include "shm/index.h"
#include "tests/torture/stores.h"
#include "tests/unit/shm_fixture.h"

#define CAPACITY  8
#define ROOM      80 /* with an index of twice the size */
#define NAMES_MAX 64

static struct hf_table table, reader; /* the agent's; read-only, as everybody else has it */
static struct hf_text_pool *pool;
static struct region whole;

/* What a lease is, by its generation: whoever reads one can tell whether all of it is of one. */
struct lease_fact {
    char name[HF_NAME_MAX + 1], note[HF_NOTE_MAX + 1];
    uint32_t slot, text_off;
};

static char names[NAMES_MAX][HF_NAME_MAX + 1]; /* all that are ever looked for */
static int name_count;

static HF_UNUSED void make_world(void)
{
    struct hf_table_spec spec = fixture_spec(CAPACITY);
    char shm_name[HF_TABLE_NAME_MAX], why[WHY_SIZE] = "";
    bool warm = true;

    spec.slot_room = ROOM;           /* all of it is kept after each store */
    spec.text_units = 32 * CAPACITY; /* a tenth of them there from the start */
    fixture_name(shm_name);
    if (hf_table_create(shm_name, &spec, &table, &warm, why, sizeof(why)) != 0)
        fail_msg("%s", why);
    hf_table_set_state(&table, HF_TABLE_ALIVE);
    if (hf_table_open(shm_name, geteuid(), &reader, why, sizeof(why)) != 0)
        fail_msg("%s", why);
    shm_unlink(shm_name);
    assert_int_equal(hf_text_pool_create(&table, &pool), 0);
    whole = (struct region){.at = table.header, .size = table.size};
    name_count = 0;
}

static HF_UNUSED void end_world(void)
{
    hf_text_pool_destroy(pool);
    hf_table_close(&reader);
    hf_table_close(&table);
}

/* --- leases whose every field follows from their generation ----------------------------------- */

static HF_UNUSED hf_time deadline_of(uint32_t generation)
{
    return (hf_time){(1000 + (int64_t)generation) * TICK};
}

static HF_UNUSED struct hf_slot_identity identity_of(uint32_t generation, const char *name,
                                                     uint32_t text_off, size_t note_len)
{
    return (struct hf_slot_identity){
        .generation = generation,
        .pid = generation * 3,
        .uid = generation * 5,
        .ttl_ms = generation * 7,
        .text_off = text_off,
        .name_len = (uint8_t)strlen(name),
        .note_len = (uint8_t)note_len,
        .comm_len = 4,
        .fence = (uint64_t)generation << 16,
        .since = {(int64_t)generation * 11},
    };
}

/* Text, slot and index of a lease, in the order of agent/broker/locks/names.c:name_publish. */
static HF_UNUSED uint32_t put_text(uint32_t generation, const char *name)
{
    char note[32];
    uint32_t off = 0;
    int len = snprintf(note, sizeof(note), "note %u", generation);

    assert_int_equal(hf_text_put(pool, name, strlen(name), note, (size_t)len, "comm", 4, &off), 0);
    return off;
}

static HF_UNUSED void publish(uint32_t slot, uint32_t generation, const char *name, uint32_t off)
{
    char note[32];
    int len = snprintf(note, sizeof(note), "note %u", generation);
    struct hf_slot_identity id = identity_of(generation, name, off, (size_t)len);

    hf_slot_publish(&table.slots[slot], &id, deadline_of(generation), 2);
}

static HF_UNUSED uint32_t hold(uint32_t slot, uint32_t generation, const char *name)
{
    uint32_t off = put_text(generation, name);

    publish(slot, generation, name, off);
    assert_int_equal(hf_index_add(&table, name, strlen(name), slot), 0);
    return off;
}

/* --- what is to be seen ----------------------------------------------------------------------- */

struct sight {
    uint64_t check[CAPACITY];
    bool odd[CAPACITY]; /* its sequence count */
    int status[CAPACITY];
    struct hf_slot_view view[CAPACITY];
    bool index_odd;
    int found[NAMES_MAX];
    uint32_t found_slot[NAMES_MAX];
};

static HF_UNUSED void look(struct sight *ret_sight)
{
    struct sight *s = ret_sight;

    memset(s, 0, sizeof(*s));
    for (uint32_t i = 0; i < CAPACITY; i++) {
        const struct hf_slot *slot = &reader.slots[i];

        s->check[i] = atomic_load_explicit(&slot->check, memory_order_acquire);
        s->odd[i] = atomic_load_explicit(&slot->seq, memory_order_acquire) & 1;
        s->status[i] = hf_slot_read(&reader, i, &s->view[i]);
    }
    s->index_odd = atomic_load_explicit(&reader.header->index_seq, memory_order_acquire) & 1;
    for (int n = 0; n < name_count; n++) {
        struct hf_slot_view view;

        s->found[n] = hf_index_find(&reader, names[n], strlen(names[n]), &view);
        s->found_slot[n] = s->found[n] == 0 ? view.slot : HF_SLOT_NONE;
        /* Whatever is killed where: what is found is what was looked for. */
        if (s->found[n] == 0 &&
            (view.name_len != strlen(names[n]) || memcmp(view.name, names[n], view.name_len) != 0))
            s->found[n] = 1;
    }
}

static HF_UNUSED bool same_view(const struct sight *a, const struct sight *b, uint32_t slot)
{
    const struct hf_slot_view *x = &a->view[slot], *y = &b->view[slot];

    if (a->status[slot] != b->status[slot])
        return false;
    return a->status[slot] != 0 ||
           (x->generation == y->generation && x->state == y->state && x->flags == y->flags &&
            x->reason == y->reason && x->votes == y->votes && x->deadline.ns == y->deadline.ns &&
            x->since.ns == y->since.ns && x->fence == y->fence && x->pid == y->pid &&
            x->uid == y->uid && x->ttl_ms == y->ttl_ms && x->name_len == y->name_len &&
            x->note_len == y->note_len && x->comm_len == y->comm_len &&
            memcmp(x->name, y->name, x->name_len) == 0 && strcmp(x->note, y->note) == 0 &&
            strcmp(x->comm, y->comm) == 0);
}

#endif
