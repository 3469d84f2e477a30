// The public headers alone, as C++: compiled with every warning on, never run.
#include "libclient/holdfast_admin.h"
#include "libclient/holdfast_run.h"

extern "C" int header_cxx(hf_client *client);

static void on_change(hf_lease *lease, int state, void *arg)
{
    (void)lease;
    *static_cast<int *>(arg) = state;
}

int header_cxx(hf_client *client)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_lease *lease = nullptr;
    int state = 0;

    options.name = "a";
    options.name_len = 1;
    options.wait_ms = -1;
    options.flags = HF_ACQUIRE_JOB;
    if (hf_acquire_with(client, &options, &lease) != HF_OK)
        return HF_ENOAGENT;
    hf_on_change(lease, on_change, &state);
    while (hf_held(lease) && state != HF_STATE_LOSING)
        hf_wait(lease, HF_STATE_HELD, 1000);
    return hf_release_reaped(lease);
}
