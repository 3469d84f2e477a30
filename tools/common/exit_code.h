/* The exit codes of every subcommand, in one place; docs/man/holdfast.1 lists them for users. */
#ifndef HOLDFAST_TOOLS_COMMON_EXIT_CODE_H
#define HOLDFAST_TOOLS_COMMON_EXIT_CODE_H

enum exit_code {
    EXIT_OK = 0,
    EXIT_NOT_HELD = 3,     /* check, show, release: nothing is held by that name */
    EXIT_ATTENTION = 3,    /* status, metrics, fleet, doctor: something is not as it should be */
    EXIT_UNKNOWN = 4,      /* check: cannot be told */
    EXIT_USAGE = 64,       /* bad option, name or value */
    EXIT_UNAVAILABLE = 69, /* no agent, too few voting nodes, drained, or the agent is full */
    EXIT_BUSY = 75,        /* held by another (-n), or the wait is over (-w) */
    EXIT_DENIED = 77,      /* not allowed */
    EXIT_CONFIG = 78,      /* this agent's constants differ from the fleet's */
    EXIT_LOST = 124,       /* run: the lease was lost and the job stopped */
    EXIT_FAILED = 125,     /* Holdfast itself failed */
    EXIT_CANNOT_RUN = 126, /* run: the command exists but cannot be executed */
    EXIT_NOT_FOUND = 127,  /* run: no such command */
    EXIT_BY_SIGNAL = 128   /* run: plus the signal's number */
};

/* The exit code for a HF_E* status of the library; EXIT_OK for HF_OK. */
int exit_code_of(int status);

#endif
