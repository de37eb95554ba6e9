//! The result of a link with a policy: JSON, CSV, the plot, and a summary in sentences.

use std::cmp::Reverse;
use std::io::{self, Write};
use std::path::Path;

use forebay_flow::FlowTable;
use forebay_flow::policy::{
    Count, CsfqOptions, DrrOptions, FlowShare, LinkOptions, Policy, Reason, RedOptions, SharedLink,
    Totals,
};
use forebay_packet::community_id;
use forebay_pipeline::{Ledger, Remarks};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use crate::cli::{FlowsArgs, PolicyName};
use crate::naming;
use crate::report::queue_plot::QueuePlot;
use crate::show::human;

/// The data of a finished run.
pub(super) struct PolicyResult<'a> {
    pub(super) args: &'a FlowsArgs,
    pub(super) capture: &'a Path,
    pub(super) options: &'a LinkOptions,
    pub(super) flows: &'a FlowTable,
    pub(super) link: &'a SharedLink,
    pub(super) ledger: &'a Ledger,
    pub(super) remarks: &'a Remarks,
    pub(super) error: Option<String>,
}

/// A flow as printed.
pub(super) struct Row {
    pub(super) community_id: Option<String>,
    pub(super) proto: String,
    pub(super) a: String,
    pub(super) b: String,
    ends: Map<String, Value>,
    pub(super) share: FlowShare,
    /// Of all bytes that were sent.
    pub(super) part: f64,
    /// The value of its state.
    pub(super) reading: u64,
}

/// The name of a policy in options.
pub(super) fn name(policy: PolicyName) -> &'static str {
    match policy {
        PolicyName::Red => "red",
        PolicyName::Csfq => "csfq",
        PolicyName::Drr => "drr",
    }
}

