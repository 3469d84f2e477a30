#include "agent/core/name_step.h"

#include "shm/assert.h"

enum name_step name_step(const struct name_facts *f)
{
    hf_assert(!f->barred || f->undoing, "barred, and nothing is undone");
    hf_assert(!f->held || (!f->undoing && !f->asking), "held, undoing %d, asking %d", f->undoing,
              f->asking);
    hf_assert(!f->asking || !f->undoing, "asking, and undoing");
    if (f->drained && f->waited_for)
        return NAME_DRAINED;
    if (f->held)
        return NAME_HELD;
    if (!f->waited_for)
        return NAME_REST;
    if (f->barred)
        return NAME_BARRED;
    if (f->asking || f->undoing)
        return NAME_WAIT;
    /* A try does not wait for the next one: it makes a round begin, which still belongs to the first waiter. */
    if (f->waits && !f->tried)
        return NAME_WAIT;
    /* (!) After this host had its own turn. A try behind a waiter gains nothing by haste. */
    if (f->yields)
        return NAME_YIELD;
    if (f->foreign)
        return NAME_FOREIGN;
    return f->quorum ? NAME_ASK : NAME_STALL;
}
