/* Sends frames of the memory in their order, again and again, and counts them where they arrive:
 * src/programs/replay.rs. */
#include "pace.h"

SETTING frame_count;
SETTING memory_size;
SETTING shifts;
SETTING longest;
SETTING timed;

__u8 frames[1] SHARED(frames);
struct replay_place places[1] SHARED(places);
__u64 sent_at[1] SHARED(sent_at);
struct replay_arrivals arrivals SHARED(arrivals);
__u64 arrived[1] SHARED(arrived);
MAP(devices);

/* Writes a frame, with another address of its client in each round. */
static __always_inline int write_frame(struct xdp_md *frame, struct replay_place *place, __u64 round)
{
    __u64 at = place->at, length = place->length;
    if (length < GENERATOR_MIN_FRAME || length > MAX_FRAME || at > memory_size - MAX_FRAME)
        return 0;
    if (length != longest && bpf_xdp_adjust_tail(frame, (int)(length - longest)))
        return 0;
    if (bpf_xdp_store_bytes(frame, 0, ELEMENT(frames, at), length))
        return 0;
    __u8 *data = (void *)(long)frame->data, *end = (void *)(long)frame->data_end;
    if (data + GENERATOR_MIN_FRAME > end)
        return 0;
    __u8 *client = data + (place->from_client ? REPLAY_SOURCE : REPLAY_DESTINATION);
    /* What one half of the address gains the other loses: checksums stay. */
    client[1] += round % shifts;
    __u16 low = bpf_ntohs(*(__u16 *)(client + 2)) - round % shifts;
    *(__u16 *)(client + 2) = bpf_htons(low);
    return 1;
}

SEC("xdp")
int forebay_replay(struct xdp_md *frame)
{
    if (!is_due())
        goto idle;
    __u64 number = control.position, round = number / frame_count;
    number -= round * frame_count;
    /* Always so; for the verifier. */
    if (number >= frame_count || !write_frame(frame, ELEMENT(places, number), round))
        goto idle;
    control.position++;
    if (timed)
        *ELEMENT(sent_at, number) = bpf_ktime_get_ns();
    return send_by(&devices);

idle:
    control.early++;
    return XDP_DROP;
}

/* The slot of a delay: its highest bit, and the bits behind that. */
static __always_inline __u64 slot_of(__u64 delay)
{
    if (delay < REPLAY_STEPS)
        return delay;
    __u64 exponent = 0, rest = delay;
    for (int bits = 32; bits; bits /= 2) {
        if (rest >> bits) {
            rest >>= bits;
            exponent += bits;
        }
    }
    __u64 step = (delay >> (exponent - REPLAY_STEP_BITS)) & (REPLAY_STEPS - 1);
    return (exponent - REPLAY_STEP_BITS + 1) * REPLAY_STEPS + step;
}

SEC("xdp")
int forebay_arrived(struct xdp_md *frame)
{
    __u8 *data = (void *)(long)frame->data, *end = (void *)(long)frame->data_end;
    arrivals.frames++;
    arrivals.bytes += end - data;
    if (data + GENERATOR_MIN_FRAME > end)
        return XDP_DROP;
    __u64 number = bpf_ntohs(*(__u16 *)(data + REPLAY_NUMBER));
    number = number * REPLAY_INVERSE & 0xffff;
    if (number >= frame_count)
        return XDP_DROP;
    *ELEMENT(arrived, number) += 1;
    if (!timed)
        return XDP_DROP;
    __u64 slot = slot_of(bpf_ktime_get_ns() - *ELEMENT(sent_at, number));
    if (slot < REPLAY_SLOTS)
        arrivals.delays[slot]++;
    return XDP_DROP;
}
