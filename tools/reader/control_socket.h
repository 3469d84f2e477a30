/* Requests to an agent over its control socket, DIR/control: one line, and an answer in text
 * (agent/process/control.h). One thread. */
#ifndef HOLDFAST_TOOLS_READER_CONTROL_SOCKET_H
#define HOLDFAST_TOOLS_READER_CONTROL_SOCKET_H

#include <stddef.h>

#include "tools/reader/places.h"

#define CONTROL_REQUEST_MOST 2046      /* bytes of a line that an agent reads */
#define CONTROL_REFUSED      "error: " /* begins the answer to a request that the agent refuses */

struct control_request {
    const char *line;    /* without its newline */
    const char *purpose; /* "only root and the agent's own user may ...": "reload it" */
    int patience_s;
};

/* Asks the agent of one place. EXIT_OK: its whole answer is in `ret_answer`, and ends with a newline. Otherwise, with a sentence in
 * `why`: EXIT_UNAVAILABLE: no agent is there, or none answers; EXIT_DENIED. */
int control_ask_at(const struct place *place, const struct control_request *request,
                   char *ret_answer, size_t size, char *why, size_t why_size);

/* The same for the first of the places where an agent is; `agent` as of places_find(). EXIT_USAGE: no agent has such a name. */
int control_ask(const char *agent, const struct control_request *request, struct place *ret_place,
                char *ret_answer, size_t size, char *why, size_t why_size);

#endif
