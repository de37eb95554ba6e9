//! Prometheus' text format.

use std::fmt::Write as _;

/// A page of metrics under way.
#[derive(Default)]
pub struct Page {
    text: String,
}

/// What a metric is.
#[derive(Clone, Copy)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
}

impl Page {
    /// Starts a metric; its samples follow.
    pub fn metric(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Adds a sample of the metric `name`.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(name);
        for (i, (label, value)) in labels.iter().enumerate() {
            self.text.push(if i == 0 { '{' } else { ',' });
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{label}=\"{escaped}\"");
        }
        self.text.push_str(if labels.is_empty() { " " } else { "} " });
        let _ = writeln!(self.text, "{value}");
    }

    /// The page.
    #[must_use]
    pub fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_written_as_prometheus_reads_them() {
        let mut page = Page::default();
        page.metric("forebay_packets_total", Kind::Counter, "Packets.");
        page.sample("forebay_packets_total", &[("stage", "a\"b\\c"), ("direction", "in")], 12.0);
        page.metric("forebay_up", Kind::Gauge, "Whether it runs.");
        page.sample("forebay_up", &[], 0.5);
        let expected = "# HELP forebay_packets_total Packets.\n\
                        # TYPE forebay_packets_total counter\n\
                        forebay_packets_total{stage=\"a\\\"b\\\\c\",direction=\"in\"} 12\n\
                        # HELP forebay_up Whether it runs.\n\
                        # TYPE forebay_up gauge\n\
                        forebay_up 0.5\n";
        assert_eq!(page.finish(), expected);
    }
}
