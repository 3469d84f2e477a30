/* What measurements through the library share. */
#include "tools/bench/library.h"

#include <stdio.h>
#include <string.h>

#include "tools/bench/bench.h"

void bench_must(int rc, const char *what)
{
    if (rc < 0)
        bench_die("%s: %s: %s", what, hf_strerror(rc), hf_last_message());
}

hf_client *bench_connect(const char *agent)
{
    hf_client *client;

    bench_must(hf_connect(agent, &client), agent);
    return client;
}

void bench_name(char ret_name[BENCH_NAME_LEN + 1], const char *prefix, long i)
{
    int digits = BENCH_NAME_LEN - 1 - (int)strlen(prefix);

    if (digits < 8)
        bench_die("the prefix '%s' is too long", prefix);
    snprintf(ret_name, BENCH_NAME_LEN + 1, "%s/%0*ld", prefix, digits, i);
}
