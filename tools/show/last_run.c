#include "tools/show/last_run.h"

#include "tools/common/once_run.h"

bool last_run_ask(const char *agent, const void *name, size_t name_len,
                  struct hf_once_info *ret_info)
{
    hf_client *client;
    int status = hf_connect(agent, &client);

    if (status < 0)
        return false;
    *ret_info = (struct hf_once_info)HF_ONCE_INFO_INIT;
    status = hf_once_last(client, name, name_len, ret_info);
    hf_disconnect(client);
    return status == HF_OK;
}

void last_run_put(json_t *object, const struct hf_once_info *info)
{
    bool known = *info->by.host;

    json_put(object, "started", json_instant(info->started_wall_ms));
    json_put(object, "host", known ? json_text_str(info->by.host) : json_null());
    json_put(object, "pid", known ? json_integer(info->by.pid) : json_null());
    json_put(object, "uid", known ? json_integer(info->by.uid) : json_null());
    json_put(object, "end", json_string(once_run_end(info->end)));
    json_put(object, "code",
             info->end == HF_ONCE_EXITED || info->end == HF_ONCE_KILLED ? json_integer(info->code)
                                                                        : json_null());
}
