/* The Lua scripts of agent/scripts, as they are sent to a node (cmake/EmbedScripts.cmake). Any thread. */
#ifndef HOLDFAST_AGENT_REDIS_SCRIPT_H
#define HOLDFAST_AGENT_REDIS_SCRIPT_H

#include <stddef.h>

enum script {
    SCRIPT_ACQUIRE,
    SCRIPT_RAISE,
    SCRIPT_HEAL,
    SCRIPT_RENEW,
    SCRIPT_RELEASE,
    SCRIPT_SENTINEL,
    SCRIPT_FLEET,
    SCRIPT_QUERY, /* from here on: of no lease of this agent */
    SCRIPT_LISTING,
    SCRIPT_FORCE,
    SCRIPT_ONCE,
    SCRIPTS
};

#define SCRIPT_SHA_LEN 40 /* hex characters */

/* The whole text; static storage, never NULL. */
const char *script_text(enum script script, size_t *ret_length);

#endif
