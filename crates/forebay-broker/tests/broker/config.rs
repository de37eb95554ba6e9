//! Configurations that are right, and what is said of those that are not.

use std::time::Duration;

use forebay_broker::config::{
    Config, ConfigError, EXAMPLES, Key, NoSensor, Port, PortKind, Rotate, Sending, Shunt,
    ShuntAction, example,
};
use forebay_flow::shed::OnOverload;
use forebay_packet::{LabelField, MacAddress, Strip};
use forebay_pipeline::GroupStages;
use forebay_pipeline::stages::OPTIONAL;

/// The least that a broker needs.
const LEAST: &str = r#"
[[input]]
name = "tap"
type = "af_packet"
interface = "eth1"

[[output]]
name = "switch"
type = "af_packet"
interface = "eth2"

[[group]]
name = "ids"

[[group.sensor]]
name = "one"
mac = "02:00:00:00:01:01"
"#;

fn read(text: &str) -> Result<Config, ConfigError> {
    Config::parse("run.toml", text)
}

/// The error of [`LEAST`] with `old` replaced by `new`.
fn refused(old: &str, new: &str) -> String {
    assert_eq!(LEAST.matches(old).count(), 1, "`{old}` is there once");
    read(&LEAST.replace(old, new)).unwrap_err().to_string()
}

