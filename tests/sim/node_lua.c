/* The shipped scripts in Lua 5.1, as Redis runs them: `redis.call`, `redis.pcall`, `redis.sha1hex`,
 * KEYS and ARGV, and one TIME per run. Compiled once per process. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "agent/redis/script.h"
#include "tests/sim/checks.h"
#include "tests/sim/instants.h"
#include "tests/sim/watches.h"
#include "tests/sim/vnode.h"

#define LUA_HEAP ((size_t)16 << 20)

static lua_State *lua;
static int functions[SCRIPTS];

static struct { /* the running one */
    struct vnode *node;
    const struct sim_message *message;
    int64_t now_us;
} run;

static int64_t now_ms(void)
{
    return run.now_us / 1000;
}

/* --- commands --------------------------------------------------------------------------------- */

static int push_status(const char *text)
{
    lua_createtable(lua, 0, 1);
    lua_pushstring(lua, text);
    lua_setfield(lua, -2, "ok");
    return 1;
}

static int push_error(const char *text)
{
    lua_createtable(lua, 0, 1);
    lua_pushstring(lua, text);
    lua_setfield(lua, -2, "err");
    return -1;
}

static int wrong_type(void)
{
    return push_error("WRONGTYPE Operation against a key holding the wrong kind of value");
}

static const char *arg(int i)
{
    return luaL_checkstring(lua, i);
}

static struct store_key *find(void)
{
    return store_find(&run.node->store, arg(2), now_ms());
}

/* By a command that reads: the node watches it for who asked for that. */
static struct store_key *find_argument(int i)
{
    struct sim_connection *reader = run.message->connection;

    if (reader && reader->caching)
        watches_read(run.node, reader, arg(i));
    return store_find(&run.node->store, arg(i), now_ms());
}

static struct store_key *find_to_read(void)
{
    return find_argument(2);
}

static void changed(void)
{
    watches_changed(run.node, run.message->connection, arg(2));
}

static void push_digits(int64_t number)
{
    char text[24];
    size_t at = sizeof(text);

    do
        text[--at] = (char)('0' + number % 10);
    while (number /= 10);
    lua_pushlstring(lua, text + at, sizeof(text) - at);
}

static int do_time(void)
{
    lua_createtable(lua, 2, 0);
    push_digits(run.now_us / 1000000);
    lua_rawseti(lua, -2, 1);
    push_digits(run.now_us % 1000000);
    lua_rawseti(lua, -2, 2);
    return 1;
}

static int do_get(void)
{
    const struct store_key *key = find_to_read();

    if (key && key->is_hash)
        return wrong_type();
    if (key)
        lua_pushstring(lua, key->value);
    else
        lua_pushboolean(lua, 0);
    return 1;
}

/* A key of another type is none. */
static int do_mget(void)
{
    int top = lua_gettop(lua);

    lua_createtable(lua, top - 1, 0);
    for (int i = 2; i <= top; i++) {
        const struct store_key *key = find_argument(i);

        if (key && !key->is_hash)
            lua_pushstring(lua, key->value);
        else
            lua_pushboolean(lua, 0);
        lua_rawseti(lua, -2, i - 1);
    }
    return 1;
}

/* SET KEY VALUE [NX] PX TTL */
static int do_set(void)
{
    const char *name = arg(2), *value = arg(3);
    bool nx = strcmp(arg(4), "NX") == 0;
    int64_t ttl_ms = (int64_t)luaL_checknumber(lua, 5 + nx);
    struct store_key *key = find();

    if (lua_gettop(lua) != 5 + nx || strcmp(arg(4 + nx), "PX") != 0)
        return push_error("ERR this SET is not known here");
    if (key && nx) {
        lua_pushboolean(lua, 0);
        return 1;
    }
    key = store_make(&run.node->store, name, now_ms());
    snprintf(key->value, sizeof(key->value), "%s", value);
    key->expires_ms = now_ms() + ttl_ms;
    changed();
    checks_stored(run.node, name, value, run.message);
    return push_status("OK");
}

#define KEPT_MS 691200000.0 /* of fence records; a schedule's may be seconds */

static double scale_of(const struct store_key *key)
{
    return key->is_hash && sim.plan.retention_ms ? (double)sim.plan.retention_ms / KEPT_MS : 1;
}

