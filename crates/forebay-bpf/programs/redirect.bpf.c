/* Redirects every frame to an AF_XDP socket: src/programs/redirect.rs. */
#include "flow.h"

SETTING per_queue;
/* The action for frames without a socket. */
SETTING otherwise;

MAP(sockets);

SEC("xdp")
int forebay_redirect(struct xdp_md *frame)
{
    __u64 worker = per_queue > 1 ? worker_of_frame(frame, per_queue) : 0;
    return bpf_redirect_map(&sockets, frame->rx_queue_index * per_queue + worker, otherwise);
}
