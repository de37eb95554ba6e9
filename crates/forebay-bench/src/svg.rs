//! Figures as SVG: plots of points and lines, and bar charts.

use std::fmt::{self, Display, Write as _};
use std::fs;
use std::path::Path;

use crate::failure::{During, Result};

/// Colours that the common kinds of colour blindness keep apart (Okabe and Ito), brown and a
/// light green.
pub const COLOURS: [&str; 9] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222", "#8c564b",
    "#a6d854",
];

/// The colour of a paper's values.
pub const PAPER: &str = "#9a9a9a";

const GRID: &str = "#ddd";
const AXIS: &str = "#666";

/// What marks a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Circle,
    Cross,
    None,
}

/// A name in the legend, and points, which `width` connects where it is not 0.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    pub name: String,
    pub colour: &'a str,
    pub mark: Mark,
    pub width: f64,
    pub points: Vec<(f64, f64)>,
}

#[derive(Clone, Debug, Default)]
pub struct Plot<'a> {
    pub heading: &'a str,
    pub x_label: &'a str,
    /// Marks of a logarithmic axis; without any the axis is linear and starts at 0.
    pub x_marks: Vec<f64>,
    pub y_is_logarithmic: bool,
    /// Points above this are left out.
    pub y_most: Option<f64>,
    pub series: Vec<Series<'a>>,
}

#[derive(Clone, Debug)]
pub struct ChartBar<'a> {
    pub name: String,
    pub value: f64,
    pub colour: &'a str,
}

/// Writes a figure to `folder`, which is made where it is not there.
pub fn write(folder: &Path, name: &str, figure: &str) -> Result<()> {
    let path = folder.join(name);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, figure));
    written.during(format_args!("writing {}", path.display()))
}

/// A map from values to a stretch of the drawing, with marks.
#[derive(Clone, Debug)]
struct Scale {
    is_logarithmic: bool,
    values: [f64; 2],
    places: [f64; 2],
    marks: Vec<f64>,
}

impl Scale {
    /// From 0 to a round number that is not below `largest`.
    fn linear(places: [f64; 2], largest: f64) -> Self {
        let largest = if largest.is_finite() && largest > 0.0 { largest } else { 1.0 };
        let power = 10_f64.powf((largest / 5.0).log10().floor());
        let fits = |step: &f64| largest / step <= 6.0;
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(fits);
        let step = step.unwrap_or(largest);
        let count = (largest / step).ceil() as u32;
        let marks = (0..=count).map(|mark| f64::from(mark) * step).collect();
        let values = [0.0, f64::from(count) * step];
        Self { is_logarithmic: false, values, places, marks }
    }

    /// Over powers of ten that the values lie between.
    fn logarithmic(places: [f64; 2], values: impl Iterator<Item = f64> + Clone) -> Self {
        let (least, most) =
            (values.clone().fold(f64::INFINITY, f64::min), values.fold(0.0, f64::max));
        let low = least.log10().floor() as i32;
        let high = (most.log10().ceil() as i32).max(low + 1);
        Self::marked(places, (low..=high).map(|power| 10_f64.powi(power)).collect())
    }

    /// Logarithmic, from the first to the last mark.
    fn marked(places: [f64; 2], marks: Vec<f64>) -> Self {
        let values = [marks[0], marks[marks.len() - 1]];
        Self { is_logarithmic: true, values, places, marks }
    }

    fn at(&self, value: f64) -> f64 {
        let unit = |value: f64| if self.is_logarithmic { value.ln() } else { value };
        let ([first, last], [from, to]) = (self.values.map(unit), self.places);
        from + (to - from) * (unit(value) - first) / (last - first)
    }
}

