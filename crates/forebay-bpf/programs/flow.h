/* The flow of a packet and its hash, as in `forebay-packet`: src/flow.rs says which packets. */
#pragma once

#include "common.h"

/* The secret of the hash. */
SETTING hash_key_0;
SETTING hash_key_1;

/* Link layer: lengths, and EtherTypes as they are in a frame. */
#define ETHERNET 14
#define ETHER_TYPE 12
#define MAX_TAGS 2
#define IPV4 bpf_htons(0x0800)
#define IPV6 bpf_htons(0x86dd)

/* `enum AddressKind`. */
enum { KIND_IPV4 = 1, KIND_IPV6 = 2 };

/* Lengths of IP headers without options, and offsets of addresses. */
#define IPV4_HEADER 20
#define IPV4_ADDRESSES 12
#define IPV6_HEADER 40
#define IPV6_ADDRESSES 8

/* Version and length of an IPv4 header of five words, the shortest. */
#define IPV4_NO_OPTIONS 0x45

/* The last word of a key: the kind of its addresses, its protocol and ports. */
#define KEY_KIND(kind) ((__u64)(kind) << 40)
#define KEY_PROTOCOL(protocol) ((__u64)(protocol) << 32)
#define KEY_HAS_PORTS (1ULL << 48)

/* The order of the ends of a pair of addresses. */
enum order { IN_ORDER, REVERSED, EQUAL };

struct flow {
    /* The hashed words: addresses, then ports and protocol. */
    __u64 words[5];
    /* The address pair: the addresses for IPv4, a hash of them for IPv6. */
    __u64 pair;
    /* The flags of a TCP header, with `SIGNAL_*`; 0 if a flow is more than a connection. */
    __u64 signal;
    __u64 hash;
};

#define ROTATE(x, bits) ((x) << (bits) | (x) >> (64 - (bits)))

#define ROUND(v) do { \
    v[0] += v[1]; v[2] += v[3]; \
    v[1] = ROTATE(v[1], 13); v[3] = ROTATE(v[3], 16); \
    v[1] ^= v[0]; v[3] ^= v[2]; \
    v[0] = ROTATE(v[0], 32); \
    v[2] += v[1]; v[0] += v[3]; \
    v[1] = ROTATE(v[1], 17); v[3] = ROTATE(v[3], 21); \
    v[1] ^= v[2]; v[3] ^= v[0]; \
    v[2] = ROTATE(v[2], 32); \
} while (0)

static __always_inline void compress(__u64 *v, __u64 word)
{
    v[3] ^= word;
    ROUND(v);
    v[0] ^= word;
}

/* The hash of the words of a key with addresses of this kind: SipHash-1-3 (Aumasson and
 * Bernstein, 2012), as `forebay_packet::siphash13`. */