static int do_pexpire(void)
{
    struct store_key *key = find();
    int64_t ends_ms = key ? now_ms() + (int64_t)(luaL_checknumber(lua, 3) * scale_of(key)) : 0;

    if (lua_gettop(lua) > 3 && run.node->no_gt)
        return push_error("ERR wrong number of arguments for 'pexpire' command");
    if (key && lua_gettop(lua) > 3 && (key->expires_ms < 0 || ends_ms <= key->expires_ms)) /* GT */
        key = NULL;
    if (key) {
        key->expires_ms = ends_ms;
        changed();
        if (!key->is_hash)
            checks_stored(run.node, key->name, key->value, run.message);
    }
    lua_pushnumber(lua, key != NULL);
    return 1;
}

static int do_pttl(void)
{
    struct store_key *key = find_to_read();

    lua_pushnumber(lua, !key ? -2
                        : key->expires_ms < 0
                            ? -1
                            : (double)(key->expires_ms - now_ms()) / scale_of(key));
    return 1;
}

static int do_del(void)
{
    struct store_key *key = find();

    if (key) {
        store_delete(key);
        changed();
    }
    lua_pushnumber(lua, key != NULL);
    return 1;
}

static void push_field(const struct store_key *key, const char *name)
{
    const char *value = key ? store_field(key, name) : NULL;

    if (value)
        lua_pushstring(lua, value);
    else
        lua_pushboolean(lua, 0);
}

static int do_hget(void)
{
    const struct store_key *key = find_to_read();

    if (key && !key->is_hash)
        return wrong_type();
    push_field(key, arg(3));
    return 1;
}

static int do_hmget(void)
{
    const struct store_key *key = find_to_read();
    int top = lua_gettop(lua);

    if (key && !key->is_hash)
        return wrong_type();
    lua_createtable(lua, top - 2, 0);
    for (int i = 3; i <= top; i++) {
        push_field(key, arg(i));
        lua_rawseti(lua, -2, i - 2);
    }
    return 1;
}

static int do_hset(void)
{
    struct store_key *key = store_make(&run.node->store, arg(2), now_ms());
    int top = lua_gettop(lua), before = key->fields;

    key->is_hash = true;
    for (int i = 3; i + 1 <= top; i += 2)
        store_set_field(key, arg(i), arg(i + 1));
    /* The node's day is not a schedule's: what it would do once in a day, when a fence is accepted, it does each time. */
    if (sim.plan.retention_ms && key->expires_ms >= 0 && strcmp(arg(3), "fence") == 0)
        key->expires_ms = now_ms() + sim.plan.retention_ms;
    instants_put(run.node);
    changed();
    lua_pushnumber(lua, key->fields - before);
    return 1;
}

/* 1: the result is on the stack; -1: an error table is. */
static int dispatch(void)
{
    static const struct {
        const char *name;
        int (*fn)(void);
    } commands[] = {{"GET", do_get},         {"MGET", do_mget},   {"TIME", do_time},
                    {"HGET", do_hget},       {"HMGET", do_hmget}, {"SET", do_set},
                    {"PEXPIRE", do_pexpire}, {"PTTL", do_pttl},   {"DEL", do_del},
                    {"HSET", do_hset}};
    const char *name = arg(1);

    for (size_t i = 0; i < HF_LENGTH(commands); i++)
        if (strcmp(commands[i].name, name) == 0)
            return commands[i].fn();
    return push_error("ERR unknown command");
}

static int redis_call(lua_State *state)
{
    (void)state;
    if (dispatch() < 0)
        return lua_error(lua);
    return 1;
}

static int redis_pcall(lua_State *state)
{
    (void)state;
    (void)dispatch();
    return 1;
}

void scripts_id(const char *value, char ret_id[SHA1_HEX_LEN + 1])
{
    struct sha1 sha1;

    sha1_begin(&sha1);
    sha1_add(&sha1, value, strlen(value));
    sha1_end(&sha1, ret_id);
}

static int redis_sha1hex(lua_State *state)
{
    char text[SHA1_HEX_LEN + 1];

    (void)state;
    scripts_id(arg(1), text);
    lua_pushstring(lua, text);
    return 1;
}

