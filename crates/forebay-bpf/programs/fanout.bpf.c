/* Selects the worker of a packet: src/programs/fanout.rs. */
#include "flow.h"

SETTING workers;
/* Whether packets that were received are at their network header. */
SETTING as_received;

/* `PACKET_OUTGOING` (<linux/if_packet.h>): a packet that this host sends. */
#define OUTGOING 4

SEC("socket")
int forebay_fanout(struct __sk_buff *packet)
{
    __u8 header[32];
    __u64 words[5];
    __u32 at = 0, ether_type = packet->protocol;
    if (!as_received || packet->pkt_type == OUTGOING) {
        if (bpf_skb_load_bytes(packet, 0, header, ETHERNET))
            return 0;
        ether_type = *(__u16 *)(header + ETHER_TYPE);
        at = ETHERNET;
    }
#pragma unroll
    for (int tags = 0; tags < MAX_TAGS; tags++) {
        int length = tag_length(ether_type);
        if (!length)
            break;
        if (bpf_skb_load_bytes(packet, at, header, LONGEST_TAG))
            return 0;
        ether_type = next_ether_type(header, length, ether_type);
        at += length;
    }
    if (ether_type != IPV4 && ether_type != IPV6)
        return 0;
    if (bpf_skb_load_bytes(packet, at, header, IPV4_HEADER))
        return 0;
    if (header[0] >> 4 == 4 && header[0] >= IPV4_NO_OPTIONS) {
        pair_ipv4(header + IPV4_ADDRESSES, words);
        return worker_of(hash_pair(words, KIND_IPV4), workers);
    }
    if (header[0] >> 4 != 6 || bpf_skb_load_bytes(packet, at + IPV6_ADDRESSES, header, 32))
        return 0;
    pair_ipv6(header, words);
    return worker_of(hash_pair(words, KIND_IPV6), workers);
}
