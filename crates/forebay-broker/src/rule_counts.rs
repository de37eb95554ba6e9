//! The rules in force: what each has decided, and where another list differs.

use forebay_rules::counters::Count;
use forebay_rules::live::View;
use forebay_rules::{Action, Family, Rule};
use serde_json::{Value, json};

use crate::control::RulePage;
use crate::metrics::{Kind, Page};

/// The most rules of a page, and bytes of their texts, after which a page ends.
const MOST_RULES: usize = 10_000;
const MOST_BYTES: usize = 4 << 20;

/// Ranges of a rule whose text is shown: one can list millions of addresses.
const MOST_RANGES: usize = 500;

/// Rules that have samples of their own.
const MOST_SAMPLES: usize = 1000;

/// A page of the list; `now` is the workers' clock.
pub fn answer(list: &View<'_>, page: RulePage, now: u64) -> Value {
    let with_count = |mut object: Value, count: Count| {
        let seconds = |last: u64| now.saturating_sub(last) as f64 / 1e9;
        object["packets"] = count.packets.into();
        object["bytes"] = count.bytes.into();
        object["last_s_ago"] = (count.packets > 0).then(|| seconds(count.last)).into();
        object
    };
    let (mut shown, mut bytes, mut next) = (Vec::new(), 0, None);
    for (index, (rule, count)) in list.rules().enumerate().skip(page.from.saturating_sub(1)) {
        if page.hit && count.packets == 0 {
            continue;
        }
        if shown.len() == page.limit.clamp(1, MOST_RULES) || bytes > MOST_BYTES {
            next = Some(index + 1);
            break;
        }
        let text = if page.whole { rule.to_string() } else { text_of(rule) };
        bytes += text.len();
        let object = json!({
            "place": index + 1,
            "family": family(rule.family),
            "number": rule.number,
            "action": action(rule.action),
            "text": text,
        });
        shown.push(with_count(object, count));
    }
    let default = json!({"action": action(list.default_action())});
    json!({
        "count": list.count(),
        "edition": list.edition(),
        "rules": shown,
        "next": next,
        "default": with_count(default, list.default_count()),
        "removed": with_count(json!({}), list.removed()),
    })
}

/// Where `new` differs from `old`, if it does: what is between the rules that both begin with
/// and those that both end with.
pub fn difference(old: &View<'_>, new: &View<'_>) -> Option<String> {
    let pairs = old.rules().zip(new.rules());
    let before = pairs.take_while(|((old, _), (new, _))| old == new).count();
    let same = old.default_action() == new.default_action();
    let is_all = before == old.count() && before == new.count();
    if is_all {
        let default = action(new.default_action());
        return (!same).then(|| format!("the rules' default is now to {default}"));
    }
    let rest = old.rules().skip(before).rev().zip(new.rules().skip(before).rev());
    let behind = rest.take_while(|((old, _), (new, _))| old == new).count();
    let ends = [old, new].map(|list| (list.count() - behind, list.count()));
    let default = match same {
        true => String::new(),
        false => format!(", and the default is to {}", action(new.default_action())),
    };
    Some(format!("{}{default}", places(before, ends)))
}

/// That the rules behind so many, up to places in the old and the new list, differ; each with
/// how many rules there are.
pub fn places(before: usize, ends: [(usize, usize); 2]) -> String {
    let [old, new] = ends.map(|(last, count)| match last {
        last if last == before => "none".to_owned(),
        last => format!("{} to {last} of {count}", before + 1),
    });
    format!("rules at places {old} are now {new}")
}

/// Adds packets by rule: of the first rules each, of all others the sum.
pub fn metrics(list: &View<'_>, page: &mut Page) {
    const NAME: &str = "forebay_rule_packets_total";
    page.metric(NAME, Kind::Counter, "Packets that a rule decided.");
    for (rule, count) in list.rules().take(MOST_SAMPLES) {
        let number = rule.number.to_string();
        let family = family(rule.family);
        let labels = [("rule", &*number), ("family", family), ("action", action(rule.action))];
        page.sample(NAME, &labels, count.packets as f64);
    }
    if list.count() > MOST_SAMPLES {
        let others: u64 = list.rules().skip(MOST_SAMPLES).map(|(_, count)| count.packets).sum();
        page.sample(NAME, &[("rule", "others")], others as f64);
    }
    page.sample(NAME, &[("rule", "removed")], list.removed().packets as f64);
    let labels = [("rule", "default"), ("action", action(list.default_action()))];
    page.sample(NAME, &labels, list.default_count().packets as f64);
}

