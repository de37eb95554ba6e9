//! A group of sensors under simulated traffic: no flow is torn, none is lost, and the
//! load comes to be where it should.
//!
//! Time is simulated; workers, table, records, mover and balancer are the real ones. What
//! is torn is found by a checker that knows nothing of them: it sees each packet's key,
//! time and sensor ([`checker`]).

mod checker;
mod traffic;
mod world;

mod balance;
mod bars;
mod deaths;
mod floods;
mod threads;
