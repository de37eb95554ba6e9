//! Escapes text for HTML.
//!
//! File names, filter expressions and addresses are untrusted. All of them go through
//! [`Escaped`], which is valid for text and for attribute values in double quotes (WHATWG
//! HTML, section 13.3, "Escaping a string", and more) and makes control and direction
//! characters visible. Data for the script is JSON without any character that could end its
//! element.

use std::fmt::{self, Display, Formatter, Write};

use serde::Serialize;

use crate::show::text;

/// Displays text so that HTML shows it as text.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for c in text::visible(self.0).chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // Noncharacters are errors in HTML (section 13.2.3.5).
                '\u{fdd0}'..='\u{fdef}' => f.write_char(char::REPLACEMENT_CHARACTER)?,
                c if u32::from(c) & 0xfffe == 0xfffe => {
                    f.write_char(char::REPLACEMENT_CHARACTER)?
                }
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// `value` as JSON for a `script` element: `<`, `>` and `&`, which JSON has only inside
/// strings, are escaped.
pub(super) fn script_json(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let json = serde_json::to_string(value)?;
    Ok(json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"))
}

/// A fraction as a CSS percentage between 0 and 100; 0 for NaN.
pub(super) fn css_percent(fraction: f64) -> String {
    let fraction = if fraction.is_nan() { 0.0 } else { fraction.clamp(0.0, 1.0) };
    let shown = format!("{:.2}", fraction * 100.0);
    format!("{}%", shown.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        let hostile = "<img src=x onerror=\"alert('1')\"> & \u{1b}[2J\u{202e}\u{ffff}";
        assert_eq!(
            Escaped(hostile).to_string(),
            "&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt; &amp; \
             \\u{1b}[2J\\u{202e}\u{fffd}"
        );
    }

    #[test]
    fn json_cannot_end_its_element() {
        let json = script_json(&["</script><!--", "a&b"]).expect("strings are JSON");
        assert!(!json.contains(['<', '>', '&']));
        let back: Vec<String> = serde_json::from_str(&json).expect("still JSON");
        assert_eq!(back, ["</script><!--", "a&b"]);
    }

    #[test]
    fn percentages_stay_within_the_box() {
        assert_eq!(css_percent(0.5), "50%");
        assert_eq!(css_percent(1.0 / 3.0), "33.33%");
        assert_eq!(css_percent(f64::NAN), "0%");
        assert_eq!(css_percent(f64::INFINITY), "100%");
        assert_eq!(css_percent(-1.0), "0%");
    }
}
