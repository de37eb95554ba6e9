//! `forebay ctl`: questions and orders to a running broker.

mod answer;
mod flows;
mod rules;

use std::io::{self, Write as _};

use forebay_broker::control::{Request, SensorAction, ask};
use serde_json::Value;

use crate::cli::{self, Cli, CtlArgs, CtlVerb, FlowAsk, RulesAsk};
use crate::failure::Failure;
use crate::input::{print, print_json};
use crate::show::{Column, Table, human};
use answer::{counts, items, number, shown, text};

pub fn run(cli: &Cli, args: &CtlArgs) -> Result<(), Failure> {
    if let CtlVerb::Rules { ask: RulesAsk::Save { file } } = &args.ask {
        return rules::save(cli, &args.socket, file);
    }
    if let CtlVerb::Flow { ask: FlowAsk::Shunt(edit) | FlowAsk::Pass(edit) } = &args.ask
        && edit.follow
    {
        return flows::follow(cli, args, edit);
    }
    let answer = ask(&args.socket, &request(&args.ask)?)?;
    if cli.json {
        return print_json(&answer);
    }
    let text = match &args.ask {
        CtlVerb::Status => status(&answer),
        CtlVerb::Sensors => sensors(&answer),
        CtlVerb::Buckets { .. } => buckets(&answer),
        CtlVerb::Flows { .. } => flows(&answer),
        CtlVerb::Ledger => ledger(&answer),
        CtlVerb::Events => events(&answer),
        CtlVerb::Scan => scan(&answer),
        CtlVerb::Rules { ask: RulesAsk::Show { .. } } => rules::shown(&answer),
        CtlVerb::Flow { ask: FlowAsk::Show { .. } } => flows::shown(&answer),
        CtlVerb::Reload
        | CtlVerb::Drain
        | CtlVerb::Sensor { .. }
        | CtlVerb::Rules { .. }
        | CtlVerb::Flow { .. } => {
            done(cli, &answer);
            return Ok(());
        }
    };
    print(|out| out.write_all(text.as_bytes()))
}

/// Reports what was done, unless that is not wanted.
fn done(cli: &Cli, answer: &Value) {
    if !cli.quiet {
        // A failure to write to standard error cannot be reported.
        let _ = writeln!(io::stderr(), "{}", answer.as_str().unwrap_or("done"));
    }
}

fn request(verb: &CtlVerb) -> Result<Request, Failure> {
    Ok(match verb {
        CtlVerb::Status => Request::Status,
        CtlVerb::Sensors => Request::Sensors,
        CtlVerb::Buckets { group } => Request::Buckets { group: group.clone() },
        CtlVerb::Flows { group, top } => Request::Flows { group: group.clone(), top: *top },
        CtlVerb::Ledger => Request::Ledger,
        CtlVerb::Events => Request::Events,
        CtlVerb::Scan => Request::Scan,
        CtlVerb::Rules { ask } => rules::request(ask),
        CtlVerb::Flow { ask } => flows::request(ask)?,
        CtlVerb::Reload => Request::Reload,
        CtlVerb::Drain => Request::Drain,
        CtlVerb::Sensor { name, action, group } => Request::Sensor {
            group: group.clone(),
            name: name.clone(),
            action: match action {
                cli::SensorAction::Up => SensorAction::Up,
                cli::SensorAction::Down => SensorAction::Down,
                cli::SensorAction::Drain => SensorAction::Drain,
                cli::SensorAction::Auto => SensorAction::Auto,
            },
        },
    })
}

