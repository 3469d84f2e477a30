/* Standard input of `holdfast hold`: as long as it is open, the lock is wanted. What comes on it is read and thrown away. */
#ifndef HOLDFAST_TOOLS_RUN_INPUT_H
#define HOLDFAST_TOOLS_RUN_INPUT_H

#include <stdbool.h>
#include <stdint.h>

struct input {
    int fd; /* to poll for input; -1: not now */
    bool socket, terminal;
    bool process; /* `fd` is a pidfd, of the process that called this one */
    bool some;    /* something came; the reader of this sets it false */
    bool ended;
};

/* Takes standard input, or, with `no_stdin`, watches the parent process instead. EXIT_OK, or the exit code after a message: an
 * input that is at its end from the start, such as /dev/null, would have the lock released at once. */
int input_open(struct input *input, bool no_stdin);

/* Reads what is there; true when it has ended. Never blocks. */
bool input_look(struct input *input);

/* Whether the terminal's signals reach a process that has the other end, too. */
bool input_is_of_another(const struct input *input);

/* Before each poll(): when a terminal that has other processes in its foreground has to be looked at again, INT64_MAX: not. */
int64_t input_prepare(struct input *input, int64_t now_ns);

#endif
