//! Requests for the rules in force: to read and to change them.
//!
//! Most changes are in force at once. If a thread has to build the list anew first, the request
//! is answered after that, and later requests wait.

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_rules::language::yamaha;
use forebay_rules::live::{Edit, InForce, Live, LiveError, Place};
use serde_json::Value;

use super::notices::Notices;
use crate::control::{Answer, ControlRequest, Request, RuleEdit, RulePage, RulePlace};
use crate::rule_counts;

/// Requests that are not answered yet. The control socket limits their number.
#[derive(Default)]
pub(super) struct Edits {
    /// The change that is not in force yet, with its request, if it has one, and its list.
    waiting: Option<(Option<ControlRequest>, Arc<Live>)>,
    queue: VecDeque<ControlRequest>,
}

impl Edits {
    /// Answers a request for `rules`, those in force, or queues it if a change is not in force yet.
    pub(super) fn answer(&mut self, request: ControlRequest, rules: Option<&Arc<Live>>, now: u64) {
        if self.waiting.is_some() {
            self.queue.push_back(request);
            return;
        }
        let done = match &request.kind {
            Request::Rules { page } => show(rules, *page, now),
            Request::EditRules { edits } => match try_edit(rules, edits) {
                Ok((InForce::Later, live)) => {
                    self.waiting = Some((Some(request), live));
                    return;
                }
                Ok((InForce::Now, _)) => Ok(done_text(edits.len())),
                Err(why) => Err(why),
            },
            _ => return,
        };
        request.answer(done.map_or_else(Answer::Refused, Answer::Done));
    }

    /// Records a change, without a request, that will be in force later.
    pub(super) fn expect(&mut self, live: &Arc<Live>) {
        self.waiting.get_or_insert((None, Arc::clone(live)));
    }

    /// Answers requests whose changes are in force now, and reports failures.
    pub(super) fn follow(&mut self, rules: Option<&Arc<Live>>, now: u64, notices: &mut Notices) {
        if let Some(why) = rules.and_then(|live| live.complaint()) {
            notices.tell(why);
        }
        let Some((_, live)) = &self.waiting else { return };
        let is_in_force = rules.is_some_and(|rules| Arc::ptr_eq(rules, live));
        let outcome = match live.outcome() {
            _ if !is_in_force => Err(OTHER_LIST.to_owned()),
            Some(outcome) => outcome.map_err(|error: LiveError| error.to_string()),
            None => return,
        };
        let Some((request, _)) = self.waiting.take() else { return };
        match (request, outcome) {
            (Some(request), outcome) => {
                let edits = match &request.kind {
                    Request::EditRules { edits } => edits.len(),
                    _ => 0,
                };
                let outcome = outcome.map(|()| done_text(edits));
                request.answer(outcome.map_or_else(Answer::Refused, Answer::Done));
            }
            (None, Ok(())) => notices.tell("the changed rules are in force".to_owned()),
            (None, Err(why)) => notices.tell(format!("the rules are not changed: {why}")),
        }
        for request in std::mem::take(&mut self.queue) {
            self.answer(request, rules, now);
        }
    }
}

/// The most changes of one request: each takes the broker's thread up to half a millisecond where
/// rules are many.
const MOST_EDITS: usize = 1_024;

const NO_LIST: &str = "no list of rules is in force";
const OTHER_LIST: &str = "a reload has replaced the list of rules";

fn show(rules: Option<&Arc<Live>>, page: RulePage, now: u64) -> Result<Value, String> {
    let live = rules.ok_or(NO_LIST)?;
    Ok(live.look(|list| rule_counts::answer(list, page, now)))
}

fn try_edit(rules: Option<&Arc<Live>>, edits: &[RuleEdit]) -> Result<(InForce, Arc<Live>), String> {
    let live = rules.ok_or(NO_LIST)?;
    if edits.len() > MOST_EDITS {
        return Err(format!("{} changes at once: at most {MOST_EDITS}", edits.len()));
    }
    let edits = edits.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let in_force = live.edit(edits).map_err(|error| error.to_string())?;
    Ok((in_force, Arc::clone(live)))
}

fn done_text(edits: usize) -> Value {
    let plural = if edits == 1 { " is" } else { "s are" };
    format!("{edits} change{plural} in force").into()
}

fn read(edit: &RuleEdit) -> Result<Edit, String> {
    let rule = |text: &str| yamaha::rule(text).map_err(|error| format!("{text}: {error}"));
    let place = |place: &RulePlace| -> Result<Place, String> {
        Ok(match place {
            RulePlace::Before(rule) => Place::Before(rule.parse()?),
            RulePlace::After(rule) => Place::After(rule.parse()?),
            RulePlace::Start => Place::Start,
            RulePlace::End => Place::End,
        })
    };
    Ok(match edit {
        RuleEdit::Insert { text, place: at } => Edit::Insert(rule(text)?, place(at)?),
        RuleEdit::Delete { rule } => Edit::Delete(rule.parse()?),
        RuleEdit::Move { rule, place: at } => Edit::Move(rule.parse()?, place(at)?),
        RuleEdit::Replace { rule: name, text } => Edit::Replace(name.parse()?, rule(text)?),
    })
}
