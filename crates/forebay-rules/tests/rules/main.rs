//! Rule lists: languages, engines, changes and findings.

#[path = "../support/contest.rs"]
mod contest;
#[path = "../support/draw.rs"]
mod draw;
#[path = "../support/headers.rs"]
mod headers;
#[path = "../support/lists.rs"]
mod lists;
#[path = "../support/nftables.rs"]
mod nftables;
#[path = "../support/sets.rs"]
mod sets;
#[path = "../support/mod.rs"]
mod support;

mod atoms;
mod budgets;
mod changes;
mod classbench;
mod engines;
mod import_limits;
mod import_meaning;
mod imports;
mod imports_taken_back;
mod key;
mod linear;
mod lint;
mod live;
mod loading;
mod verdict_maps;
mod yamaha;
