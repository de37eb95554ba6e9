/* The paper's figure 2: the obvious program to find the first pattern that a packet
 * matches. One loop for each protocol that patterns name, chosen
 * by the packet's (section 4.1.1). Two conditions of the figure are completed: a pattern
 * of any protocol can name ports, and patterns that do match no packet without them.
 *
 * Packets are Ethernet frames of IPv4 without options or fragments, one every `stride`
 * bytes. Addresses are compared in network order. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { ANY = 0, TCP = 6, UDP = 17 };

/* Offsets in the frame. */
enum { PROTOCOL = 23, SOURCE = 26, DESTINATION = 30, SOURCE_PORT = 34, DESTINATION_PORT = 36, FLAGS = 47 };

struct pattern {
    uint32_t sip, sip_mask, dip, dip_mask;
    uint16_t spt_low, spt_high, dpt_low, dpt_high;
    uint8_t proto, flags, flags_mask, names_ports;
};

static inline uint32_t address(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline uint16_t port(const uint8_t *at) {
    return (uint16_t)(at[0] << 8 | at[1]);
}

static uint32_t scan_tcp(const uint8_t *packet, const struct pattern *pattern, size_t patterns) {
    for (size_t i = 0; i < patterns; i++) {
        if ((address(packet + SOURCE) & pattern[i].sip_mask) == pattern[i].sip) {
            if ((address(packet + DESTINATION) & pattern[i].dip_mask) == pattern[i].dip) {
                if (pattern[i].proto == TCP) {
                    if (port(packet + SOURCE_PORT) >= pattern[i].spt_low) {
                        if (port(packet + SOURCE_PORT) <= pattern[i].spt_high) {
                            if (port(packet + DESTINATION_PORT) >= pattern[i].dpt_low) {
                                if (port(packet + DESTINATION_PORT) <= pattern[i].dpt_high) {
                                    if ((packet[FLAGS] & pattern[i].flags_mask) == pattern[i].flags) {
                                        return (uint32_t)i;
                                    }
                                }
                            }
                        }
                    }
                } else if (pattern[i].proto == ANY) {
                    if (port(packet + SOURCE_PORT) >= pattern[i].spt_low) {
                        if (port(packet + SOURCE_PORT) <= pattern[i].spt_high) {
                            if (port(packet + DESTINATION_PORT) >= pattern[i].dpt_low) {
                                if (port(packet + DESTINATION_PORT) <= pattern[i].dpt_high) {
                                    return (uint32_t)i;
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    return UINT32_MAX;
}

static uint32_t scan_udp(const uint8_t *packet, const struct pattern *pattern, size_t patterns) {
    for (size_t i = 0; i < patterns; i++) {
        if ((address(packet + SOURCE) & pattern[i].sip_mask) == pattern[i].sip) {
            if ((address(packet + DESTINATION) & pattern[i].dip_mask) == pattern[i].dip) {
                if (pattern[i].proto == UDP || pattern[i].proto == ANY) {
                    if (port(packet + SOURCE_PORT) >= pattern[i].spt_low) {
                        if (port(packet + SOURCE_PORT) <= pattern[i].spt_high) {
                            if (port(packet + DESTINATION_PORT) >= pattern[i].dpt_low) {
                                if (port(packet + DESTINATION_PORT) <= pattern[i].dpt_high) {
                                    return (uint32_t)i;
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    return UINT32_MAX;
}

static uint32_t scan_other(const uint8_t *packet, const struct pattern *pattern, size_t patterns) {
    for (size_t i = 0; i < patterns; i++) {
        if ((address(packet + SOURCE) & pattern[i].sip_mask) == pattern[i].sip) {
            if ((address(packet + DESTINATION) & pattern[i].dip_mask) == pattern[i].dip) {
                if (pattern[i].proto == ANY && !pattern[i].names_ports) {
                    return (uint32_t)i;
                }
            }
        }
    }
    return UINT32_MAX;
}

void classify(const uint8_t *packets, size_t stride, const struct pattern *pattern, size_t patterns,
              uint32_t *rules, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const uint8_t *packet = packets + i * stride;
        if (packet[PROTOCOL] == TCP) {
            rules[i] = scan_tcp(packet, pattern, patterns);
        } else if (packet[PROTOCOL] == UDP) {
            rules[i] = scan_udp(packet, pattern, patterns);
        } else {
            rules[i] = scan_other(packet, pattern, patterns);
        }
    }
}
