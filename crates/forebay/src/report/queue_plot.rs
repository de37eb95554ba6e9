//! The length of a queue over time: a drawing in SVG, alone or in a page.

use std::fmt::{self, Write};

use super::axis::{Tick, ValueAxis, time_ticks};
use super::html::Escaped;

/// The drawing, and the plot in it.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 880.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 340.0;

const PAGE_STYLE: &str = "body{margin:24px auto;max-width:900px;padding:0 16px;background:#fff;\
     color:#222;font:15px/1.5 system-ui,'DejaVu Sans',sans-serif}svg{width:100%;height:auto}";

/// The length of a queue over time.
#[derive(Clone, Debug)]
pub struct QueuePlot {
    /// What is shown.
    pub title: String,
    /// The length of a step in nanoseconds.
    pub step: u64,
    /// Time from the first packet to the last in nanoseconds.
    pub span: u64,
    /// The mean length in each step in bytes.
    pub means: Vec<f64>,
    /// The largest length in each step in bytes.
    pub peaks: Vec<u64>,
    /// Lengths with a name, drawn as lines across if the queue comes near them.
    pub marks: Vec<(&'static str, u64)>,
}

impl QueuePlot {
    /// The drawing.
    ///
    /// # Errors
    /// Never: those of formatting.
    pub fn svg(&self) -> Result<String, fmt::Error> {
        let mut out = String::new();
        write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" font-size=\"12\" fill=\"#222\" \
             font-family=\"system-ui, 'DejaVu Sans', sans-serif\">\n<title>{0}</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text x=\"{LEFT}\" y=\"24\" font-size=\"15\" font-weight=\"600\">{0}</text>\n",
            Escaped(&self.title)
        )?;
        let peak = self.peaks.iter().copied().max().unwrap_or(0);
        let near = |mark: &&(&str, u64)| mark.1 <= peak.saturating_mul(3) / 2;
        let marks: Vec<_> = self.marks.iter().filter(near).collect();
        let largest = marks.iter().map(|mark| mark.1).fold(peak, u64::max);
        let axis = ValueAxis::new(largest as f64, "B", 5.0);
        let y = |bytes: f64| BOTTOM - (BOTTOM - TOP) * bytes / axis.top;
        self.axes(&mut out, &axis)?;
        let mut area = format!("M{LEFT:.1} {BOTTOM}");
        let mut line = String::new();
        for (at, (&peak, &mean)) in (0_u64..).zip(self.peaks.iter().zip(&self.means)) {
            let (from, to) = (self.x(at), self.x(at + 1));
            write!(area, "V{:.1}H{to:.1}", y(peak as f64))?;
            let command = if at == 0 { 'M' } else { 'L' };
            write!(line, "{command}{:.1} {:.1}", f64::midpoint(from, to), y(mean))?;
        }
        writeln!(out, "<path d=\"{area}V{BOTTOM}Z\" fill=\"#cfe0f0\"/>")?;
        writeln!(
            out,
            "<path d=\"{line}\" fill=\"none\" stroke=\"#0072b2\" stroke-width=\"1.5\"/>"
        )?;
        for (name, bytes) in marks {
            let y = y(*bytes as f64);
            writeln!(
                out,
                "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"#d55e00\" stroke-dasharray=\"5 4\"/>\
                 <text x=\"{RIGHT}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#a84a00\">{}</text>",
                y - 4.0,
                Escaped(name)
            )?;
        }
        out.push_str("</svg>\n");
        Ok(out)
    }

    /// A page with the drawing and lines of text.
    ///
    /// # Errors
    /// Never: those of formatting.
    pub fn html(&self, notes: &[String]) -> Result<String, fmt::Error> {
        let mut out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\"><title>{}</title>\
             <style>{PAGE_STYLE}</style></head><body>\n{}",
            Escaped(&self.title),
            self.svg()?
        );
        for note in notes {
            writeln!(out, "<p>{}</p>", Escaped(note))?;
        }
        out.push_str("</body></html>\n");
        Ok(out)
    }

    /// The place where a step begins; the last ends with the last packet.
    fn x(&self, step: u64) -> f64 {
        let at = step.saturating_mul(self.step).min(self.span) as f64 / self.span.max(1) as f64;
        LEFT + (RIGHT - LEFT) * at
    }

    fn axes(&self, out: &mut String, axis: &ValueAxis) -> fmt::Result {
        for Tick { at, label } in &axis.ticks {
            let y = BOTTOM - (BOTTOM - TOP) * at;
            writeln!(
                out,
                "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"#ddd\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{label}</text>",
                LEFT - 8.0,
                y + 4.0
            )?;
        }
        for Tick { at, label } in time_ticks(self.span as f64 / 1e9) {
            let x = LEFT + (RIGHT - LEFT) * at;
            writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{label}</text>",
                BOTTOM + 18.0
            )?;
        }
        writeln!(
            out,
            "<text x=\"{LEFT}\" y=\"46\" fill=\"#555\">queue in {}: mean (line) and largest \
             (area)</text>",
            axis.unit
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot() -> QueuePlot {
        QueuePlot {
            title: "<a> & b".to_owned(),
            step: 1_000,
            span: 2_500,
            means: vec![10.0, 900.0, 40.0],
            peaks: vec![20, 1_000, 40],
            marks: vec![("buffer", 1_400), ("far", 1_600)],
        }
    }

    #[test]
    fn a_plot_has_its_steps_and_the_marks_that_are_near() {
        let svg = plot().svg().expect("strings take everything");
        assert!(svg.contains("&lt;a&gt; &amp; b") && !svg.contains("<a>"), "{svg}");
        assert!(svg.contains(">buffer</text>") && !svg.contains("far"), "{svg}");
        let area = svg.split("<path d=\"").find(|path| path.contains("#cfe0f0")).unwrap();
        assert_eq!(area.matches('H').count(), 3, "{area}");
        assert!(area.contains("H880.0V340Z"), "the last step ends with the time: {area}");
        let html = plot().html(&["1 < 2".to_owned()]).expect("strings take everything");
        assert!(html.contains("<p>1 &lt; 2</p>") && html.contains("</svg>"));
    }

    #[test]
    fn without_time_or_packets_there_is_still_a_drawing() {
        let empty = QueuePlot { span: 0, means: Vec::new(), peaks: Vec::new(), ..plot() };
        let one = QueuePlot { span: 0, means: vec![5.0], peaks: vec![u64::MAX], ..plot() };
        for plot in [empty, one] {
            let svg = plot.svg().expect("strings take everything");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
