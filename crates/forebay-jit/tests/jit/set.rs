//! One filter over several interfaces.

use std::sync::Arc;

use forebay_filter::{Instruction, Profile, Program, compile};
use forebay_jit::{Backend, FilterSet, Isa, Options};
use forebay_packet::{Batch, Interface, LinkType, PacketMeta, Region};

fn backends() -> [Options; 2] {
    [Backend::Interp, Backend::Auto].map(|backend| Options::new(backend, None).unwrap())
}

fn interface(link: LinkType, name: Option<&str>) -> Interface {
    Interface { link, name: name.map(str::to_owned), ..Interface::default() }
}

/// Packets of 60 bytes on the interfaces named, each IPv4 for its link type.
fn batch(interfaces: Vec<Interface>, packets: &[u16]) -> Batch {
    let mut region = Region::new(60 * packets.len()).unwrap();
    for (slot, &id) in region.bytes_mut().chunks_mut(60).zip(packets) {
        match interfaces[usize::from(id)].link {
            LinkType::RAW => slot[0] = 0x45,
            _ => {
                slot[12] = 0x08;
                slot[14] = 0x45;
            }
        }
    }
    let mut batch = Batch::new(Arc::new(region), Arc::new(interfaces));
    for (n, &interface) in (0..).zip(packets) {
        let meta = PacketMeta { offset: n * 60, cap_len: 60, wire_len: 1500, ticks: 0, interface };
        batch.push(meta).unwrap();
    }
    batch
}

fn links() -> Vec<Interface> {
    vec![
        interface(LinkType::ETHERNET, None),
        interface(LinkType::RAW, None),
        interface(LinkType::ETHERNET, Some("second")),
    ]
}

#[test]
fn each_link_type_has_its_filter() {
    let mixed: Vec<u16> = (0..256).map(|n| n * n % 7 % 3).collect();
    let in_turn: Vec<u16> = (0..256).map(|n| n / 100).collect();
    for options in backends() {
        for packets in [&mixed, &in_turn, &vec![2; 256], &vec![1, 0]] {
            let mut set = FilterSet::new("ip and greater 1500", options.clone());
            let mut batch = batch(links(), packets);
            batch.verdict = vec![99; 7];
            batch.drop_packet(0);
            set.run_batch(&mut batch).unwrap();
            assert_eq!(batch.verdict[0], 0);
            assert_eq!(batch.verdict[1..], vec![262_144; packets.len() - 1]);
            assert_eq!(batch.live().count(), packets.len() - 1, "verdicts drop nothing");
        }
    }
}

#[test]
fn link_types_are_not_taken_for_each_other() {
    let packets: Vec<u16> = (0..256).map(|n| n % 2).collect();
    for options in backends() {
        let mut set = FilterSet::new("ip", options);
        // Raw packets that are no IPv4 packets, though as Ethernet they were.
        let mut batch = batch(links(), &packets);
        let (mut region, interfaces) = (Region::new(60 * 256).unwrap(), batch.interfaces().clone());
        region.bytes_mut().copy_from_slice(batch.region().bytes());
        for slot in region.bytes_mut().chunks_mut(60) {
            slot[0] = 0x65;
            slot[12] = 0x08;
        }
        let mut other = Batch::new(Arc::new(region), interfaces);
        (0..256).for_each(|i| other.push(batch.meta(i)).unwrap());
        set.run_batch(&mut other).unwrap();
        for (i, verdict) in other.verdict.iter().enumerate() {
            assert_eq!(*verdict != 0, packets[i] == 0, "packet {i}");
        }
        set.run_batch(&mut batch).unwrap();
        assert!(batch.verdict.iter().all(|&verdict| verdict != 0));
    }
}

#[test]
fn a_given_program_runs_on_every_link_type() {
    let keep = Instruction { code: 0x06, jt: 0, jf: 0, k: 7 };
    let program = Program::verify(&[keep], Profile::Libpcap).unwrap();
    for options in backends() {
        let mut set = FilterSet::of_program(program.clone(), options);
        let unknown = interface(LinkType(60_000), None);
        let mut batch = batch(vec![unknown, interface(LinkType::RAW, None)], &[0, 1, 0]);
        set.run_batch(&mut batch).unwrap();
        assert_eq!(batch.verdict, [7, 7, 7]);
    }
}

#[test]
fn errors_name_the_interface_of_a_live_packet() {
    for options in backends() {
        let mut set = FilterSet::new("ether host 00:11:22:33:44:55", options.clone());
        let raw = interface(LinkType::RAW, Some("tun0"));
        let interfaces = vec![Interface::default(), raw];
        let [error] = &set.prepare(&interfaces).unwrap()[..] else { panic!("one is wrong") };
        let error = error.clone();
        assert_eq!((error.interface, error.link), (1, LinkType::RAW));
        let text = error.to_string();
        assert!(text.starts_with("filter for interface 1 (tun0, RAW): "), "{text}");
        let mut batch = batch(interfaces.clone(), &[0, 1, 0]);
        assert_eq!(set.run_batch(&mut batch), Err(error));
        batch.drop_packet(1);
        assert_eq!(set.run_batch(&mut batch), Ok(()));
        let mut only_raw = self::batch(interfaces[1..].to_vec(), &[0]);
        only_raw.drop_packet(0);
        assert_eq!(set.run_batch(&mut only_raw), Ok(()));
        let mut of_one = FilterSet::new("port foo", options.clone());
        assert!(of_one.prepare(&[Interface::default()]).is_err());
        assert!(of_one.prepare(&interfaces[1..]).is_err());
        assert_eq!(of_one.prepare(&[]), Ok(vec![]));
        // Wrong for the only interface, but not in itself.
        let mut set = FilterSet::new("ether host 00:11:22:33:44:55", options);
        assert_eq!(set.prepare(&interfaces[1..]).unwrap().len(), 1);
    }
}

#[test]
fn an_expression_that_rejects_all_packets_of_a_link_type_is_a_filter() {
    for options in backends() {
        for expression in ["arp", "ip and arp"] {
            let mut set = FilterSet::new(expression, options.clone());
            let interfaces = vec![interface(LinkType::RAW, None), interface(LinkType::NULL, None)];
            assert_eq!(set.prepare(&interfaces), Ok(vec![]));
            let mut batch = batch(interfaces, &[0, 1, 0]);
            set.run_batch(&mut batch).unwrap();
            assert_eq!(batch.verdict, [0, 0, 0]);
        }
    }
}

#[test]
fn options_choose_what_runs() {
    let program = compile("ip", LinkType::ETHERNET).unwrap();
    let [interp, auto] = backends();
    let interpreted = forebay_jit::Filter::compile(&program, &interp).unwrap();
    assert_eq!((interpreted.backend(), interpreted.isa()), (Backend::Interp, None));
    assert!(interpreted.code().is_empty());
    let compiled = forebay_jit::Filter::compile(&program, &auto).unwrap();
    assert_ne!(compiled.backend(), Backend::Interp);
    assert_eq!(compiled.isa(), Some(auto.codegen.isa));
    assert!(!compiled.code().is_empty());
    let scalar = Options::new(Backend::List, Some(Isa::Scalar)).unwrap();
    let scalar = forebay_jit::Filter::compile(&program, &scalar).unwrap();
    assert_eq!((scalar.backend(), scalar.isa()), (Backend::List, Some(Isa::Scalar)));
}
