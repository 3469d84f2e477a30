/* What measurements through the library share. A failure ends the program with its reason. */
#ifndef HOLDFAST_TOOLS_BENCH_LIBRARY_H
#define HOLDFAST_TOOLS_BENCH_LIBRARY_H

#include "libclient/holdfast.h"

void bench_must(int rc, const char *what);
hf_client *bench_connect(const char *agent);

/* Names of one length: "PREFIX/00...0I". */
#define BENCH_NAME_LEN 32
void bench_name(char ret_name[BENCH_NAME_LEN + 1], const char *prefix, long i);

#endif
