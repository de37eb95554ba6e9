//! The complete page is well formed, has only finite numbers and no references to external
//! resources, for any report.

use super::model::{
    Balancing, Imbalance, LedgerRow, SensorLoad, SplitReport, Spread, TimeSeries, TopFlow, Totals,
};
use super::write_html;

const HOSTILE: &str =
    "</script><script>alert(1)</script><img src=x onerror='a()'>\"&\u{1b}[2J\u{202e}";

fn page(report: &SplitReport) -> String {
    let mut out = Vec::new();
    write_html(report, &mut out).expect("memory takes a page");
    String::from_utf8(out).expect("a page is UTF-8")
}

/// A report of a capture of `buckets` tenths of a second.
fn report(sensors: usize, buckets: usize) -> SplitReport {
    let load = |sensor: usize, bucket: usize| ((sensor * 7 + bucket * 13) % 29 + 20) as u64;
    let packets: Vec<Vec<u64>> = (0..sensors)
        .map(|sensor| (0..buckets).map(|bucket| load(sensor, bucket)).collect())
        .collect();
    let bytes: Vec<Vec<u64>> =
        packets.iter().map(|row| row.iter().map(|count| count * 700).collect()).collect();
    let loads: Vec<SensorLoad> = (0..sensors)
        .map(|at| SensorLoad {
            name: format!("sensor-{at}"),
            file: format!("out/sensor-{at}.pcap"),
            weight: 1.0,
            packets: packets[at].iter().sum(),
            bytes: bytes[at].iter().sum(),
            flows: 100 + at as u64,
            share_target: 1.0 / sensors as f64,
            ..SensorLoad::default()
        })
        .collect();
    let out: u64 = loads.iter().map(|sensor| sensor.packets).sum();
    let spread = Spread {
        measured: Some(1.04),
        expected: Some(1.05),
        expected_p95: Some(1.09),
        bound: Some(1.0),
    };
    let row = |stage: &str, in_: u64, out: u64, drops: Vec<(String, u64)>| LedgerRow {
        stage: stage.to_owned(),
        in_,
        out,
        drops,
        closes: true,
        ..LedgerRow::default()
    };
    SplitReport {
        title: format!("office.pcap over {sensors} sensors"),
        inputs: vec!["office.pcap".to_owned()],
        options: vec![("filter".to_owned(), "tcp port 80".to_owned())],
        generator: "forebay 0.1.0".to_owned(),
        start_ns: Some(1_425_470_400_000_000_000),
        end_ns: Some(1_425_470_400_000_000_000 + buckets as i64 * 100_000_000),
        totals: Totals {
            packets_in: out + 50,
            packets_out: out,
            bytes_in: (out + 50) * 700,
            bytes_out: out * 700,
            flows: loads.iter().map(|sensor| sensor.flows).sum(),
        },
        sensors: loads,
        balance: Balancing::default(),
        imbalance: Imbalance { packets: spread, bytes: spread, flows: spread },
        series: TimeSeries { width_ns: 100_000_000, packets, bytes },
        top_flows: vec![top_flow(); 20],
        ledger: vec![
            row("filter", out + 50, out, vec![("not selected".to_owned(), 50)]),
            row("balance", out, out, Vec::new()),
        ],
        notes: vec!["3 fragments without a first".to_owned()],
        error: None,
    }
}

fn top_flow() -> TopFlow {
    TopFlow {
        community_id: Some("1:LQU9qZlK+B5F3KDmev6m5PMibrg=".to_owned()),
        protocol: "tcp".to_owned(),
        proto: "tcp".to_owned(),
        ends: serde_json::Map::new(),
        a: "[2001:db8:85a3::8a2e:370:7334]:52344".to_owned(),
        b: "[2001:db8::443:1]:443".to_owned(),
        packets: 1_000,
        bytes: 700_000,
        sensor: 0,
        first_ns: 1_425_470_400_000_000_000,
        last_ns: 1_425_470_401_000_000_000,
    }
}

