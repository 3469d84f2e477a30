/* A table that is damaged, or written by somebody who means ill, before those who look at it: the
 * reading subcommands, the library's view, and the next agent, which may find it as its own.
 *
 * The input patches a good table of a few leases: {section, offset, length, bytes} again and again.
 * Bits of its first byte say who looks. */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <jansson.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/reader/exposition.h"
#include "shm/history.h"
#include "shm/index.h"
#include "shm/status.h"
#include "shm/table.h"
#include "libclient/holdfast_admin.h"
#include "tools/reader/reader.h"
#include "tools/show/show_internal.h"
#include "tools/top/top_internal.h"

#define CAPACITY 8
#define WHY_SIZE 512

static const struct life alive = {.verdict = LIFE_ALIVE};
static const struct life dead = {.verdict = LIFE_DEAD};
static char shm_name[HF_TABLE_NAME_MAX], agent_path[64];
static int object = -1; /* open on what has that name */
static uint8_t *image;  /* its mapping */
static uint8_t *good;
static size_t good_size, good_at[HF_SECTIONS_MAX + 1]; /* where the sections begin; 0: the header */
static unsigned good_sections;

/* What takes long needs more bits, so that few inputs are for it. */
enum who { PEOPLE = 1, PROGRAMS = 2, LIBRARY = 4, HISTORY = 8, SHORTENED = 0x70, AGENT = 0xe0 };

static struct hf_table_spec spec_of(void)
{
    return (struct hf_table_spec){.agent_name = "fuzz",
                                  .capacity = CAPACITY,
                                  .slot_room = 4 * CAPACITY,
                                  .nodes = 3,
                                  .quorum = 2,
                                  .ttl_ms = 30000,
                                  .ttl_max_ms = 60000,
                                  .mode = 0644,
                                  .group = (gid_t)-1,
                                  .version = "0.1.0",
                                  .boot_id = {1, 2, 3}};
}

static void remove_object(void)
{
    shm_unlink(shm_name);
}

static void put_leases(struct hf_table *table, struct hf_text_pool *pool)
{
    static const char *const names[] = {"db/migrate", "cron", "a\nb\x1b[2J", "\xff\xfe"};

    for (uint32_t i = 0; i < 4; i++) {
        struct hf_slot_identity id = {.generation = 1 + i,
                                      .pid = 1,
                                      .ttl_ms = 30000,
                                      .name_len = (uint8_t)strlen(names[i]),
                                      .note_len = 4,
                                      .comm_len = 4,
                                      .fence = UINT64_C(117652638140596224),
                                      .since = {1000000000}};

        FUZZ_CHECK(hf_text_put(pool, names[i], id.name_len, "note", 4, "comm", 4, &id.text_off) ==
                   0);
        hf_slot_publish(&table->slots[i], &id, (hf_time){INT64_MAX / 2}, 3);
        FUZZ_CHECK(hf_index_add(table, names[i], id.name_len, i) == 0);
    }
}

static void put_events(struct hf_table *table)
{
    const struct hf_renewal renewal = {0};

    (void)hf_history_begin(table);
    for (unsigned ring = 0; ring < HF_EVENT_RINGS; ring++)
        for (uint32_t i = 0; i < 4; i++) {
            struct hf_event event = {.kind = (uint8_t)(1 + 4 * ring + i), .node = (uint8_t)i};

            hf_event_name(table, &event, "db/migrate", 10);
            hf_event_put(table, (enum hf_event_ring)ring, &event);
        }
    hf_renewal_put(table, 0, &renewal);
}

static void put_nodes(struct hf_table *table)
{
    for (uint32_t i = 0; i < 3; i++) {
        struct hf_node_row row = {.state = i == 2 ? HF_NODE_QUARANTINED : HF_NODE_UP,
                                  .quarantine_reason = i == 2 ? HF_QUARANTINE_AGE : 0,
                                  .rtt_ns = 150000,
                                  .last_reply_ns = 1000000000};

        snprintf(row.id, sizeof(row.id), "n%u", (unsigned)i + 1);
        snprintf(row.address, sizeof(row.address), "127.0.0.1:%u", 7001 + (unsigned)i);
        snprintf(row.run_id, sizeof(row.run_id), "0123456789abcdef0123456789abcdef01234567");
        snprintf(row.version, sizeof(row.version), "7.0.15");
        hf_node_publish(table, i, &row);
    }
}

