/* Functions that measurements through the library share. A failure ends the program with its reason. */
#ifndef HOLDFAST_TOOLS_BENCH_LIBRARY_H
#define HOLDFAST_TOOLS_BENCH_LIBRARY_H

#include "libclient/holdfast_sets.h"

void library_must(int rc, const char *what);
hf_client *library_connect(const char *agent);

/* Names of one length: "PREFIX/00...0I". */
#define LIBRARY_NAME_LEN 32
void library_name(char ret_name[LIBRARY_NAME_LEN + 1], const char *prefix, long i);

#endif
