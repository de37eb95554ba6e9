/* The key of a frame's flow: src/flow.rs. */
#pragma once

#include "flow.h"

/* `Affinity`, and whether user space decodes tunnels, so that their packets are its own. */
SETTING affinity;
SETTING tunnels;
enum { FIVE_TUPLE, IP_PAIR, SOURCE, DESTINATION };

/* The flow of a frame: without addresses after the Ethernet header; with a pair of
 * addresses, but for user space to decode; known. */
enum found { NO_ADDRESSES, NOT_MINE, MINE };

/* Protocols: those with ports, tunnels, ICMP, the extension headers of IPv6. */
enum {
    HOP_BY_HOP = 0, ICMP = 1, IP_IN_IP = 4, TCP = 6, UDP = 17, DCCP = 33, IPV6_IN_IP = 41,
    ROUTING = 43, FRAGMENT = 44, GRE = 47, AUTHENTICATION = 51, ICMPV6 = 58,
    DESTINATION_OPTIONS = 60, SCTP = 132, MOBILITY = 135, UDP_LITE = 136,
    HOST_IDENTITY = 139, SHIM6 = 140,
};

/* Offset and "more fragments" of IPv4's fragment field. */
#define FRAGMENT_FIELD bpf_htons(0x3fff)
/* The first ICMPv6 message that is not an error. */
#define ICMPV6_FIRST_INFORMATIONAL 128
#define TCP_FLAGS 13

/* The transport header of a datagram. */
struct transport {
    const __u8 *at;
    const __u8 *end;
    /* The bytes that belong to the datagram by its own account. */
    __s64 length;
    __u8 protocol;
    enum order order;
    int kind;
};

/* Whether so many bytes of it are in the datagram and in the frame. */
#define HAS(transport, bytes) \
    ((transport)->length >= (bytes) && (transport)->at + (bytes) <= (transport)->end)

/* Whether an ICMP message quotes a packet, to whose flow it belongs. */
static __always_inline int is_error(int kind, __u8 type)
{
    if (kind == KIND_IPV6)
        return type < ICMPV6_FIRST_INFORMATIONAL;
    return type == 3 || type == 4 || type == 5 || type == 11 || type == 12;
}

/* Ports by which UDP carries tunnels: VXLAN (as assigned, and Linux's default), GENEVE,
 * GTP-U. */
static __always_inline int is_tunnel_port(__u16 port)
{
    return port == bpf_htons(4789) || port == bpf_htons(8472) || port == bpf_htons(6081)
        || port == bpf_htons(2152);
}

/* The last word of the key, and the signal. */
static __always_inline enum found read_transport(struct transport *t, struct flow *flow)
{
    __u64 last = KEY_KIND(t->kind), connections = affinity == FIVE_TUPLE;
    flow->signal = 0;
    if (connections)
        last |= KEY_PROTOCOL(t->protocol);
    switch (t->protocol) {
    case TCP:
        if (connections && HAS(t, TCP_FLAGS + 1))
            flow->signal = t->at[TCP_FLAGS] | SIGNAL_TCP;
        break;
    case UDP:
        if (tunnels && (!HAS(t, 4) || is_tunnel_port(*(__u16 *)(t->at + 2))))
            return NOT_MINE;
        break;
    case DCCP: case SCTP: case UDP_LITE:
        break;
    case IP_IN_IP: case IPV6_IN_IP: case GRE:
        if (tunnels)
            return NOT_MINE;
        goto done;
    default:
        if (t->protocol != (t->kind == KIND_IPV4 ? ICMP : ICMPV6))
            goto done;
        if (!HAS(t, 2) || is_error(t->kind, t->at[0]))
            return NOT_MINE;
        goto done;
    }
    if (!HAS(t, 4))
        return NOT_MINE;
    if (!connections)
        goto done;
    __u64 low = bpf_ntohs(*(__u16 *)t->at), high = bpf_ntohs(*(__u16 *)(t->at + 2));
    /* In the order of the addresses or, if these are equal, in their own. */
    if (t->order == REVERSED || (t->order == EQUAL && low > high)) {
        __u64 source = low;
        low = high;
        high = source;
        flow->signal |= SIGNAL_FROM_HIGH;
    }
    last |= KEY_HAS_PORTS | high << 16 | low;
done:
    flow->words[4] = last;
    return MINE;
}

/* Hosts that leave segmentation to the network card send a length of 0, and so do
 * jumbograms: it limits nothing. */
static __always_inline __s64 known_length(__u16 field)
{
    return field ? bpf_ntohs(field) : 0xffff;
}

static __always_inline enum found read_ipv4(const __u8 *ip, const __u8 *end, struct flow *flow)
{
    enum order order = pair_ipv4(ip + IPV4_ADDRESSES, flow->words);
    flow->pair = flow->words[0];
    if (ip[0] != IPV4_NO_OPTIONS || *(__u16 *)(ip + 6) & FRAGMENT_FIELD || ip[9] == AUTHENTICATION)
        return NOT_MINE;
    if (affinity == SOURCE)
        flow->words[0] = bpf_ntohl(*(__u32 *)(ip + 12));
    if (affinity == DESTINATION)
        flow->words[0] = bpf_ntohl(*(__u32 *)(ip + 16));
    struct transport transport = {
        .at = ip + IPV4_HEADER, .end = end, .length = known_length(*(__u16 *)(ip + 2)) - IPV4_HEADER,
        .protocol = ip[9], .order = order, .kind = KIND_IPV4,
    };
    enum found found = read_transport(&transport, flow);
    if (found == MINE)
        flow->hash = hash_words(flow->words, KIND_IPV4);
    return found;
}

static __always_inline enum found read_ipv6(const __u8 *ip, const __u8 *end, struct flow *flow)
{
    enum order order = pair_ipv6(ip + IPV6_ADDRESSES, flow->words);
    flow->pair = hash_pair(flow->words, KIND_IPV6);
    switch (ip[6]) {
    case HOP_BY_HOP: case ROUTING: case FRAGMENT: case AUTHENTICATION:
    case DESTINATION_OPTIONS: case MOBILITY: case HOST_IDENTITY: case SHIM6:
        return NOT_MINE;
    }
    if (affinity == SOURCE || affinity == DESTINATION) {
        const __u8 *address = ip + IPV6_ADDRESSES + (affinity == SOURCE ? 0 : 16);
        flow->words[0] = bpf_be64_to_cpu(*(__u64 *)(address + 8));
        flow->words[1] = bpf_be64_to_cpu(*(__u64 *)address);
        flow->words[2] = flow->words[3] = 0;
    }
    struct transport transport = {
        .at = ip + IPV6_HEADER, .end = end, .length = known_length(*(__u16 *)(ip + 4)),
        .protocol = ip[6], .order = order, .kind = KIND_IPV6,
    };
    enum found found = read_transport(&transport, flow);
    if (found == MINE)
        flow->hash = hash_words(flow->words, KIND_IPV6);
    return found;
}

/* The flow of a frame. */
static __always_inline enum found find_flow(struct xdp_md *frame, struct flow *flow)
{
    const __u8 *ip, *end = (void *)(long)frame->data_end;
    if (!find_ip(frame, &ip))
        return NO_ADDRESSES;
    switch (ip_version(ip, end)) {
    case 4: return read_ipv4(ip, end, flow);
    case 6: return read_ipv6(ip, end, flow);
    default: return NO_ADDRESSES;
    }
}
