//! The terminal: taken over for a while, and given back as it was whatever happens.
//!
//! The alternate screen and the cursor are switched by the sequences that xterm and all
//! its likes have (ECMA-48 private modes 1049 and 25). Keys come one by one and do
//! not raise signals, so that the program sees to its end itself.

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

/// Room on a terminal that does not say how large it is.
const USUAL: (u16, u16) = (80, 24);

/// A terminal that is ours; given back when dropped.
pub struct Screen {
    /// How keys were treated before, where there are keys.
    keys: Option<Termios>,
}

impl Screen {
    /// Takes the terminal over, if standard output is one.
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

    /// How much text there is room for.
    pub fn room(&self) -> Room {
        let size = tcgetwinsize(rustix::stdio::stdout()).ok();
        let size = size.map(|size| (size.ws_col, size.ws_row));
        let (columns, rows) = size.filter(|&(c, r)| c > 0 && r > 0).unwrap_or(USUAL);
        Room { columns: columns.into(), rows: Some(rows.into()) }
    }

    /// Shows lines in place of those before.
    ///
    /// # Errors
    /// The system's.
    pub fn show(&self, lines: &[String]) -> io::Result<()> {
        let mut text = HOME.to_owned();
        for (at, line) in lines.iter().enumerate() {
            // None behind the last: the terminal would scroll.
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
        // A terminal that is gone needs nothing back.
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
