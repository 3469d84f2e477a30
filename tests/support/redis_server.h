/* A private redis-server on a unix socket, for unit tests: a directory of its own, no TCP port,
 * ends with the test. */
#ifndef HOLDFAST_TESTS_REDIS_SERVER_H
#define HOLDFAST_TESTS_REDIS_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

struct redis_server {
    pid_t pid;
    bool has_tcp; /* in: listens on `port` of 127.0.0.1 and ::1 as well */
    int port;
    char dir[64];
    char socket[96];
};

/* Starts it and waits until it answers; `options` is a NULL-terminated list of arguments
 * ("--maxmemory", "1mb") or NULL. A zeroed struct first; a stopped server starts again in the same
 * place. False: it cannot be started (the reason is on stderr). */
bool redis_server_start(struct redis_server *server, const char *const *options);
/* Ends it (SIGKILL). */
void redis_server_kill(struct redis_server *server);
/* Stopped, it accepts connections and answers nothing. */
void redis_server_pause(struct redis_server *server);
void redis_server_resume(struct redis_server *server);
/* Ends it and removes its directory. */
void redis_server_remove(struct redis_server *server);

#endif
