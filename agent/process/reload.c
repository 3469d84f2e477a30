#include "agent/process/reload.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/base/log.h"
#include "agent/base/tls_keys.h"
#include "agent/base/thread_role.h"
#include "agent/process/helper.h"
#include "agent/process/notify.h"
#include "agent/process/permissions.h"
#include "agent/process/reload_check.h"
#include "agent/record/config_order.h"
#include "shm/assert.h"
#include "shm/drained.h"
#include "shm/status.h"
#include "shm/text_cut.h"

#define END_WAITS_MS 5000 /* for a reload under way, when the agent ends */

enum stage {
    IDLE,
    READING, /* the thread is at it */
    TELLING, /* `order` is on its way to the threads */
};

struct reload {
    struct agent *agent;
    struct reload_start start;
    enum stage stage;
    uint64_t number; /* of the reload that runs or was the last; 0 none */
    bool again;      /* another one follows */
    struct reload_check *check;
    struct config *now;   /* in force; NULL: the one of the start */
    struct config *plain; /* the same as its file has it, without the fleet's record */
    struct config_order order;
    int told; /* threads that got `order` */
    bool applied;
    char text[RELOAD_TEXT_SIZE]; /* of the last one that is over */
    uint64_t over;               /* its number */
};

/* --- its thread -------------------------------------------------------------------------------- */

static void *reload_thread_main(void *arg)
{
    struct reload_check *check = arg;

    (void)pthread_setname_np(pthread_self(), "hf-reload");
    reload_check(check);
    atomic_store_explicit(&check->done, true, memory_order_release);
    return NULL;
}

/* --- main: the steps ---------------------------------------------------------------------------- */

static const struct config *reload_in_force_now(const struct reload *r)
{
    return r->now ? r->now : r->agent->config;
}

static void reload_config_free(struct config *config)
{
    if (!config)
        return;
    explicit_bzero(config, sizeof(*config)); /* passwords */
    free(config);
}

static void reload_check_free(struct reload_check *check)
{
    if (!check)
        return;
    reload_config_free(check->next);
    reload_config_free(check->plain);
    tls_keys_drop(check->keys);
    free(check);
}

/* Cut behind a word. Returns `out`. */
static const char *reload_fit(const char *text, char *out, size_t size)
{
    snprintf(out, size, "%.*s", (int)size - 1, text);
    hf_text_cut(out, size);
    return out;
}

static void reload_finish(struct reload *r)
{
    char status[256], refusal[184];
    struct hf_drained drained;
    const char *rest;

    hf_assert(r->stage == TELLING && r->over < r->number, "stage %d, number %llu, over %llu",
              (int)r->stage, (unsigned long long)r->number, (unsigned long long)r->over);
    hf_assert(!r->check, "number %llu", (unsigned long long)r->number);
    r->stage = IDLE;
    r->over = r->number;
    /* The manager shows one status only: a drain stays in it. */
    hf_drained_read(&r->agent->table, &drained);
    rest = drained.stands ? "; this host is drained" : "";
    if (r->applied)
        snprintf(status, sizeof(status), "READY=1\nSTATUS=Reloaded%s", rest);
    else
        snprintf(status, sizeof(status), "READY=1\nSTATUS=Reload refused: %s%s",
                 reload_fit(r->text, refusal, sizeof(refusal)), rest);
    notify_send(status);
}

static void reload_tell(struct reload *r, const struct config *config)
{
    struct message *m = message_new(MSG_CONFIG);

    r->order = (struct config_order){.config = config};
    (void)reload_fit(r->text, r->order.text, sizeof(r->order.text));
    r->stage = TELLING;
    r->told = config ? 2 : 1;
    m->order = &r->order;
    mailbox_post(&r->agent->to_broker, m);
    if (!config)
        return;
    m = message_new(MSG_CONFIG);
    m->order = &r->order;
    mailbox_post(&r->agent->to_renewal, m);
}

/* It may quote any bytes of a file. */
static void reload_refused(struct reload *r, const char *why)
{
    char shown[RELOAD_TEXT_SIZE];

    r->applied = false;
    snprintf(r->text, sizeof(r->text), "%s", log_name(why, strlen(why), shown, sizeof(shown)));
    log_warn("the configuration is not reloaded, and nothing changes: %s", r->text);
    reload_tell(r, NULL);
}