#[test]
fn each_example_for_a_purpose_is_a_configuration_for_that() {
    for (name, text) in EXAMPLES {
        let config = read(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let sensors: usize = config.groups.iter().map(|group| group.sensors.len()).sum();
        let of = (config.inputs.len(), config.outputs.len(), config.groups.len(), sensors);
        let expected = match name {
            "minimal" => (1, 3, 1, 3),
            "switch" => (2, 1, 1, 3),
            "xdp" => (1, 1, 1, 2),
            "recorder" => (1, 2, 2, 2),
            "gateway" => (1, 1, 1, 1),
            other => panic!("an example {other} that nothing is expected of"),
        };
        assert_eq!(of, expected, "{name}");
        let ids = &config.groups[0];
        let addresses = ids.sensors.iter().filter(|one| one.rewrite.destination.is_some()).count();
        assert_eq!(addresses == ids.sensors.len(), ["switch", "xdp"].contains(&name), "{name}");
        assert_eq!(config.is_in_kernel(), name == "xdp", "{name}");
        assert_eq!(config.has_gateway(), name == "gateway", "{name}");
        assert_eq!(config.groups[0].sensors.iter().all(|one| one.hello), name == "switch");
        let rotates = |port: &Port| matches!(port.kind, PortKind::Pcap { rotate: Some(_), .. });
        assert_eq!(config.outputs.iter().any(rotates), name == "recorder", "{name}");
    }
}

#[test]
fn the_example_says_what_it_says() {
    let config = read(&example()).unwrap();
    assert_eq!((config.inputs.len(), config.outputs.len(), config.groups.len()), (3, 3, 2));
    assert_eq!((config.inputs[0].to, config.inputs[2].to), (None, Some(0)));
    assert_eq!(config.filter.as_deref(), Some("ip or ip6 or arp"));
    assert_eq!(config.idle_timeout, Duration::from_secs(30));
    assert_eq!(config.metrics.map(|address| address.port()), Some(9464));
    let PortKind::AfXdp { interface, queues, .. } = &config.inputs[1].kind else { panic!() };
    assert_eq!((interface.as_str(), *queues), ("eth2", 1));
    assert_eq!(
        (config.inputs[0].ring, config.outputs[0].wait),
        (16 << 20, Duration::from_millis(1))
    );
    let PortKind::AfXdp { send, .. } = &config.outputs[2].kind else { panic!() };
    assert_eq!(*send, Sending::Frames);
    let PortKind::Pcap { rotate, .. } = &config.outputs[1].kind else { panic!() };
    let expected = Rotate { size: Some(1 << 30), every: Some(3_600), keep: Some(24) };
    assert_eq!(*rotate, Some(expected));
    let ids = &config.groups[0];
    assert_eq!((ids.key, ids.no_sensor), (Key::FiveTuple, NoSensor::Drop));
    let first = &ids.sensors[0];
    assert_eq!(
        (first.weight, first.limit_pps, first.limit_bps),
        (2, Some(500_000), Some(2_000_000_000))
    );
    assert!(first.hello && !ids.sensors[1].hello);
    // The second has no limit.
    let policies = [first.on_overload, ids.sensors[1].on_overload];
    assert_eq!(policies, [OnOverload::WholeFlows, OnOverload::None]);
    assert_eq!(first.rewrite.destination, Some(MacAddress([2, 0, 0, 0, 1, 1])));
    assert_eq!(first.rewrite.source, Some(MacAddress([2, 0, 0, 0, 0, 1])));
    assert_eq!(first.rewrite.label, Some(LabelField::Dscp));
    assert_eq!(ids.sensors[2].rewrite.push_vlan, Some(103));
    let recorder = &config.groups[1].sensors[0];
    assert_eq!((recorder.output, recorder.rewrite.slice), (1, Some(128)));
    assert_eq!(recorder.rewrite.strip, Strip { vlan: true, vxlan: true, ..Strip::NONE });
    // The example has every optional stage, in the first group.
    assert!(ids.stages.keys().eq(OPTIONAL.iter().map(|stage| stage.key)));
    assert_eq!(config.groups[1].stages, GroupStages::default());
    let shunt = Shunt { action: ShuntAction::Sample(100), after: 64 << 20 };
    assert_eq!(ids.shunt, Some(shunt));
}

#[test]
fn what_is_left_out_has_a_default() {
    let config = read(LEAST).unwrap();
    assert_eq!((config.workers, config.tunnel_depth, config.busy_poll), (1, 4, false));
    assert_eq!(
        (config.interval, config.hello_timeout),
        (Duration::from_secs(1), Duration::from_secs(1))
    );
    assert_eq!((&config.control, &config.metrics, &config.user), (&None, &None, &None));
    let sensor = &config.groups[0].sensors[0];
    assert_eq!((sensor.output, sensor.weight, sensor.limit_pps), (0, 1, None));
    // A new source, so that a switch learns none of the link's stations.
    let source = sensor.rewrite.source.unwrap();
    assert!(source.0[0] & 3 == 2, "{source} is of this network and of one station");
    let kept = LEAST.replace("name = \"ids\"", "name = \"ids\"\nsource_mac = \"keep\"");
    assert_eq!(read(&kept).unwrap().groups[0].sensors[0].rewrite.source, None);
}

/// What to replace in [`LEAST`], by what, and what is said of it.
const FAULTS: &[(&str, &str, &str)] = &[
    (
        "interface = \"eth1\"",
        "interface = \"eth1\"\nsend = \"ring\"",
        "run.toml:6:8: key `send` has no meaning for an input of type af_packet",
    ),
    (
        "interface = \"eth2\"",
        "interface = \"eth2\"\nsend = \"ring\"",
        "key `send` has no meaning for a port of type af_packet",
    ),
    (
        "type = \"af_packet\"\ninterface = \"eth1\"",
        "type = \"pcap\"\nfile = \"in.pcap\"\nrotate = { size = \"1MiB\" }",
        "run.toml:6:10: key `rotate` has no meaning for an input of type pcap",
    ),
    (
        "type = \"af_packet\"\ninterface = \"eth2\"",
        "type = \"pcap\"\nfile = \"out.pcap\"\nrotate = { keep = 3 }",
        "`rotate` without `size` and without `every`",
    ),
    (
        "type = \"af_packet\"\ninterface = \"eth2\"",
        "type = \"pcap\"\nfile = \"out.pcap\"\nrotate = { size = \"1KiB\" }",
        "files of less than 64KiB",
    ),
    (
        "type = \"af_packet\"\ninterface = \"eth2\"",
        "type = \"pcap\"\nfile = \"out.pcap\"\nrotate = { every = \"1s\", keep = 0 }",
        "0 files: expected 1 to 100000",
    ),
    ("[[input]]", "[export]\npath = \"flows.csv\"\n[[input]]", "no group keeps records"),
    (
        "[[input]]",
        "[export]\npath = \"flows.csv\"\ngroups = [\"ids\"]\n[[input]]",
        "`ids`: the group keeps no records: expected `flows` in it",
    ),
    (
        "[[input]]",
        "[export]\npath = \"flows.csv\"\ngroups = [\"isd\"]\n[[input]]",
        "`isd`: no such group",
    ),
    ("[[input]]", "[export]\npath = \"/\"\n[[input]]", "`/`: expected the name of a file"),
    ("[[input]]", "[export]\nformat = \"csv\"\n[[input]]", "missing field `path`"),
    (
        "[[group]]",
        "[export]\ntype = \"socket\"\nformat = \"parquet\"\npath = \"s\"\n[[group]]\nflows = true",
        "parquet needs a file: expected `csv` or `jsonl` for a stream",
    ),
    (
        "[[group]]",
        "[export]\ntype = \"fifo\"\nrotate = { keep = 2 }\npath = \"f\"\n[[group]]\nflows = true",
        "a stream has no files that follow one another: expected no `rotate`",
    ),
    (
        "[[group]]",
        "[export]\ntype = \"fifo\"\npath = \"-\"\n[[group]]\nflows = true",
        "`-` is standard output: expected the name of a FIFO or socket",
    ),
    (
        "[[group]]",
        "[export]\ntype = \"pipe\"\npath = \"f\"\n[[group]]\nflows = true",
        "type `pipe`: expected one of `file`, `fifo`, `socket`",
    ),
    (
        "interface = \"eth2\"",
        "interface = \"eth2\"\non_full = \"stop\"",
        "key `on_full` has no meaning for a port of type af_packet",
    ),
    (
        "type = \"af_packet\"\ninterface = \"eth2\"",
        "type = \"pcap\"\nfile = \"out.pcap\"\non_full = \"wait\"",
        "on_full `wait`: expected one of `retry`, `stop`",
    ),
    (
        "name = \"tap\"",
        "nam = \"tap\"",
        "run.toml:3:1: unknown field `nam`, expected one of `name`",
    ),
    (
        "type = \"af_packet\"\ninterface = \"eth1\"",
        "type = \"dpdk\"\ninterface = \"eth1\"",
        "run.toml:4:8: port type `dpdk`: expected one of `af_packet`, `af_xdp`, `xdp`, `tap`, `pcap`",
    ),
    (
        "interface = \"eth1\"",
        "interface = \"a name of 16 by\"",
        "run.toml:5:13: `a name of 16 by` is no network device",
    ),
    (
        "interface = \"eth1\"",
        "file = \"in.pcap\"",
        "run.toml:5:8: key `file` has no meaning for a port of type af_packet",
    ),
    ("interface = \"eth1\"", "", "a port of type af_packet without `interface`"),
    (
        "interface = \"eth1\"",
        "interface = 7",
        "run.toml:5:13: invalid type: integer `7`, expected a string",
    ),
    (
        "interface = \"eth1\"",
        "interface = \"eth1\"\nring = \"1KiB\"",
        "run.toml:6:8: a ring of 1024 bytes: expected 64KiB to 4GiB",
    ),
    (
        "interface = \"eth1\"",
        "interface = \"eth1\"\nring = \"big\"",
        "`big` is no size: expected a number",
    ),
    (
        "interface = \"eth2\"",
        "interface = \"eth2\"\nwait = \"1h\"",
        "run.toml:11:8: a full ring can be waited for up to 1s",
    ),
    ("02:00:00:00:01:01", "02:00:00:00:01", "run.toml:17:7: `02:00:00:00:01` is no MAC address"),
    ("02:00:00:00:01:01", "03:00:00:00:01:01", "is the address of a group"),
    (
        "name = \"one\"",
        "name = \"one\"\nvlan = 4095",
        "4095 is the VLAN identifier: expected 1 to 4094",
    ),
    ("name = \"one\"", "name = \"one\"\nweight = 0", "0 as weight: expected 1 to 1000"),
    ("name = \"one\"", "name = \"one\"\nlimit_pps = \"fast\"", "`fast` is no rate"),
    (
        "name = \"one\"",
        "name = \"one\"\non_overload = \"fair\"",
        "on_overload `fair` without a limit: expected `limit_pps`, `limit_bps` or `hello = true`",
    ),
    (
        "name = \"one\"",
        "name = \"one\"\nlimit_pps = 10\non_overload = \"drr\"",
        "`limit_pps` 10 with on_overload: expected at least 1k",
    ),
    (
        "name = \"one\"",
        "name = \"one\"\nlimit_bps = \"1G\"\non_overload = \"all\"",
        "on_overload `all`: expected one of `none`, `fair`, `red`, `drr`, `whole-flows`",
    ),
    (
        "name = \"ids\"",
        "name = \"ids\"\non_overload = \"most\"",
        "`on_overload`: expected one of `none`, `fair`, `red`, `drr`, `whole-flows`",
    ),
    (
        "name = \"one\"",
        "name = \"one\"\noutput = \"swich\"",
        "no output `swich`: expected one of switch",
    ),
    ("name = \"one\"", "name = \"no name\"", "`no name` is no name for sensor"),
    (
        "name = \"ids\"",
        "name = \"ids\"\nno_sensor = \"wait\"",
        "run.toml:14:13: no_sensor `wait`: expected one of `drop`, `pass`, `hold`",
    ),
    (
        "name = \"ids\"",
        "name = \"ids\"\nkey = \"4tuple\"",
        "run.toml:14:7: key `4tuple`: expected one of `5tuple`, `ip-pair`, `src`, `dst`",
    ),
    (
        "name = \"ids\"",
        "name = \"ids\"\nfollow = [\"ftp\", \"h323\"]",
        "run.toml:14:18: `h323`: expected ftp, sip, ftp:PORT or sip:PORT",
    ),
    (
        "name = \"ids\"",
        "name = \"ids\"\nkey = \"dst\"\nfollow = [\"sip:5061\"]",
        "run.toml:15:11: `follow` with key `src` or `dst`",
    ),
    ("name = \"ids\"", "name = \"ids\"\nslice = 10", "10 bytes: expected 64 to 65535"),
    (
        "name = \"ids\"",
        "name = \"ids\"\nstrip = [\"vlan\", \"geneve\"]",
        "run.toml:14:18: strip `geneve`: expected some of `vlan`, `mpls`",
    ),
    (
        "name = \"ids\"",
        "name = \"ids\"\nshunt = { action = \"drop\", one_in = 3 }",
        "run.toml:14:37: `one_in` without `action = \"sample\"`",
    ),
    (
        "name = \"ids\"",
        "name = \"ids\"\nshunt = { action = \"sensor\", sensor = \"two\" }",
        "run.toml:14:39: no sensor `two` in this group",
    ),
    (
        "name = \"ids\"",
        "name = \"ids\"\nduplicates = \"2\"",
        "run.toml:14:14: `duplicates`: `2` is no duration",
    ),
    (
        "name = \"ids\"",
        "name = \"ids\"\nduplicates = { for = 2 }",
        "run.toml:14:14: `duplicates`: expected a duration, like \"1ms\"",
    ),
    (
        "name = \"ids\"",
        "name = \"ids\"\nduplicate = \"2ms\"",
        "run.toml:14:1: unknown field `duplicate`",
    ),
    (
        "[[group.sensor]]\nname = \"one\"\nmac = \"02:00:00:00:01:01\"\n",
        "",
        "group `ids` has 0 sensors",
    ),
    (
        "\n[[input]]",
        "rule_list = \"lan1:in\"\n[[input]]",
        "run.toml:1:13: a `rule_list`, but no file",
    ),
    ("\n[[input]]", "rules_ipv6 = true\n[[input]]", "run.toml:1:14: a `rules_ipv6`, but no file"),
    (
        "\n[[input]]",
        "rules = \"r\"\nrules_format = \"nft\"\n[[input]]",
        "run.toml:2:16: format `nft`: expected one of `auto`, `yamaha`, `cisco`, `iptables`",
    ),
    (
        "\n[[input]]",
        "[broker]\nworkers = 65\n[[input]]",
        "run.toml:2:11: 65 workers: expected 1 to 64",
    ),
    ("\n[[input]]", "[broker]\nmetrics = \"here\"\n[[input]]", "`here` is no address and port"),
    ("\n[[input]]", "[balance]\ninterval = \"1\"\n[[input]]", "`1` is no duration"),
    (
        "\n[[input]]",
        "[balance]\ninterval = \"1ms\"\n[[input]]",
        "run.toml:2:12: `1ms` is too short: expected at least 100ms",
    ),
    ("\n[[input]]", "filter = \n[[input]]", "run.toml:1:"),
];

#[test]
fn every_fault_names_its_place_and_what_was_expected() {
    for (old, new, expected) in FAULTS {
        let error = refused(old, new);
        assert!(error.contains(expected), "`{new}`\n  gives {error}\n  not   {expected}");
        assert!(error.starts_with("run.toml:"), "{error}");
    }
}

#[test]
fn packets_wait_for_a_sensor_only_in_a_gateway_that_holds() {
    let with = |keys: &str| {
        let scan = "[scan]\nliterals = \"l\"\n";
        let name = format!("name = \"ids\"\n{keys}no_sensor = \"hold\"");
        read(&(scan.to_owned() + &LEAST.replace("name = \"ids\"", &name)))
    };
    for mode in ["hold", "prefix"] {
        let config = with(&format!("gateway = {{ mode = \"{mode}\" }}\n")).unwrap();
        assert_eq!(config.groups[0].no_sensor, NoSensor::Hold);
    }
    for keys in ["", "gateway = {}\n", "gateway = { mode = \"annotate\" }\n"] {
        let error = with(keys).unwrap_err().to_string();
        let line = 16 + keys.lines().count();
        let expected = format!(
            "run.toml:{line}:13: no_sensor `hold` without a gateway in which packets wait: \
             expected the key `gateway` with `mode` `hold` or `prefix`"
        );
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn a_sensor_too_light_for_a_bucket_is_refused() {
    let mut text = LEAST.to_owned();
    for i in 0..66 {
        text += &format!(
            "[[group.sensor]]\nname = \"s{i}\"\nmac = \"02:00:00:00:02:{i:02x}\"\nweight = 1000\n"
        );
    }
    let error = read(&text).unwrap_err().to_string();
    let expected = "weight 1 of sensor `one` beside 66001 in all is less than a bucket of 65536: \
                    expected at least 2";
    assert!(error.starts_with("run.toml:15:1: ") && error.contains(expected), "{error}");
}

#[test]
fn names_and_places_are_used_once() {
    let twice = |part: &str, change: (&str, &str)| {
        let at = LEAST.find(part).unwrap();
        let end = LEAST[at..].find("\n\n").map_or(LEAST.len(), |end| at + end);
        let copy = LEAST[at..end].replace(change.0, change.1);
        read(&format!("{}\n{copy}\n{}", &LEAST[..end], &LEAST[end..])).unwrap_err().to_string()
    };
    assert!(twice("[[input]]", ("eth1", "eth9")).contains("a second input named `tap`"));
    assert!(
        twice("[[input]]", ("tap", "tap2")).contains("input `tap2` has the same place as `tap`")
    );
    assert!(twice("[[group.sensor]]", ("01:01", "01:02")).contains("a second sensor named `one`"));
    let same = twice("[[group.sensor]]", ("\"one\"", "\"two\""));
    assert!(same.contains("sensor `two` cannot be told from `one`"), "{same}");
}

#[test]
fn hellos_are_expected_only_where_they_can_come_from() {
    let device = "type = \"af_packet\"\ninterface = \"eth2\"";
    let greeting = LEAST.replace("name = \"one\"", "name = \"one\"\nhello = true");
    assert!(read(&greeting).unwrap().groups[0].sensors[0].hello);
    for other in ["type = \"pcap\"\nfile = \"out.pcap\"", "type = \"tap\"\ninterface = \"t\""] {
        assert!(greeting.contains(device) && read(&LEAST.replace(device, other)).is_ok());
        let error = read(&greeting.replace(device, other)).unwrap_err().to_string();
        assert!(error.starts_with("run.toml:15:1: sensor `one` with `hello = true`"), "{error}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = Config::read(&folder.path().join("none.toml")).unwrap_err().to_string();
    assert!(error.contains("none.toml: cannot be read"), "{error}");
}

/// The least that a broker in the kernel needs.
fn in_kernel() -> String {
    LEAST.replace("af_packet", "xdp")
}

#[test]
fn ports_in_the_kernel_have_the_keys_of_their_kind() {
    let config = read(&in_kernel()).unwrap();
    assert!(config.is_in_kernel() && !read(LEAST).unwrap().is_in_kernel());
    let all = in_kernel().replace(
        "interface = \"eth1\"",
        "interface = \"eth1\"\nqueues = 4\npromiscuous = false\nring = \"1MiB\"",
    );
    let PortKind::Xdp { interface, queues, promiscuous } = &read(&all).unwrap().inputs[0].kind
    else {
        panic!()
    };
    assert_eq!((interface.as_str(), *queues, *promiscuous), ("eth1", Some(4), false));
}

#[test]
fn what_the_kernel_cannot_do_is_refused_by_its_key() {
    let second = "\n[[group]]\nname = \"other\"\n[[group.sensor]]\nname = \"two\"";
    let recorder =
        "output = \"switch\"\n[[output]]\nname = \"disk\"\ntype = \"pcap\"\nfile = \"a.pcap\"";
    for (old, new, place, said) in [
        ("", "rules = \"acl\"\n", "1:9", "`rules`"),
        ("", "[flow]\nvlan_in_key = true\n", "2:15", "`vlan_in_key`"),
        ("", "filter = \"ip protochain 6\"\n", "1:10", "no backward jump"),
        ("name = \"ids\"", "name = \"ids\"\nfilter = \"ip6 protochain 6\"", "14:10", "protochain"),
        ("name = \"ids\"", "name = \"ids\"\nslice = 64", "14:9", "`slice`"),
        ("name = \"ids\"", "name = \"ids\"\nfollow = [\"ftp\"]", "14:11", "`follow`"),
        ("mac = \"02:00:00:00:01:01\"", second, "18:1", "second group"),
        ("mac = \"02:00:00:00:01:01\"", recorder, "20:8", "type pcap beside others"),
    ] {
        let text = if old.is_empty() {
            format!("{new}{}", in_kernel())
        } else {
            in_kernel().replacen(old, new, 1)
        };
        let error = read(&text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("run.toml:{place}: ")), "{new}: {error}");
        assert!(error.contains(said) && error.contains("with ports of type xdp"), "{error}");
    }
    let mixed = LEAST.replacen("af_packet", "xdp", 1);
    let error = read(&mixed).unwrap_err().to_string();
    assert!(error.starts_with("run.toml:9:8: a port of type af_packet"), "{error}");
    // What is allowed beside: the keys in their usual values.
    let usual = format!("filter = \"ip\"\n[flow]\nvlan_in_key = false\n{}", in_kernel());
    assert!(read(&usual).is_ok());
}

#[test]
fn ports_in_the_kernel_are_bounded_by_its_tables() {
    let with = |what: &str, many: usize| {
        let port =
            |i| format!("[[{what}]]\nname = \"p{i}\"\ntype = \"xdp\"\ninterface = \"p{i}\"\n");
        let ports: String = (1..many).map(port).collect();
        let text = in_kernel().replacen("mac =", "output = \"switch\"\nmac =", 1);
        read(&text.replacen(&format!("[[{what}]]"), &format!("{ports}[[{what}]]"), 1))
    };
    for (what, most) in [("input", 32), ("output", 1023)] {
        assert!(with(what, most).is_ok(), "{most} of {what}");
        let error = with(what, most + 1).unwrap_err().to_string();
        assert!(error.contains(&format!("more than {most} {what}s")), "{error}");
    }
}