/// Checks that all tags are closed in order, and all attribute values are quoted.
fn assert_balanced(page: &str) {
    const VOID: [&str; 4] = ["meta", "input", "br", "hr"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("<!doctype html>") {
            rest = after;
            continue;
        }
        let end = rest.find('>').expect("a tag ends");
        let tag = &rest[1..end];
        assert!(!tag.contains('<'), "a tag inside <{tag}>");
        assert!(tag.matches('"').count().is_multiple_of(2), "an open value in <{tag}>");
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order");
            continue;
        }
        let name = tag.split([' ', '/']).next().expect("a tag has a name");
        if VOID.contains(&name) || tag.ends_with('/') {
            continue;
        }
        if name == "script" || name == "style" {
            let close = format!("</{name}>");
            rest = &rest[rest.find(&close).expect("raw text ends") + close.len()..];
            continue;
        }
        open.push(name);
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

/// Checks that all numbers are finite, paths are well formed, and percentages are 0 to 100.
fn assert_finite(page: &str) {
    let script = page.find("<script>").unwrap_or(page.len());
    for word in ["NaN", "inf", "null", "e+"] {
        let found = page[..script].match_indices(word).find(|(at, _)| {
            let before = page[..*at].chars().next_back();
            before.is_some_and(|c| !c.is_alphabetic())
        });
        assert!(found.is_none(), "{word} in {:?}", found.map(|(at, _)| &page[at - 40..at + 40]));
    }
    for path in page.split(" d=\"").skip(1) {
        let path = &path[..path.find('"').expect("a path ends")];
        let allowed = |c: char| c.is_ascii_digit() || " .-MVHhZLlv".contains(c);
        assert!(path.starts_with('M') && path.chars().all(allowed), "path {path}");
    }
    for value in page.split("left:").skip(1).chain(page.split("width:").skip(1)) {
        if let Some((number, _)) = value.split_once('%').filter(|(number, _)| number.len() < 8) {
            let percent: f64 = number.trim().parse().expect("a percentage is a number");
            assert!((0.0..=100.0).contains(&percent), "{percent}%");
        }
    }
}

fn assert_sound(report: &SplitReport) -> String {
    let page = page(report);
    assert_balanced(&page);
    assert_finite(&page);
    for outside in ["http:", "https:", "//cdn", "@import", "url(", "src="] {
        assert!(!page.contains(outside), "the page refers to {outside}");
    }
    page
}

#[test]
fn pages_of_every_size_are_sound_and_bounded() {
    for (sensors, limit) in [(1, 80), (2, 100), (4, 120), (8, 200), (16, 300), (17, 300), (64, 400)]
    {
        let page = assert_sound(&report(sensors, 600));
        assert!(page.len() < limit * 1_000, "{sensors} sensors: {} bytes", page.len());
        assert!(page.contains("Every packet accounted for"));
        assert!(page.contains(" out + 50 dropped"));
    }
    assert_sound(&report(256, 600));
    assert_sound(&report(256, 3));
}

#[test]
fn the_verdict_is_an_equation() {
    let mut good = report(4, 60);
    good.totals.packets_in = 200_000;
    good.totals.packets_out = 199_950;
    good.ledger[0].in_ = 200_000;
    good.ledger[0].out = 199_950;
    assert!(page(&good).contains("200,000 in = 199,950 out + 50 dropped"));

    let mut copied = good.clone();
    copied.ledger[1] = LedgerRow {
        stage: "tee".into(),
        in_: 10,
        copies: 5,
        held: 2,
        out: 13,
        closes: true,
        ..LedgerRow::default()
    };
    copied.totals.packets_out = 199_953;
    let shown = page(&copied);
    assert!(shown.contains("200,000 in + 5 copies = 199,953 out + 50 dropped + 2 held"));
    assert!(shown.contains("<th scope=\"col\" class=\"n\">Copies</th>"));

    let mut lost = good.clone();
    lost.totals.packets_out -= 7;
    let shown = assert_sound(&lost);
    assert!(shown.contains("The account does not close") && shown.contains(": 7 missing"));

    let mut open = good;
    open.ledger[1].closes = false;
    let shown = assert_sound(&open);
    assert!(shown.contains("account is open: balance") && shown.contains("✗ does not close"));
}

#[test]
fn hostile_text_stays_text() {
    let mut report = report(4, 60);
    let hostile = || HOSTILE.to_owned();
    report.title = hostile();
    report.inputs = vec![hostile()];
    report.options = vec![(hostile(), hostile())];
    report.generator = hostile();
    report.notes = vec![hostile()];
    report.error = Some(hostile());
    for sensor in &mut report.sensors {
        sensor.name = hostile();
        sensor.file = hostile();
    }
    for row in &mut report.ledger {
        row.stage = hostile();
        row.drops.push((hostile(), 3));
    }
    for flow in &mut report.top_flows {
        (flow.protocol, flow.a, flow.b) = (hostile(), hostile(), hostile());
        flow.community_id = Some(hostile());
    }
    for sensors in [4, 1] {
        report.sensors.truncate(sensors);
        let shown = page(&report);
        assert_balanced(&shown);
        assert!(!shown.contains("<img") && !shown.contains("<script>alert"));
        assert!(!shown.contains(['\u{1b}', '\u{202e}']));
        assert_eq!(shown.matches("</script>").count(), 2, "the page's own two");
    }
}

#[test]
fn edge_cases_are_sound() {
    assert_sound(&SplitReport::default());

    let mut none = report(3, 0);
    none.totals = Totals::default();
    none.ledger.clear();
    none.imbalance = Imbalance::default();
    (none.start_ns, none.end_ns) = (None, None);
    assert!(assert_sound(&none).contains("There were no packets in the input"));

    let mut one = report(3, 1);
    one.end_ns = one.start_ns;
    assert!(assert_sound(&one).contains("The packets span no time"));

    let mut backwards = report(3, 10);
    backwards.end_ns = backwards.start_ns.map(|start| start - 1);
    for flow in &mut backwards.top_flows {
        (flow.first_ns, flow.last_ns) = (i64::MAX, i64::MIN);
        flow.sensor = usize::MAX;
    }
    assert_eq!(backwards.duration_ns(), 0);
    assert_sound(&backwards);

    let mut idle = report(20, 10);
    for (at, sensor) in idle.sensors.iter_mut().enumerate() {
        (sensor.packets, sensor.bytes, sensor.flows) = (0, 0, 0);
        sensor.share_target = [f64::NAN, f64::INFINITY, -1.0, 0.0][at % 4];
        sensor.weight = f64::NAN;
    }
    idle.series.packets.iter_mut().chain(&mut idle.series.bytes).for_each(|row| row.fill(0));
    assert_sound(&idle);
    idle.sensors.truncate(9);
    idle.sensors.iter_mut().for_each(|sensor| sensor.weight = 0.0);
    assert_sound(&idle);
}

#[test]
fn huge_numbers_are_sound() {
    for sensors in [1, 4, 20] {
        let mut huge = report(sensors, 30);
        for sensor in &mut huge.sensors {
            (sensor.packets, sensor.bytes, sensor.flows) = (u64::MAX, u64::MAX, u64::MAX);
        }
        huge.totals = Totals {
            packets_in: u64::MAX,
            packets_out: u64::MAX,
            bytes_in: u64::MAX,
            bytes_out: u64::MAX,
            flows: u64::MAX,
        };
        huge.series.width_ns = 1;
        huge.series
            .packets
            .iter_mut()
            .chain(&mut huge.series.bytes)
            .for_each(|row| row.fill(u64::MAX));
        (huge.start_ns, huge.end_ns) = (Some(i64::MIN), Some(i64::MAX));
        huge.ledger[0].drops = vec![("a".to_owned(), u64::MAX), ("b".to_owned(), u64::MAX)];
        huge.imbalance.packets.measured = Some(f64::INFINITY);
        huge.imbalance.bytes.expected = Some(f64::NAN);
        huge.imbalance.flows.measured = Some(1e300);
        assert_eq!(huge.duration_ns(), u64::MAX);
        assert_sound(&huge);
        huge.series.width_ns = u64::MAX;
        assert_sound(&huge);
    }
}

#[test]
fn imbalance_is_read_against_chance() {
    let reading = |measured, expected, expected_p95| {
        super::sensors::reading(&Spread { measured, expected, expected_p95, bound: None })
    };
    assert_eq!(reading(Some(1.09), Some(1.05), Some(1.09)), "as even as chance");
    assert_eq!(reading(Some(1.10), Some(1.05), Some(1.09)), "less even than chance");
    assert_eq!(reading(Some(1.02), Some(1.05), Some(1.09)), "more even than chance");
    assert_eq!(reading(Some(1.10), Some(1.00), None), "+10.0% against random");
    assert_eq!(reading(Some(1.10), None, None), "");
    assert_eq!(reading(None, Some(1.0), None), "no load");
}

#[test]
fn the_report_serialises_with_drops_by_name() {
    let json = serde_json::to_value(report(2, 5)).expect("plain data");
    assert_eq!(json["ledger"][0]["in"], json["totals"]["packets_in"]);
    assert_eq!(json["ledger"][0]["drops"]["not selected"], 50);
    assert_eq!(json["sensors"][1]["name"], "sensor-1");
}

#[test]
fn a_reader_without_sight_gets_words_and_headers() {
    let shown = page(&report(4, 60));
    assert!(shown.contains("<html lang=\"en\">"));
    let drawings = shown.matches("<svg").count();
    let described = shown.matches("role=\"img\" aria-label=\"").count();
    let decorative = shown.matches("aria-hidden=\"true\"><circle").count();
    assert_eq!(drawings, described + decorative);
    assert!(shown.matches("<th").count() >= shown.matches("<table").count() * 4);
    assert_eq!(shown.matches("<th ").count(), shown.matches("scope=\"").count());
}