static void reload_say_applied(struct reload *r, const struct reload_check *check)
{
    char changes[RELOAD_TEXT_SIZE / 2], moved[RELOAD_TEXT_SIZE / 2], shown[RELOAD_TEXT_SIZE];
    size_t now = config_changes_text(check->changes, check->change_count, CONFIG_NOW, changes,
                                     sizeof(changes)),
           there = config_changes_text(check->changes, check->change_count, CONFIG_MOVED, moved,
                                       sizeof(moved));
    char text[2 * RELOAD_TEXT_SIZE];

    snprintf(text, sizeof(text), "%s%s%s%s%s%s", now || there ? "" : "nothing has changed", changes,
             now && there ? "; " : "", moved,
             check->untried[0] ? "; not tried, because nobody answers there: node " : "",
             check->untried);
    snprintf(r->text, sizeof(r->text), "%s", log_name(text, strlen(text), shown, sizeof(shown)));
    log_info("the configuration is reloaded from %s: %s", check->path, r->text);
    if (check->next->descriptors_bound && !check->now->descriptors_bound)
        log_warn(
            "raise LimitNOFILE= in the unit, or ulimit -n, and restart the agent: its limit of "
            "descriptors has room for %" PRIu32 " clients, fewer than clients_max",
            check->next->clients_max);
    if (check->next->warning[0])
        log_warn("%s", check->next->warning);
}

static void reload_apply(struct reload *r, struct reload_check *check)
{
    char why[512];

    if (permissions_change(r->agent, reload_in_force_now(r), check->next, why, sizeof(why)) < 0) {
        reload_refused(r, why);
        return;
    }
    hf_assert(r->stage == READING && check == r->check, "stage %d", (int)r->stage);
    r->applied = true;
    tls_keys_use(check->keys);
    check->keys = NULL;
    log_set_level(check->next->log_level);
    atomic_store_explicit(&r->agent->table.header->ttl_ms, check->next->ttl_ms,
                          memory_order_relaxed);
    reload_say_applied(r, check);
    reload_tell(r, check->next);
}

static int reload_begin(struct reload *r)
{
    struct reload_check *check = calloc(1, sizeof(*check));

    if (!check)
        return HF_ENOMEM;
    check->agent = r->agent;
    check->start = &r->start;
    check->now = reload_in_force_now(r);
    check->next = calloc(1, sizeof(*check->next));
    check->plain = calloc(1, sizeof(*check->plain));
    if (!check->next || !check->plain || helper_start(reload_thread_main, check) < 0) {
        reload_check_free(check);
        return HF_ENOMEM;
    }
    hf_assert(r->stage == IDLE && !r->check, "stage %d", (int)r->stage);
    r->check = check;
    r->stage = READING;
    return HF_OK;
}

/* --- main: the door ----------------------------------------------------------------------------- */

int reload_create(struct agent *agent, const struct reload_start *start, struct reload **ret_reload)
{
    struct reload *r = calloc(1, sizeof(*r));

    if (!r)
        return HF_ENOMEM;
    r->agent = agent;
    r->start = *start;
    *ret_reload = r;
    return HF_OK;
}

/* A look-up of a group that never ends keeps what its thread uses. */
void reload_destroy(struct reload *r)
{
    if (!r)
        return;
    for (int waited = 0; r->stage == READING && waited < END_WAITS_MS; waited += 10) {
        if (atomic_load_explicit(&r->check->done, memory_order_acquire))
            r->stage = IDLE;
        else
            (void)poll(NULL, 0, 10);
    }
    if (r->stage == READING)
        return;
    reload_check_free(r->check);
    reload_config_free(r->now);
    reload_config_free(r->plain);
    explicit_bzero(r, sizeof(*r));
    free(r);
}

void reload_take(const struct reload *r, struct config *config)
{
    if (r && r->plain)
        *config = *r->plain;
}

uint64_t reload_ask(struct reload *r)
{
    if (r->stage != IDLE) {
        r->again = true;
        return r->number + 1;
    }
    r->number++;
    notify_reloading();
    if (r->agent->config->ephemeral)
        reload_refused(r,
                       "restart the agent instead: with --dev it cannot reload its configuration");
    else if (reload_begin(r) < 0)
        reload_refused(r, "no memory");
    return r->number;
}

bool reload_busy(const struct reload *r)
{
    return r->stage != IDLE || r->again;
}

void reload_turn(struct reload *r)
{
    struct reload_check *check = r->check;

    if (r->stage == READING && atomic_load_explicit(&check->done, memory_order_acquire)) {
        if (check->good)
            reload_apply(r, check);
        else
            reload_refused(r, check->why);
    } else if (r->stage == TELLING &&
               atomic_load_explicit(&r->order.taken, memory_order_acquire) == r->told) {
        if (r->applied) {
            reload_config_free(r->now);
            reload_config_free(r->plain);
            r->now = check->next;
            r->plain = check->plain;
            check->next = check->plain = NULL;
        }
        reload_check_free(check);
        r->check = NULL;
        reload_finish(r);
    } else if (r->stage == IDLE && r->again) {
        r->again = false; /* a turn later: who asked for the one before has its answer */
        (void)reload_ask(r);
    }
}

const struct config *reload_in_force(const struct reload *r)
{
    return reload_in_force_now(r);
}

bool reload_over(const struct reload *r, uint64_t number, bool *ret_applied, const char **ret_text)
{
    if (r->over < number)
        return false;
    *ret_applied = r->applied;
    *ret_text = r->text;
    return true;
}
