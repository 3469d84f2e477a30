#include "agent/config/config_fleet.h"

#include <string.h>

#include "agent/config/list_hash.h"

void config_fleet(const struct config *c, struct fleet_record *ret_record)
{
    char keys[CONFIG_KEYS_TEXT];

    memset(ret_record, 0, sizeof(*ret_record));
    ret_record->count = c->node_count;
    ret_record->ttl_max_ms = c->ttl_max_ms;
    for (int i = 0; i < c->node_count; i++)
        memcpy(ret_record->seat[i].id, c->nodes[i].id, sizeof(c->nodes[i].id));
    config_keys_text(c, keys);
    list_hash_with(NULL, 0, keys, ret_record->keys);
}
