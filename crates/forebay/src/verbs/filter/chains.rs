//! The stages that packets pass.

use forebay_jit::FilterSet;
use forebay_pipeline::Chain;
use forebay_pipeline::stages::{Filter, Limit};

use crate::cli::FilterArgs;

/// The filter, if there is one.
pub(super) fn chain(args: &FilterArgs, programs: Option<&FilterSet>) -> Chain {
    match programs {
        Some(programs) if args.verdicts => Chain::new().with(Filter::judge_only(programs.clone())),
        Some(programs) => Chain::new().with(Filter::new(programs.clone())),
        None => Chain::new(),
    }
}

/// A chain that ends after the requested number of packets.
pub(super) fn limited(chain: Chain, args: &FilterArgs) -> Chain {
    match args.limit {
        Some(limit) => chain.with(Limit::new(limit)),
        None => chain,
    }
}