/* --- compiling -------------------------------------------------------------------------------- */

static void begin(void)
{
    lua = lua_newstate(sim_lua_alloc, sim_heap_new(LUA_HEAP));
    if (!lua)
        abort();
    luaL_openlibs(lua);
    lua_createtable(lua, 0, 3);
    lua_pushcfunction(lua, redis_call);
    lua_setfield(lua, -2, "call");
    lua_pushcfunction(lua, redis_pcall);
    lua_setfield(lua, -2, "pcall");
    lua_pushcfunction(lua, redis_sha1hex);
    lua_setfield(lua, -2, "sha1hex");
    lua_setglobal(lua, "redis");
    for (int i = 0; i < SCRIPTS; i++) {
        size_t length;
        const char *text = script_text((enum script)i, &length);

        if (luaL_loadbuffer(lua, text, length, "@script") != 0) {
            fprintf(stderr, "sim: %s\n", lua_tostring(lua, -1));
            exit(1);
        }
        functions[i] = luaL_ref(lua, LUA_REGISTRYINDEX);
    }
}

int scripts_find(const char *text, size_t length)
{
    for (int i = 0; i < SCRIPTS; i++) {
        size_t known_length;
        const char *known = script_text((enum script)i, &known_length);

        if (length == known_length && (text == known || memcmp(text, known, length) == 0))
            return i;
    }
    return -1;
}

/* --- running ---------------------------------------------------------------------------------- */

/* What is on top of the stack, as Redis turns it into a reply. */
static struct redisReply *reply_of_top(void)
{
    struct redisReply *reply;
    size_t length;
    const char *text;
    int count;

    switch (lua_type(lua, -1)) {
    case LUA_TSTRING:
        text = lua_tolstring(lua, -1, &length);
        return reply_text(REDIS_REPLY_STRING, text, length);
    case LUA_TNUMBER:
        return reply_number((long long)lua_tonumber(lua, -1));
    case LUA_TTABLE:
        break;
    default:
        return reply_nil();
    }
    lua_getfield(lua, -1, "err");
    if (lua_isstring(lua, -1)) {
        text = lua_tolstring(lua, -1, &length);
        reply = reply_text(REDIS_REPLY_ERROR, text, length);
        lua_pop(lua, 1);
        return reply;
    }
    lua_pop(lua, 1);
    for (count = 0;; count++) { /* to the first nil */
        bool end;

        lua_rawgeti(lua, -1, count + 1);
        end = lua_isnil(lua, -1);
        lua_pop(lua, 1);
        if (end)
            break;
    }
    reply = reply_array((size_t)count);
    for (int i = 0; i < count; i++) {
        lua_rawgeti(lua, -1, i + 1);
        reply->element[i] = reply_of_top();
        lua_pop(lua, 1);
    }
    return reply;
}

struct redisReply *scripts_run(struct vnode *node, int script, const struct sim_message *m)
{
    const struct command *c = &m->command;
    int keys = atoi(c->argv[2]);
    struct redisReply *reply;

    if (!lua)
        begin();
    run.node = node;
    run.message = m;
    run.now_us = vnode_wall_us(node);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, functions[script]);
    lua_createtable(lua, keys, 0);
    for (int i = 0; i < keys; i++) {
        lua_pushlstring(lua, c->argv[3 + i], c->length[3 + i]);
        lua_rawseti(lua, -2, i + 1);
    }
    lua_setglobal(lua, "KEYS");
    lua_createtable(lua, c->argc - 3 - keys, 0);
    for (int i = 3 + keys; i < c->argc; i++) {
        lua_pushlstring(lua, c->argv[i], c->length[i]);
        lua_rawseti(lua, -2, i - 2 - keys);
    }
    lua_setglobal(lua, "ARGV");
    if (lua_pcall(lua, 0, 1, 0) != 0 && lua_isstring(lua, -1)) {
        char text[200];

        snprintf(text, sizeof(text), "ERR %s", lua_tostring(lua, -1));
        sim_violation("script", "n%d: %s", node->number, text);
        reply = reply_text(REDIS_REPLY_ERROR, text, strlen(text));
    } else {
        reply = reply_of_top();
    }
    lua_settop(lua, 0);
    return reply;
}