/// Plots side by side.
pub fn plots(title: &str, plots: &[Plot<'_>]) -> String {
    const LEFT: f64 = 60.0;
    const WIDTH: f64 = 460.0;
    const LEGEND: f64 = 290.0;
    let mut drawing = Drawing::new((LEFT + WIDTH + LEGEND) * plots.len() as f64, 460.0, title);
    for (plot, index) in plots.iter().zip(0_u32..) {
        let left = LEFT + f64::from(index) * (LEFT + WIDTH + LEGEND);
        drawing.plot(plot, left, left + WIDTH);
    }
    drawing.finish()
}

/// A chart of horizontal bars on a linear or logarithmic scale.
pub fn chart(title: &str, heading: &str, is_logarithmic: bool, bars: &[ChartBar<'_>]) -> String {
    const LEFT: f64 = 180.0;
    const RIGHT: f64 = 740.0;
    const BAR: f64 = 22.0;
    let values = bars.iter().map(|bar| bar.value);
    let scale = match is_logarithmic {
        true => Scale::logarithmic([LEFT, RIGHT], values),
        false => Scale::linear([LEFT, RIGHT], values.fold(0.0, f64::max)),
    };
    let height = 70.0 + BAR * bars.len() as f64;
    let mut drawing = Drawing::new(RIGHT + 70.0, height + 40.0, title);
    drawing.heading(LEFT, heading);
    for &mark in &scale.marks {
        drawing.line((scale.at(mark), 44.0), (scale.at(mark), height), GRID, 1.0);
        drawing.small_text((scale.at(mark), height + 16.0), "middle", AXIS, &label(mark));
    }
    for (ChartBar { name, value, colour }, index) in bars.iter().zip(0_u32..) {
        let (y, end) = (52.0 + BAR * f64::from(index), scale.at(*value));
        drawing.rectangle((LEFT, y), (end - LEFT, BAR - 6.0), colour);
        drawing.small_text((LEFT - 8.0, y + 12.0), "end", AXIS, name);
        drawing.small_text((end + 6.0, y + 12.0), "start", "#222", &format!("{value:.2}"));
    }
    drawing.finish()
}

/// A mark without the digits that binary fractions add.
fn label(mark: f64) -> String {
    let text = format!("{mark:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A drawing on white ground.
struct Drawing(String);

impl Drawing {
    fn new(width: f64, height: f64, title: &str) -> Self {
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\" font-size=\"13\" \
             font-family=\"system-ui, 'DejaVu Sans', sans-serif\" fill=\"#222\">\n\
             <title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
            Escaped(title)
        ))
    }

    /// Adds an element; writing to a string cannot fail.
    fn add(&mut self, element: fmt::Arguments<'_>) {
        let _ = writeln!(self.0, "{element}");
    }

    fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
        self.add(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             fill=\"{colour}\"/>"
        ));
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        self.add(format_args!(
            "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    fn mark(&mut self, mark: Mark, (x, y): (f64, f64), colour: &str) {
        match mark {
            Mark::None => {}
            Mark::Circle => self.add(format_args!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"none\" stroke=\"{colour}\" \
                 stroke-width=\"1.6\"/>"
            )),
            Mark::Cross => {
                self.line((x - 4.0, y - 4.0), (x + 4.0, y + 4.0), colour, 1.6);
                self.line((x - 4.0, y + 4.0), (x + 4.0, y - 4.0), colour, 1.6);
            }
        }
    }

    fn small_text(&mut self, (x, y): (f64, f64), anchor: &str, colour: &str, text: &str) {
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"11\" \
             fill=\"{colour}\">{}</text>",
            Escaped(text)
        ));
    }

    fn heading(&mut self, x: f64, text: &str) {
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"26.0\" font-size=\"15\" font-weight=\"600\">{}</text>",
            Escaped(text)
        ));
    }

    fn plot(&mut self, plot: &Plot<'_>, left: f64, right: f64) {
        const TOP: f64 = 50.0;
        const BOTTOM: f64 = 400.0;
        let most = plot.y_most.unwrap_or(f64::INFINITY);
        let inside = |point: &&(f64, f64)| point.1 <= most;
        let points = plot.series.iter().flat_map(|series| series.points.iter().filter(inside));
        let (xs, ys) = (points.clone().map(|point| point.0), points.map(|point| point.1));
        let x = match plot.x_marks.is_empty() {
            true => Scale::linear([left, right], xs.fold(0.0, f64::max)),
            false => Scale::marked([left, right], plot.x_marks.clone()),
        };
        let y = match plot.y_is_logarithmic {
            true => Scale::logarithmic([BOTTOM, TOP], ys),
            false => Scale::linear([BOTTOM, TOP], ys.fold(0.0, f64::max)),
        };
        self.heading(left, plot.heading);
        for &mark in &y.marks {
            self.line((left, y.at(mark)), (right, y.at(mark)), GRID, 1.0);
            self.small_text((left - 8.0, y.at(mark) + 4.0), "end", AXIS, &label(mark));
        }
        for &mark in &x.marks {
            self.line((x.at(mark), BOTTOM), (x.at(mark), BOTTOM + 5.0), AXIS, 1.0);
            self.small_text((x.at(mark), BOTTOM + 18.0), "middle", AXIS, &label(mark));
        }
        self.small_text((f64::midpoint(left, right), BOTTOM + 38.0), "middle", AXIS, plot.x_label);
        for (series, index) in plot.series.iter().zip(0_u32..) {
            let Series { name, colour, mark, width, points } = series;
            let places = points.iter().filter(inside).map(|&(a, b)| (x.at(a), y.at(b)));
            let places: Vec<(f64, f64)> = places.collect();
            for pair in places.windows(2).filter(|_| *width > 0.0) {
                self.line(pair[0], pair[1], colour, *width);
            }
            places.iter().for_each(|&at| self.mark(*mark, at, colour));
            let legend = 60.0 + 20.0 * f64::from(index);
            self.rectangle((right + 24.0, legend - 10.0), (12.0, 12.0), colour);
            self.small_text((right + 42.0, legend), "start", "#222", name);
        }
    }

    fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

