/* A journal found or made at once, without the table between. */
#ifndef HOLDFAST_TESTS_SUPPORT_JOURNAL_H
#define HOLDFAST_TESTS_SUPPORT_JOURNAL_H

#include "agent/state/journal.h"

static inline int journal_open(const char *dir, uint32_t capacity, int nodes, const char *list_hash,
                               const struct boot_clock *clock, struct journal **ret_journal,
                               uint32_t *ret_found, char *why, size_t why_size)
{
    struct journal *journal;
    uint32_t found;
    int rc = journal_find(dir, capacity, nodes, list_hash, clock, &journal, &found, why, why_size);

    if (rc < 0)
        return rc;
    rc = journal_make(journal, capacity, why, why_size);
    if (rc < 0) {
        journal_close(journal);
        return rc;
    }
    *ret_journal = journal;
    *ret_found = found;
    return 0;
}

#endif
