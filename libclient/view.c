/* Reads an agent's table. Needs no agent and no client; a forked child may use it too. */
#include "libclient/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/index.h"
#include "shm/slot.h"
#include "shm/wordings.h"

struct hf_view {
    struct hf_table table;
    char shm_name[HF_TABLE_NAME_MAX];
};

/* An ordinary user's, who may truncate it at any time. The system's agent is everybody's to trust. */
static bool view_is_anothers(const struct hfc_place *place)
{
    return strncmp(place->table, "/holdfast-", strlen("/holdfast-")) == 0 &&
           place->table_owner != geteuid();
}

static int view_refresh(hf_view *view)
{
    return hf_table_refresh(&view->table) < 0
               ? hfc_fail(HF_ETABLE, "the agent's table cannot be read any more: open it again")
               : HF_OK;
}

int hf_view_open(const char *agent, hf_view **ret_view)
{
    struct hfc_place places[HFC_PLACES_MAX];
    char why[256] = "";
    hf_view *view;
    int count = 0, status;

    if (!ret_view)
        return hfc_fail(HF_EINVAL, "hf_view_open: ret_view is NULL");
    status = hfc_places(agent, places, &count);
    if (status < 0)
        return status;
    view = calloc(1, sizeof(*view));
    if (!view)
        return hfc_fail(HF_ENOMEM, NULL);
    for (int i = 0; i < count; i++) {
        const struct hfc_place *place = &places[i];

        status = HF_EINVAL;
        (void)snprintf(why, sizeof(why), "%.107s does not tell the agent's name: .../NAME/sock",
                       place->path);
        if (!*place->table)
            break;
        (void)snprintf(view->shm_name, sizeof(view->shm_name), "%s", place->table);
        status = (view_is_anothers(place) ? hf_table_open_copy : hf_table_open_waiting)(
            place->table, place->table_owner, &view->table, why, sizeof(why));
        if (status != HF_ENOAGENT)
            break;
    }
    if (status < 0) {
        free(view);
        return hfc_fail(status, "%s", *why ? why : hf_status_text(status));
    }
    *ret_view = view;
    return HF_OK;
}

void hf_view_close(hf_view *view)
{
    if (!view)
        return;
    hf_table_close(&view->table);
    free(view);
}

static void view_fill(const hf_view *view, const struct hf_slot_view *slot, struct hf_info *info)
{
    const struct hf_slot *at = &view->table.slots[slot->slot];

    /* Field by field: zeroing the whole struct first would cost a tenth of a look-up. */
    info->size = sizeof(*info);
    info->name_len = slot->name_len;
    info->state = (int)slot->state;
    info->votes = slot->votes;
    info->pid = slot->pid;
    info->uid = slot->uid;
    info->ttl_ms = slot->ttl_ms;
    info->fence = slot->fence;
    info->since_ns = slot->since.ns;
    info->valid_until_ns = slot->deadline.ns;
    info->held = hf_check_holds(atomic_load(&at->check), slot->generation, (hf_time){hfc_now()});
    info->is_job = (slot->flags & HF_SLOT_F_JOB) != 0;
    memcpy(info->name, slot->name, slot->name_len);
    info->name[slot->name_len] = '\0';
    memcpy(info->command, slot->comm, slot->comm_len + 1u);
    memcpy(info->note, slot->note, slot->note_len + 1u);
    info->reason[0] = '\0';
    if (slot->reason != HF_LOSS_NONE)
        (void)snprintf(info->reason, sizeof(info->reason), "%s", hf_loss_text(slot->reason));
}

/* A released lease is not shown; a lost one is shown as lost until its slot is reused. */
static bool view_is_shown(const struct hf_slot_view *slot)
{
    return slot->state >= HF_SLOT_HELD && slot->state <= HF_SLOT_LOST;
}

