#include "agent/broker/nodes/node_author.h"

#include <stdlib.h>
#include <string.h>

struct node_author node_author_read(const char *by)
{
    struct node_author author = {.host = ""};
    size_t length = strcspn(by, " ");
    char *end;
    unsigned long uid;

    if (length == 0 || length >= sizeof(author.host) || by[length] != ' ')
        return author;
    uid = strtoul(by + length + 1, &end, 10);
    if (*end != ' ' || uid > UINT32_MAX)
        return author;
    author.wall_ms = strtoll(end + 1, &end, 10);
    author.way_back = strcmp(end, NODE_AUTHOR_BACK) == 0;
    author.uid = (uint32_t)uid;
    memcpy(author.host, by, length);
    return author;
}
