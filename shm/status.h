/* Result codes, one list for agent, library and tools. A function returns 0
 * or one of these (negative).
 *
 * The public header carries the same numbers; tests/unit/test_status.c compares the two.
 */
#ifndef HOLDFAST_SHM_STATUS_H
#define HOLDFAST_SHM_STATUS_H

/*        name          value  text */
#define HF_STATUS_TABLE(X)                                                                         \
    X(HF_OK, 0, "success")                                                                         \
    /* what was asked for */                                                                       \
    X(HF_EINVAL, -101, "invalid argument")                                                         \
    X(HF_ENAME, -102, "name is empty, longer than 255 bytes, or reserved")                         \
    X(HF_ETTL, -103, "TTL is outside what the agent's timing allows")                              \
    X(HF_EPERM, -104, "not allowed")                                                               \
    /* somebody else has it, or the wait ended */                                                  \
    X(HF_EBUSY, -201, "held by another")                                                           \
    X(HF_ETIMEDOUT, -202, "the wait is over")                                                      \
    X(HF_ECANCELED, -203, "cancelled")                                                             \
    X(HF_EPENDING, -204, "not decided yet")                                                        \
    X(HF_EINTR, -205, "a signal handler ended the wait")                                           \
    X(HF_EDONE, -206, "it has run in this period")                                                 \
    X(HF_EDEADLK, -207, "this thread holds it, and would wait for itself")                         \
    /* the agent and its nodes */                                                                  \
    X(HF_ENOAGENT, -301, "no agent answers")                                                       \
    X(HF_ESHUTDOWN, -302, "the agent is going away")                                               \
    X(HF_ENOQUORUM, -303, "too few nodes may vote")                                                \
    X(HF_EFLEET, -304, "this agent's constants differ from the fleet's")                           \
    X(HF_EFULL, -305, "the agent's capacity is used up")                                           \
    X(HF_ELIMIT, -306, "this user's limit is used up")                                             \
    X(HF_EVERSION, -307, "client and agent are of different versions")                             \
    X(HF_ETIMENS, -308, "client and agent are in different time namespaces")                       \
    X(HF_EPROTO, -309, "the other side broke the protocol")                                        \
    X(HF_ETABLE, -310, "the table is not usable")                                                  \
    X(HF_EDRAINED, -311, "this host's agent is drained: it grants nothing new")                    \
    /* a lease */                                                                                  \
    X(HF_ELOST, -401, "the lease is lost")                                                         \
    X(HF_ENOTHELD, -402, "nothing is held by that name or handle")                                 \
    X(HF_EFORKED, -403, "the handle belongs to the process before fork")                           \
    /* the system */                                                                               \
    X(HF_ENOMEM, -501, "out of memory")                                                            \
    X(HF_ESYS, -502, "a system call failed")

#ifndef HOLDFAST_H /* libclient/holdfast.h, which has the same */
enum hf_status {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): an enumerator takes none. */
#define HF_STATUS_ENUM(name, value, text) name = value,
    HF_STATUS_TABLE(HF_STATUS_ENUM)
#undef HF_STATUS_ENUM
};
#endif

/* The text of a code; "unknown status" for any other number. Static
 * storage, any thread, any time. */
const char *hf_status_text(int status);

#endif
