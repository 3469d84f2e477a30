/* The names held on any host, as the nodes report them. */
#ifndef HOLDFAST_TOOLS_SHOW_LIST_ALL_H
#define HOLDFAST_TOOLS_SHOW_LIST_ALL_H

#include "tools/reader/reader_args.h"

/* `list --all-hosts`. An exit code. */
int list_all(const struct reader_args *args, const struct reader_name *prefix);

#endif
