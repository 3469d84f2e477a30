#include "tests/sim/instants.h"

#include <string.h>

#include "agent/core/fleet_record.h"
#include "shm/status.h"
#include "tests/sim/host.h"
#include "tests/sim/liars.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wide.h"

#define MOST 32 /* changes of a schedule */

static char had[MOST][FLEET_DIGEST_LEN + 1]; /* of the complete records that may be */
static int count;

void instants_begin(void)
{
    count = 0;
}

/* The digest of the complete one that it becomes. */
static void becomes(const struct fleet_record *r, char ret_digest[FLEET_DIGEST_LEN + 1])
{
    struct fleet_record complete = *r;

    complete.state = FLEET_COMPLETE;
    for (int i = 0; i < complete.before_count; i++)
        complete.before[i].gone = false;
    fleet_record_own_digest(&complete, ret_digest);
}

static bool read(const struct vnode *node, struct fleet_record *ret)
{
    const char *text = vnode_field(node, "record");

    return text && fleet_record_read(text, strlen(text), ret) == HF_OK && ret->version > 1;
}

static bool has(const struct fleet_seat *seat, const char *digest)
{
    struct fleet_record r;
    char of[FLEET_DIGEST_LEN + 1];
    const struct vnode *node = vnode_of_seat(seat->address);

    if (!node || liars_is_one(node))
        return node != NULL; /* there may be nobody where a lie leads to */
    if (!read(node, &r))
        return false;
    becomes(&r, of);
    return strcmp(of, digest) == 0;
}

static bool is_known(const char *digest)
{
    for (int i = 0; i < count; i++)
        if (strcmp(had[i], digest) == 0)
            return true;
    return false;
}

void instants_put(const struct vnode *node)
{
    struct fleet_record r;
    char digest[FLEET_DIGEST_LEN + 1];

    if (!wide_has(WIDE_CHANGES) || count == MOST || !read(node, &r) || r.state != FLEET_CHANGING)
        return;
    becomes(&r, digest);
    if (is_known(digest))
        return;
    for (int i = 0; i < r.before_count; i++)
        if (!r.before[i].gone && !has(&r.before[i], digest))
            return;
    memcpy(had[count++], digest, sizeof(digest));
}

void instants_check(const struct sim_host *host, const struct fleet_record *r)
{
    char digest[FLEET_DIGEST_LEN + 1];

    if (r->version == 1 || r->state != FLEET_COMPLETE || count == MOST)
        return;
    fleet_record_own_digest(r, digest);
    if (!is_known(digest))
        sim_violation("instant",
                      "h%d goes by version %d as complete, and never had all members the change",
                      host->number, (int)r->version);
}
