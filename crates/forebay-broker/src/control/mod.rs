//! Questions and orders from outside, over a Unix socket.
//!
//! One request a connection: a line of JSON, answered by a line of JSON. All
//! requests are open to every user who may open the socket: its mode is 0660. Requests are not worked on here but
//! handed to the broker's own thread, which answers them between two checks of its
//! sensors. How many clients there may be, and for how long, is in `serve`.

mod client;
mod message;
mod queue;
pub(crate) mod serve;
mod server;

pub use client::{AskError, ask};
pub use message::{Answer, FlowAction, Request, RuleEdit, RulePage, RulePlace, SensorAction};
pub use queue::{ControlRequest, Requests};
pub use server::{ControlError, Server, is_free, make_folder};
