//! `forebay ctl flow`: flows that are handled by hand.

use std::io::{self, BufRead, Read as _, Write as _};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use forebay_broker::control::{AskError, FlowAction, Request, ask};
use forebay_io::text::{self as files, Source};
use serde_json::Value;

use super::answer::{items, number, shown as rendered, text};
use crate::cli::{Cli, CtlArgs, CtlVerb, FlowAsk, FlowEditArgs};
use crate::failure::Failure;
use crate::show::{Column, Table, human};

/// The longest list of flows, in bytes: 100,000 flows of IPv6.
const MOST_TEXT: u64 = 12 << 20;

/// The longest line that is followed, in bytes.
const MOST_LINE: u64 = 512;

/// Lines that are sent at once while input is followed, and how long the first waits.
const LINES: usize = 4096;
const WAIT: Duration = Duration::from_millis(50);

/// The request of a command.
pub(super) fn request(ask: &FlowAsk) -> Result<Request, Failure> {
    Ok(match ask {
        FlowAsk::Shunt(args) => edit(args, FlowAction::Shunt, flows(&args.key)?),
        FlowAsk::Pass(args) => edit(args, FlowAction::Pass, flows(&args.key)?),
        FlowAsk::Show { key, group, from, limit } => Request::OverriddenFlows {
            group: group.clone(),
            flows: flows(key)?,
            from: *from,
            limit: *limit,
        },
    })
}

fn edit(args: &FlowEditArgs, action: FlowAction, flows: String) -> Request {
    let seconds = args.lasts.as_secs_f64();
    Request::OverrideFlows { group: args.group.clone(), action, flows, seconds }
}

/// The flows that a command line names, one a line.
fn flows(key: &[String]) -> Result<String, Failure> {
    if key != ["-"] {
        return Ok(key.join(" "));
    }
    let read = files::read(Path::new("-"), Source::Any, "a list of flows", MOST_TEXT);
    let mut text =
        read.map_err(|source| Failure::Text { file: "standard input".to_owned(), source })?;
    // A list of one line, too, is a list, whose errors name the line.
    text.push('\n');
    Ok(text)
}

/// Sends the lines of standard input as they come, until its end.
pub(super) fn follow(cli: &Cli, args: &CtlArgs, flows: &FlowEditArgs) -> Result<(), Failure> {
    if flows.key != ["-"] {
        return Err(Failure::Usage("--follow: expected `-` in place of a flow".to_owned()));
    }
    let action = match &args.ask {
        CtlVerb::Flow { ask: FlowAsk::Pass(_) } => FlowAction::Pass,
        _ => FlowAction::Shunt,
    };
    let (send, lines) = mpsc::sync_channel(LINES);
    let reader = thread::spawn(move || {
        let mut input = io::stdin().lock();
        loop {
            let Some(line) = line_of(&mut input)? else { return Ok(()) };
            if send.send(line).is_err() {
                return Ok(());
            }
        }
    });
    let send = |lines: &[String]| ask(&args.socket, &edit(flows, action, lines.join("\n")));
    let mut refused = 0_u64;
    while let Some(batch) = next(&lines) {
        match send(&batch) {
            Ok(_) => continue,
            Err(AskError::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
        // All were refused for the sake of some.
        for line in batch {
            match send(std::slice::from_ref(&line)) {
                Ok(_) => {}
                Err(error @ AskError::Refused(_)) => {
                    refused += 1;
                    if !cli.quiet {
                        // A failure to write to standard error cannot be reported.
                        let _ = writeln!(io::stderr(), "{error}");
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    if let Ok(Err(source)) = reader.join() {
        let file = "standard input".to_owned();
        return Err(Failure::File { doing: "read", file, source });
    }
    match refused {
        0 => Ok(()),
        some => Err(Failure::Live(format!("{some} lines were refused"))),
    }
}

/// The next line; none at the end. Of a longer one than is followed it is the beginning, which
/// is refused, as no flow is written so long.
fn line_of(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = input.by_ref().take(MOST_LINE).read_until(b'\n', &mut line)?;
    if read as u64 == MOST_LINE && line.last() != Some(&b'\n') {
        input.skip_until(b'\n')?;
        // A comment stays one.
        if line.first() != Some(&b'#') {
            line.insert(0, b'?');
        }
    }
    Ok((read > 0).then_some(line))
}

/// The lines that came, once there are some; none at the end.
fn next(lines: &Receiver<Vec<u8>>) -> Option<Vec<String>> {
    let text = |line: Vec<u8>| String::from_utf8_lossy(&line).trim_end().to_owned();
    let mut batch = vec![text(lines.recv().ok()?)];
    let end = Instant::now() + WAIT;
    while batch.len() < LINES {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => batch.push(text(line)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    Some(batch)
}

/// The flows that are handled by hand, as tables.
pub(super) fn shown(answer: &Value) -> String {
    let mut out = String::new();
    for group in items(answer) {
        let mut table = Table::new(vec![
            Column::left("flow"),
            Column::left("action"),
            Column::right("packets"),
            Column::right("bytes"),
            Column::right("left"),
        ]);
        let left =
            |of: &Value| human::duration((of["left_s"].as_f64().unwrap_or(0.0) * 1e9) as u64);
        for flow in items(&group["flows"]) {
            table.row([
                text(&flow["flow"]),
                text(&flow["action"]),
                human::count(number(&flow["packets"])),
                human::bytes(number(&flow["bytes"])),
                left(flow),
            ]);
        }
        for flow in items(&group["search"]) {
            let (id, action) = (text(&flow["community_id"]), text(&flow["action"]));
            table.row([id, action, "not yet seen".to_owned(), String::new(), left(flow)]);
        }
        let counts = ["shunted", "passed", "searched"];
        let counts = counts.map(|key| format!("{} {key}", human::count(number(&group[key]))));
        let more = group["next"].as_u64().map(|next| format!("; more by --from {next}"));
        out += &format!("group {}: {}", text(&group["group"]), counts.join(", "));
        out += &format!("{}\n", more.unwrap_or_default());
        if !items(&group["flows"]).is_empty() || !items(&group["search"]).is_empty() {
            out += &rendered(&table);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_one_line_and_no_flow() {
        let flow = "tcp 10.0.0.1:1 > 10.0.0.2:2";
        let (comment, other) = ("#".to_owned() + &"x".repeat(511), "y".repeat(511));
        let text = format!("{flow}\n{comment}{flow}\n{other}{flow}{comment}\n\n{flow}");
        let mut input = text.as_bytes();
        let lines: Vec<_> = std::iter::from_fn(|| line_of(&mut input).unwrap()).collect();
        let lines: Vec<_> = lines.iter().map(|line| String::from_utf8_lossy(line)).collect();
        assert_eq!(lines.len(), 5);
        assert_eq!((lines[0].trim(), lines[4].trim()), (flow, flow));
        assert!(lines[1].starts_with('#') && lines[2].starts_with('?'), "{lines:?}");
        assert_eq!(lines[3], "\n");
    }
}
