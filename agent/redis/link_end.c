/* What every part of a link may do: end it, and change its state. It calls none of them, so none of them is called
 * back: an end is told by link.c at the loop's next turn. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/core/backoff.h"
#include "agent/redis/link_internal.h"
#include "shm/assert.h"
#include "shm/status.h"

uint32_t link_random(struct link *link)
{
    return draw_next(&link->random);
}

void link_copy_text(const struct link *link, char to[LINK_TEXT_MAX], const char *from)
{
    const char *password = link->options.address->password;
    size_t i;

    if (password[0] && strstr(from, password))
        from = "(text withheld: it repeats the password)";
    for (i = 0; i < LINK_TEXT_MAX - 1 && from[i]; i++)
        to[i] = isprint((unsigned char)from[i]) ? from[i] : '?';
    to[i] = '\0';
}

int link_in_flight(const struct link *link)
{
    return link->in_flight - link->checks;
}

/* --- the end ---------------------------------------------------------------------------------- */

void link_enter(struct link *link, enum link_state state, hf_time step_at)
{
    hf_assert((unsigned)state <= LINK_WAITING, "state %d after %d", (int)state, (int)link->state);
    hf_assert(state != LINK_UP || link->state == LINK_GREETING, "state %d after %d", (int)state,
              (int)link->state);
    hf_assert(state != LINK_WAITING || link->state >= LINK_ENDED, "state %d after %d", (int)state,
              (int)link->state);
    link->state = state;
    if (step_at.ns == HF_TIME_NEVER.ns)
        loop_timer_cancel(link->options.loop, &link->step);
    else
        (void)loop_timer_set(link->options.loop, &link->step, step_at);
}

void link_ended(struct link *link, enum hf_node_error error)
{
    link->context = NULL;
    link->end_error = error;
    loop_timer_cancel(link->options.loop, &link->probe);
    loop_timer_cancel(link->options.loop, &link->who);
    link_enter(link, LINK_ENDED, clock_now());
}

void io_detach(redisAsyncContext *context)
{
    if (context->ev.cleanup)
        context->ev.cleanup(context->ev.data);
    memset(&context->ev, 0, sizeof(context->ev));
}

void link_drop_context(struct link *link)
{
    redisAsyncContext *context = link->context;

    link->context = NULL;
    if (!context)
        return;
    context->data = NULL; /* its callbacks now do nothing */
    io_detach(context);
    redisAsyncFree(context);
}

void link_end(struct link *link, enum hf_node_error error, const char *format, ...)
{
    va_list args;

    if (link->state == LINK_ENDED || link->state == LINK_WAITING || link->state == LINK_IDLE)
        return;
    va_start(args, format);
    vsnprintf(link->end_text, sizeof(link->end_text), format, args);
    va_end(args);
    link_drop_context(link);
    link_ended(link, error);
}

void link_mute_end(struct link *link, enum hf_node_error error, const char *text)
{
    link->mute_ends++;
    if (link->other != HF_NODE_ERR_NONE)
        link_end(link, link->other, "%s", tls_knocked_text(link->other));
    else
        link_end(link, error, "%s", text);
}

void link_read_is_over(struct link *link)
{
    if (!bounds_hold(&link->bounds, link->context->c.reader))
        link_end(link, HF_NODE_ERR_PROTOCOL, "%s", bounds_text(&link->bounds));
}

/* --- the probe -------------------------------------------------------------------------------- */

/* The next probe begins then, if it would be later. */
static void link_probe_by(struct link *link, hf_time at)
{
    if (heap_has(&link->probe.item) && hf_time_before(at, link->probe.item.at))
        (void)loop_timer_set(link->options.loop, &link->probe, at);
}

void link_set_probe(struct link *link, hf_dur probe)
{
    link->options.probe = probe;
    link_probe_by(link, hf_time_add(clock_now(), probe));
}

/* (!) A node may tell without a pause that its sentinel has changed. */
#define PROBE_LEAST hf_ms(100)

void link_probe_soon(struct link *link)
{
    link_probe_by(link, hf_time_max(clock_now(), hf_time_add(link->probed, PROBE_LEAST)));
}
