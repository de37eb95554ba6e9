/* Redirects to the slot of tests: src/programs/trial.rs. */
#include "common.h"

MAP(devices);

SEC("xdp")
int forebay_trial(struct xdp_md *frame)
{
    return bpf_redirect_map(&devices, MAX_OUTPUTS, XDP_DROP);
}
