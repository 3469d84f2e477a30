#include "agent/redis/script.h"

#include <pthread.h>
#include <string.h>

#include "agent/scripts.h"

#define COMMON (sizeof(script_common) - 1)

/* One buffer per script, just large enough for both parts. */
static char acquire[COMMON + sizeof(script_acquire)];
static char raise_[COMMON + sizeof(script_raise)];
static char heal[COMMON + sizeof(script_heal)];
static char renew[COMMON + sizeof(script_renew)];
static char release[COMMON + sizeof(script_release)];
static char sentinel[COMMON + sizeof(script_sentinel)];
static char fleet[COMMON + sizeof(script_fleet)];
static char query[COMMON + sizeof(script_query)];
static char listing[COMMON + sizeof(script_listing)];
static char force[COMMON + sizeof(script_force)];

static const struct {
    char *whole;
    const char *own;
    size_t own_size;
} scripts[SCRIPTS] = {
    [SCRIPT_ACQUIRE] = {acquire, script_acquire, sizeof(script_acquire)},
    [SCRIPT_RAISE] = {raise_, script_raise, sizeof(script_raise)},
    [SCRIPT_HEAL] = {heal, script_heal, sizeof(script_heal)},
    [SCRIPT_RENEW] = {renew, script_renew, sizeof(script_renew)},
    [SCRIPT_RELEASE] = {release, script_release, sizeof(script_release)},
    [SCRIPT_SENTINEL] = {sentinel, script_sentinel, sizeof(script_sentinel)},
    [SCRIPT_FLEET] = {fleet, script_fleet, sizeof(script_fleet)},
    [SCRIPT_QUERY] = {query, script_query, sizeof(script_query)},
    [SCRIPT_LISTING] = {listing, script_listing, sizeof(script_listing)},
    [SCRIPT_FORCE] = {force, script_force, sizeof(script_force)},
};

static void join_parts(void)
{
    for (int i = 0; i < SCRIPTS; i++) {
        memcpy(scripts[i].whole, script_common, COMMON);
        memcpy(scripts[i].whole + COMMON, scripts[i].own, scripts[i].own_size);
    }
}

const char *script_text(enum script script, size_t *ret_length)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, join_parts);
    *ret_length = COMMON + scripts[script].own_size - 1;
    return scripts[script].whole;
}
