/* The guard against arrays of any length: hiredis makes room for as many elements as a peer
 * announces, so each reader puts its own createArray before hiredis' and refuses more than these. */
#ifndef HOLDFAST_AGENT_REDIS_ELEMENTS_H
#define HOLDFAST_AGENT_REDIS_ELEMENTS_H

#include <stddef.h>

#include <hiredis/hiredis.h>

#define ELEMENTS_MAX 1024 /* no answer to our commands, and no notice, has more */

/* createArray's second parameter. */
#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

#endif
