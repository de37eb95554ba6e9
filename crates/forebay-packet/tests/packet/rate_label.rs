//! Rate labels: their codes, and the headers that they are written to, by another computation of
//! the Internet checksum.

use forebay_packet::decode::ip_packet;
use forebay_packet::random::Random;
use forebay_packet::{LabelField, LinkType, RateLabel};
use forebay_testkit::capture;
use forebay_testkit::data::{at_least, captures, folder};
use forebay_testkit::make;
use proptest::prelude::*;

/// A frame of IPv4 or IPv6 with a label.
fn labelled(field: LabelField, is_ipv6: bool, label: RateLabel) -> Vec<u8> {
    let mut frame = match is_ipv6 {
        true => {
            [&[2; 12][..], &[0x86, 0xdd, 0x6b, 0x3c, 0xde, 0xf0, 0, 0, 59, 64], &[7; 32]].concat()
        }
        false => make::udp(([10, 0, 0, 1], 1), ([10, 0, 0, 2], 2), b"data"),
    };
    field.write(label, &mut frame);
    frame
}

/// The rate that a label has after its way over a header.
fn carried(field: LabelField, is_ipv6: bool, label: RateLabel) -> Option<f64> {
    let frame = labelled(field, is_ipv6, label);
    field.read(&ip_packet(LinkType::ETHERNET, &frame).unwrap(), 0).rate()
}

#[test]
fn dscp_has_63_rates_in_equal_steps() {
    assert_eq!(carried(LabelField::Dscp, false, RateLabel::NONE), None);
    let mut values = Vec::new();
    for step in 0..63 {
        let rate = 1_000.0 * 2_f64.powf(f64::from(step) / 2.0);
        // However the dice fall, the rate of a value is that value.
        for chance in [0, 1, 0xfff, u32::MAX] {
            let label = RateLabel::new(rate, chance);
            assert!((label.rate().unwrap() / rate - 1.0).abs() < 1e-9);
            for is_ipv6 in [false, true] {
                let back = carried(LabelField::Dscp, is_ipv6, label).unwrap();
                assert!((back / rate - 1.0).abs() < 1e-9, "{rate}: {back}");
            }
            let frame = labelled(LabelField::Dscp, false, label);
            values.push(frame[15] >> 2);
        }
    }
    values.dedup();
    assert!(values.iter().copied().eq(1..64), "{values:?}");
}

#[test]
fn labels_are_monotone_and_exact_in_the_mean() {
    let (mut random, mut last) = (Random::new(5), [0.0; 2]);
    for i in 0..300 {
        let rate = 1_000.0 * (f64::from(i) / 10.0).exp2();
        let label = RateLabel::new(rate, 0);
        let exact = label.rate().unwrap();
        assert!((exact / rate - 1.0).abs() < 2e-5, "{rate}: {exact}");
        assert_eq!(carried(LabelField::FlowLabel, true, label), Some(exact));
        assert_eq!(carried(LabelField::FlowLabel, false, label), None);
        // With the same chance, a higher rate has no lower value.
        let rounded = carried(LabelField::Dscp, false, label).unwrap();
        assert!(exact > last[0] && rounded >= last[1], "{rate}");
        last = [exact, rounded];
        let (mut inverse, mut most, n) = (0.0, 0.0_f64, 4_000);
        for _ in 0..n {
            let label = RateLabel::new(rate, random.next() as u32);
            let ratio = carried(LabelField::Dscp, false, label).unwrap() / rate;
            (inverse, most) =
                (inverse + 1.0 / ratio / f64::from(n), most.max(ratio.max(1.0 / ratio)));
        }
        assert!(most < 2_f64.sqrt() + 1e-4, "{rate}: {most}");
        // 1.6%, and five standard deviations of the mean.
        assert!((0.986..1.030).contains(&inverse), "{rate}: {inverse}");
    }
}

