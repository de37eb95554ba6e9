//! Takes over the terminal, and restores it in any case.
//!
//! The alternate screen and the cursor are switched with the sequences of xterm and
//! compatible terminals (ECMA-48 private modes 1049 and 25). Keys arrive one by one and
//! raise no signals, so the program handles Ctrl-C itself.

use std::io::{self, Write as _};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stdin;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcgetwinsize,
    tcsetattr,
};

use super::view::Room;

const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";
const HOME: &str = "\u{1b}[H";
const CLEAR_LINE: &str = "\u{1b}[K";
const CLEAR_REST: &str = "\u{1b}[J";

/// Keys that end the view: q, Q, Escape, and what the terminal sends for Ctrl-C, Ctrl-D and
/// Ctrl-\\.
const QUIT: [u8; 6] = [b'q', b'Q', 0x1b, 0x03, 0x04, 0x1c];

/// Size of a terminal that does not report it.
const USUAL: (u16, u16) = (80, 24);

/// The terminal, restored when dropped.
pub struct Screen {
    /// The terminal's previous settings, if standard input is one.
    keys: Option<Termios>,
}

impl Screen {
    /// Takes over the terminal, if standard output is one.
    ///
    /// # Errors
    /// The system's.
    pub fn take() -> io::Result<Option<Self>> {
        if !isatty(rustix::stdio::stdout()) || std::env::var("TERM").as_deref() == Ok("dumb") {
            return Ok(None);
        }
        let keys = if isatty(stdin()) { Some(tcgetattr(stdin())?) } else { None };
        let screen = Self { keys };
        if let Some(before) = &screen.keys {
            let mut modes = before.clone();
            modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
            modes.special_codes[SpecialCodeIndex::VMIN] = 0;
            modes.special_codes[SpecialCodeIndex::VTIME] = 0;
            tcsetattr(stdin(), OptionalActions::Now, &modes)?;
        }
        put(ENTER)?;
        Ok(Some(screen))
    }

    /// The size of the text area.
    pub fn room(&self) -> Room {
        let size = tcgetwinsize(rustix::stdio::stdout()).ok();
        let size = size.map(|size| (size.ws_col, size.ws_row));
        let (columns, rows) = size.filter(|&(c, r)| c > 0 && r > 0).unwrap_or(USUAL);
        Room { columns: columns.into(), rows: Some(rows.into()) }
    }

    /// Replaces the displayed lines.
    ///
    /// # Errors
    /// The system's.
    pub fn show(&self, lines: &[String]) -> io::Result<()> {
        let mut text = HOME.to_owned();
        for (at, line) in lines.iter().enumerate() {
            // No line break after the last line: the terminal would scroll.
            text += if at > 0 { "\r\n" } else { "" };
            text += line;
            text += CLEAR_LINE;
        }
        text += CLEAR_REST;
        put(&text)
    }

    /// Whether a key that ends the view was pressed.
    pub fn quits(&self) -> bool {
        if self.keys.is_none() {
            return false;
        }
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut pressed = [0; 64];
        loop {
            let mut polled = [PollFd::from_borrowed_fd(stdin(), PollFlags::IN)];
            if !matches!(poll(&mut polled, Some(&now)), Ok(1..)) {
                return false;
            }
            match rustix::io::read(stdin(), &mut pressed) {
                // The terminal is gone.
                Ok(0) | Err(_) => return true,
                Ok(count) if pressed[..count].iter().any(|key| QUIT.contains(key)) => return true,
                Ok(_) => {}
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone need not be restored.
        let _ = put(LEAVE);
        if let Some(before) = &self.keys {
            let _ = tcsetattr(stdin(), OptionalActions::Now, before);
        }
    }
}

fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
