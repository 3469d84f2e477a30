/* What the two tests of the table as an object share. */
#ifndef HOLDFAST_TESTS_TABLE_FIXTURE_H
#define HOLDFAST_TESTS_TABLE_FIXTURE_H

#include "shm_fixture.h"

/* One test's object: its name, what it is to be, and the last sentence of a failure. */
struct fixture {
    char name[HF_TABLE_NAME_MAX];
    char path[HF_TABLE_NAME_MAX + 16];
    struct hf_table_spec spec;
    char why[WHY_SIZE];
};

static inline struct fixture fixture_new(void)
{
    struct fixture f = {.spec = fixture_spec(16)};

    fixture_name(f.name);
    snprintf(f.path, sizeof(f.path), "/dev/shm%s", f.name);
    return f;
}

/* What hf_table_dry_run() says must be what hf_table_create() does, but where memory is short. */
static inline int create(struct fixture *f, struct hf_table *ret_table, bool *ret_warm)
{
    char looked[WHY_SIZE] = "";
    int look = hf_table_dry_run(f->name, &f->spec, looked, sizeof(looked)), status;

    f->why[0] = '\0';
    status = hf_table_create(f->name, &f->spec, ret_table, ret_warm, f->why, sizeof(f->why));
    if (status == HF_ETABLE)
        assert_int_equal(look, HF_ETABLE);
    if (status != 0)
        return status;
    assert_int_equal(look == 0, *ret_warm);
    if (look == HF_EVERSION)
        assert_string_equal(looked, f->why);
    return status;
}

static inline int open_it(struct fixture *f, struct hf_table *ret_table)
{
    f->why[0] = '\0';
    return hf_table_open(f->name, geteuid(), ret_table, f->why, sizeof(f->why));
}

static inline struct hf_table create_alive(struct fixture *f)
{
    struct hf_table table;
    bool warm = true;

    if (create(f, &table, &warm) != 0)
        fail_msg("%s", f->why);
    assert_false(warm);
    hf_table_set_state(&table, HF_TABLE_ALIVE);
    return table;
}

/* An agent that ended without a word. */
static inline void leave_behind(struct fixture *f)
{
    struct hf_table table = create_alive(f);

    hf_table_close(&table);
}

static inline void assert_says(const struct fixture *f, const char *part)
{
    if (!strstr(f->why, part))
        fail_msg("\"%s\" does not say \"%s\"", f->why, part);
    assert_null(strchr(f->why, '\n'));
}

static inline bool exists(const struct fixture *f)
{
    return access(f->path, F_OK) == 0;
}

#endif
