#include "tools/reader/fleet_told.h"

#include <stdio.h>
#include <string.h>

#include "shm/compiler.h"
#include "shm/text.h"
#include "shm/status.h"
#include "tools/common/args.h"
#include "tools/common/text.h"
#include "tools/reader/control_socket.h"

#define PATIENCE_S 5 /* the agent answers at once, or hangs */
#define FIRST      "fleet "
#define LAST       "end"

/* --- words --------------------------------------------------------------------------------------- */

/* The next word of a line, NULL: none is left. */
static char *fleet_told_next_word(char **line)
{
    return *line ? strsep(line, " ") : NULL;
}

static bool fleet_told_take_word(const char *word, char *to, size_t size)
{
    return word && hf_word_read(word, to, size);
}

static bool fleet_told_take_number(const char *word, uint64_t most, uint64_t *ret_number)
{
    return word && args_number(word, 0, most, ret_number) == HF_OK;
}

static bool fleet_told_take_yes(const char *word, bool *ret_yes)
{
    if (!word || (strcmp(word, "yes") != 0 && strcmp(word, "no") != 0))
        return false;
    *ret_yes = strcmp(word, "yes") == 0;
    return true;
}

/* --- lines --------------------------------------------------------------------------------------- */

static bool fleet_told_take_known(struct fleet_told *t, char *rest)
{
    return fleet_told_take_yes(rest, &t->known);
}

static bool fleet_told_take_name(struct fleet_told *t, char *rest)
{
    return fleet_told_take_word(rest, t->name, sizeof(t->name));
}

static bool fleet_told_take_digest(struct fleet_told *t, char *rest)
{
    return fleet_told_take_word(rest, t->digest, sizeof(t->digest));
}

static bool fleet_told_take_version(struct fleet_told *t, char *rest)
{
    return fleet_told_take_number(rest, UINT64_MAX, &t->version);
}

static bool fleet_told_take_state(struct fleet_told *t, char *rest)
{
    return fleet_told_take_word(rest, t->state, sizeof(t->state));
}

static bool fleet_told_take_ttl_max(struct fleet_told *t, char *rest)
{
    return fleet_told_take_number(rest, INT64_MAX, &t->ttl_max_ms);
}

static bool fleet_told_take_file_ttl_max(struct fleet_told *t, char *rest)
{
    return fleet_told_take_number(rest, INT64_MAX, &t->file_ttl_max_ms);
}

static bool fleet_told_take_told_version(struct fleet_told *t, char *rest)
{
    return fleet_told_take_number(rest, UINT64_MAX, &t->told_version);
}

static bool fleet_told_add_seat(struct fleet_told_seat *seats, int *count, char *rest)
{
    struct fleet_told_seat *seat = &seats[*count];

    if (*count == HF_NODES_MAX ||
        !fleet_told_take_word(fleet_told_next_word(&rest), seat->id, sizeof(seat->id)) ||
        !fleet_told_take_word(fleet_told_next_word(&rest), seat->address, sizeof(seat->address)))
        return false;
    for (const char *word; (word = fleet_told_next_word(&rest));)
        seat->gone |= strcmp(word, "gone") == 0;
    ++*count;
    return true;
}

static bool fleet_told_take_settles(struct fleet_told *t, char *rest)
{
    return fleet_told_take_number(rest, INT64_MAX, &t->settles_ms);
}

static bool fleet_told_take_seat(struct fleet_told *t, char *rest)
{
    return fleet_told_add_seat(t->seat, &t->seat_count, rest);
}

static bool fleet_told_take_before(struct fleet_told *t, char *rest)
{
    return fleet_told_add_seat(t->before, &t->before_count, rest);
}

static bool fleet_told_take_by(struct fleet_told *t, char *rest)
{
    return fleet_told_take_word(fleet_told_next_word(&rest), t->by_host, sizeof(t->by_host)) &&
           fleet_told_take_number(fleet_told_next_word(&rest), UINT32_MAX, &t->by_uid) &&
           fleet_told_take_number(fleet_told_next_word(&rest), INT64_MAX, &t->since_wall_ms);
}

/* FIELD=VALUE */
static bool fleet_told_take_field(struct fleet_told_node *node, char *word)
{
    char *value = word;
    const char *field = strsep(&value, "=");

    if (strcmp(field, "says") == 0)
        return fleet_told_take_word(value, node->says, sizeof(node->says));
    if (strcmp(field, "counts") == 0)
        return fleet_told_take_yes(value, &node->counts);
    if (strcmp(field, "votes_in") == 0) {
        node->mute = true;
        return fleet_told_take_number(value, INT64_MAX, &node->votes_in_ms);
    }
    if (strcmp(field, "elsewhere") == 0)
        return fleet_told_take_yes(value, &node->elsewhere);
    if (strcmp(field, "seat") == 0)
        return fleet_told_take_word(value, node->seat, sizeof(node->seat));
    if (strcmp(field, "configured") == 0)
        return fleet_told_take_word(value, node->configured, sizeof(node->configured));
    if (strcmp(field, "connected") == 0)
        return fleet_told_take_word(value, node->connected, sizeof(node->connected));
    if (strcmp(field, "link") == 0)
        return fleet_told_take_word(value, node->link, sizeof(node->link));
    return true;
}

static bool fleet_told_take_node(struct fleet_told *t, char *rest)
{
    struct fleet_told_node *node = &t->node[t->count];
    bool good = t->count < HF_NODES_MAX &&
                fleet_told_take_word(fleet_told_next_word(&rest), node->id, sizeof(node->id));

    for (char *word; good && (word = fleet_told_next_word(&rest));)
        good = fleet_told_take_field(node, word);
    t->count += good;
    return good;
}

