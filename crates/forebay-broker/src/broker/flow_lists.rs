//! Requests for the open flows of a group, which are answered when all workers have made their
//! lists.

use std::cmp::Reverse;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use super::running::Running;
use crate::answers;
use crate::control::{Answer, ControlRequest, Request};
use crate::flow_list::{FlowList, MOST_LISTED, rank};
use crate::group::LiveGroup;

/// Requests at a time: each takes memory for a list of each worker.
const MOST_REQUESTS: usize = 8;

/// How long workers may take: less than a client waits.
const PATIENCE: Duration = Duration::from_secs(25);

/// A request that is not answered yet.
struct Waiting {
    request: ControlRequest,
    group: String,
    most: usize,
    /// Of workers that are not done.
    expected: Vec<Receiver<FlowList>>,
    list: FlowList,
    until: Instant,
}

/// The requests that are not answered yet.
#[derive(Default)]
pub(super) struct FlowLists(Vec<Waiting>);

impl FlowLists {
    /// Has the workers make lists for a request, or refuses it.
    pub(super) fn ask(
        &mut self,
        request: ControlRequest,
        groups: &[LiveGroup],
        running: &[Running],
    ) {
        match self.begin(&request.kind, groups, running) {
            Ok((group, most, expected)) => {
                let (list, until) = (FlowList::default(), Instant::now() + PATIENCE);
                self.0.push(Waiting { request, group, most, expected, list, until });
            }
            Err(why) => request.answer(Answer::Refused(why)),
        }
    }

    fn begin(
        &self,
        request: &Request,
        groups: &[LiveGroup],
        running: &[Running],
    ) -> Result<(String, usize, Vec<Receiver<FlowList>>), String> {
        let Request::Flows { group: wanted, top } = request else {
            return Err("no request for flows".to_owned());
        };
        let most = *top;
        if !(1..=MOST_LISTED).contains(&most) {
            return Err(format!("top {most}: expected 1 to {MOST_LISTED}"));
        }
        if self.0.len() >= MOST_REQUESTS {
            return Err(format!("{MOST_REQUESTS} lists of flows are being made. Try again"));
        }
        let name = |group: &LiveGroup| group.config.name.clone();
        let group = match wanted {
            Some(wanted) => groups.iter().map(name).find(|name| name == wanted),
            None => groups.first().map(name),
        };
        let group =
            group.ok_or_else(|| format!("no group `{}`", wanted.as_deref().unwrap_or_default()))?;
        let lists = running.iter().map(|one| one.mailbox.list_flows(&group, most)).collect();
        Ok((group, most, lists))
    }

    /// Answers the requests for which all workers are done.
    pub(super) fn follow(&mut self, groups: &[LiveGroup]) {
        let now = Instant::now();
        for mut waiting in std::mem::take(&mut self.0) {
            waiting.take();
            if !waiting.expected.is_empty() && now < waiting.until {
                self.0.push(waiting);
                continue;
            }
            waiting.answer(groups);
        }
    }
}

impl Waiting {
    /// Takes the lists that are there. A worker that has ended has none.
    fn take(&mut self) {
        let Self { expected, list, .. } = self;
        expected.retain(|one| match one.try_recv() {
            Ok(FlowList { open, records, keeps }) => {
                list.open += open;
                list.records.extend(records);
                list.keeps |= keeps;
                false
            }
            Err(TryRecvError::Disconnected) => false,
            Err(TryRecvError::Empty) => true,
        });
    }

    fn answer(self, groups: &[LiveGroup]) {
        let Self { request, group, most, expected, mut list, .. } = self;
        let live = groups.iter().find(|live| live.config.name == group);
        let answer = match live {
            _ if !expected.is_empty() => {
                Err("the workers have too many flows, or hang: no list in 25 s".to_owned())
            }
            None => Err(format!("no group `{group}`")),
            Some(_) if !list.keeps => {
                Err(format!("group `{group}` keeps no records of flows: it has no key `flows`"))
            }
            Some(live) => {
                list.records.sort_unstable_by_key(|record| Reverse(rank(record)));
                list.records.truncate(most);
                Ok(answers::flows(live, &list))
            }
        };
        request.answer(answer.map_or_else(Answer::Refused, Answer::Done));
    }
}