static void put_waiters(struct hf_table *table)
{
    for (uint32_t i = 0; i < 3; i++) {
        struct hf_waiter_row row = {.flags = HF_WAITER_F_USED,
                                    .pid = 1,
                                    .number = 3 - i,
                                    .deadline_ns = i ? INT64_MAX : 2000000000,
                                    .name_len = 4,
                                    .name = "cron",
                                    .comm = "comm"};

        hf_waiter_publish(table, i, &row);
    }
}

/* The same bytes in every run: whatever is random or of this moment is set. */
static void make_good(void)
{
    struct hf_table_spec spec = spec_of();
    struct hf_text_pool *pool;
    struct hf_table table;
    char agent[32], why[WHY_SIZE];
    bool warm;

    snprintf(agent, sizeof(agent), "fuzz-%d", (int)getpid());
    snprintf(agent_path, sizeof(agent_path), "/nowhere/%s/sock", agent);
    FUZZ_CHECK(hf_table_name(agent, false, geteuid(), shm_name) == 0);
    FUZZ_CHECK(hf_table_create(shm_name, &spec, &table, &warm, why, sizeof(why)) == 0);
    atexit(remove_object);
    memset(table.header->index_key, 7, sizeof(table.header->index_key));
    table.header->epoch = 7;
    table.header->uid = 0;
    atomic_store(&table.header->pid, 1);
    memset(table.header->host, 0, sizeof(table.header->host));
    strcpy(table.header->host, "host7");
    FUZZ_CHECK(hf_text_pool_create(&table, &pool) == 0);
    put_leases(&table, pool);
    put_nodes(&table);
    put_waiters(&table);
    put_events(&table);
    hf_table_set_state(&table, HF_TABLE_ALIVE);
    good_size = table.size;
    good = malloc(good_size);
    FUZZ_CHECK(good);
    memcpy(good, table.header, good_size);
    for (good_sections = 1; good_sections <= HF_SECTIONS_MAX; good_sections++) {
        const struct hf_section *section = &table.header->sections[good_sections - 1];

        if (section->length == 0)
            break;
        good_at[good_sections] = section->offset;
    }
    hf_text_pool_destroy(pool);
    hf_table_close(&table);
    shm_unlink(shm_name);
}

