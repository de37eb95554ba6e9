//! The report of a split: one self-contained HTML page.
//!
//! A reader has these questions, in this order: was every packet accounted for, is the load
//! even, and if not, why. The page answers in that order: a verdict with the ledger's
//! equation, key figures, load over time, load of each sensor against its fair share, the
//! imbalance against random assignments, the largest flows, the ledger.
//!
//! The page is generated from a [`SplitReport`], plain data without dependencies on other
//! parts of the program. Style, drawings and data are in the page; it has no external
//! references, is complete without its script (which shows values under the pointer),
//! follows the reader's light or dark setting, and can be printed. Its size is bounded by
//! the number of sensors, not by the capture.

mod axis;
mod chart;
mod colours;
mod draw;
mod grid;
mod html;
mod model;
mod page;
pub mod queue_plot;
mod sensor_charts;
mod sensors;
mod tables;
#[cfg(test)]
mod tests;

pub use model::{
    Balancing, Imbalance, LedgerRow, SensorLoad, SplitReport, Spread, TimeSeries, TopFlow, Totals,
};

use std::io::{self, Write};

/// Writes `report` as a page of HTML.
///
/// # Errors
/// Those of `out`.
pub fn write_html(report: &SplitReport, out: &mut dyn Write) -> io::Result<()> {
    let page = page::render(report).map_err(io::Error::other)?;
    out.write_all(page.as_bytes())
}