impl PolicyResult<'_> {
    /// The flows in the order of their first packets, or those that offered most if only some
    /// are requested.
    pub(super) fn rows(&self) -> impl Iterator<Item = Row> {
        let flows = self.link.flows();
        let mut places: Vec<u32> = (0..flows.len() as u32).collect();
        if let Some(top) = self.args.top {
            let offered = |place: &u32| Reverse(flows[*place as usize].offered.bytes);
            places.sort_unstable_by_key(|place| (offered(place), *place));
            places.truncate(top);
        }
        let sent = self.totals().sent().bytes;
        places.into_iter().map(move |place| self.row(place as usize, sent))
    }

    fn row(&self, place: usize, sent: u64) -> Row {
        let share = self.link.flows()[place];
        let part = share.sent().bytes as f64 / sent.max(1) as f64;
        let reading = self.link.reading(place);
        let Some(record) = self.flows.record(place as u32) else {
            let (proto, empty) = ("others".to_owned(), String::new());
            let (a, b, ends) = (empty.clone(), empty, Map::new());
            return Row { community_id: None, proto, a, b, ends, share, part, reading };
        };
        let (key, a_is_high) = (&record.key, record.a_is_high());
        let (a, b) = naming::ends(key, a_is_high);
        Row {
            community_id: community_id(key, self.args.seed),
            proto: naming::protocol(key),
            a,
            b,
            ends: naming::ends_json(["a", "b"], key, a_is_high),
            share,
            part,
            reading,
        }
    }

    fn totals(&self) -> Totals {
        self.link.bottleneck().totals()
    }

    /// The name of what flows' states say, with its unit.
    pub(super) fn reading_name(&self) -> &'static str {
        match self.options.policy {
            Policy::Red(_) => "threshold_bytes",
            Policy::Csfq(_) => "rate_bps",
            Policy::Drr(_) => "quantum_bytes",
        }
    }

    /// Bits sent in proportion to what the link can send.
    fn utilisation(&self) -> f64 {
        let seconds = self.link.bottleneck().queue().span() as f64 / 1e9;
        self.totals().sent().bytes as f64 * 8.0 / (self.options.rate as f64 * seconds)
    }

    /// The link, what became of all packets, the queue, and how fair the link was.
    pub(super) fn summary(&self) -> Vec<String> {
        let (totals, queue) = (self.totals(), self.link.bottleneck().queue());
        let policy = self.args.policy.policy.map_or("", name);
        let count = human::count;
        let dropped = Reason::ALL.iter().zip(totals.dropped).filter(|(_, drops)| drops.packets > 0);
        let dropped: Vec<String> = dropped
            .map(|(reason, drops)| format!("{} {}", count(drops.packets), reason.name()))
            .collect();
        let mut lines = vec![
            format!(
                "link: {}, {policy}, buffer of {}; {} used in {}",
                human::bit_rate(self.options.rate as f64),
                human::bytes(self.options.buffer),
                human::percent(self.utilisation()),
                human::duration(queue.span()),
            ),
            format!(
                "packets: {} in = {} delivered + {} marked + {} dropped{} + {} still queued",
                count(totals.offered.packets),
                count(totals.delivered.packets),
                count(totals.marked.packets),
                count(totals.dropped.iter().map(|drops| drops.packets).sum()),
                if dropped.is_empty() {
                    String::new()
                } else {
                    format!(" ({})", dropped.join(", "))
                },
                count(totals.queued.packets),
            ),
            format!(
                "queue: mean {}, largest {}",
                human::bytes(queue.mean() as u64),
                human::bytes(queue.peak()),
            ),
        ];
        if let Some(fairness) = self.link.fairness() {
            lines.push(format!(
                "fairness: Jain's index {:.3} over what the {} flows were sent, {:.3} over that in \
                 proportion to their max-min fair shares",
                fairness.jain,
                count(fairness.flows),
                fairness.jain_of_fair_share,
            ));
        }
        if totals.late > 0 {
            lines.push(format!(
                "{} packets have time stamps before those of earlier packets; they count as \
                 arrived with these",
                count(totals.late),
            ));
        }
        lines
    }

    /// The queue over time.
    pub(super) fn plot(&self) -> QueuePlot {
        let queue = self.link.bottleneck().queue();
        let mut marks = vec![("buffer", self.options.buffer)];
        if let Policy::Red(red) = self.options.policy {
            marks.extend([("red-min", red.min.into()), ("red-max", red.max.into())]);
        }
        QueuePlot {
            title: format!(
                "{} over {}, {}",
                self.capture.display(),
                human::bit_rate(self.options.rate as f64),
                self.args.policy.policy.map_or("", name),
            ),
            step: queue.step(),
            span: queue.span(),
            means: queue.means(),
            peaks: queue.peaks(),
            marks,
        }
    }

    pub(super) fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "community_id,proto,a,b,weight,offered_packets,offered_bytes,delivered_packets,\
             delivered_bytes,marked_packets,marked_bytes,dropped_packets,dropped_bytes,{}",
            self.reading_name()
        )?;
        for Row { community_id, proto, a, b, share, reading, .. } in self.rows() {
            let community_id = community_id.unwrap_or_default();
            write!(out, "{community_id},{proto},{a},{b},{}", share.weight)?;
            for (_, Count { packets, bytes }) in counts(&share) {
                write!(out, ",{packets},{bytes}")?;
            }
            writeln!(out, ",{reading}")?;
        }
        Ok(())
    }

    /// Writes the flows as in JSON, one on a line.
    pub(super) fn write_lines(&self, out: &mut dyn Write) -> io::Result<()> {
        for row in self.rows() {
            serde_json::to_writer(&mut *out, &self.row_json(row))?;
            writeln!(out)?;
        }
        Ok(())
    }

    fn row_json(&self, row: Row) -> Value {
        let mut fields = row.ends;
        for (name, count) in counts(&row.share) {
            fields.insert(format!("{name}_packets"), count.packets.into());
            fields.insert(format!("{name}_bytes"), count.bytes.into());
        }
        fields.insert(self.reading_name().to_owned(), row.reading.into());
        let flow = json!({
            "community_id": row.community_id,
            "proto": row.proto,
            "protocol": row.proto,
            "a": row.a,
            "b": row.b,
            "weight": row.share.weight,
            "share": row.part,
        });
        naming::with_fields(flow, fields)
    }

    /// The link, its settings, and all that is not of single flows.
    fn link_json(&self) -> Value {
        let (totals, queue) = (self.totals(), self.link.bottleneck().queue());
        let count = |Count { packets, bytes }| json!({ "packets": packets, "bytes": bytes });
        let drops = Reason::ALL.iter().zip(totals.dropped);
        let drops: Map<String, Value> =
            drops.map(|(reason, drops)| (reason.name().to_owned(), count(drops))).collect();
        let settings = match self.options.policy {
            Policy::Red(RedOptions { min, max, probability }) => {
                json!({ "red_min_bytes": min, "red_max_bytes": max, "red_p": probability })
            }
            Policy::Csfq(CsfqOptions { window }) => json!({ "window_ns": window }),
            Policy::Drr(DrrOptions { quantum }) => json!({ "quantum_bytes": quantum }),
        };
        let fairness = self.link.fairness();
        json!({
            "policy": self.args.policy.policy.map(name),
            "settings": settings,
            "rate_bps": self.options.rate,
            "buffer_bytes": self.options.buffer,
            "span_ns": queue.span(),
            "utilisation": self.utilisation(),
            "offered": count(totals.offered),
            "delivered": count(totals.delivered),
            "marked": count(totals.marked),
            "dropped": drops,
            "queued": count(totals.queued),
            "late_packets": totals.late,
            "flows": fairness.map(|fairness| fairness.flows),
            "jain": fairness.map(|fairness| fairness.jain),
            "jain_of_fair_share": fairness.map(|fairness| fairness.jain_of_fair_share),
            "queue": {
                "step_ns": queue.step(),
                "mean_bytes": queue.means(),
                "peak_bytes": queue.peaks(),
                "mean": queue.mean(),
                "peak": queue.peak(),
            },
        })
    }
}

/// What became of a flow's packets, by name.
fn counts(share: &FlowShare) -> [(&'static str, Count); 4] {
    [
        ("offered", share.offered),
        ("delivered", share.delivered),
        ("marked", share.marked),
        ("dropped", share.dropped),
    ]
}

impl Serialize for PolicyResult<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Rows<'a>(&'a PolicyResult<'a>);
        impl Serialize for Rows<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(self.0.rows().map(|row| self.0.row_json(row)))
            }
        }
        // In alphabetical order, as all JSON of the command.
        let mut map = serializer.serialize_map(Some(6))?;
        map.serialize_entry("closes", &(self.ledger.closes() && self.totals().closes()))?;
        map.serialize_entry("error", &self.error)?;
        map.serialize_entry("flows", &Rows(self))?;
        map.serialize_entry("ledger", &json!(self.ledger))?;
        map.serialize_entry("link", &self.link_json())?;
        map.serialize_entry("undecoded", &naming::undecoded_json(self.remarks))?;
        map.end()
    }
}
