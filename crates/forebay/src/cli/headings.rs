//! Headings in the help.

/// The heading of the options of all verbs.
pub(super) const GLOBAL: &str = "Options of all verbs";

/// The heading of options that force what is otherwise chosen for the machine and the input.
pub(super) const STUDY: &str = "For study";
