#include "tools/show/show_renewals.h"

#include <inttypes.h>
#include <stdio.h>

#include "shm/history.h"
#include "tools/common/text.h"
#include "tools/output/format.h"
#include "tools/output/words.h"

static size_t renewals_read_some(const struct reader *reader, uint32_t node, uint32_t most,
                                 struct hf_renewal ret_renewals[HF_RENEWALS_KEPT])
{
    return hf_renewals_read(&reader->table, node, ret_renewals,
                            most < HF_RENEWALS_KEPT ? most : HF_RENEWALS_KEPT);
}

/* "answered", else the class of the error. */
static const char *renewals_outcome_word(const struct hf_renewal *renewal)
{
    return renewal->outcome ? hf_why_failed(renewal->outcome)->word : "answered";
}

/* "3 of 4 keys, 1 missing". */
static void renewals_print_keys(const struct hf_renewal *renewal)
{
    if (renewal->outcome)
        printf("%u keys", renewal->keys);
    else
        printf("%u of %u keys", renewal->hit, renewal->keys);
    if (renewal->missing)
        printf(", %u missing", renewal->missing);
    if (renewal->foreign)
        printf(", %u another's", renewal->foreign);
    puts(renewal->flags & HF_RENEWAL_F_HEAL ? ", written again" : "");
}

static void renewals_print_node(const struct reader *reader, uint32_t node, const char *id,
                                uint32_t most)
{
    struct hf_renewal renewals[HF_RENEWALS_KEPT];
    size_t count = renewals_read_some(reader, node, most, renewals);
    char shown[4 * HF_NODE_TEXT_MAX + 1], at[TEXT_INSTANT_SIZE], span[TEXT_SPAN_SIZE];

    printf("%s\n", text_escape_str(shown, sizeof(shown), *id ? id : "?"));
    if (count == 0)
        puts("  none yet");
    for (size_t i = 0; i < count; i++) {
        const struct hf_renewal *r = &renewals[i];

        printf("  %s  %-8s  %s%s  ",
               text_instant(at, sizeof(at), reader_wall_of((hf_time){r->at_ns})),
               format_rtt(span, sizeof(span), (int64_t)r->latency_us * HF_NS_PER_US),
               renewals_outcome_word(r), r->flags & HF_RENEWAL_F_LATE ? " too late" : "");
        renewals_print_keys(r);
    }
}

void show_renewals(const struct reader *reader, uint32_t most)
{
    struct hf_node_row rows[HF_NODES_MAX];
    uint32_t count = reader_nodes(reader, rows);

    for (uint32_t node = 0; node < count; node++)
        if (*rows[node].id)
            renewals_print_node(reader, node, rows[node].id, most);
}

static json_t *renewal_json(const struct hf_renewal *renewal)
{
    json_t *object = json_object();

    json_put(object, "at", json_instant(reader_wall_of((hf_time){renewal->at_ns})));
    json_put(object, "at_ns", json_u64_text((uint64_t)renewal->at_ns));
    json_put(object, "latency_us", json_integer(renewal->latency_us));
    json_put(object, "outcome", json_string(renewals_outcome_word(renewal)));
    json_put(object, "late", json_boolean(renewal->flags & HF_RENEWAL_F_LATE));
    json_put(object, "heal", json_boolean(renewal->flags & HF_RENEWAL_F_HEAL));
    json_put(object, "keys", json_integer(renewal->keys));
    json_put(object, "hit", json_integer(renewal->hit));
    json_put(object, "missing", json_integer(renewal->missing));
    json_put(object, "foreign", json_integer(renewal->foreign));
    return object;
}

json_t *show_renewals_json(const struct reader *reader, uint32_t node, uint32_t most)
{
    struct hf_renewal renewals[HF_RENEWALS_KEPT];
    size_t count = renewals_read_some(reader, node, most, renewals);
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, renewal_json(&renewals[i]));
    return array;
}
