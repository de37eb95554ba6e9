//! Filters to test with: those that the benchmarks measure.

use std::fmt::Write as _;

/// The 13 filters of table 1 of Yamashita and Tsuru, "Software Pipelining for
/// Packet Filters" (HPCC 2007), and 11 longer ones of the kind people write.
pub const FILTERS: [&str; 24] = [
    "ip",
    "ip and tcp",
    "tcp",
    "ip and udp",
    "udp",
    "ip and dst net 192.168.1.0/24",
    "dst net 192.168.1.0/24",
    "ip and net 192.168.1.0/24",
    "net 192.168.1.0/24",
    "ip and dst port 3000",
    "dst port 3000",
    "ip and port 3000",
    "port 3000",
    "tcp port 80 and (((ip[2:2] - ((ip[0]&0xf)<<2)) - ((tcp[12]&0xf0)>>2)) != 0)",
    "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0 and not src and dst net 192.168.1.0/24",
    "tcp[((tcp[12:1] & 0xf0) >> 2):4] = 0x47455420",
    "(tcp port 80 or udp port 53) or (vlan and (tcp port 80 or udp port 53))",
    "(src net 10.0.0.0/8 or src net 172.16.0.0/12 or src net 192.168.0.0/16) \
     and not dst net 10.0.0.0/8",
    "host 10.0.0.1 and (port 80 or port 443 or port 8080) and not host 10.0.0.2",
    "port 53 or port 67 or port 68 or port 123 or port 161 or port 162 or port 514 or port 520",
    "not (tcp port 22 or udp port 53 or icmp)",
    "tcp portrange 6000-6063 and not port 6010 or udp portrange 33434-33523",
    "tcp src port 80 and ip[2:2] > 1400 and ip[6] & 0x40 != 0",
    "net 0.0.0.0/8 or net 10.0.0.0/8 or net 100.64.0.0/10 or net 127.0.0.0/8 \
     or net 169.254.0.0/16 or net 172.16.0.0/12 or net 192.0.0.0/24 or net 192.0.2.0/24 \
     or net 192.88.99.0/24 or net 198.18.0.0/15 or net 198.51.100.0/24 \
     or net 203.0.113.0/24 or net 224.0.0.0/4 or net 240.0.0.0/4",
];

/// `host A or host B …` with this many hosts of 10.0.0.0/12, in no order.
pub fn host_list(hosts: u32) -> String {
    let mut expression = String::new();
    for number in 0..hosts {
        // Times an odd factor, the numbers below 2^20 stay different.
        let address = 0x0a00_0000 | (number.wrapping_mul(0x9_e377) & 0xf_ffff);
        let [a, b, c, d] = address.to_be_bytes();
        let or = if number == 0 { "" } else { " or " };
        // Writing to a string cannot fail.
        let _ = write!(expression, "{or}host {a}.{b}.{c}.{d}");
    }
    expression
}