static void map_object(void)
{
    object = shm_open(shm_name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    FUZZ_CHECK(object >= 0 && posix_fallocate(object, 0, (off_t)good_size) == 0);
    image = mmap(NULL, good_size, PROT_READ | PROT_WRITE, MAP_SHARED, object, 0);
    FUZZ_CHECK(image != MAP_FAILED);
    memcpy(image, good, good_size);
}

static void unmap_object(void)
{
    munmap(image, good_size);
    close(object);
    shm_unlink(shm_name);
    object = -1;
}

/* Patches the object, or makes it good again there. */
static void patch(struct fuzz_input in, bool again)
{
    while (in.left > 0) {
        size_t offset = good_at[fuzz_u8(&in) % good_sections] + fuzz_u16(&in), most, length;
        uint8_t bytes[64];

        offset = offset < good_size ? offset : offset % good_size;
        length = fuzz_u8(&in) % sizeof(bytes) + 1;
        most = good_size - offset;
        most = length < most ? length : most;
        fuzz_take(&in, bytes, most);
        memcpy(image + offset, again ? good + offset : bytes, most);
    }
}

static void check_slot(const struct hf_slot_view *v)
{
    FUZZ_CHECK(v->state > HF_SLOT_FREE && v->state <= HF_SLOT_ENDED);
    FUZZ_CHECK(v->note_len <= HF_NOTE_MAX && v->comm_len <= HF_COMM_MAX);
    FUZZ_CHECK(v->note[v->note_len] == '\0' && v->comm[v->comm_len] == '\0');
}

/* Whatever was written, a terminal sees printable characters only. */
static void check_output(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        FUZZ_CHECK((text[i] >= 0x20 && text[i] < 0x7f) || text[i] == '\n');
}

typedef void event_fn(const struct reader *reader, const struct hf_event *event);

/* Calls `fn`, unless NULL, for the oldest events of each ring. */
static void read_history(const struct reader *reader, event_fn *fn)
{
    static struct hf_renewal renewals[HF_RENEWALS_KEPT];
    const struct hf_table *table = &reader->table;
    struct hf_event event;

    for (unsigned ring = 0; ring < HF_EVENT_RINGS; ring++) {
        uint64_t end = hf_events_written(table, (enum hf_event_ring)ring);
        uint64_t from = hf_events_oldest(table, (enum hf_event_ring)ring);

        for (uint64_t i = from; i < end && i - from < 16; i++) {
            if (hf_event_read(table, (enum hf_event_ring)ring, i, &event) != 0)
                continue;
            FUZZ_CHECK(hf_event_text_kept(&event) <= HF_EVENT_TEXT);
            if (fn)
                fn(reader, &event);
        }
    }
    for (uint32_t node = 0; node < HF_NODES_MAX; node++)
        FUZZ_CHECK(hf_renewals_read(table, node, renewals, HF_RENEWALS_KEPT) <= HF_RENEWALS_KEPT);
}

/* Runs what prints to stdout, and keeps what it printed. */
#define CAPTURE(text, length, what)                                                                \
    do {                                                                                           \
        FILE *terminal = stdout;                                                                   \
                                                                                                   \
        stdout = open_memstream(&(text), &(length));                                               \
        FUZZ_CHECK(stdout);                                                                        \
        what;                                                                                      \
        fclose(stdout);                                                                            \
        stdout = terminal;                                                                         \
    } while (0)

static void show_json(const struct reader *reader, const struct reader_filter *filter)
{
    struct json_out out;
    struct waiting waiting;
    uint32_t unreadable;

    json_begin(&out, stdout);
    show_lease_list_json(&out, reader, filter, &unreadable);
    show_node_list_json(&out, reader, &alive, 4);
    waiting_read(&reader->table, &alive, "", 0, false, &waiting);
    show_waiter_json(&out, &waiting);
    waiting_free(&waiting);
    json_end(&out);
}

/* Two frames, since rates are between two. */
static void show_on_a_screen(const struct reader *reader)
{
    const struct top_style style = {.width = 80, .height = 24};
    const struct reader_name all = {.len = 0};
    struct top_model model = {.pid = 0};
    struct top_canvas canvas = {.text = NULL};

    for (int i = 0; i < 2; i++) {
        top_model_take(&model, reader, &all);
        top_frame_draw(&canvas, &style, &model);
        FUZZ_CHECK(canvas.lines <= style.height);
        check_output(canvas.text, canvas.length);
    }
    top_canvas_free(&canvas);
    top_model_free(&model);
}

static void show_to_people(const struct reader *reader)
{
    struct reader_filter filter = {.all = true};
    struct hf_slot_view view;
    struct waiting waiting;
    uint32_t unreadable;
    size_t length;
    char *text;

    waiting_read(&reader->table, &alive, "", 0, false, &waiting);
    CAPTURE(text, length, {
        show_lease_list(reader, &filter, &unreadable);
        show_node_list(reader, &alive);
        show_node_list_long(reader, &dead);
        if (reader_find(&reader->table, "cron", 4, &view) == HF_OK)
            show_lease(reader, &view, true);
        read_history(reader, show_event);
        show_waiter_list(&waiting, true);
        show_waiter_of_lease(&waiting);
    });
    waiting_free(&waiting);
    check_output(text, length);
    show_on_a_screen(reader);
    free(text);
}

static void show_metrics(const struct reader *reader)
{
    const struct exposition e = {.agent = "fuzz",
                                 .state = HF_AGENT_ALIVE,
                                 .now = reader_now(),
                                 .wall_ms = INT64_C(1800000000000)};
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    FUZZ_CHECK(out);
    exposition_write(&e, &reader->table, out);
    FUZZ_CHECK(fclose(out) == 0);
    check_output(text, length);
    free(text);
}

static void show_to_programs(const struct reader *reader)
{
    struct reader_filter filter = {.all = true};
    size_t length;
    char *text;
    json_t *json;

    CAPTURE(text, length, show_json(reader, &filter));
    json = json_loadb(text, length, JSON_ALLOW_NUL, NULL);
    FUZZ_CHECK(json_is_object(json));
    json_decref(json);
    free(text);
    CAPTURE(text, length, read_history(reader, show_event_json));
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        json = json_loadb(line, (size_t)(end - line), JSON_ALLOW_NUL, NULL);
        FUZZ_CHECK(json_is_object(json));
        json_decref(json);
    }
    free(text);
}