static __always_inline __u64 hash_words(const __u64 *words, int kind)
{
    __u64 first = hash_key_0, second = hash_key_1;
    __u64 v[4] = {
        first ^ 0x736f6d6570736575, second ^ 0x646f72616e646f6d,
        first ^ 0x6c7967656e657261, second ^ 0x7465646279746573,
    };
    __u64 bytes = kind == KIND_IPV6 ? 40 : 16;
    compress(v, words[0]);
    if (kind == KIND_IPV6) {
        compress(v, words[1]);
        compress(v, words[2]);
        compress(v, words[3]);
    }
    compress(v, words[4]);
    compress(v, bytes << 56);
    v[2] ^= 0xff;
    ROUND(v);
    ROUND(v);
    ROUND(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* The length of the tag with this EtherType, or 0: VLAN tags (IEEE 802.1Q, 802.1ad and two
 * older types); VN-Tag, HSR, 802.1CB; 802.1BR and Marvell's; Cisco MetaData. The last two
 * bytes of a tag are the next EtherType. */
#define LONGEST_TAG 8
#define METADATA bpf_htons(0x8909)
static __always_inline int tag_length(__u16 ether_type)
{
    switch (ether_type) {
    case bpf_htons(0x8100): case bpf_htons(0x88a8): case bpf_htons(0x9100): case bpf_htons(0x9200):
        return 4;
    case bpf_htons(0x8926): case bpf_htons(0x892f): case bpf_htons(0xf1c1):
        return 6;
    case bpf_htons(0x893f): case bpf_htons(0xdada): case METADATA:
        return 8;
    default:
        return 0;
    }
}

/* The EtherType at the end of a tag of this length and type, or 0 if the tag's length is not
 * that: MetaData has a length, which is 1 with one option, as a security group's. 8 bytes can
 * be read; at offsets that vary they could be read with CAP_PERFMON only. */
static __always_inline __u16 next_ether_type(const __u8 *tag, int length, __u16 ether_type)
{
    const volatile __u16 *halves = (const volatile __u16 *)tag;
    __u16 second = halves[1], third = halves[2], fourth = halves[3];
    if (ether_type == METADATA && tag[1] != 1)
        return 0;
    return length == 4 ? second : length == 6 ? third : fourth;
}

/* Adds a number to a pointer, in an instruction of its own for each: see above. */
#define ADVANCE(pointer, bytes) asm volatile("%0 += %1" : "+r"(pointer) : "i"(bytes))

/* Whether a frame has IP after at most two tags: `*ip` is where its header starts. */
static __always_inline int find_ip(struct xdp_md *frame, const __u8 **ip)
{
    const __u8 *at = (void *)(long)frame->data, *end = (void *)(long)frame->data_end;
    if (at + ETHERNET > end)
        return 0;
    __u16 ether_type = *(__u16 *)(at + ETHER_TYPE);
    at += ETHERNET;
#pragma unroll
    for (int tags = 0;; tags++) {
        if (ether_type == IPV4 || ether_type == IPV6) {
            *ip = at;
            return 1;
        }
        if (tags == MAX_TAGS)
            return 0;
        int length = tag_length(ether_type);
        /* After a tag is an IP header, or nothing that is looked for. */
        if (!length || at + LONGEST_TAG > end)
            return 0;
        ether_type = next_ether_type(at, length, ether_type);
        if (length == 4)
            ADVANCE(at, 4);
        else if (length == 6)
            ADVANCE(at, 6);
        else
            ADVANCE(at, 8);
    }
}

/* The words of a pair of IPv4 addresses, and their order. */
static __always_inline enum order pair_ipv4(const __u8 *addresses, __u64 *words)
{
    __u64 source = bpf_ntohl(*(__u32 *)addresses);
    __u64 destination = bpf_ntohl(*(__u32 *)(addresses + 4));
    if (source <= destination) {
        words[0] = source | destination << 32;
        return source == destination ? EQUAL : IN_ORDER;
    }
    words[0] = destination | source << 32;
    return REVERSED;
}

/* The words of a pair of IPv6 addresses, and their order. */
static __always_inline enum order pair_ipv6(const __u8 *addresses, __u64 *words)
{
    __u64 source[2] = {
        bpf_be64_to_cpu(*(__u64 *)(addresses + 8)), bpf_be64_to_cpu(*(__u64 *)addresses),
    };
    __u64 destination[2] = {
        bpf_be64_to_cpu(*(__u64 *)(addresses + 24)), bpf_be64_to_cpu(*(__u64 *)(addresses + 16)),
    };
    int reversed = source[1] > destination[1]
        || (source[1] == destination[1] && source[0] > destination[0]);
    words[0] = reversed ? destination[0] : source[0];
    words[1] = reversed ? destination[1] : source[1];
    words[2] = reversed ? source[0] : destination[0];
    words[3] = reversed ? source[1] : destination[1];
    if (reversed)
        return REVERSED;
    return words[0] == words[2] && words[1] == words[3] ? EQUAL : IN_ORDER;
}

/* The hash of an address pair whose words are in place. */
static __always_inline __u64 hash_pair(__u64 *words, int kind)
{
    words[4] = KEY_KIND(kind);
    return hash_words(words, kind);
}

/* The worker, of `workers`, of the address pair with this hash: `fanout::worker_of`. */
static __always_inline __u64 worker_of(__u64 hash, __u64 workers)
{
    return (__u32)hash * workers >> 32;
}

/* The version of the IP header, whose fixed part is in the frame, or 0. A header of less
 * than five words is invalid. */
static __always_inline int ip_version(const __u8 *ip, const __u8 *end)
{
    if (ip + IPV4_HEADER > end)
        return 0;
    if (ip[0] >> 4 == 4)
        return ip[0] < IPV4_NO_OPTIONS ? 0 : 4;
    return ip[0] >> 4 == 6 && ip + IPV6_HEADER <= end ? 6 : 0;
}

/* The worker of a frame by its address pair; 0 without addresses. */
static __always_inline __u64 worker_of_frame(struct xdp_md *frame, __u64 workers)
{
    __u64 words[5];
    const __u8 *ip;
    if (!find_ip(frame, &ip))
        return 0;
    switch (ip_version(ip, (void *)(long)frame->data_end)) {
    case 4:
        pair_ipv4(ip + IPV4_ADDRESSES, words);
        return worker_of(hash_pair(words, KIND_IPV4), workers);
    case 6:
        pair_ipv6(ip + IPV6_ADDRESSES, words);
        return worker_of(hash_pair(words, KIND_IPV6), workers);
    default:
        return 0;
    }
}
