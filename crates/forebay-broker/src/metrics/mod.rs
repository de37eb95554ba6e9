//! The broker's numbers, for Prometheus.

mod http;
mod text;

pub use http::{ServeError, serve};
pub use text::{Kind, Page};