/// How the broker is.
fn status(answer: &Value) -> String {
    let uptime = answer["uptime_s"].as_f64().unwrap_or(0.0);
    let mut out = format!(
        "forebay {}, {} worker(s), up {}\n",
        text(&answer["version"]),
        number(&answer["workers"]),
        human::duration((uptime * 1e9) as u64)
    );
    let mut ports = Table::new(vec![
        Column::left("port"),
        Column::left("way"),
        Column::right("packets"),
        Column::right("bytes"),
        Column::wrapped("lost"),
    ]);
    for (side, way) in [("inputs", "in"), ("outputs", "out")] {
        for port in items(&answer[side]) {
            ports.row([
                text(&port["name"]),
                way.to_owned(),
                human::count(number(&port["packets"])),
                human::bytes(number(&port["bytes"])),
                counts(&port["losses"]),
            ]);
        }
    }
    out += &shown(&ports);
    for group in items(&answer["groups"]) {
        out += &format!(
            "group {}: {} of {} sensors up, {} buckets moving\n",
            text(&group["name"]),
            number(&group["up"]),
            number(&group["sensors"]),
            number(&group["moving"])
        );
    }
    for port in ["inputs", "outputs"].iter().flat_map(|side| items(&answer[side])) {
        if port["up"] == Value::Bool(false) {
            out += &format!("{} is down\n", text(&port["name"]));
        }
        if port["way"] == "workers" {
            let name = text(&port["name"]);
            out += &format!("{name} refuses redirected frames: the workers send its packets\n");
        }
    }
    for alarm in items(&answer["alarms"]) {
        let percent = 100.0 * alarm["share"].as_f64().unwrap_or(0.0);
        let (stage, reason) = (text(&alarm["stage"]), text(&alarm["reason"]));
        out +=
            &format!("alarm: {stage} loses {percent:.3}% ({reason}): {}\n", text(&alarm["cure"]));
    }
    let undecoded = counts(&answer["undecoded"]);
    if !undecoded.is_empty() {
        out += &format!("headers that are not decoded, with their packets: {undecoded}\n");
    }
    for failed in items(&answer["failed"]) {
        out += &format!("failed: {}\n", text(failed));
    }
    if answer["closes"] == Value::Bool(false) {
        out += "the ledger does not close: a defect, please report it\n";
    }
    out
}

/// What packets are scanned for.
fn scan(answer: &Value) -> String {
    if !answer["rules"].is_null() {
        return scan_of_rules(answer);
    }
    let mut table = Table::new(vec![
        Column::right("number"),
        Column::right("packets"),
        Column::wrapped("literal"),
    ]);
    for hit in items(&answer["hits"]) {
        table.row([
            number(&hit["number"]).to_string(),
            human::count(number(&hit["packets"])),
            text(&hit["literal"]),
        ]);
    }
    format!(
        "{} literals, by {}, engine {}; packets with literals beyond those shown: {}\n{}",
        human::count(number(&answer["literals"])),
        text(&answer["mode"]),
        text(&answer["engine"]),
        human::count(number(&answer["others"])),
        shown(&table)
    )
}

/// The rules that packets are scanned for, and what passes packets besides their literals.
fn scan_of_rules(answer: &Value) -> String {
    let count = |value: &Value| human::count(number(value));
    let rules = |key: &str, title: &str| {
        let mut table = Table::new(vec![
            Column::right("sid"),
            Column::right("packets"),
            Column::right("flows"),
            Column::wrapped(title),
        ]);
        for rule in items(&answer[key]) {
            let sid = format!("{}:{}", number(&rule["gid"]), number(&rule["sid"]));
            let [packets, flows] = [&rule["packets"], &rule["flows"]].map(count);
            table.row([sid, packets, flows, text(&rule["message"])]);
        }
        shown(&table)
    };
    let mut passed = Table::new(vec![
        Column::left("passed because of"),
        Column::right("packets"),
        Column::right("flows"),
        Column::right("rules or literals"),
        Column::wrapped("reason"),
    ]);
    for trigger in items(&answer["triggers"]) {
        let [packets, flows, all] =
            ["packets", "flows", "literals"].map(|key| count(&trigger[key]));
        let reason = "something may hide literals".to_owned();
        passed.row([text(&trigger["hazard"]), packets, flows, all, reason]);
    }
    for cause in items(&answer["causes"]) {
        let [packets, flows, all] = ["packets", "flows", "rules"].map(|key| count(&cause[key]));
        passed.row([text(&cause["cause"]), packets, flows, all, text(&cause["reason"])]);
    }
    let refused = match number(&answer["refused"]) {
        0 => String::new(),
        refused => format!("rules with errors, not scanned for: {}\n", human::count(refused)),
    };
    format!(
        "{} rules, {} of them by {} literals, by {}, engine {}; at most {} conditions a packet\n\
         {refused}{}{}{}",
        count(&answer["rules"]),
        count(&answer["filterable"]),
        count(&answer["literals"]),
        text(&answer["mode"]),
        text(&answer["engine"]),
        count(&answer["tests"]),
        rules("hits", "rule whose literals were found"),
        rules("always_forward", "rule that no literal decides"),
        shown(&passed),
    )
}

/// The largest flows of a group.
fn flows(answer: &Value) -> String {
    let mut table = Table::new(vec![
        Column::left("proto"),
        Column::left("a"),
        Column::left("b"),
        Column::right("packets →"),
        Column::right("←"),
        Column::right("bytes →"),
        Column::right("←"),
        Column::right("cut"),
        Column::right("shed"),
        Column::left("sensor"),
    ]);
    let all = items(&answer["flows"]);
    for flow in all {
        let count = |key: &str| human::count(number(&flow[key]));
        table.row([
            text(&flow["proto"]),
            text(&flow["a"]),
            text(&flow["b"]),
            count("packets_ab"),
            count("packets_ba"),
            count("bytes_ab"),
            count("bytes_ba"),
            count("cut"),
            count("shed"),
            text(&flow["sensor"]),
        ]);
    }
    let open = human::count(number(&answer["open"]));
    format!(
        "group {}: {} of {open} open flows\n{}",
        text(&answer["group"]),
        all.len(),
        shown(&table)
    )
}

