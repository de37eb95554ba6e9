//! What the command puts on a terminal: tables, numbers, colour and progress.
//!
//! Results go to standard output, everything else to standard error. Nothing
//! here decides what is shown; it decides how it looks, from three facts:
//! whether the stream is a terminal, how wide that is, and what the user's
//! environment says about colour. Text from captures, file names and filter
//! expressions is hostile, so everything printed passes through
//! [`text::visible`], which leaves no control character that could drive the
//! terminal.

pub mod colour;
pub mod human;
pub mod json_list;
pub mod progress;
pub mod results;
pub mod table;
pub mod text;
pub mod time;

pub use colour::{Colour, Style};
pub use json_list::JsonList;
pub use progress::Progress;
pub use results::Results;
pub use table::{Cell, Column, Layout, Table};

use std::os::fd::AsFd;

/// Columns of a terminal that does not say how wide it is.
const DEFAULT_COLUMNS: usize = 80;

/// Columns of the terminal behind `stream`; `None` when it is a file or a pipe,
/// where lines may be of any length.
#[must_use]
pub fn terminal_columns(stream: impl AsFd) -> Option<usize> {
    let stream = stream.as_fd();
    if !rustix::termios::isatty(stream) {
        return None;
    }
    let columns = rustix::termios::tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
    Some(if columns == 0 { DEFAULT_COLUMNS } else { columns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_no_width() {
        let file = std::fs::File::open("/dev/null").expect("the null device opens");
        assert_eq!(terminal_columns(&file), None);
    }
}
