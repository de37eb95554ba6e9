//! The flows that are handled by hand, as JSON.

use std::collections::HashSet;

use forebay_packet::{FlowKey, community_digest, community_id, community_text};
use forebay_pipeline::stages::{FlowOverride, OverriddenFlow};
use serde_json::{Value, json};

use super::selector::flow_text;
use super::{FlowOverrides, Selector};

/// The most flows of an answer.
const MOST_SHOWN: usize = 10_000;

/// Some of the flows.
#[derive(Clone, Copy, Debug)]
pub struct FlowPage<'a> {
    /// Only these; all where there are none.
    pub flows: &'a [Selector],
    /// The place, from 1, of the first.
    pub from: usize,
    /// How many at most.
    pub limit: usize,
}

fn action_name(action: FlowOverride) -> &'static str {
    match action {
        FlowOverride::Shunt => "shunt",
        FlowOverride::Pass => "pass",
    }
}

/// The flows of a group. `in_kernel` gives the packets and bytes of a flow that the kernel has
/// handled, by its hash.
pub fn show(
    group: &str,
    overrides: &FlowOverrides,
    page: FlowPage<'_>,
    now: u64,
    in_kernel: impl Fn(u64) -> (u64, u64),
) -> Value {
    let named: HashSet<Selector> = page.flows.iter().copied().collect();
    let by_digest = page.flows.iter().any(|flow| matches!(flow, Selector::Community(_)));
    let is_wanted = |key: &FlowKey| {
        let digest = || community_digest(key, 0).map(Selector::Community);
        named.is_empty()
            || named.contains(&Selector::Key(FlowKey { scope: 0, ..*key }))
            || (by_digest && digest().is_some_and(|flow| named.contains(&flow)))
    };
    let lives = |flow: &&&OverriddenFlow| flow.until() > now;
    let left = |until: u64| until.saturating_sub(now) as f64 / 1e9;
    let flow = |flow: &OverriddenFlow| {
        let hash = overrides.hashes(&flow.key)[0];
        let (packets, bytes) = flow.counted();
        let (more_packets, more_bytes) = in_kernel(hash);
        json!({
            "flow": flow_text(&flow.key),
            "community_id": community_id(&flow.key, 0),
            "action": action_name(flow.action),
            "packets": packets + more_packets,
            "bytes": bytes + more_bytes,
            "left_s": left(flow.until()),
        })
    };
    let all = || overrides.flows().map(|flow| &**flow);
    let [shunted, passed, searched] = overrides.counts(now);
    let from = page.from.max(1);
    let limit = page.limit.min(MOST_SHOWN);
    let mut listed = all().filter(|flow| lives(&flow) && is_wanted(&flow.key)).skip(from - 1);
    let shown: Vec<Value> = listed.by_ref().take(limit).map(flow).collect();
    let next = listed.next().map(|_| from + shown.len());
    let waiting = overrides.wanted.iter().filter(|(digest, wanted)| {
        let is_named = named.is_empty() || named.contains(&Selector::Community(**digest));
        wanted.until > now && is_named
    });
    let waiting: Vec<Value> = waiting
        .take(limit)
        .map(|(digest, wanted)| {
            json!({
                "community_id": community_text(digest),
                "action": action_name(wanted.action),
                "left_s": left(wanted.until),
            })
        })
        .collect();
    json!({
        "group": group,
        "shunted": shunted,
        "passed": passed,
        "searched": searched,
        "limit": overrides.most,
        "beyond": overrides.beyond(),
        "flows": shown,
        "next": next,
        "search": waiting,
    })
}