/// A rule's text, or how long it would be.
fn text_of(rule: &Rule) -> String {
    let ranges = rule.ranges();
    if ranges <= MOST_RANGES {
        return rule.to_string();
    }
    let command = if rule.family == Family::Ipv6 { "ipv6" } else { "ip" };
    let action = action(rule.action);
    format!("{command} filter {} {action} … # of {ranges} ranges", rule.number)
}

fn family(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ipv4",
        Family::Ipv6 => "ipv6",
    }
}

fn action(action: Action) -> &'static str {
    match action {
        Action::Pass => "pass",
        Action::Reject => "reject",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_rules::RuleList;
    use forebay_rules::engine::NO_RULE;
    use forebay_rules::language::yamaha;
    use forebay_rules::live::Live;

    const WHOLE: RulePage = RulePage { from: 1, limit: 100, hit: false, whole: false };

    fn live_of(list: &RuleList, workers: usize) -> Live {
        Live::new(list, forebay_jit::Isa::Scalar, workers).unwrap()
    }

    fn live(text: &str, workers: usize) -> Live {
        live_of(&yamaha::parse(text).unwrap().ascending(), workers)
    }

    fn answer(live: &Live, page: RulePage, now: u64) -> Value {
        live.look(|list| super::answer(list, page, now))
    }

    /// `rules` rules of which every third has decided packets, as many as its place, and the
    /// default 7.
    fn counted(rules: u32, with: &str) -> Live {
        let text: String =
            (1..=rules).map(|n| format!("ip filter {n} pass 10.0.0.{n} {with}\n")).collect();
        let live = live(&text, 2);
        let counters = live.counters();
        for worker in 0..2 {
            let counter = counters.worker(worker);
            for place in (3..=rules).step_by(3) {
                (worker..place as usize).step_by(2).for_each(|_| counter.count(place - 1, 100, 5));
            }
        }
        (0..7).for_each(|_| counters.worker(0).count(NO_RULE, 60, 9));
        live
    }

    #[test]
    fn pages_go_through_the_list_and_end() {
        let live = counted(20, "");
        let page = |from, limit, hit| {
            answer(&live, RulePage { from, limit, hit, whole: false }, 2_000_000_005)
        };
        let places = |value: &Value| -> Vec<u64> {
            value["rules"]
                .as_array()
                .unwrap()
                .iter()
                .map(|r| r["place"].as_u64().unwrap())
                .collect()
        };
        let first = page(1, 8, false);
        assert_eq!((places(&first), &first["next"]), ((1..=8).collect(), &json!(9)));
        assert_eq!((&first["count"], &first["rules"][0]["packets"]), (&json!(20), &json!(0)));
        assert_eq!(first["rules"][0]["last_s_ago"], Value::Null);
        let third = &first["rules"][2];
        assert_eq!((&third["packets"], &third["bytes"]), (&json!(3), &json!(300)));
        assert_eq!((&third["last_s_ago"], &third["number"]), (&json!(2.0), &json!(3)));
        let (last, beyond) = (page(17, 8, false), page(21, 8, false));
        assert_eq!((places(&last), &last["next"]), ((17..=20).collect(), &Value::Null));
        assert_eq!((places(&beyond), &beyond["next"]), (vec![], &Value::Null));
        let hit = page(1, 4, true);
        assert_eq!((places(&hit), &hit["next"]), (vec![3, 6, 9, 12], &json!(15)));
        assert_eq!(hit["default"]["packets"], 7);
        assert_eq!(places(&page(0, 0, false)), [1], "one at least, so that it goes on");
    }

    #[test]
    fn a_page_of_long_rules_is_short() {
        let with = |ports: u32| {
            let ports = (0..ports).map(|n| (2 * n).to_string()).collect::<Vec<_>>().join(",");
            answer(&counted(255, &format!("* tcp {ports}")), RulePage { limit: 255, ..WHOLE }, 0)
        };
        let long = with(2000);
        let text = "ip filter 1 pass … # of 2002 ranges";
        assert_eq!((&long["rules"][0]["text"], &long["next"]), (&json!(text), &Value::Null));
        let short = with(3);
        assert_eq!(short["rules"][0]["text"], "ip filter 1 pass 10.0.0.1 * tcp 0,2,4 *");
    }

    #[test]
    fn a_page_ends_by_its_bytes() {
        let address = |n, at| format!("2001:db8:1111:2222:3333:4444:{n:x}:{:x}", 0x1000 + 2 * at);
        let rule = |n: u32| {
            let all = (0..450).map(|at| address(n, at)).collect::<Vec<_>>().join(",");
            format!("ipv6 filter {n} pass {all}\n")
        };
        let list: String = (1..=300).map(rule).collect();
        let page = answer(&live(&list, 1), RulePage { limit: usize::MAX, ..WHOLE }, 0);
        let next = page["next"].as_u64().unwrap() as usize;
        assert_eq!(page["rules"].as_array().unwrap().len(), next - 1);
        assert!((150..300).contains(&next), "{next}");
    }

    #[test]
    fn a_difference_is_told_by_places() {
        let list = |numbers: &[u32]| {
            let of = |&number| Rule::any(number, Family::Ipv4, Action::Pass);
            RuleList { rules: numbers.iter().map(of).collect(), ..RuleList::default() }
        };
        let between = |old: &RuleList, new: &RuleList| {
            let [old, new] = [old, new].map(|list| live_of(list, 1));
            old.look(|old| new.look(|new| difference(old, new)))
        };
        for (old, new, expected) in [
            (&[1, 2, 3][..], &[1, 2, 3][..], None),
            (&[1, 2, 3], &[1, 3], Some("2 to 2 of 3 are now none")),
            (&[1, 3], &[1, 2, 3], Some("none are now 2 to 2 of 3")),
            (&[1, 1], &[1, 1, 1], Some("none are now 3 to 3 of 3")),
            (&[1, 2, 3, 4], &[1, 3, 2, 4], Some("2 to 3 of 4 are now 2 to 3 of 4")),
            (&[], &[7, 8], Some("none are now 1 to 2 of 2")),
        ] {
            let expected = expected.map(|places| format!("rules at places {places}"));
            assert_eq!(between(&list(old), &list(new)), expected, "{old:?} {new:?}");
        }
        let passing = RuleList { default: Action::Pass, ..list(&[1]) };
        let said = |old| between(&list(old), &passing).unwrap();
        assert_eq!(said(&[1]), "the rules' default is now to pass");
        assert!(said(&[2]).ends_with("are now 1 to 1 of 1, and the default is to pass"));
    }

    #[test]
    fn samples_are_bounded_in_number_and_sum_up_to_all() {
        let list = |rules| {
            let text: String = (1..=rules).map(|n| format!("ip filter {n} pass *\n")).collect();
            let live = live(&text, 1);
            let counter = live.counters().worker(0);
            (0..rules).for_each(|rule| counter.count(rule, 1, 1));
            let mut page = Page::default();
            live.look(|list| metrics(list, &mut page));
            page.finish()
        };
        let samples = |page: &str| page.lines().filter(|line| !line.starts_with('#')).count();
        let short = list(3);
        let expected = "forebay_rule_packets_total{rule=\"3\",family=\"ipv4\",action=\"pass\"} 1\n\
                        forebay_rule_packets_total{rule=\"removed\"} 0\n\
                        forebay_rule_packets_total{rule=\"default\",action=\"reject\"} 0\n";
        assert!(short.ends_with(expected) && samples(&short) == 5, "{short}");
        let long = list(1500);
        assert_eq!(samples(&long), MOST_SAMPLES + 3);
        assert!(long.contains("forebay_rule_packets_total{rule=\"others\"} 500\n"), "{long}");
    }
}
