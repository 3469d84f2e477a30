#include "tools/show/show_internal.h"

#include "shm/table_notes.h"
#include "tools/output/words.h"

static json_t *agent_age_json(int64_t age_ms)
{
    return age_ms < 0 ? json_null() : json_integer(age_ms);
}

static json_t *agent_config_json(const struct hf_table *table)
{
    uint64_t loaded_ms = hf_counter_read(table, HF_COUNTER_CONFIG_LOADED_MS),
             refused_ms = hf_counter_read(table, HF_COUNTER_RELOAD_REFUSED_MS),
             reloads = hf_counter_read(table, HF_COUNTER_RELOADS);
    const char *last = refused_ms ? "refused" : reloads ? "applied" : "none";
    json_t *config = json_object();

    json_put(config, "loaded_at", json_instant((int64_t)loaded_ms));
    json_put(config, "last_reload", json_string(last));
    json_put(config, "refused_at", refused_ms ? json_instant((int64_t)refused_ms) : json_null());
    return config;
}

static json_t *agent_drained_json(const struct hf_table *table)
{
    struct hf_drained drained;
    char user[FORMAT_USER_SIZE];
    json_t *json = json_object();
    bool known;

    hf_drained_read(table, &drained);
    if (!drained.stands) {
        json_decref(json);
        return json_null();
    }
    known = drained.since_wall_ms != 0;
    json_put(json, "since", json_wall(drained.since_wall_ms));
    json_put(json, "uid", known ? json_integer(drained.uid) : json_null());
    json_put(json, "user",
             known ? json_string(format_user(user, sizeof(user), drained.uid)) : json_null());
    json_put(json, "pid", known ? json_integer(drained.pid) : json_null());
    return json;
}

json_t *show_last_words_json(const struct hf_last_words *words)
{
    json_t *json;

    if (!words->wall_ms)
        return json_null();
    json = json_object();
    json_put(json, "at", json_instant(words->wall_ms));
    json_put(json, "pid", json_integer(words->pid));
    json_put(json, "text", json_text_str(words->text));
    return json;
}

void show_agent_json(struct json_out *out, const struct reader *reader, const struct life *life)
{
    const struct hf_table_header *header = reader->table.header;
    const struct hf_table_terms terms = hf_table_terms(&reader->table);
    json_t *agent = json_object(), *beats = json_object();
    struct hf_last_words words = {.wall_ms = 0};

    for (int i = 0; i < LIFE_THREADS; i++)
        json_put(beats, life_thread_name(i), agent_age_json(life->age_ms[i]));
    json_put(agent, "name", json_string(reader->place.agent));
    json_put(agent, "directory", *reader->dir ? json_text_str(reader->dir) : json_null());
    json_put(agent, "host", json_text_str(reader->host));
    json_put(agent, "state", json_string(life_verdict_name(life->verdict)));
    json_put(agent, "pid", json_integer(life->pid));
    json_put(agent, "process", json_string(life_process_name(life->process)));
    json_put(agent, "uid", json_integer(header->uid));
    json_put(agent, "version", json_text_str(reader->version));
    json_put(agent, "up_ms", agent_age_json(life->up_ms));
    json_put(agent, "last_sign_age_ms", agent_age_json(life->last_ms));
    json_put(agent, "heartbeat_age_ms", beats);
    json_put(agent, "incarnation", json_integer(header->incarnation));
    json_put(agent, "nodes", json_integer(terms.nodes));
    json_put(agent, "quorum", json_integer(terms.quorum));
    json_put(agent, "ttl_ms", json_integer(terms.ttl_ms));
    json_put(agent, "ttl_max_ms", json_integer(terms.ttl_max_ms));
    json_put(agent, "capacity", json_integer(hf_table_capacity(&reader->table)));
    json_put(agent, "drained", agent_drained_json(&reader->table));
    (void)hf_last_words_read(header, &words);
    json_put(agent, "failed_assertion", show_last_words_json(&words));
    json_put(agent, "dev", json_boolean(header->flags & HF_TABLE_F_DEV));
    json_put(agent, "assume_fresh", json_boolean(header->flags & HF_TABLE_F_ASSUME_FRESH));
    json_put(agent, "allow_eviction", json_boolean(header->flags & HF_TABLE_F_ALLOW_EVICTION));
    json_put(agent, "allow_replicas", json_boolean(header->flags & HF_TABLE_F_ALLOW_REPLICAS));
    json_put(agent, "config", agent_config_json(&reader->table));
    json_member(out, "agent", agent);
}
