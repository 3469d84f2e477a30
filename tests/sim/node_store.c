#include <stdlib.h>
#include <string.h>

#include "tests/sim/watches.h"
#include "tests/sim/vnode.h"

struct store_key *store_find(struct store *store, const char *name, int64_t now_ms)
{
    for (int i = 0; i < STORE_KEYS; i++) {
        struct store_key *key = &store->key[i];

        if (!key->used || key->name[0] != name[0] || strcmp(key->name, name) != 0)
            continue;
        /* As Redis has it: the millisecond itself still counts. */
        if (key->expires_ms < 0 || now_ms <= key->expires_ms)
            return key;
        key->used = false;
        watches_changed(HF_CONTAINER(store, struct vnode, store), NULL, name);
        return NULL;
    }
    return NULL;
}

struct store_key *store_make(struct store *store, const char *name, int64_t now_ms)
{
    struct store_key *key = store_find(store, name, now_ms);

    for (int i = 0; i < STORE_KEYS && !key; i++)
        if (!store->key[i].used)
            key = &store->key[i];
    if (!key || strlen(name) >= sizeof(key->name)) {
        fputs("sim: a node's store is full\n", stderr);
        abort();
    }
    if (!key->used) {
        key->used = true;
        key->is_hash = false;
        key->expires_ms = -1;
        key->fields = 0;
        strcpy(key->name, name);
    }
    return key;
}

void store_delete(struct store_key *key)
{
    key->used = false;
}

const char *store_field(const struct store_key *key, const char *name)
{
    for (int i = 0; i < key->fields; i++)
        if (key->field[i].name[0] == name[0] && strcmp(key->field[i].name, name) == 0)
            return key->field[i].text ? key->field[i].text : key->field[i].value;
    return NULL;
}

struct kept {
    struct kept *next;
    char text[];
};
static struct kept *kept; /* until the end of the schedule, each text once */

void stores_reset(void)
{
    kept = NULL;
}

static const char *keep(const char *text)
{
    struct kept *k = kept;

    while (k && strcmp(k->text, text) != 0)
        k = k->next;
    if (!k) {
        k = sim_alloc(sizeof(*k) + strlen(text) + 1);
        strcpy(k->text, text);
        k->next = kept;
        kept = k;
    }
    return k->text;
}

void store_set_field(struct store_key *key, const char *name, const char *value)
{
    int i = 0;

    while (i < key->fields && strcmp(key->field[i].name, name) != 0)
        i++;
    if (i == STORE_FIELDS)
        abort();
    if (i == key->fields)
        key->fields++;
    snprintf(key->field[i].name, sizeof(key->field[i].name), "%s", name);
    key->field[i].text = NULL;
    if (strlen(value) < sizeof(key->field[i].value))
        strcpy(key->field[i].value, value);
    else
        key->field[i].text = keep(value);
}
