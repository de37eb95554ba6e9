//! Sockets for the few frames beside the packets: hellos, and the counting of strays.

use crate::live::{in_namespace, ip, veth, wait_for};
use forebay_io::af_packet::{FrameSocket, StrayCounter};
use forebay_packet::MacAddress;

const HERE: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const GROUP: MacAddress = MacAddress([3, 0, 0, 0, 0, 1]);

/// A frame of 60 bytes.
fn frame(to: MacAddress, ether_type: u16, mark: u8) -> Vec<u8> {
    let mut frame = vec![mark; 60];
    frame[..6].copy_from_slice(&to.0);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
    frame
}

#[test]
fn frames_of_one_type_are_heard_and_no_others() {
    in_namespace(|| {
        veth("here", "there");
        let socket = FrameSocket::open("here", 0x88b5).unwrap();
        socket.hear_address(HERE).unwrap();
        let sender = FrameSocket::open("there", 0x88b5).unwrap();
        let mut got = [0; 40];
        assert_eq!(socket.receive(&mut got).unwrap(), None);
        for (ether_type, mark) in [(0x88b6, 1), (0x88b5, 2), (0x0800, 3), (0x88b5, 4)] {
            sender.send(&frame(HERE, ether_type, mark)).unwrap();
        }
        for mark in [2, 4] {
            wait_for("a frame", || socket.receive(&mut got).unwrap() == Some(40));
            assert_eq!(got[14..], [mark; 26]);
        }
        assert_eq!(socket.receive(&mut got).unwrap(), None);
        ip("link set here down");
        assert_eq!(socket.receive(&mut got).unwrap(), None);
        ip("link del here");
        assert_eq!(socket.receive(&mut got).unwrap(), None);
        let error = sender.send(&frame(HERE, 0x88b5, 5)).unwrap_err().to_string();
        assert!(error.contains("there: cannot send through it"), "{error}");
        assert!(FrameSocket::open("here", 0x88b5).is_err());
    });
}

#[test]
fn frames_for_others_are_counted_and_not_what_is_for_us() {
    in_namespace(|| {
        veth("here", "there");
        let mut counter = StrayCounter::open("here", HERE, 0x88b5).unwrap();
        let sender = FrameSocket::open("there", 0x88b5).unwrap();
        for i in 0..=255 {
            // Addresses that differ from ours in each of their bytes.
            let mut other = HERE;
            other.0[usize::from(i % 6)] ^= 4;
            for to in [HERE, GROUP, other] {
                sender.send(&frame(to, 0x0800, i)).unwrap();
            }
            sender.send(&frame(other, 0x88b5, i)).unwrap();
        }
        wait_for("all", || counter.frames().unwrap() >= 256);
        assert_eq!(counter.frames().unwrap(), 256);
    });
}
