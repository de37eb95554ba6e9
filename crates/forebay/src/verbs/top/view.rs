//! A snapshot as lines of text that fit the terminal.

use super::snapshot::{GroupSnapshot, Sensor, Snapshot};
use crate::show::{Colour, Style, human, text};

/// Room for text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Columns of a line.
    pub columns: usize,
    /// Lines, if they are bounded.
    pub rows: Option<usize>,
}

/// Columns of the shortest and the longest bar.
const BARS: (usize, usize) = (6, 40);

/// Columns of a sensor's line besides its bar.
const BESIDE_BAR: usize = 68;

/// Eighths of a full block (Unicode, "Block Elements"), from one to seven.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// A line with parts in different styles.
#[derive(Default)]
struct Line(Vec<(Option<Style>, String)>);

impl Line {
    fn plain(text: impl Into<String>) -> Self {
        Self(vec![(None, text.into())])
    }

    fn and(mut self, style: Style, text: impl Into<String>) -> Self {
        self.0.push((Some(style), text.into()));
        self
    }

    fn then(mut self, text: impl Into<String>) -> Self {
        self.0.push((None, text.into()));
        self
    }

    /// The line, cut to `columns`.
    fn fit(&self, columns: usize, colour: Colour) -> String {
        let mut room = columns;
        let mut shown = String::new();
        for (style, part) in &self.0 {
            let part = text::visible(part);
            let (fits, _) = text::split_at_columns(&part, room);
            room -= text::columns(fits);
            shown += &style.map_or_else(|| fits.to_owned(), |style| colour.paint(style, fits));
        }
        shown
    }
}

/// The lines of a snapshot. `remark` is an additional message.
pub fn lines(snapshot: &Snapshot, remark: Option<&str>, room: Room, colour: Colour) -> Vec<String> {
    let mut all = head(snapshot);
    all.extend(remark.map(|remark| Line::default().and(Style::Bad, remark)));
    all.push(Line::default());
    all.extend(ports(snapshot));
    all.extend(drops(snapshot));
    for group in &snapshot.groups {
        all.push(Line::default());
        all.extend(sensors(group, room.columns));
    }
    let most = room.rows.unwrap_or(usize::MAX);
    if all.len() > most {
        let hidden = all.len() - most.saturating_sub(1);
        all.truncate(most.saturating_sub(1));
        let more = format!("… {hidden} more lines: a taller window shows them");
        all.push(Line::default().and(Style::Dim, more));
    }
    all.iter().map(|line| line.fit(room.columns, colour)).collect()
}

fn head(snapshot: &Snapshot) -> Vec<Line> {
    let uptime = human::duration((snapshot.uptime_s * 1e9) as u64);
    let workers = match snapshot.workers {
        1 => "1 worker".to_owned(),
        several => format!("{several} workers"),
    };
    let (packets_in, bits_in) = snapshot.rate("in");
    let (packets_out, bits_out) = snapshot.rate("out");
    let (rate, lost) = snapshot.lost();
    let losing = match lost {
        0 => (Style::Good, "nothing lost".to_owned()),
        lost => {
            let style = if rate > 0.0 { Style::Bad } else { Style::Warning };
            let lost = format!("lost {} ({})", human::count(lost), human::packet_rate(rate));
            (style, lost)
        }
    };
    let mut lines = vec![
        Line::default()
            .and(Style::Bold, format!("forebay {}", snapshot.version))
            .then(format!("  up {uptime}, {workers}")),
        Line::plain(format!(
            "in {}, {}   out {}, {}   ",
            human::packet_rate(packets_in),
            human::bit_rate(bits_in),
            human::packet_rate(packets_out),
            human::bit_rate(bits_out)
        ))
        .and(losing.0, losing.1),
    ];
    let alarm = |what: &String| Line::default().and(Style::Bad, format!("alarm: {what}"));
    lines.extend(snapshot.alarms.iter().map(alarm));
    lines.extend(
        snapshot.failed.iter().map(|why| Line::default().and(Style::Bad, format!("failed: {why}"))),
    );
    lines
}

fn ports(snapshot: &Snapshot) -> Vec<Line> {
    let row = |name: &str, way: &str, packets: &str, bits: &str, lost: &str, rate: &str| {
        let name = text::truncate(name, 20);
        format!("{name:<20} {way:<4}{packets:>12}{bits:>15}{lost:>14}{rate:>13}")
    };
    let heading = row("port", "way", "packets", "rate", "lost", "lost now");
    let mut lines = vec![Line::default().and(Style::Dim, heading)];
    for port in &snapshot.ports {
        let line = row(
            &port.name,
            port.way,
            &human::packet_rate(port.packets_per_s),
            &human::bit_rate(port.bits_per_s),
            &human::count(port.lost),
            &human::packet_rate(port.lost_per_s),
        );
        lines.push(if port.lost_per_s > 0.0 {
            Line::default().and(Style::Bad, line)
        } else {
            Line::plain(line)
        });
    }
    lines
}

/// Drops inside the broker, a line for each cause.
fn drops(snapshot: &Snapshot) -> Vec<Line> {
    let inside = snapshot.drops.iter().filter(|drop| !drop.stage.starts_with("before "));
    inside
        .map(|drop| {
            let what = format!("{}: {}", drop.stage, drop.reason);
            let line = format!(
                "{:<52}{:>14}{:>13}",
                text::truncate(&what, 51),
                human::count(drop.packets),
                human::packet_rate(drop.packets_per_s)
            );
            let style =
                if drop.wanted || drop.packets_per_s == 0.0 { Style::Dim } else { Style::Bad };
            Line::default().and(style, line)
        })
        .collect()
}