/// Text without markup.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.replace('&', "&amp;").replace('<', "&lt;"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_scales_end_with_a_round_number_above_all_values() {
        let scale = Scale::linear([300.0, 0.0], 28.2);
        assert_eq!(scale.marks, [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
        assert_eq!((scale.at(0.0), scale.at(30.0), scale.at(15.0)), (300.0, 0.0, 150.0));
        for largest in [0.0, f64::NAN, 1e-6, 0.7, 1.0, 5.0, 6.1, 99.0, 100.0, 1e9] {
            let scale = Scale::linear([0.0, 1.0], largest);
            let enough = scale.values[1] >= largest.max(0.0);
            assert!((2..=8).contains(&scale.marks.len()) && enough, "{largest}: {scale:?}");
        }
    }

    #[test]
    fn plots_and_charts_show_their_values() {
        let series = Series {
            name: "tcp[13] & 2 < 3".to_owned(),
            colour: COLOURS[0],
            mark: Mark::Circle,
            width: 2.0,
            points: vec![(1.0, 0.5), (2.0, 3.0), (4.0, 61.0)],
        };
        for y_is_logarithmic in [false, true] {
            let x_marks = vec![1.0, 2.0, 4.0];
            let series = vec![series.clone()];
            let y_most = Some(60.0);
            let plot = Plot { x_marks, y_is_logarithmic, y_most, series, ..Plot::default() };
            let text = plots("a & b", &[plot]);
            assert_eq!(text.matches("<circle").count(), 2, "{text}");
            assert!(text.contains("<title>a &amp; b</title>") && text.contains("&amp; 2 &lt; 3"));
            assert!(!text.contains("NaN") && !text.contains("inf"));
        }
        let bar = |value| ChartBar { name: "pe".to_owned(), value, colour: PAPER };
        let text = chart("", "", true, &[bar(0.03), bar(15.8)]);
        assert!(text.contains(">0.03</text>") && text.contains(">15.80</text>"), "{text}");
    }
}