static void read_as_tool(uint8_t who)
{
    struct reader reader = {.place.owner = geteuid()};
    char why[WHY_SIZE] = "";
    struct hf_slot_view view;
    struct hf_node_row row;

    snprintf(reader.place.shm_name, sizeof(reader.place.shm_name), "%s", shm_name);
    if (hf_table_open(shm_name, geteuid(), &reader.table, why, sizeof(why)) < 0) {
        FUZZ_CHECK(why[0] && strnlen(why, sizeof(why)) < sizeof(why));
        return;
    }
    for (uint32_t i = 0; i <= hf_table_slots(&reader.table) && i < 5 * CAPACITY; i++)
        if (hf_slot_read(&reader.table, i, &view) == 0)
            check_slot(&view);
    if (hf_index_find(&reader.table, "db/migrate", 10, &view) == 0)
        FUZZ_CHECK(view.name_len == 10 && memcmp(view.name, "db/migrate", 10) == 0);
    for (uint32_t i = 0; i < hf_table_nodes(&reader.table); i++)
        if (hf_node_read(&reader.table, i, &row) == 0)
            FUZZ_CHECK(memchr(row.id, '\0', sizeof(row.id)) &&
                       memchr(row.error, '\0', sizeof(row.error)));
    for (unsigned i = 0; i < HF_COUNTERS; i++)
        (void)hf_counter_read(&reader.table, (enum hf_counter)i);
    if (who & HISTORY)
        read_history(&reader, NULL);
    if (who & PEOPLE)
        show_to_people(&reader);
    if (who & PROGRAMS) {
        show_to_programs(&reader);
        show_metrics(&reader);
    }
    reader_close(&reader);
}

static int on_info(const struct hf_info *info, void *arg)
{
    (void)arg;
    FUZZ_CHECK(info->name_len <= sizeof(info->name));
    FUZZ_CHECK(memchr(info->note, '\0', sizeof(info->note)));
    FUZZ_CHECK(memchr(info->command, '\0', sizeof(info->command)));
    FUZZ_CHECK(memchr(info->reason, '\0', sizeof(info->reason)));
    return 0;
}

static void read_as_library(void)
{
    struct hf_info info = {.size = sizeof(info)};
    hf_view *view;
    int64_t beat;

    if (hf_view_open(agent_path, &view) < 0)
        return;
    (void)hf_view_walk(view, on_info, NULL);
    if (hf_view_find(view, "cron", 4, &info) == 0)
        on_info(&info, NULL);
    (void)hf_view_heartbeat_ns(view, &beat);
    hf_view_close(view);
}

/* It keeps the table, and takes more slots, or makes it anew; either way it can write one. */
static void find_as_agent(bool more)
{
    struct hf_table_spec spec = spec_of();
    char why[WHY_SIZE] = "";
    struct hf_text_pool *pool;
    struct hf_slot_view view;
    struct hf_table table;
    bool warm;

    if (more) {
        spec.capacity = 3 * CAPACITY;
        spec.slots_live = 1;
    }
    if (hf_table_create(shm_name, &spec, &table, &warm, why, sizeof(why)) < 0) {
        FUZZ_CHECK(why[0]);
        return;
    }
    FUZZ_CHECK(table.capacity == spec.capacity && table.capacity <= table.slot_room);
    FUZZ_CHECK(table.slots_there >= 1 && table.slots_there <= table.slot_room);
    FUZZ_CHECK(hf_table_take_slots(&table, table.capacity) == 0);
    FUZZ_CHECK(hf_text_pool_create(&table, &pool) == 0);
    for (uint32_t i = 0; i < table.slots_there; i++) {
        bool odd;

        if (hf_slot_peek(&table, i, &view, &odd) == 0)
            (void)hf_text_pool_reserve(pool, atomic_load(&table.slots[i].text_off), view.name_len,
                                       view.note_len, view.comm_len);
    }
    hf_index_rebuild(&table);
    hf_text_pool_destroy(pool);
    FUZZ_CHECK(hf_text_pool_create(&table, &pool) == 0);
    for (uint32_t i = 0; i < CAPACITY; i++)
        hf_slot_clear(&table.slots[i]);
    hf_index_rebuild(&table);
    put_leases(&table, pool);
    FUZZ_CHECK(hf_index_find(&table, "cron", 4, &view) == 0 && view.slot == 1);
    hf_text_pool_destroy(pool);
    hf_table_close(&table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    uint8_t who = fuzz_u8(&in);
    bool shortened = (who & SHORTENED) == SHORTENED, agent = (who & AGENT) == AGENT;

    if (!good)
        make_good();
    if (object < 0)
        map_object();
    patch(in, false);
    if (shortened)
        FUZZ_CHECK(ftruncate(object, fuzz_u16(&in)) == 0);
    read_as_tool(who);
    if (who & LIBRARY)
        read_as_library();
    if (agent)
        find_as_agent(who & HISTORY);
    if (shortened || agent)
        unmap_object();
    else
        patch(in, true);
    return 0;
}
