//! What importing keeps, by the peak memory of the process: a program of its own.

use std::fs;

use forebay_rules::language::source::{Format, Options, open};

/// The most memory that this process has had, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

/// Each condition of another mask comes to a million ranges, of which a rule keeps one.
#[test]
fn what_conditions_on_sets_come_to_is_kept_within_a_limit() {
    let elements: Vec<String> =
        (0..488).map(|n| format!("\"10.0.{}.{}\"", n / 250, n % 250)).collect();
    let mut text = format!(
        "{{\"nftables\":[{{\"chain\":{{\"family\":\"ip\",\"table\":\"t\",\"name\":\"in\",\
         \"hook\":\"input\"}}}},\n{{\"set\":{{\"family\":\"ip\",\"table\":\"t\",\"name\":\"s\",\
         \"type\":\"ipv4_addr\",\"elem\":[{}]}}}}",
        elements.join(",")
    );
    // Bits that are 0 in all elements.
    let free = [20, 21, 22, 23, 24, 26, 28, 29, 30, 31];
    for first in 0..4 {
        for second in 5..10 {
            let mask = !(0x1ff << 10 | 1 << free[first] | 1_u32 << free[second]);
            text += &format!(
                ",\n{{\"rule\":{{\"family\":\"ip\",\"table\":\"t\",\"chain\":\"in\",\"expr\":[\
                 {{\"match\":{{\"op\":\"==\",\"left\":{{\"payload\":{{\"protocol\":\"ip\",\
                 \"field\":\"saddr\"}}}},\"right\":\"10.0.0.1\"}}}},\
                 {{\"match\":{{\"op\":\"==\",\"left\":{{\"&\":[{{\"payload\":{{\"protocol\":\
                 \"ip\",\"field\":\"saddr\"}}}},{mask}]}},\"right\":\"@s\"}}}},{{\"accept\":null}}]}}}}"
            );
        }
    }
    text += "]}";
    let catalogue = open(Format::Nftables, &text, &Options::default()).unwrap();
    let before = peak();
    assert_eq!(catalogue.read(0).unwrap().list.list.rules.len(), 20);
    // All of them together are 640 MB.
    let grown = peak() - before;
    assert!((16 << 20..320 << 20).contains(&grown), "{grown} bytes");
}