fn sensors(group: &GroupSnapshot, columns: usize) -> Vec<Line> {
    let up = group.sensors.iter().filter(|sensor| sensor.standing == "up").count();
    let title = format!("group {}", group.name);
    let mut lines = vec![Line::default().and(Style::Bold, title).then(format!(
        "  {up} of {} sensors up, {} buckets moving, {} moved, {} cancelled",
        group.sensors.len(),
        human::count(group.moving),
        human::count(group.moves_completed),
        human::count(group.moves_cancelled)
    ))];
    let width = columns.saturating_sub(BESIDE_BAR).clamp(BARS.0, BARS.1);
    let heading = format!(
        "{:<13} {:<8} {:<width$} {:>9} {:>9} {:>7} {:>7} {:>7}",
        "sensor", "state", "load", "packets", "target", "buckets", "hello", "drops"
    );
    lines.push(Line::default().and(Style::Dim, heading));
    let largest = group
        .sensors
        .iter()
        .map(|sensor| sensor.packets_per_s.max(sensor.target_packets_per_s))
        .fold(0.0, f64::max);
    lines.extend(group.sensors.iter().map(|sensor| sensor_line(sensor, largest, width)));
    lines
}

fn sensor_line(sensor: &Sensor, largest: f64, width: usize) -> Line {
    let style = match sensor.standing.as_str() {
        "up" => Style::Good,
        "down" => Style::Bad,
        _ => Style::Warning,
    };
    let dash = || human::UNKNOWN.to_owned();
    let hello = sensor.hello_ms_ago.map_or_else(dash, |ms| match ms {
        0..1_000 => format!("{ms} ms"),
        _ => human::duration(ms.saturating_mul(1_000_000)),
    });
    let drops = sensor.dropped.map_or_else(dash, |drops| human::si(drops as f64, ""));
    let drop_style = if sensor.dropped > Some(0) { Style::Warning } else { Style::Dim };
    let name = text::truncate(&sensor.name, 13);
    let line = Line::plain(format!("{name:<13} "))
        .and(style, format!("{:<8} ", sensor.standing))
        .and(style, bar(sensor.packets_per_s, sensor.target_packets_per_s, largest, width))
        .then(format!(
            " {:>9} {:>9} {:>7} {hello:>7} ",
            human::packet_rate(sensor.packets_per_s),
            human::packet_rate(sensor.target_packets_per_s),
            human::count(sensor.buckets),
        ))
        .and(drop_style, format!("{:>7}", drops.trim_end()));
    if sensor.flooded { line.and(Style::Bad, " flooded") } else { line }
}

/// A bar for `value`, with `width` columns for `largest`, and a mark at `target`.
fn bar(value: f64, target: f64, largest: f64, width: usize) -> String {
    if largest <= 0.0 {
        return " ".repeat(width);
    }
    let scaled = |value: f64| value / largest * width as f64;
    let eighths = (scaled(value) * 8.0).round() as usize;
    let mark = (scaled(target).ceil() as usize).saturating_sub(1);
    let column = |at: usize| match eighths.saturating_sub(at * 8) {
        0 if at == mark && target > 0.0 => '┊',
        0 => ' ',
        part @ 1..8 => EIGHTHS[part - 1],
        _ => '█',
    };
    (0..width).map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::tests::sample;
    use super::*;

    fn snapshot(sensors: usize) -> Snapshot {
        Snapshot::new(Some(&sample(10, sensors)), &sample(11, sensors))
    }

    fn shown(snapshot: &Snapshot, columns: usize, rows: usize) -> Vec<String> {
        lines(snapshot, Some("a remark"), Room { columns, rows: Some(rows) }, Colour::Never)
    }

    #[test]
    fn lines_fit_every_terminal() {
        for sensors in [0, 3, 200] {
            let snapshot = snapshot(sensors);
            for (columns, rows) in [(80, 24), (200, 60), (40, 10), (1, 1), (80, 0)] {
                let lines = shown(&snapshot, columns, rows);
                assert!(lines.len() <= rows.max(1), "{columns}×{rows}: {}", lines.len());
                for line in lines {
                    assert!(text::columns(&line) <= columns, "{columns}×{rows}: {line}");
                }
            }
        }
    }

    #[test]
    fn everything_that_counts_is_shown_on_80_by_24() {
        let all = shown(&snapshot(3), 80, 24).join("\n");
        for part in [
            "forebay 0.1.0  up 11.0 s, 2 workers",
            "in 1.00 kpps, 800 kbit/s   out 900 pps, 720 kbit/s   lost 1,103 (100 pps)",
            "a remark",
            "tx switch: ring_full",
            "alarm: tx switch loses 10.00% at eth3 (ring_full): send it less",
            "group ids  2 of 3 sensors up, 12 buckets moving, 26 moved, 2 cancelled",
            "ids-1         down     ██████  ┊   ",
            "120 ms",
        ] {
            assert!(all.contains(part), "no {part:?} in\n{all}");
        }
    }

    #[test]
    fn a_bar_is_as_long_as_its_value() {
        assert_eq!(bar(8.0, 8.0, 8.0, 4), "████");
        assert_eq!(bar(3.0, 0.0, 8.0, 4), "█▌  ");
        assert_eq!(bar(0.0, 8.0, 8.0, 4), "   ┊");
        assert_eq!(bar(1.0, 4.0, 8.0, 4), "▌┊  ");
        assert_eq!(bar(1.0, 4.0, 0.0, 4), "    ");
    }
}
