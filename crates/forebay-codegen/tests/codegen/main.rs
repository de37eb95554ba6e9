//! Filters to machine code, run and compared.

#[path = "../support/filters.rs"]
mod filters;
#[path = "../support/functions.rs"]
mod functions;
#[path = "../support/mod.rs"]
mod support;

mod c;
mod ems_run;
mod golden;
mod list_programs;
mod list_run;
mod schedules;
