/* Functions that measurements through the library share. */
#include "tools/bench/library.h"

#include <stdio.h>
#include <string.h>

#include "tools/bench/measure.h"

void library_must(int rc, const char *what)
{
    if (rc < 0)
        measure_die("%s: %s: %s", what, hf_strerror(rc), hf_last_message());
}

hf_client *library_connect(const char *agent)
{
    hf_client *client;

    library_must(hf_connect(agent, &client), agent);
    return client;
}

void library_name(char ret_name[LIBRARY_NAME_LEN + 1], const char *prefix, long i)
{
    int digits = LIBRARY_NAME_LEN - 1 - (int)strlen(prefix);

    if (digits < 8)
        measure_die("the prefix '%s' is too long", prefix);
    snprintf(ret_name, LIBRARY_NAME_LEN + 1, "%s/%0*ld", prefix, digits, i);
}
