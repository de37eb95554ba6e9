//! Programs as text, in the form of `tcpdump -ddd`.
//!
//! The first line is the number of instructions, each further line one
//! instruction as four decimal numbers, `code jt jf k`. Blank lines may follow
//! the last instruction, nothing else may. The parser does not verify the
//! program.

use std::fmt::Write as _;

use super::instruction::Instruction;

/// The most instructions that are parsed, several times what libpcap generates
/// for the longest expressions.
pub const MAX_INSTRUCTIONS: usize = 1 << 18;

/// A syntax error in program text, and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected {expected}, found {found}")]
pub struct TextError {
    /// Line of the text, from 1.
    pub line: usize,
    /// What was expected.
    pub expected: String,
    /// The beginning of what was found, in quotes, or the end of the text.
    pub found: String,
}

impl TextError {
    fn new(line: usize, expected: impl Into<String>, found: Option<&str>) -> Self {
        let found = match found {
            None => "the end of the text".to_owned(),
            Some(text) if text.chars().count() > 40 => {
                format!("{:?} and more", text.chars().take(40).collect::<String>())
            }
            Some(text) => format!("{text:?}"),
        };
        Self { line, expected: expected.into(), found }
    }
}

/// Parses a program from its `tcpdump -ddd` text.
///
/// # Errors
/// [`TextError`] with the first line that is not as expected.
pub fn parse(text: &str) -> Result<Vec<Instruction>, TextError> {
    let mut lines = text.lines();
    let first = lines.next();
    let expected = || format!("the number of instructions, 1 to {MAX_INSTRUCTIONS}");
    let count = first
        .and_then(|line| line.trim().parse::<usize>().ok())
        .filter(|count| (1..=MAX_INSTRUCTIONS).contains(count))
        .ok_or_else(|| TextError::new(1, expected(), first))?;

    let mut program = Vec::with_capacity(count.min(4096));
    for index in 0..count {
        let line = lines.next();
        let number = index + 2;
        let Some(fields) = line.filter(|line| !line.trim().is_empty()) else {
            let expected = format!("instruction {index} of {count}, `code jt jf k`");
            return Err(TextError::new(number, expected, line));
        };
        program.push(parse_instruction(fields, number)?);
    }
    for (index, line) in lines.enumerate() {
        if !line.trim().is_empty() {
            let expected = format!("nothing after the {count} instructions that line 1 announces");
            return Err(TextError::new(count + 2 + index, expected, Some(line)));
        }
    }
    Ok(program)
}

fn parse_instruction(line: &str, number: usize) -> Result<Instruction, TextError> {
    let mut fields = line.split_ascii_whitespace();
    let code = field(&mut fields, number, "code, a number up to 65535")?;
    let jt = field(&mut fields, number, "jt, a number up to 255")?;
    let jf = field(&mut fields, number, "jf, a number up to 255")?;
    let k = field(&mut fields, number, "k, a number up to 4294967295")?;
    match fields.next() {
        None => Ok(Instruction { code, jt, jf, k }),
        extra => Err(TextError::new(number, "the end of the line after k", extra)),
    }
}

fn field<'a, T: std::str::FromStr>(
    fields: &mut impl Iterator<Item = &'a str>,
    line: usize,
    expected: &str,
) -> Result<T, TextError> {
    let Some(text) = fields.next() else {
        let found = "the end of the line".to_owned();
        return Err(TextError { line, expected: expected.to_owned(), found });
    };
    // `+5` parses as a number, but tcpdump never writes a sign.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(value) if digits => Ok(value),
        _ => Err(TextError::new(line, expected, Some(text))),
    }
}

/// The `tcpdump -ddd` text of `program`.
#[must_use]
pub fn print(program: &[Instruction]) -> String {
    let mut text = format!("{}\n", program.len());
    for instruction in program {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{instruction}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_printed_reads_back() {
        let program = [
            Instruction { code: 40, jt: 0, jf: 0, k: 12 },
            Instruction { code: 65_535, jt: 255, jf: 1, k: u32::MAX },
        ];
        assert_eq!(print(&program), "2\n40 0 0 12\n65535 255 1 4294967295\n");
        assert_eq!(parse(&print(&program)).unwrap(), program);
        assert_eq!(parse("1\r\n6 0 0 0\r\n\r\n").unwrap().len(), 1);
    }

    #[test]
    fn errors_name_the_line_and_what_belongs_there() {
        assert_eq!(
            message(""),
            "line 1: expected the number of instructions, 1 to 262144, found the end of the text"
        );
        assert!(message("0\n").starts_with("line 1: expected the number of instructions"));
        assert!(message("262145\n").ends_with("found \"262145\""));
        assert_eq!(
            message("2\n6 0 0 0\n"),
            "line 3: expected instruction 1 of 2, `code jt jf k`, found the end of the text"
        );
        assert_eq!(
            message("1\n6 0 0\n"),
            "line 2: expected k, a number up to 4294967295, found the end of the line"
        );
        assert_eq!(
            message("1\n6 0 256 0\n"),
            "line 2: expected jf, a number up to 255, found \"256\""
        );
        assert!(message("1\n6 +0 0 0\n").contains("jt"));
        assert!(message("1\n-6 0 0 0\n").contains("code"));
        assert!(message("1\n6 0 0 0 7\n").contains("the end of the line after k"));
        assert!(message("1\n6 0 0 0\n6 0 0 0\n").starts_with("line 3: expected nothing"));
    }

    #[test]
    fn a_huge_announcement_allocates_little_and_long_garbage_is_cut() {
        assert!(message("262144\n6 0 0 0\n").contains("instruction 1 of 262144"));
        assert!(message(&"9".repeat(1000)).len() < 200);
    }
}
