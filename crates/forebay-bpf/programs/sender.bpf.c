/* Sends the next frame of the memory: src/programs/sender.rs. */
#include "common.h"

SETTING slot;
SETTING processors;

struct send_control control SHARED(control);
__u8 frames[SEND_MEMORY] SHARED(frames);
__u64 owners[1] SHARED(owners);
MAP(devices);

SEC("xdp")
int forebay_send(struct xdp_md *frame)
{
    control.runs++;
    __u64 at = control.position;
    if (at > SEND_MEMORY - SEND_PREFIX - MAX_FRAME)
        goto failed;
    __u64 length = *(__u64 *)&frames[at];
    if (length < MIN_FRAME || length > MAX_FRAME)
        goto failed;
    control.position = (at + SEND_PREFIX + length + SEND_PREFIX - 1) & -SEND_PREFIX;
    if (length != control.length && bpf_xdp_adjust_tail(frame, (int)(length - control.length)))
        goto failed;
    if (bpf_xdp_store_bytes(frame, 0, &frames[at + SEND_PREFIX], length))
        goto failed;

    __u64 processor = bpf_get_smp_processor_id();
    if (processor >= processors)
        goto failed;
    *ELEMENT(owners, processor) = slot;
    long action = bpf_redirect_map(&devices, slot, XDP_DROP);
    if (action != XDP_REDIRECT)
        control.no_device++;
    return action;

failed:
    control.failed++;
    return XDP_DROP;
}
