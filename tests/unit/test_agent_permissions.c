/* agent/process/singleton.h: what each step of a change gives to whom. The files' own system calls are recorded here
 * and not made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/agent.h"
#include "agent/process/singleton.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define TEST(name) static void name(void **state HF_UNUSED)
#define NO_GROUP   ((gid_t)-1)
#define STEPS_MAX  16

struct rights {
    mode_t mode;
    gid_t group;
};

/* Of the socket and of the table, from the first to the last. */
struct steps {
    struct rights at[STEPS_MAX];
    int count;
};

static struct steps of_socket, of_table;
static struct agent agent;

static struct rights *next(struct steps *steps)
{
    assert_in_range(steps->count, 1, STEPS_MAX - 1);
    steps->at[steps->count] = steps->at[steps->count - 1];
    return &steps->at[steps->count++];
}

int chown(const char *path, uid_t owner HF_UNUSED, gid_t group)
{
    assert_string_equal(path, agent.socket_path);
    next(&of_socket)->group = group;
    return 0;
}

int chmod(const char *path, mode_t mode)
{
    if (strcmp(path, agent.socket_path) == 0)
        next(&of_socket)->mode = mode;
    return 0; /* the directory: searched only */
}

int fchown(int fd, uid_t owner HF_UNUSED, gid_t group)
{
    assert_int_equal(fd, agent.table.fd);
    next(&of_table)->group = group;
    return 0;
}

int fchmod(int fd, mode_t mode)
{
    assert_int_equal(fd, agent.table.fd);
    next(&of_table)->mode = mode;
    return 0;
}

static mode_t has(const struct rights *rights, gid_t group)
{
    return (rights->group == group ? rights->mode >> 3 : rights->mode) & 7;
}

/* Neither a right that comes and goes, nor one that goes and comes. */
static void assert_steps(const struct steps *steps)
{
    const gid_t groups[] = {getegid(), getegid() + 1, getegid() + 2, getegid() + 3};
    const struct rights *first = &steps->at[0], *last = &steps->at[steps->count - 1];

    for (int i = 0; i < steps->count; i++)
        for (size_t g = 0; g < HF_LENGTH(groups); g++) {
            mode_t now = has(&steps->at[i], groups[g]), before = has(first, groups[g]),
                   after = has(last, groups[g]);

            assert_int_equal(now & ~(before | after), 0);
            assert_int_equal(before & after & ~now, 0);
        }
}

static struct rights rights_of(const struct config *c, mode_t mode)
{
    return (struct rights){.mode = mode, .group = c->group != NO_GROUP ? c->group : getegid()};
}

static void assert_change(const struct config *before, const struct config *after)
{
    char why[200];

    of_socket = (struct steps){.at = {rights_of(before, config_socket_mode(before))}, .count = 1};
    of_table = (struct steps){.at = {rights_of(before, before->table_mode)}, .count = 1};
    assert_int_equal(permissions_change(&agent, before, after, why, sizeof(why)), HF_OK);
    assert_int_equal(of_socket.at[of_socket.count - 1].mode, config_socket_mode(after));
    assert_int_equal(of_table.at[of_table.count - 1].mode, after->table_mode);
    assert_int_equal(of_table.at[of_table.count - 1].group, rights_of(after, 0).group);
    assert_steps(&of_socket);
    assert_steps(&of_table);
}

TEST(no_step_gives_more_than_before_or_after)
{
    const gid_t groups[] = {NO_GROUP, getegid() + 1, getegid() + 2};
    const mode_t modes[] = {0644, 0640, 0600};

    for (int system = 0; system < 2; system++)
        for (size_t i = 0; i < 9; i++)
            for (size_t j = 0; j < 9; j++) {
                const struct config before = {
                    .system = system, .group = groups[i / 3], .table_mode = modes[i % 3]};
                const struct config after = {
                    .system = system, .group = groups[j / 3], .table_mode = modes[j % 3]};

                if (i != j)
                    assert_change(&before, &after);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_step_gives_more_than_before_or_after),
    };

    snprintf(agent.socket_path, sizeof(agent.socket_path), "/run/holdfast/default/sock");
    agent.table.fd = 1000;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
