//! One filter over several interfaces, and batches.

use std::sync::Arc;

use forebay_filter::{FilterSet, Profile, Program, compile};
use forebay_packet::{Batch, Interface, LinkType, PacketMeta, Region};

use crate::support::instruction as i;

fn interface(link: LinkType, name: Option<&str>) -> Interface {
    Interface { link, name: name.map(str::to_owned), ..Interface::default() }
}

/// Three packets of 60 bytes: IPv4 on Ethernet twice, then raw IPv4.
fn batch(interfaces: Vec<Interface>) -> Batch {
    let mut region = Region::new(180).unwrap();
    for start in [0, 60] {
        region.bytes_mut()[start + 12] = 0x08;
        region.bytes_mut()[start + 14] = 0x45;
    }
    region.bytes_mut()[120] = 0x45;
    let mut batch = Batch::new(Arc::new(region), Arc::new(interfaces));
    for n in 0..3 {
        let interface = u16::from(n == 2);
        let meta = PacketMeta { offset: n * 60, cap_len: 60, wire_len: 1500, ticks: 0, interface };
        batch.push(meta).unwrap();
    }
    batch
}

#[test]
fn each_link_type_has_its_program() {
    let mut set = FilterSet::new("ip and greater 1500");
    let interfaces = vec![interface(LinkType::ETHERNET, None), interface(LinkType::RAW, None)];
    set.prepare(&interfaces).unwrap();
    let raw = compile("ip and greater 1500", LinkType::RAW).unwrap();
    assert_eq!(set.program_for(LinkType::RAW).unwrap(), &raw);
    assert_ne!(set.program_for(LinkType::ETHERNET).unwrap(), &raw);

    let mut batch = batch(interfaces);
    batch.verdict = vec![99; 7];
    batch.drop_packet(0);
    set.run_batch(&mut batch).unwrap();
    assert_eq!(batch.verdict, [0, 262_144, 262_144]);
    assert_eq!(batch.live().count(), 2, "verdicts drop nothing");
}

#[test]
fn a_program_runs_over_a_batch() {
    let program = Program::verify(&[i(0x80, 0, 0, 0), i(0x16, 0, 0, 0)], Profile::Kernel).unwrap();
    let mut batch = batch(vec![Interface::default(), Interface::default()]);
    batch.drop_packet(1);
    program.run_batch(&mut batch);
    assert_eq!(batch.verdict, [1500, 0, 1500]);
}

#[test]
fn a_given_program_runs_on_every_link_type() {
    let program = Program::verify(&[i(0x06, 0, 0, 7)], Profile::Libpcap).unwrap();
    let mut set = FilterSet::of_program(program);
    let unknown = interface(LinkType(60_000), None);
    let mut batch = batch(vec![unknown.clone(), unknown]);
    set.run_batch(&mut batch).unwrap();
    assert_eq!(batch.verdict, [7, 7, 7]);
}

#[test]
fn errors_name_the_interface() {
    let mut set = FilterSet::new("ether host 00:11:22:33:44:55");
    let raw = interface(LinkType::RAW, Some("tun0"));
    let error = set.prepare(&[Interface::default(), raw.clone()]).unwrap_err();
    assert_eq!((error.interface, error.link), (1, LinkType::RAW));
    let text = error.to_string();
    assert!(text.starts_with("filter for interface 1 (tun0, RAW): "), "{text}");
    let mut batch = batch(vec![Interface::default(), raw]);
    assert_eq!(set.run_batch(&mut batch), Err(error));
    assert!(FilterSet::new("port foo").prepare(&[Interface::default()]).is_err());
}
