/* Returns the flow hash of test frames: src/programs/probe.rs. */
#include "key.h"

__u64 hash[1] SHARED(hash);

SEC("xdp")
int forebay_probe(struct xdp_md *frame)
{
    struct flow flow;
    if (find_flow(frame, &flow) != MINE)
        return XDP_PASS;
    hash[0] = flow.hash;
    return XDP_REDIRECT;
}
