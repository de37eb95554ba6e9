//! The broker's numbers, for Prometheus.

mod broker;
mod http;
mod text;

pub use broker::{Shown, page};
pub use http::{ServeError, serve};
pub use text::{Kind, Page};