/// The sensors of each group.
fn sensors(answer: &Value) -> String {
    let mut table = Table::new(vec![
        Column::left("group"),
        Column::left("sensor"),
        Column::left("state"),
        Column::right("buckets"),
        Column::right("load"),
        Column::right("target"),
        Column::right("rate"),
        Column::right("hello"),
        Column::right("drops"),
        Column::right("for others"),
        Column::right("shed"),
    ]);
    for group in items(answer) {
        for sensor in items(&group["sensors"]) {
            let rate = |key: &str| sensor[key].as_f64().unwrap_or(0.0);
            let hello = sensor["hello_ms_ago"].as_u64();
            let count = |key: &str| sensor[key].as_u64().map_or("-".to_owned(), human::count);
            let shed = sensor["shed"].as_object().map(|reasons| reasons.values().map(number).sum());
            table.row([
                text(&group["group"]),
                text(&sensor["name"]),
                text(&sensor["standing"]),
                human::count(number(&sensor["buckets"])),
                human::packet_rate(rate("packets_per_s")),
                human::packet_rate(rate("target_packets_per_s")),
                human::bit_rate(rate("bits_per_s")),
                hello.map_or("-".to_owned(), |ms| format!("{ms} ms ago")),
                count("dropped"),
                count("frames_for_others"),
                shed.map_or("-".to_owned(), human::count),
            ]);
        }
    }
    shown(&table) + &classes(answer)
}

/// The classes of each group, if there are any.
fn classes(answer: &Value) -> String {
    let mut table = Table::new(vec![
        Column::left("group"),
        Column::left("class"),
        Column::left("on overload"),
        Column::right("packets/s"),
        Column::right("bits/s"),
        Column::right("shed"),
    ]);
    let mut any = false;
    for group in items(answer) {
        for class in items(&group["classes"]) {
            any = true;
            let limit = |key: &str| class[key].as_u64().map_or("-".to_owned(), human::count);
            let shed = class["shed"].as_object().map_or(0, |why| why.values().map(number).sum());
            table.row([
                text(&group["group"]),
                text(&class["name"]),
                text(&class["on_overload"]),
                limit("limit_pps"),
                limit("limit_bps"),
                human::count(shed),
            ]);
        }
    }
    if any { format!("\n{}", shown(&table)) } else { String::new() }
}

/// What was told last.
fn events(answer: &Value) -> String {
    let line = |event: &Value| {
        let at = event["at_s"].as_f64().unwrap_or(0.0);
        format!("{:>10}  {}\n", human::duration((at * 1e9) as u64), text(&event["what"]))
    };
    items(answer).iter().map(line).collect()
}

/// Who has how many buckets, and which are on the move.
fn buckets(answer: &Value) -> String {
    let mut held: Vec<(String, u64)> = Vec::new();
    if let Some(sensors) = answer["sensors"].as_object() {
        for (index, name) in sensors {
            let index = index.parse::<u64>().ok();
            let all = items(&answer["table"]);
            let count = all.iter().filter(|sensor| sensor.as_u64() == index).count();
            held.push((text(name), count as u64));
        }
    }
    let mut table = Table::new(vec![Column::left("sensor"), Column::right("buckets")]);
    for (name, count) in held {
        table.row([name, human::count(count)]);
    }
    let moves = &answer["moves"];
    let mut out = shown(&table);
    out += &format!(
        "{} buckets moving; moves begun {}, completed {}, cancelled {}\n",
        items(&answer["moving"]).len(),
        number(&moves["begun"]),
        number(&moves["completed"]),
        number(&moves["cancelled"])
    );
    out
}

/// Where every packet went.
fn ledger(answer: &Value) -> String {
    let mut table = Table::new(vec![
        Column::left("stage"),
        Column::right("in"),
        Column::right("out"),
        Column::right("held"),
        Column::wrapped("dropped"),
    ]);
    for row in items(&answer["ledger"]) {
        table.row([
            text(&row["stage"]),
            human::count(number(&row["in"])),
            human::count(number(&row["out"])),
            human::count(number(&row["held"])),
            counts(&row["drops"]),
        ]);
    }
    shown(&table)
}
