/* Generates the frames of flows at a given rate: src/programs/generator.rs. */
#include "common.h"

SETTING flow_count;
SETTING order_mask;
SETTING number_at;
SETTING cuts;

struct generator_control control SHARED(control);
struct generator_flow flows[1] SHARED(flows);
__u64 order[1] SHARED(order);
MAP(devices);

/* Whether a frame is due. Reads the clock only if needed. */
static __always_inline int is_due(void)
{
    if (control.sent >= control.allowed)
        return 0;
    __u64 stop_at = control.stop_at, interval = control.interval;
    if (!(stop_at | interval))
        return 1;
    __u64 now = bpf_ktime_get_ns();
    if (stop_at && now >= stop_at)
        return 0;
    if (!interval)
        return 1;
    if (now < control.next_at)
        return 0;
    __u64 next = control.next_at + interval;
    control.next_at = next < now ? now + interval : next;
    return 1;
}

/* Writes the head and the number of the flow, and shortens the frame. */
static __always_inline int write_frame(struct xdp_md *frame, struct generator_flow *flow)
{
    __u8 *data = (void *)(long)frame->data, *end = (void *)(long)frame->data_end;
    if (data + GENERATOR_MIN_FRAME > end)
        return 0;
    for (int i = 0; i < HEAD_WORDS; i++)
        ((__u64 *)data)[i] = flow->head[i];
    *(__u64 *)(data + number_at) = bpf_cpu_to_be64(flow->frames++);
    return !cuts || !flow->cut || !bpf_xdp_adjust_tail(frame, (int)flow->cut);
}

SEC("xdp")
int forebay_gen(struct xdp_md *frame)
{
    if (!is_due())
        goto idle;
    __u64 number = *ELEMENT(order, control.position++ & order_mask);
    /* The order has only valid flows; the check is for the verifier. */
    if (number >= flow_count || !write_frame(frame, ELEMENT(flows, number)))
        goto idle;
    long action = bpf_redirect_map(&devices, 0, XDP_DROP);
    if (action == XDP_REDIRECT)
        control.sent++;
    else
        control.not_sent++;
    return action;

idle:
    control.early++;
    return XDP_DROP;
}
