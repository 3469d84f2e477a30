#include "agent/process/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Landlock's rights by the version of its interface that has them first; linux/landlock.h may be older than the kernel. */
#define CONFINE_REFER    (1ULL << 13) /* 2 */
#define CONFINE_TRUNCATE (1ULL << 14) /* 3 */

#define CONFINE_MAKE                                                                               \
    (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |    \
     LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK | \
     LANDLOCK_ACCESS_FS_MAKE_SYM)
#define CONFINE_REMOVE (LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR)

/* Reading stays free: a reload may name any file of a password or certificate. */
#define CONFINE_HANDLED                                                                            \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | CONFINE_MAKE | CONFINE_REMOVE |  \
     CONFINE_REFER | CONFINE_TRUNCATE)

/* Files and sockets of its own: made, written, replaced, removed. */
#define CONFINE_OWN                                                                                \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |  \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | CONFINE_TRUNCATE)

struct confine_why {
    char *text;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static void confine_say(struct confine_why *why,
                                                              const char *format, ...)
{
    size_t at = strlen(why->text);
    va_list args;

    if (at && at + 2 < why->size)
        at += (size_t)snprintf(why->text + at, why->size - at, ", ");
    va_start(args, format);
    (void)vsnprintf(why->text + at, why->size - at, format, args);
    va_end(args);
}

/* --- capabilities ----------------------------------------------------------------------------- */

/* A root's agent keeps what a reload needs: the group of socket and table, and files that another user owns. */
static uint32_t confine_kept(const struct confine *c)
{
    uint32_t kept = 0;

    if (c->lock_memory)
        kept |= CAP_TO_MASK(CAP_IPC_LOCK);
    if (c->priority)
        kept |= CAP_TO_MASK(CAP_SYS_NICE);
    if (geteuid() == 0)
        kept |= CAP_TO_MASK(CAP_CHOWN) | CAP_TO_MASK(CAP_DAC_READ_SEARCH);
    return kept; /* all are among the first 32 */
}

static void confine_capabilities(const struct confine *c, struct confine_why *why)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    uint32_t kept = confine_kept(c);

    if (syscall(SYS_capget, &header, data) < 0) {
        confine_say(why, "capabilities (%s)", strerror(errno));
        return;
    }
    if (!(data[0].permitted & ~kept) && !data[1].permitted)
        return; /* the unit leaves none, and forbids the call */
    data[0].permitted &= kept;
    data[0].effective &= kept;
    data[0].inheritable = 0;
    data[1] = (struct __user_cap_data_struct){0};
    if (syscall(SYS_capset, &header, data) < 0)
        confine_say(why, "capabilities (%s)", strerror(errno));
}

/* --- Landlock --------------------------------------------------------------------------------- */

static int confine_below(int rules, const char *path, uint64_t rights)
{
    struct landlock_path_beneath_attr rule = {.allowed_access = rights};
    int rc;

    rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
    if (rule.parent_fd < 0)
        return -1;
    rc = (int)syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    close(rule.parent_fd);
    return rc;
}

static int confine_directories(int rules, const struct confine *c, uint64_t handled)
{
    char parent[4096];

    (void)snprintf(parent, sizeof(parent), "%s/..", c->base);
    return confine_below(rules, parent, LANDLOCK_ACCESS_FS_REMOVE_DIR) < 0 ||
                   confine_below(rules, c->dir, CONFINE_OWN & handled) < 0 ||
                   confine_below(rules, "/dev/shm", CONFINE_OWN & handled) < 0
               ? -1
               : 0;
}

static void confine_files(const struct confine *c, struct confine_why *why)
{
    struct landlock_ruleset_attr attr = {.handled_access_fs = CONFINE_HANDLED};
    int rules, version = (int)syscall(SYS_landlock_create_ruleset, NULL, 0,
                                      LANDLOCK_CREATE_RULESET_VERSION);

    if (version < 0) {
        confine_say(why, "Landlock (%s)", strerror(errno));
        return;
    }
    if (version < 2)
        attr.handled_access_fs &= ~CONFINE_REFER;
    if (version < 3)
        attr.handled_access_fs &= ~CONFINE_TRUNCATE;
    rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    if (rules < 0 || confine_directories(rules, c, attr.handled_access_fs) < 0 ||
        syscall(SYS_landlock_restrict_self, rules, 0) < 0)
        confine_say(why, "Landlock (%s)", strerror(errno));
    if (rules >= 0)
        close(rules);
}

/* --- all of it -------------------------------------------------------------------------------- */

void confine(const struct confine *c, char *text, size_t size)
{
    struct confine_why why = {text, size};
    int rc;

    text[0] = '\0';
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        confine_say(&why, "no new privileges (%s)", strerror(errno));
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    confine_capabilities(c, &why);
    confine_files(c, &why);
    rc = confine_calls();
    if (rc < 0)
        confine_say(&why, "seccomp (%s)", strerror(-rc));
}
