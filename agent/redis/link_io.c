/* The events of a link's descriptor, as hiredis' own adapters have them, but what hiredis keeps is judged after each read
 * (agent/redis/bounds.h). A link with TLS has events of its own (agent/redis/link_tls.c). */
#include "agent/redis/link_internal.h"

#include "shm/assert.h"
#include "shm/compiler.h"

/* Reading may end the connection, or begin TLS on it. */
static void link_io_on_event(struct loop_fd *io)
{
    struct link *link = HF_CONTAINER(io, struct link, io);
    redisAsyncContext *context = link->context;
    unsigned happened = io->happened;

    if (happened & LOOP_READ) {
        redisAsyncHandleRead(context);
        if (link->context == context)
            link_read_is_over(link);
    }
    if (happened & io->wanted & LOOP_WRITE && link->context == context)
        redisAsyncHandleWrite(context);
}

static void link_io_want(struct link *link, unsigned events)
{
    loop_fd_want(link->options.loop, &link->io, events);
}

static void link_io_add_read(void *arg)
{
    struct link *link = arg;

    link_io_want(link, link->io.wanted | LOOP_READ);
}

static void link_io_del_read(void *arg)
{
    struct link *link = arg;

    link_io_want(link, link->io.wanted & ~(unsigned)LOOP_READ);
}

static void link_io_add_write(void *arg)
{
    struct link *link = arg;

    link_io_want(link, link->io.wanted | LOOP_WRITE);
}

static void link_io_del_write(void *arg)
{
    struct link *link = arg;

    link_io_want(link, link->io.wanted & ~(unsigned)LOOP_WRITE);
}

static void link_io_clean_up(void *arg)
{
    struct link *link = arg;

    loop_fd_remove(link->options.loop, &link->io);
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
    hf_assert(!link->io.priv, "fd %d", link->io.fd);
    link->io.fd = context->c.fd;
    link->io.fn = link_io_on_event;
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
