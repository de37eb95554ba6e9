use forebay_flow::*; use forebay_packet::*; use forebay_packet::flow::AddressKind; use std::time::Instant;
fn key(n: u64) -> ShortKey {
    let x = random::mix(n);
    let (k, _) = FlowKey::two_way(AddressKind::Ipv4, 6, (u128::from(n as u32), x as u16), (u128::from((x>>16) as u32), 80));
    ShortKey::new(&FlowKey { has_ports: true, ..k }).unwrap()
}
fn main() {
    for flows in [20_000usize, 1_000_000, 8_000_000] {
        let mut r = random::Random::new(1);
        let order: Vec<ShortKey> = (0..4_000_000).map(|_| key(r.below(flows as u64))).collect();
        for level in Level::all() {
            let mut t = Table::new(&Options { flows: flows*95/100, lifetime: 16, key: HashKey([1,2]), level }).unwrap();
            let fill = flows;
            let keys: Vec<ShortKey> = (0..fill as u64).map(key).collect();
            let s = Instant::now(); for k in keys.chunks(64) { t.packets(k, |_,s,_| *s = 7, |_| ()); } let ins = s.elapsed().as_nanos() as f64 / fill as f64;
            let mut best=[f64::MAX;2]; let mut slots=vec![0u32; 64]; let mut sum=0u64;
            for _ in 0..7 {
                let s = Instant::now(); for k in order.chunks(64) { t.find(k, &mut slots[..k.len()]); sum += slots[0] as u64; } best[0]=best[0].min(s.elapsed().as_nanos() as f64/order.len() as f64);
                let s = Instant::now(); for k in order.chunks(64) { t.packets(k, |_,s,_| sum+=*s as u64, |_| ()); } best[1]=best[1].min(s.elapsed().as_nanos() as f64/order.len() as f64);
            }
            println!("{flows} {level:?} load {:.2} {:.1} B/flow insert {ins:.1} find {:.2} packets {:.2} ns {sum}", t.flows() as f64/t.entries() as f64, t.bytes() as f64/t.flows() as f64, best[0], best[1]);
        }
    }
}
