//! Tests of the table of flows, and of the policies.

mod adversary;
mod bounds;
mod compact;
mod kinds;
mod model;
mod moving;
mod policy_csfq;
mod policy_drr;
mod policy_link;
mod policy_red;
mod recorded;
mod records;
mod shed;