#[test]
fn rates_out_of_bounds_have_the_nearest_code() {
    for (rate, nearest) in [
        (f64::NEG_INFINITY, 1_000.0),
        (f64::NAN, 1_000.0),
        (0.0, 1_000.0),
        (1.0, 1_000.0),
        (1e15, 1_000.0 * 2_f64.powi(31)),
        (f64::INFINITY, 1_000.0 * 2_f64.powi(31)),
    ] {
        for chance in [0, u32::MAX] {
            let label = RateLabel::new(rate, chance);
            assert_eq!(label.rate(), Some(nearest), "{rate}");
            assert_eq!(carried(LabelField::Dscp, true, label), Some(nearest), "{rate}");
        }
    }
    let label = RateLabel::new(5e6, 9);
    assert_eq!((label.at_most(6e6), RateLabel::NONE.at_most(1.0)), (label, RateLabel::NONE));
    assert!((label.at_most(2e6).rate().unwrap() / 2e6 - 1.0).abs() < 2e-5);
    // A flow label that no broker has written.
    let mut frame = labelled(LabelField::FlowLabel, true, RateLabel::NONE);
    frame[15..18].copy_from_slice(&[0xff; 3]);
    let read = LabelField::FlowLabel.read(&ip_packet(LinkType::ETHERNET, &frame).unwrap(), 0);
    assert_eq!(read.rate(), Some(1_000.0 * 2_f64.powi(31)));
}

/// The sum of RFC 1071 over a header, by its definition; 0 if the checksum is right.
fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum = words.fold(0, |sum, word| (sum + word) % 0xffff);
    // 0 and 0xffff are the same in ones' complement.
    if sum == 0 { 0 } else { !(sum as u16) }
}

#[test]
fn headers_of_captures_keep_all_but_the_label() {
    let (mut written, mut right) = ([0; 3], 0);
    for path in captures(&folder()) {
        for packet in &capture::read(&path).packets {
            if packet.link != 1 {
                continue;
            }
            for field in LabelField::ALL {
                let mut frame = packet.data.clone();
                let label = RateLabel::new(7e6, 77);
                field.write(label, &mut frame);
                let Some(ip) = ip_packet(LinkType::ETHERNET, &packet.data) else {
                    assert_eq!(frame, packet.data);
                    continue;
                };
                let at = frame.len() - ip.bytes().len();
                let allowed: &[usize] = match (field, ip.is_ipv6()) {
                    (LabelField::Dscp, false) => &[1, 10, 11],
                    (LabelField::Dscp, true) => &[0, 1],
                    (LabelField::FlowLabel, true) => &[1, 2, 3],
                    (LabelField::FlowLabel, false) => &[],
                };
                let changed = |&(i, byte): &(usize, &u8)| frame[i] != *byte;
                let mut changes = packet.data.iter().enumerate().filter(changed);
                assert!(changes.all(|(i, _)| allowed.contains(&(i - at))), "{path:?}");
                let (before, after) = (&packet.data[at..], &frame[at..]);
                written[usize::from(ip.is_ipv6()) + usize::from(field == LabelField::FlowLabel)] +=
                    1;
                if ip.is_ipv6() {
                    // Version, and the congestion signal.
                    assert_eq!((after[0] >> 4, after[1] >> 4 & 3), (6, before[1] >> 4 & 3));
                } else {
                    assert_eq!(after[1] & 3, before[1] & 3);
                    let len = usize::from(before[0] & 0xf) * 4;
                    if let (Some(before), Some(after)) = (before.get(..len), after.get(..len)) {
                        // A checksum that is wrong stays wrong by as much.
                        assert_eq!(checksum(after), checksum(before), "{path:?}");
                        right += usize::from(checksum(after) == 0);
                    }
                }
            }
        }
    }
    assert!(right >= at_least(10_000, 1_000), "{right}");
    assert!(written.iter().all(|&n| n >= at_least(500, 50)), "{written:?}");
}

proptest! {
    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..120), rate in 1.0..1e13) {
        for field in LabelField::ALL {
            for prefix in [&[][..], &[2; 12], &[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 8, 0, 0x45]] {
                let mut frame = [prefix, &bytes].concat();
                let before = frame.len();
                field.write(RateLabel::new(rate, bytes.len() as u32), &mut frame);
                prop_assert_eq!(frame.len(), before);
            }
        }
    }
}
