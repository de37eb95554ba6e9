//! Edits, limits and expiries of flows that are handled by hand.

use forebay_packet::community_id;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn overrides(affinity: Affinity, vlan_in_key: bool, in_kernel: bool) -> FlowOverrides {
    let options = DecodeOptions { affinity, vlan_in_key, ..DecodeOptions::default() };
    FlowOverrides::new(options, HashKey::OFFLINE, in_kernel)
}

fn flows(numbers: std::ops::Range<u32>) -> Vec<Selector> {
    let text =
        |number: u32| format!("udp 10.0.0.1:{} > 10.1.0.0:{}\n", number % 50_000, number / 50_000);
    Selector::read_all(&numbers.map(text).collect::<String>()).unwrap()
}

fn shunt(flows: &[Selector], until: u64) -> OverrideEdit<'_> {
    OverrideEdit { flows, action: FlowOverride::Shunt, until }
}

#[test]
fn flows_by_hand_are_limited() {
    for (in_kernel, most) in [(false, MOST_FLOWS), (true, MOST_FLOWS_IN_KERNEL)] {
        let mut overrides = overrides(Affinity::FiveTuple, false, in_kernel);
        let all = flows(0..most as u32 + 1);
        let error = overrides.check(&shunt(&all, SECOND), 0).unwrap_err();
        assert!(error.contains(&format!("expected at most {most} in all")), "{error}");
        let edit = shunt(&all[..most], SECOND);
        overrides.check(&edit, 0).unwrap();
        overrides.edit(&edit, 0);
        assert_eq!(overrides.table().entries().len(), most);
        // Those there are can be named again, and others when their time is over.
        overrides.check(&edit, 0).unwrap();
        assert!(overrides.check(&shunt(&all[most..], SECOND), 0).is_err());
        let other = shunt(&all[most..], 2 * SECOND);
        overrides.check(&other, SECOND).unwrap();
        // Those that are not removed yet count as much as any others.
        overrides.edit(&shunt(&all[1..], 2 * SECOND), SECOND);
        assert!(overrides.check(&shunt(&all[..1], 2 * SECOND), SECOND).is_err());
    }
}

#[test]
fn flows_whose_time_is_over_are_removed() {
    let mut overrides = overrides(Affinity::Source, false, false);
    assert!(!overrides.maintain(0));
    let (long, short) = (flows(0..10), flows(10..30));
    overrides.edit(&shunt(&long, 100 * SECOND), 0);
    overrides.edit(&shunt(&short, 5 * SECOND), 0);
    assert_eq!((overrides.flows().count(), overrides.table().entries().len()), (30, 60));
    let (before, entry) = (Arc::clone(overrides.table()), overrides.table().entries()[0].clone());
    assert!(!overrides.maintain(2 * SECOND));
    assert!(overrides.maintain(6 * SECOND));
    assert_eq!(overrides.flows().count(), 10);
    assert_eq!(overrides.replaced.len(), 1, "while a worker has it");
    drop(before);
    assert!(!overrides.maintain(6 * SECOND) && overrides.replaced.is_empty());
    drop(entry);
    // An edit does what is left of a flow's time in place.
    let table = Arc::clone(overrides.table());
    overrides.edit(&shunt(&long, 200 * SECOND), 7 * SECOND);
    assert!(Arc::ptr_eq(&table, overrides.table()));
    assert!(overrides.flows().all(|flow| flow.until() == 200 * SECOND));
}

#[test]
fn community_ids_wait_for_their_flows() {
    let mut overrides = overrides(Affinity::FiveTuple, false, false);
    let Selector::Key(key) = flows(7..8)[0] else { panic!() };
    let named = Selector::read_all(&community_id(&key, 0).unwrap()).unwrap();
    overrides.edit(&shunt(&named, SECOND), 0);
    assert!(overrides.table().is_empty() && overrides.search.is_some());
    let Selector::Community(digest) = named[0] else { panic!() };
    overrides.found.0.send(FoundFlow { key, digest }).unwrap();
    assert!(overrides.maintain(1));
    assert!(overrides.find(&key).is_some() && overrides.search.is_none());
    // A flow that is known is found at once.
    let pass = OverrideEdit { action: FlowOverride::Pass, ..shunt(&named, SECOND) };
    overrides.edit(&pass, 2);
    assert_eq!(overrides.find(&key).unwrap().action, FlowOverride::Pass);
    assert!(overrides.search.is_none());
}

#[test]
fn flows_with_tags_in_their_keys_are_searched_for() {
    let mut overrides = overrides(Affinity::FiveTuple, true, false);
    let named = flows(7..8);
    overrides.edit(&shunt(&named, SECOND), 0);
    let Selector::Key(key) = named[0] else { panic!() };
    let digest = community_digest(&key, 0).unwrap();
    for scope in [5, 9] {
        let key = FlowKey { scope, ..key };
        overrides.found.0.send(FoundFlow { key, digest }).unwrap();
    }
    assert!(overrides.maintain(1));
    assert_eq!(overrides.flows().count(), 2, "one in each VLAN");
    assert!(overrides.search.is_some(), "there may be more");
    assert!(overrides.maintain(3 * SECOND));
    assert!(overrides.search.is_none() && overrides.table().is_empty());
}

#[test]
fn flows_that_are_found_are_limited_too() {
    let mut overrides = overrides(Affinity::FiveTuple, true, false);
    overrides.most = 8;
    let named = flows(7..8);
    overrides.edit(&shunt(&named, SECOND), 0);
    let Selector::Key(key) = named[0] else { panic!() };
    let digest = community_digest(&key, 0).unwrap();
    for scope in 0..20 {
        let key = FlowKey { scope, ..key };
        overrides.found.0.send(FoundFlow { key, digest }).unwrap();
        overrides.maintain(1);
    }
    assert_eq!((overrides.flows().count(), overrides.beyond()), (8, 12));
    // One that is known is found again, and there is room when their time is over.
    overrides.found.0.send(FoundFlow { key, digest }).unwrap();
    assert!(!overrides.maintain(2));
    assert!(overrides.maintain(3 * SECOND));
    assert!(overrides.table().is_empty());
}

#[test]
fn what_cannot_be_found_is_refused() {
    let key = flows(7..8);
    let id = Selector::read_all("1:LQU9qZlK+B5F3KDmev6m5PMibrg=").unwrap();
    let check = |affinity, vlan_in_key, in_kernel, flows: &[Selector]| {
        overrides(affinity, vlan_in_key, in_kernel).check(&shunt(flows, SECOND), 0)
    };
    assert!(check(Affinity::IpPair, false, false, &key).is_ok());
    for (refused, expected) in [
        (check(Affinity::IpPair, false, false, &id), "expected `key = \"5tuple\"`, or addresses"),
        (check(Affinity::IpPair, true, false, &key), "expected `key = \"5tuple\"`, or addresses"),
        (check(Affinity::IpPair, false, true, &key), "expected `key = \"5tuple\"`, as the kernel"),
        (check(Affinity::FiveTuple, false, true, &id), "expected addresses and ports in place"),
    ] {
        let error = refused.unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
