//! Just enough SVG for figures: axes from zero with round marks, and shapes.

use std::fmt::{self, Display, Write as _};

/// Colours that the common kinds of colour blindness keep apart (Okabe and Ito), brown and a
/// light green.
pub const COLOURS: [&str; 9] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222", "#8c564b",
    "#a6d854",
];

/// Where text is held.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    /// By its beginning.
    Start,
    /// By its middle.
    Middle,
    /// By its end.
    End,
}

impl Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        })
    }
}

/// A drawing of some size on white ground.
#[derive(Debug)]
pub struct Drawing(String);

impl Drawing {
    /// An empty drawing. Its title is what reads out where it cannot be seen.
    pub fn new(width: f64, height: f64, title: &str) -> Self {
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
        let _ = self.0.write_fmt(element);
        self.0.push('\n');
    }

    /// A filled rectangle with its upper left corner at `x`, `y`.
    pub fn rectangle(&mut self, x: f64, y: f64, width: f64, height: f64, colour: &str) {
        self.add(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             fill=\"{colour}\"/>"
        ));
    }

    /// A line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        self.add(format_args!(
            "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// An open circle.
    pub fn circle(&mut self, at: (f64, f64), colour: &str) {
        self.add(format_args!(
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"none\" stroke=\"{colour}\" \
             stroke-width=\"1.6\"/>",
            at.0, at.1
        ));
    }

    /// A cross.
    pub fn cross(&mut self, at: (f64, f64), colour: &str) {
        let (x, y) = at;
        self.line((x - 4.0, y - 4.0), (x + 4.0, y + 4.0), colour, 1.6);
        self.line((x - 4.0, y + 4.0), (x + 4.0, y - 4.0), colour, 1.6);
    }

    /// Text on the line `y`.
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, text: &str) {
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            Escaped(text)
        ));
    }

    /// Smaller text of a colour.
    pub fn small_text(&mut self, x: f64, y: f64, anchor: Anchor, colour: &str, text: &str) {
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"11\" \
             fill=\"{colour}\">{}</text>",
            Escaped(text)
        ));
    }

    /// A heading.
    pub fn heading(&mut self, x: f64, y: f64, text: &str) {
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"15\" font-weight=\"600\">{}</text>",
            Escaped(text)
        ));
    }

    /// The file's text.
    pub fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

/// A number that rises or runs from zero, in a stretch of the drawing.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Where zero is.
    pub zero: f64,
    /// Where the greatest number is.
    pub end: f64,
    /// The greatest number.
    pub top: f64,
    step: f64,
}

impl Axis {
    /// An axis with room for `largest`.
    pub fn new(zero: f64, end: f64, largest: f64) -> Self {
        let largest = if largest.is_finite() && largest > 0.0 { largest } else { 1.0 };
        let power = 10_f64.powf((largest / 5.0).log10().floor());
        let fits = |step: &f64| largest / step <= 6.0;
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(fits);
        let step = step.unwrap_or(largest);
        Self { zero, end, top: (largest / step).ceil() * step, step }
    }

    /// Where a value is.
    pub fn at(&self, value: f64) -> f64 {
        self.zero + (self.end - self.zero) * value / self.top
    }

    /// Round values from zero to the top.
    pub fn marks(&self) -> impl Iterator<Item = f64> + use<> {
        let (step, count) = (self.step, (self.top / self.step).round() as u32);
        (0..=count).map(move |mark| f64::from(mark) * step)
    }
}

/// Text in which nothing is taken for markup.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '<' => f.write_str("&lt;")?,
                '&' => f.write_str("&amp;")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_with_a_round_number_above_all_values() {
        let axis = Axis::new(300.0, 0.0, 28.2);
        assert_eq!(axis.marks().collect::<Vec<_>>(), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
        assert_eq!((axis.at(0.0), axis.at(30.0), axis.at(15.0)), (300.0, 0.0, 150.0));
        for largest in [0.0, f64::NAN, 1e-6, 0.7, 1.0, 5.0, 6.1, 99.0, 100.0, 1e9] {
            let axis = Axis::new(0.0, 1.0, largest);
            let marks = axis.marks().count();
            assert!(
                (2..=8).contains(&marks) && axis.top >= largest.max(0.0),
                "{largest}: {axis:?}"
            );
        }
    }

    #[test]
    fn text_is_no_markup() {
        let mut drawing = Drawing::new(10.0, 10.0, "a & b");
        drawing.text(0.0, 0.0, Anchor::Middle, "tcp[13] & 2 < 3");
        let text = drawing.finish();
        assert!(text.contains("<title>a &amp; b</title>") && text.contains("&amp; 2 &lt; 3"));
    }
}