static bool fleet_told_take_waits(struct fleet_told *t, char *rest)
{
    return rest && hf_text_read(rest, t->waits, sizeof(t->waits));
}

static bool fleet_told_take_differs(struct fleet_told *t, char *rest)
{
    return rest && hf_text_read(rest, t->differs, sizeof(t->differs));
}

static bool fleet_told_take_misplaced(struct fleet_told *t, char *rest)
{
    return t->misplaced_count < HF_NODES_MAX && rest &&
           hf_text_read(rest, t->misplaced[t->misplaced_count++], TOLD_TEXT_SIZE);
}

static const struct {
    const char *key;
    bool (*take)(struct fleet_told *told, char *rest);
} keys[] = {
    {"known", fleet_told_take_known},
    {"name", fleet_told_take_name},
    {"digest", fleet_told_take_digest},
    {"version", fleet_told_take_version},
    {"state", fleet_told_take_state},
    {"ttl_max_ms", fleet_told_take_ttl_max},
    {"seat", fleet_told_take_seat},
    {"before", fleet_told_take_before},
    {"by", fleet_told_take_by},
    {"node", fleet_told_take_node},
    {"waits", fleet_told_take_waits},
    {"differs", fleet_told_take_differs},
    {"settles_ms", fleet_told_take_settles},
    {"file_ttl_max_ms", fleet_told_take_file_ttl_max},
    {"told_version", fleet_told_take_told_version},
    {"misplaced", fleet_told_take_misplaced},
};

static bool fleet_told_take_line(struct fleet_told *told, char *line)
{
    const char *key = fleet_told_next_word(&line);

    for (size_t i = 0; i < HF_LENGTH(keys); i++)
        if (strcmp(key, keys[i].key) == 0)
            return keys[i].take(told, line);
    return true; /* of a later agent */
}

int fleet_told_read(char *answer, struct fleet_told *ret_told)
{
    struct fleet_told told = {.known = false};
    char *line = strsep(&answer, "\n");
    uint64_t form;

    if (strncmp(line, FIRST, sizeof(FIRST) - 1) != 0 ||
        !fleet_told_take_number(line + sizeof(FIRST) - 1, UINT64_MAX, &form))
        return HF_EINVAL;
    if (form != 1)
        return HF_EVERSION;
    while ((line = strsep(&answer, "\n")) && strcmp(line, LAST) != 0)
        if (!fleet_told_take_line(&told, line))
            return HF_EINVAL;
    if (!line || (told.known && (!*told.name || !told.version || !told.seat_count)))
        return HF_EINVAL;
    *ret_told = told;
    return HF_OK;
}

/* --- asking -------------------------------------------------------------------------------------- */

static const struct control_request request = {"fleet", "ask it for its fleet", PATIENCE_S};

static int fleet_told_judge(char *answer, struct fleet_told *ret_told, char *why, size_t why_size)
{
    int rc = fleet_told_read(answer, ret_told);

    if (rc == HF_OK)
        return EXIT_OK;
    snprintf(why, why_size, "use the holdfast that came with the agent: %s",
             rc == HF_EVERSION ? "its answer has a later form" : "its answer cannot be read");
    return EXIT_UNAVAILABLE;
}

int fleet_told_ask(const char *agent, struct place *ret_place, struct fleet_told *ret_told,
                   char *why, size_t why_size)
{
    char answer[TOLD_ANSWER_BYTES];
    int code = control_ask(agent, &request, ret_place, answer, sizeof(answer), why, why_size);

    return code == EXIT_OK ? fleet_told_judge(answer, ret_told, why, why_size) : code;
}

int fleet_told_ask_at(const struct place *place, struct fleet_told *ret_told, char *why,
                      size_t why_size)
{
    char answer[TOLD_ANSWER_BYTES];
    int code = control_ask_at(place, &request, answer, sizeof(answer), why, why_size);

    return code == EXIT_OK ? fleet_told_judge(answer, ret_told, why, why_size) : code;
}

/* --- questions ----------------------------------------------------------------------------------- */

bool fleet_told_well(const struct fleet_told *told)
{
    return told->known && strcmp(told->state, "complete") == 0 && !*told->differs &&
           !told->misplaced_count;
}

bool fleet_told_narrow(const struct fleet_told *told)
{
    return told->known && (strcmp(told->state, "changing") == 0 || told->settles_ms > 0);
}

bool fleet_told_has(const struct fleet_told_seat *seats, int count,
                    const struct fleet_told_seat *seat)
{
    for (int i = 0; i < count; i++)
        if (strcmp(seats[i].id, seat->id) == 0 && strcmp(seats[i].address, seat->address) == 0)
            return true;
    return false;
}

int fleet_told_quorum(const struct fleet_told *told)
{
    int count = told->seat_count;

    if (fleet_told_narrow(told) && told->before_count > count)
        count = told->before_count;
    return count / 2 + 1;
}

bool fleet_told_lists(const struct fleet_told *told, const char *id)
{
    for (int i = 0; i < told->count; i++)
        if (strcmp(told->node[i].id, id) == 0)
            return true;
    return false;
}

const char *fleet_told_elsewhere(char *out, size_t size, const struct fleet_told_node *node)
{
    char id[4 * sizeof(node->id)], seat[4 * sizeof(node->seat)],
        configured[4 * sizeof(node->configured)];

    snprintf(out, size, "%s is at %s for this fleet, this host's configuration says %s",
             text_escape_str(id, sizeof(id), node->id),
             text_escape_str(seat, sizeof(seat), node->seat),
             text_escape_str(configured, sizeof(configured), node->configured));
    return out;
}
