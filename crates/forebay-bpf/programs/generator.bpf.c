/* Generates the frames of flows at a given rate: src/programs/generator.rs. */
#include "pace.h"

SETTING flow_count;
SETTING order_mask;
SETTING number_at;
SETTING cuts;

struct generator_flow flows[1] SHARED(flows);
__u64 order[1] SHARED(order);
MAP(devices);

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
    return send_by(&devices);

idle:
    control.early++;
    return XDP_DROP;
}
