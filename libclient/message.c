/* The last failure of each thread: its message, and the conflicting holder. */
#include "libclient/internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct {
    char text[320];
    bool has_conflict;
    struct hf_holder conflict;
    int index; /* 1 + the index of the conflicting name or slot; 0: none */
    unsigned count;
} last;

int hfc_fail(int status, const char *format, ...)
{
    int error = errno;

    if (format) {
        va_list args;

        va_start(args, format);
        (void)vsnprintf(last.text, sizeof(last.text), format, args);
        va_end(args);
    } else {
        (void)snprintf(last.text, sizeof(last.text), "%s", hf_status_text(status));
    }
    errno = error;
    return status;
}

const char *hf_strerror(int code)
{
    return hf_status_text(code);
}

const char *hf_last_message(void)
{
    return last.text;
}

/* The agent's strings are cut to fit and end with NUL; but that is not relied on. */
static void message_copy_text(char *to, size_t to_size, const char *from, size_t from_size)
{
    size_t len = strnlen(from, from_size);

    if (len >= to_size)
        len = to_size - 1;
    memcpy(to, from, len);
    to[len] = '\0';
}

void hfc_holder(const struct hf_wire_holder *wire, struct hf_holder *ret_holder)
{
    *ret_holder = (struct hf_holder){
        .fence = wire->fence,
        .since_wall_ms = wire->since_wall_ms,
        .pttl_ms = wire->pttl_ms,
        .pid = wire->pid,
        .uid = wire->uid,
    };
    message_copy_text(ret_holder->host, sizeof(ret_holder->host), wire->host, sizeof(wire->host));
    message_copy_text(ret_holder->command, sizeof(ret_holder->command), wire->comm,
                      sizeof(wire->comm));
    message_copy_text(ret_holder->note, sizeof(ret_holder->note), wire->note, sizeof(wire->note));
}

void hfc_keep_conflict(const struct hf_wire_holder *holder)
{
    last.has_conflict = holder != NULL;
    if (holder)
        hfc_holder(holder, &last.conflict);
}

void hfc_keep_index(int index)
{
    last.index = index + 1;
    last.count = 0;
}

void hfc_keep_count(unsigned count)
{
    last.count = count;
}

int hf_conflict_count(void)
{
    return (int)last.count;
}

int hf_conflict_index(void)
{
    return last.index > 0 ? last.index - 1 : HF_ENOTHELD;
}

int hf_conflict(struct hf_holder *ret_holder)
{
    if (!ret_holder)
        return hfc_fail(HF_EINVAL, "hf_conflict: ret_holder is NULL");
    if (!last.has_conflict)
        return hfc_fail(HF_ENOTHELD, "nothing is known of a holder");
    *ret_holder = last.conflict;
    return HF_OK;
}
