//! Keywords of rules that neither are contents nor select buffers, by what they mean for filtering.
//!
//! Of a keyword that is not listed here, nor anywhere else, it is not known whether it selects or
//! transforms a buffer, so that the contents around it need not stand in the stream. The keywords are
//! those of Suricata (`--list-keywords`) and Snort.

/// What a rule is called, and what becomes of its matches.
const ABOUT_RULE: [&str; 24] = [
    "bypass",
    "classtype",
    "config",
    "count",
    "detection_filter",
    "logto",
    "metadata",
    "nfq_set_mark",
    "noalert",
    "prefilter",
    "priority",
    "react",
    "reference",
    "rem",
    "replace",
    "requires",
    "resp",
    "rev",
    "service",
    "session",
    "tag",
    "target",
    "template",
    "threshold",
];

/// Tests of a packet's headers, besides those that are conditions.
const HEADER_TESTS: [&str; 22] = [
    "decode-event",
    "fragbits",
    "fragoffset",
    "geoip",
    "icmpv4-csum",
    "icmpv6-csum",
    "icmpv6.mtu",
    "igmp-csum",
    "ipopts",
    "iprep",
    "ipv4-csum",
    "l3_proto",
    "sameip",
    "tcp.mss",
    "tcp.wscale",
    "tcpv4-csum",
    "tcpv6-csum",
    "tos",
    "udpv4-csum",
    "udpv6-csum",
    "vlan.id",
    "vlan.layers",
];

/// Tests of the payload or a buffer, and modifiers of a content.
const PAYLOAD_TESTS: [&str; 28] = [
    "asn1",
    "base64_decode",
    "bsize",
    "bufferlen",
    "byte_extract",
    "byte_jump",
    "byte_math",
    "byte_test",
    "cvs",
    "datarep",
    "dataset",
    "endswith",
    "fast_pattern",
    "fast_pattern_length",
    "fast_pattern_offset",
    "filesize",
    "filestore",
    "flowvar",
    "ftpbounce",
    "nocase",
    "pktvar",
    "rawbytes",
    "rpc",
    "ssl_version",
    "startswith",
    "tcp_state",
    "urilen",
    "urilen_raw",
];

/// Transformations of a buffer under which a content still stands in the stream in some case.
const CASE_TRANSFORMS: [&str; 2] = ["to_lowercase", "to_uppercase"];

/// Transformations after which it need not.
const TRANSFORMS: [&str; 18] = [
    "strip_whitespace",
    "compress_whitespace",
    "to_md5",
    "to_sha1",
    "to_sha256",
    "pcrexform",
    "url_decode",
    "xor",
    "dotprefix",
    "header_lowercase",
    "strip_pseudo_headers",
    "domain",
    "tld",
    "from_base64",
    "luaxform",
    "gunzip",
    "zlib_deflate",
    "subslice",
];

/// Whether a keyword leaves it open or certain that contents are matched where they were before.
pub fn keeps_buffer(name: &str) -> bool {
    is_about_packets(name) || PAYLOAD_TESTS.contains(&name)
}

/// Whether a sensor needs nothing but the headers of a packet for a keyword. Conditions, which are
/// not listed here, are such keywords too.
pub fn is_about_packets(name: &str) -> bool {
    ABOUT_RULE.contains(&name) || HEADER_TESTS.contains(&name)
}

/// Whether a keyword transforms a buffer to one case.
pub fn folds_case(name: &str) -> bool {
    CASE_TRANSFORMS.contains(&name)
}

/// Whether a keyword transforms a buffer to other bytes.
pub fn transforms(name: &str) -> bool {
    TRANSFORMS.contains(&name)
}
