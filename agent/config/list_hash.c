#include "agent/config/list_hash.h"

#include <string.h>

#include "agent/core/sha1.h"

void list_hash_with(const struct node_address *nodes, int count, const char *text, char ret_hex[41])
{
    struct sha1 s;

    sha1_begin(&s);
    for (int i = 0; i < count; i++)
        sha1_add(&s, nodes[i].id, strlen(nodes[i].id) + 1);
    sha1_add(&s, text, strlen(text));
    sha1_end(&s, ret_hex);
}

void list_hash(const struct node_address *nodes, int count, char ret_hex[41])
{
    list_hash_with(nodes, count, "", ret_hex);
}
