//! What the tests share: where the test data lies.

pub use forebay_testkit::data::external as data;
