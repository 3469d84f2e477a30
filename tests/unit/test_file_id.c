/* shm/process.h: which file an open one is. A copy is another one, also where file system and inode have the same numbers. */
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "shm/process.h"
#include "tests/unit/shm_fixture.h"

#define CHILD_SKIPS 77
#define TRIES       200

static char dir[64];

static int set_up(void **state)
{
    (void)state;
    scratch_path_tmpfs(dir, sizeof(dir));
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(dir);
}

/* Where a child has its mounts no assertion of cmocka's is heard. */
#define MUST(what)                                                                                 \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "line %d: %s\n", __LINE__, #what);                                     \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static int open_in(const char *name)
{
    char path[96];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    MUST(fd >= 0);
    return fd;
}

static struct hf_file_id id_in(const char *name)
{
    struct hf_file_id id;
    int fd = open_in(name);

    MUST(hf_file_id(fd, &id) == 0);
    close(fd);
    return id;
}

static void remove_in(const char *name)
{
    char path[96];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    unlink(path);
}

static bool same(const struct hf_file_id *a, const struct hf_file_id *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static void a_file_stays_the_same_whatever_is_done_to_it(void **state)
{
    struct hf_file_id made = id_in("one"), now;
    char one[96], two[96];
    int fd = open_in("one");

    (void)state;
    snprintf(one, sizeof(one), "%s/one", dir);
    snprintf(two, sizeof(two), "%s/two", dir);
    assert_int_equal(write(fd, "more", 4), 4);
    assert_int_equal(fchmod(fd, 0640), 0);
    close(fd);
    assert_int_equal(rename(one, two), 0);
    now = id_in("two");
    assert_true(same(&now, &made));
    assert_int_not_equal(made.inode, 0);
    remove_in("two");
}

/* (!) Also of the same tick of the clock. */
static void one_beside_it_is_another(void **state)
{
    bool twins = false;

    (void)state;
    for (int i = 0; i < TRIES && !twins; i++) {
        struct hf_file_id made = id_in("one"), copy = id_in("two");

        assert_false(same(&copy, &made));
        twins = copy.born_ns == made.born_ns;
        remove_in("one");
        remove_in("two");
    }
    assert_true(twins);
}

/* Whether the kernel tells births of tmpfs. */
static bool births_are_known(void)
{
    struct statx sx;
    int fd = open_in("one");

    MUST(statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &sx) == 0);
    close(fd);
    return sx.stx_mask & STATX_BTIME;
}

static bool mount_fresh(void)
{
    return mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=0700") == 0;
}

/* (!) A fresh tmpfs begins with the same inode: of files that are born in the same tick only the file system tells. The kernel
 * uses the number of one that is gone again: then only the birth does. */
static void on_fresh_file_systems(void)
{
    struct hf_file_id first, again;
    bool reused = false, twins = false, births;

    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        !mount_fresh())
        _exit(CHILD_SKIPS);
    births = births_are_known();
    for (int i = 0; i < TRIES && !twins; i++) {
        MUST(umount(dir) == 0 && mount_fresh());
        first = id_in("one");
        MUST(mount_fresh()); /* over it: both are there */
        again = id_in("one");
        MUST(again.inode == first.inode && !same(&again, &first));
        MUST(umount(dir) == 0);
        twins = again.born_ns == first.born_ns;
    }
    MUST(twins);
    for (int i = 0; i < TRIES && !reused; i++) {
        MUST(umount(dir) == 0 && mount_fresh());
        usleep(20000); /* the clock of births has ticks */
        again = id_in("one");
        reused = again.device == first.device && again.inode == first.inode;
        MUST(!births || !same(&again, &first));
    }
    _exit(0);
}

static void the_same_numbers_on_another_file_system_are_another(void **state)
{
    pid_t pid = fork();
    int code;

    (void)state;
    if (pid == 0)
        on_fresh_file_systems();
    code = fixture_wait(pid);
    if (code == CHILD_SKIPS)
        skip();
    assert_int_equal(code, 0);
}

static void where_births_are_not_known_the_numbers_decide(void **state)
{
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    struct hf_file_id id = {.born_ns = 1};

    (void)state;
    assert_int_equal(hf_file_id(fd, &id), 0);
    assert_int_equal(id.born_ns, 0);
    assert_int_not_equal(id.inode, 0);
    close(fd);
    assert_int_equal(hf_file_id(-1, &id), HF_ESYS);
    assert_int_equal(errno, EBADF);
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(a_file_stays_the_same_whatever_is_done_to_it),
        ROW(one_beside_it_is_another),
        ROW(the_same_numbers_on_another_file_system_are_another),
        ROW(where_births_are_not_known_the_numbers_decide),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
