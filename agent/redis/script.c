#include "agent/redis/script.h"

#include "agent/scripts.h"

static const struct {
    const char *text;
    size_t size;
} scripts[SCRIPTS] = {
    [SCRIPT_ACQUIRE] = {script_acquire, sizeof(script_acquire)},
    [SCRIPT_RAISE] = {script_raise, sizeof(script_raise)},
    [SCRIPT_HEAL] = {script_heal, sizeof(script_heal)},
    [SCRIPT_RENEW] = {script_renew, sizeof(script_renew)},
    [SCRIPT_RELEASE] = {script_release, sizeof(script_release)},
    [SCRIPT_SENTINEL] = {script_sentinel, sizeof(script_sentinel)},
    [SCRIPT_FLEET] = {script_fleet, sizeof(script_fleet)},
    [SCRIPT_QUERY] = {script_query, sizeof(script_query)},
    [SCRIPT_LISTING] = {script_listing, sizeof(script_listing)},
    [SCRIPT_FORCE] = {script_force, sizeof(script_force)},
    [SCRIPT_ONCE] = {script_once, sizeof(script_once)},
};

const char *script_text(enum script script, size_t *ret_length)
{
    *ret_length = scripts[script].size - 1;
    return scripts[script].text;
}
