/* The events of a link's descriptor. As hiredis' own adapter for libev, but it judges after each read what hiredis keeps
 * (agent/redis/bounds.h). A link with TLS has events of its own (agent/redis/link_tls.c). */
#include <string.h>

#include <ev.h>

#include "agent/redis/link_internal.h"

/* The events of a link's descriptor. As hiredis' own adapter for libev, but it judges after each read what hiredis keeps
 * (agent/redis/bounds.h). A link with TLS has events of its own (agent/redis/link_tls.c). */

static void link_io_on_readable(struct ev_loop *loop, ev_io *io, int events)
{
    struct link *link = io->data;
    redisAsyncContext *context = link->context;

    (void)loop;
    (void)events;
    redisAsyncHandleRead(context);
    if (link->context == context)
        link_read_is_over(link);
}

static void link_io_on_writable(struct ev_loop *loop, ev_io *io, int events)
{
    struct link *link = io->data;

    (void)loop;
    (void)events;
    redisAsyncHandleWrite(link->context);
}

static void link_io_add_read(void *arg)
{
    struct link *link = arg;

    ev_io_start(loop_ev(link->options.loop), &link->reading);
}

static void link_io_del_read(void *arg)
{
    struct link *link = arg;

    ev_io_stop(loop_ev(link->options.loop), &link->reading);
}

static void link_io_add_write(void *arg)
{
    struct link *link = arg;

    ev_io_start(loop_ev(link->options.loop), &link->writing);
}

static void link_io_del_write(void *arg)
{
    struct link *link = arg;

    ev_io_stop(loop_ev(link->options.loop), &link->writing);
}

static void link_io_clean_up(void *arg)
{
    link_io_del_read(arg);
    link_io_del_write(arg);
}

void io_attach(struct link *link)
{
    redisAsyncContext *context = link->context;

    context->ev.data = link;
    context->ev.addRead = link_io_add_read;
    context->ev.delRead = link_io_del_read;
    context->ev.addWrite = link_io_add_write;
    context->ev.delWrite = link_io_del_write;
    context->ev.cleanup = link_io_clean_up;
    ev_io_init(&link->reading, link_io_on_readable, context->c.fd, EV_READ);
    ev_io_init(&link->writing, link_io_on_writable, context->c.fd, EV_WRITE);
    link->reading.data = link->writing.data = link;
}

void link_flush(struct link *link)
{
    redisAsyncContext *context = link->context;

    link->checked = HF_TIME_PAST; /* commands from now on leave later */
    /* While hiredis runs a callback of this context a failing write would free the context in use;
     * hiredis then writes by itself as soon as the callback is done. */
    if (!context || link->state < LINK_GREETING || (context->c.flags & REDIS_IN_CALLBACK))
        return;
    if (link->secure.tls)
        secure_flush(link);
    else
        redisAsyncHandleWrite(context);
}
