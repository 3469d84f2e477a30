/* What the tests of shm/ share: names of their own, small tables, texts that can be told apart. */
#ifndef HOLDFAST_TESTS_SHM_FIXTURE_H
#define HOLDFAST_TESTS_SHM_FIXTURE_H

#include <fcntl.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shm/slot.h"
#include "shm/status.h"
#include "shm/table.h"
#include "tests/support/scratch.h"

#define WHY_SIZE 400

/* One step of a check word's deadline, and some deadline. */
#define TICK             (INT64_C(1) << HF_CHECK_TIME_SHIFT)
#define FIXTURE_DEADLINE ((hf_time){1000 * TICK})

/* "/holdfast.test-TAG-PID-RANDOM": two runs side by side never meet. */
static inline void fixture_name(char name[HF_TABLE_NAME_MAX])
{
    char agent[HF_AGENT_NAME_MAX + 1];
    uint32_t noise = 0;

    assert_int_equal(getrandom(&noise, sizeof(noise), 0), sizeof(noise));
    scratch_name(agent, sizeof(agent), "test");
    snprintf(agent + strlen(agent), sizeof(agent) - strlen(agent), "-%08x", noise);
    assert_int_equal(hf_table_name(agent, true, 0, name), 0);
}

#define FIXTURE_ROOM 65536 /* slots: a smaller table than an agent's, that can be copied */

static inline struct hf_table_spec fixture_spec(uint32_t capacity)
{
    return (struct hf_table_spec){
        .agent_name = "test",
        .capacity = capacity,
        .slot_room = FIXTURE_ROOM,
        .nodes = 3,
        .quorum = 2,
        .ttl_ms = 30000,
        .ttl_max_ms = 60000,
        .mode = 0644,
        .group = (gid_t)-1,
        .version = "0.1.0",
        .boot_id = {1, 2, 3, 4},
        .timens_inode = 4026531834,
    };
}

/* A table in use, under a name that is gone already: nothing is left behind whatever a test does.
 */
static inline struct hf_table fixture_table(uint32_t capacity)
{
    struct hf_table_spec spec = fixture_spec(capacity);
    char name[HF_TABLE_NAME_MAX], why[WHY_SIZE] = "";
    struct hf_table table;
    bool warm = true;

    fixture_name(name);
    if (hf_table_create(name, &spec, &table, &warm, why, sizeof(why)) != 0)
        fail_msg("%s", why);
    assert_false(warm);
    shm_unlink(name);
    hf_table_set_state(&table, HF_TABLE_ALIVE);
    return table;
}

/* Puts a lease of generation `generation` on a slot; every field can be computed from that number.
 */
static inline void fixture_publish(struct hf_table *table, uint32_t slot, uint32_t text_off,
                                   const char *name, uint32_t generation, hf_time deadline)
{
    const struct hf_slot_identity id = {
        .generation = generation,
        .pid = generation * 3,
        .uid = generation * 5,
        .ttl_ms = generation * 7,
        .text_off = text_off,
        .name_len = (uint8_t)strlen(name),
        .fence = (uint64_t)generation << 16,
        .since = {(int64_t)generation * 11},
    };

    hf_slot_publish(&table->slots[slot], &id, deadline, 2);
}

/* In a forked child cmocka's own assertions would go on with the parent's tests. */
#define CHILD_CHECK(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: in the child: %s\n", __FILE__, __LINE__, #condition);          \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define CHILD_SKIPS 77

/* The child's exit code; -1 if a signal ended it. */
static inline int fixture_wait(pid_t child)
{
    int status = 0;

    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What the kernel does when the agent ends: nothing tells any more that it lives. */
static inline void its_agent_ends(const struct hf_table *table)
{
    const struct flock none = {.l_type = F_UNLCK, .l_whence = SEEK_SET};

    assert_int_equal(fcntl(table->fd, F_OFD_SETLK, &none), 0);
}

#endif
