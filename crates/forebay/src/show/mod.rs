//! Terminal output: tables, numbers, colour and progress.
//!
//! Results go to standard output, everything else to standard error. This module decides
//! only the form of the output, from three facts: whether the stream is a terminal, its
//! width, and the user's settings for colour. Text from captures, file names and filter
//! expressions is untrusted, so all output passes through [`text::visible`], which removes
//! control characters.

pub mod colour;
pub mod human;
pub mod json_list;
pub mod progress;
pub mod results;
pub mod table;
pub mod text;

pub use colour::{Colour, Style};
pub use json_list::JsonList;
pub use progress::Progress;
pub use results::Results;
pub use table::{Cell, Column, Layout, Table};

use std::os::fd::AsFd;

/// Columns of a terminal that does not report its width.
const DEFAULT_COLUMNS: usize = 80;

/// Columns of the terminal on `stream`; `None` for a file or a pipe, where lines may have
/// any length.
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