int hf_view_find(hf_view *view, const void *name, size_t name_len, struct hf_info *info)
{
    struct hf_slot_view slot;
    int status;

    if (!view || !info || info->size < sizeof(*info))
        return hfc_fail(HF_EINVAL, "hf_view_find: begin with HF_INFO_INIT, which sets the size");
    if (!name || name_len == 0 || name_len > HF_NAME_MAX)
        return hfc_fail(HF_ENAME, NULL);
    status = view_refresh(view);
    if (status < 0)
        return status;
    status = hf_index_find(&view->table, name, name_len, &slot);
    if (status == HF_OK && !view_is_shown(&slot))
        status = HF_ENOTHELD;
    if (status < 0)
        return hfc_fail(status, NULL);
    view_fill(view, &slot, info);
    return HF_OK;
}

int hf_view_walk(hf_view *view, int (*fn)(const struct hf_info *info, void *arg), void *arg)
{
    uint32_t used;
    int status;

    if (!view || !fn)
        return hfc_fail(HF_EINVAL, "hf_view_walk: an argument is NULL");
    status = view_refresh(view);
    if (status < 0)
        return status;
    used = atomic_load(&view->table.header->slots_used);
    if (used > hf_table_slots(&view->table)) /* read behind `used` */
        return hfc_fail(HF_ETABLE, "the table counts more slots than it has");
    for (uint32_t i = 0; i < used; i++) {
        struct hf_slot_view slot;
        struct hf_info info;
        int stop;

        /* A slot that cannot be read (its writer was killed inside) must not hide the others. */
        if (hf_slot_read(&view->table, i, &slot) < 0 || !view_is_shown(&slot))
            continue;
        view_fill(view, &slot, &info);
        stop = fn(&info, arg);
        if (stop)
            return stop;
    }
    return HF_OK;
}

int hf_view_heartbeat_ns(hf_view *view, int64_t *ret_ns)
{
    const struct hf_table_header *header;
    int64_t last = 0;
    int status;

    if (!view || !ret_ns)
        return hfc_fail(HF_EINVAL, "hf_view_heartbeat_ns: an argument is NULL");
    status = view_refresh(view);
    if (status < 0)
        return status;
    header = view->table.header;
    if (atomic_load(&header->state) == HF_TABLE_RETIRED ||
        !hf_table_is_linked(&view->table, view->shm_name))
        return hfc_fail(HF_ETABLE, "the table was replaced: open it again");
    for (int i = 0; i < 3; i++) {
        int64_t beat = atomic_load(i == 0   ? &header->main_beat_ns
                                   : i == 1 ? &header->broker_beat_ns
                                            : &header->renewal_beat_ns);

        last = beat > last ? beat : last;
    }
    *ret_ns = last;
    return HF_OK;
}

/* --- whether the agent hangs ------------------------------------------------------------------ */

/* Whether the agent hangs: its process and socket exist, but it answers nothing. The test is the sign of
 * life that its threads leave in the table. */

static bool view_is_silent(const struct hf_table_header *header, int64_t now_ns, int64_t span_ns)
{
    int64_t broker = atomic_load_explicit(&header->broker_beat_ns, memory_order_relaxed);
    int64_t renewal = atomic_load_explicit(&header->renewal_beat_ns, memory_order_relaxed);
    int64_t oldest = hfc_min(broker, renewal);

    return oldest > 0 && now_ns - oldest > span_ns;
}

bool hfc_table_is_silent(const struct hf_table *table, int64_t now_ns, int64_t span_ns)
{
    return view_is_silent(table->header, now_ns, span_ns);
}

bool hfc_agent_hangs(hf_client *client, int64_t now_ns)
{
    return client->link == HFC_LINK_UP &&
           hfc_table_is_silent(&client->session->map->table, now_ns, HFC_HANG_NS);
}

bool hfc_stranger_hangs(const struct hfc_place *place, int64_t now_ns)
{
    struct hf_table_header header;

    /* Not mapped: its owner may be another user, who truncates it. */
    return !*place->table || hf_table_peek(place->table, place->table_owner, &header) != HF_OK ||
           atomic_load_explicit(&header.broker_beat_ns, memory_order_relaxed) == 0 ||
           view_is_silent(&header, now_ns, HFC_HANG_NS);
}
