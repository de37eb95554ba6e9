//! A progress bar without cost for the work.
//!
//! The worker updates a counter that it keeps anyway; a separate thread reads that counter
//! eight times a second and redraws. There is a bar, and a thread, only on a terminal and
//! without `--quiet`. The bar is on standard error and is erased when the work ends, in any
//! way.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::text;

const REDRAW_INTERVAL: Duration = Duration::from_millis(125);

const WITH_TOTAL: &str = "{prefix} {bar:28} {percent:>3}%  {decimal_bytes} of \
                          {decimal_total_bytes}  {decimal_bytes_per_sec}  ETA {eta}";
const WITHOUT_TOTAL: &str = "{prefix} {spinner} {decimal_bytes}  {decimal_bytes_per_sec}";

/// Progress of work counted in bytes. Ends when dropped.
#[derive(Debug)]
pub struct Progress {
    shown: Option<Shown>,
}

#[derive(Debug)]
struct Shown {
    bar: ProgressBar,
    ended: Arc<AtomicBool>,
    ticker: Option<JoinHandle<()>>,
}

impl Progress {
    /// Shows `position`, in bytes, out of `total` if that is known, on standard error; does
    /// nothing if that is not a terminal or `quiet` is set.
    #[must_use]
    pub fn bytes(label: &str, position: Arc<AtomicU64>, total: Option<u64>, quiet: bool) -> Self {
        if quiet || !std::io::stderr().is_terminal() {
            return Self { shown: None };
        }
        Self::on(ProgressDrawTarget::stderr(), label, position, total)
    }

    fn on(
        target: ProgressDrawTarget,
        label: &str,
        position: Arc<AtomicU64>,
        total: Option<u64>,
    ) -> Self {
        let bar = ProgressBar::with_draw_target(total, target);
        let template = if total.is_some() { WITH_TOTAL } else { WITHOUT_TOTAL };
        let style = ProgressStyle::with_template(template)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("━╸ ");
        bar.set_style(style);
        bar.set_prefix(text::visible(label).into_owned());
        let ended = Arc::new(AtomicBool::new(false));
        let ticker = spawn_ticker(bar.clone(), Arc::clone(&ended), position);
        Self { shown: Some(Shown { bar, ended, ticker }) }
    }

    /// Whether a bar is on the terminal.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.shown.is_some()
    }

    /// Runs `print` with the bar removed, so that lines written to the terminal meanwhile
    /// stay intact.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.shown {
            Some(shown) => shown.bar.suspend(print),
            None => print(),
        }
    }
}

/// If no thread can be started there is no bar, and the work continues.
fn spawn_ticker(
    bar: ProgressBar,
    ended: Arc<AtomicBool>,
    position: Arc<AtomicU64>,
) -> Option<JoinHandle<()>> {
    thread::Builder::new()
        .name("progress".to_owned())
        .spawn(move || {
            while !ended.load(Ordering::Acquire) {
                // With a stale value the bar lags by one redraw.
                bar.set_position(position.load(Ordering::Relaxed));
                bar.tick();
                thread::park_timeout(REDRAW_INTERVAL);
            }
        })
        .ok()
}

impl Drop for Progress {
    fn drop(&mut self) {
        let Some(shown) = &mut self.shown else { return };
        shown.ended.store(true, Ordering::Release);
        if let Some(ticker) = shown.ticker.take() {
            ticker.thread().unpark();
            // A panic of the ticker does not matter.
            let _ = ticker.join();
        }
        shown.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::io;
    use std::sync::{Mutex, PoisonError};
    use std::time::Instant;

    /// A terminal that records what is written and when lines are cleared.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<Vec<Action>>>);

    #[derive(Clone, Debug, PartialEq)]
    enum Action {
        Text(String),
        Clear,
    }

    impl Screen {
        fn push(&self, action: Action) -> io::Result<()> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(action);
            Ok(())
        }

        fn actions(&self) -> Vec<Action> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
        }

        fn wait_for(&self, text: &str) -> String {
            let deadline = Instant::now() + Duration::from_secs(10);
            loop {
                let found = self.actions().into_iter().find_map(|action| match action {
                    Action::Text(shown) if shown.contains(text) => Some(shown),
                    _ => None,
                });
                if let Some(shown) = found {
                    return shown;
                }
                assert!(Instant::now() < deadline, "{text:?} never came: {:?}", self.actions());
                thread::sleep(Duration::from_millis(5));
            }
        }
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            120
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            if text.trim().is_empty() { Ok(()) } else { self.push(Action::Text(text.to_owned())) }
        }
        fn clear_line(&self) -> io::Result<()> {
            self.push(Action::Clear)
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn target(screen: &Screen) -> ProgressDrawTarget {
        ProgressDrawTarget::term_like(Box::new(screen.clone()))
    }

    #[test]
    fn templates_are_valid() {
        for template in [WITH_TOTAL, WITHOUT_TOTAL] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn the_bar_follows_the_counter_and_leaves_no_trace() {
        let screen = Screen::default();
        let position = Arc::new(AtomicU64::new(0));
        let total = Some(2_000_000_000);
        let progress = Progress::on(target(&screen), "a\u{1b}", Arc::clone(&position), total);
        assert!(progress.is_shown());
        position.store(1_000_000_000, Ordering::Relaxed);
        let shown = screen.wait_for("50%");
        assert!(shown.contains("a\\u{1b}") && shown.contains("1.00 GB of 2.00 GB"), "{shown}");
        assert!(shown.contains("ETA"), "{shown}");
        drop(progress);
        assert_eq!(screen.actions().last(), Some(&Action::Clear));
        assert_eq!(Arc::strong_count(&position), 1, "the thread is gone");
    }

    #[test]
    fn without_a_total_there_is_no_percentage() {
        let screen = Screen::default();
        let position = Arc::new(AtomicU64::new(5_000));
        let progress = Progress::on(target(&screen), "-", position, None);
        assert!(!screen.wait_for("5.00 kB").contains('%'));
        drop(progress);
    }

    #[test]
    fn quiet_means_no_bar_and_no_thread() {
        let position = Arc::new(AtomicU64::new(0));
        let progress = Progress::bytes("split", Arc::clone(&position), None, true);
        assert!(!progress.is_shown());
        assert_eq!(Arc::strong_count(&position), 1, "nobody else watches the counter");
        assert_eq!(progress.suspend(|| 7), 7);
    }
}
