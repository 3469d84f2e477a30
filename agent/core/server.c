#include "agent/core/server.h"

#include <string.h>

static void set(char *to, const char *run_id)
{
    *stpncpy(to, run_id, TRUST_RUN_ID_LEN) = '\0';
}

static bool is_same(const char *run_id, const char *other)
{
    return run_id[0] != '\0' && strcmp(run_id, other) == 0;
}

void server_init(struct server *server, const char *run_id)
{
    *server = (struct server){.since = HF_TIME_PAST};
    set(server->run_id, run_id);
}

static void move(struct server *server, const char *run_id, hf_dur least, hf_time now)
{
    bool voteless = hf_time_before(now, hf_time_add(server->since, least));

    if (!voteless)
        memcpy(server->before, server->run_id, sizeof(server->before));
    server->since = now;
    if (strcmp(server->before, run_id) == 0) { /* and back again */
        server->before[0] = '\0';
        server->since = HF_TIME_PAST;
    }
}

void server_on_run_id(struct server *server, const char *run_id, hf_dur least, hf_time now)
{
    if (strcmp(server->run_id, run_id) == 0)
        return;
    if (server->run_id[0])
        move(server, run_id, least, now);
    set(server->run_id, run_id);
}

bool server_is_shared(const struct server *server, const struct server *other)
{
    return is_same(server->run_id, other->run_id) || is_same(server->run_id, other->before);
}

bool server_gave(const struct server *server, const struct server *other, hf_time a)
{
    return is_same(server->run_id, hf_time_before(a, other->since) ? other->before : other->run_id);
}
