//! The rules of a running broker: changed, moved, saved and loaded again while packets pass.

use crate::support::broker::{number, row};
use crate::support::command::run;
use crate::support::namespace::{in_namespace, wait_for};
use crate::support::switched::{Switch, Switched};
use forebay_broker::control::{Request, RuleEdit, RulePlace, ask};
use serde_json::Value;

/// A broker's rules.
struct Rules<'a>(&'a Switched);

impl Rules<'_> {
    /// The answer of `ctl rules`; none if it fails.
    fn ask(&self, words: &[&str]) -> Option<Value> {
        self.0.ask(&[&["rules"], words].concat())
    }

    /// The error of a `ctl rules` that fails.
    fn refused(&self, words: &[&str]) -> String {
        let socket = self.0.path("control");
        let ctl = ["ctl", "-s", socket.to_str().unwrap(), "rules"];
        run(ctl.iter().chain(words)).exits(1).stderr
    }

    /// The rules in force by number, each with the packets that it has decided.
    fn shown(&self) -> Vec<(u64, u64)> {
        let said = self.ask(&["show"]).unwrap();
        let rules = said["rules"].as_array().unwrap();
        rules.iter().map(|rule| (number(rule, "number"), number(rule, "packets"))).collect()
    }
}

#[test]
fn rules_are_changed_in_force_and_saved() {
    in_namespace(|| {
        let network = Switched::new(1, Switch::Static);
        let list = network.path("list");
        std::fs::write(&list, "ip filter 1 pass * * udp\nip filter 2 reject * * tcp\n").unwrap();
        let config =
            network.configure(&format!("rules = \"{}\"\n", list.display()), |_| String::new());
        let broker = network.broker(&config);
        let rules = Rules(&network);
        // Packets of UDP, and how many of all were rejected.
        let mut sent = 0;
        let mut send = || {
            network.generate("--rate 4000 --packets 200 --flows 20");
            sent += 200;
            let row_of = || row(&network.ask(&["ledger"]).unwrap(), "rules").clone();
            wait_for("the packets", || number(&row_of(), "in") == sent);
            number(&row_of()["drops"], "rejected")
        };
        assert_eq!(send(), 0);
        let done = |words: &[&str]| assert_eq!(rules.ask(words).unwrap(), "1 change is in force");
        done(&["insert", "--before", "1", "ip filter 3 reject 0.0.0.0/0 0.0.0.0/0 udp"]);
        assert_eq!(send(), 200);
        assert_eq!(rules.shown(), [(3, 200), (1, 200), (2, 0)]);
        // The counter of a moved rule continues.
        done(&["move", "3", "--end"]);
        assert_eq!(send(), 200);
        assert_eq!(rules.shown(), [(1, 400), (2, 0), (3, 200)]);
        done(&["replace", "1", "ip", "filter", "7", "pass", "192.0.2.1"]);
        assert_eq!(send(), 400);
        done(&["insert", "--after", "7", "ipv6 filter 7 pass-log 2001:db8::/32"]);
        assert_eq!(rules.shown(), [(7, 0), (7, 0), (2, 0), (3, 400)]);
        for (words, expected) in [
            (&["delete", "7", "9"][..], "there is no rule 9 in the list"),
            (&["delete", "ipv6:8"], "there is no rule ipv6:8 in the list"),
            (&["move", "two", "--start"], "'two' is not a rule: expected NUMBER"),
            (&["insert", "--end", "ip filter 2 pass *"], "there is a rule 2 in the list"),
            (&["insert", "--end", "ip filter 8 pas *"], "found \"pas\", expected `pass`"),
            (&["replace", "7", "ip filter 3 pass *"], "there is a rule 3 in the list"),
        ] {
            let said = rules.refused(words);
            assert!(said.contains(expected), "{words:?}: {said}");
        }
        let many: Vec<&str> = std::iter::once("delete").chain(["7"; 1_025]).collect();
        assert!(rules.refused(&many).contains("1025 changes at once: at most 1024"));
        assert_eq!(rules.shown(), [(7, 0), (7, 0), (2, 0), (3, 400)], "nothing half done");
        let saved = network.path("saved");
        let save = ["save", saved.to_str().unwrap()];
        assert_eq!(number(&rules.ask(&save).unwrap(), "rules"), 4);
        let text = std::fs::read_to_string(&saved).unwrap();
        assert!(text.starts_with("ip filter 7 pass 192.0.2.1 * * * *\nipv6 filter 7 "), "{text}");
        run(["rules", "check", "--quiet", save[1]]).exits(0);
        // The old file differs from the list in force.
        let reload = || network.ask(&["reload"]).unwrap();
        let said = "reloaded; rules at places 1 to 4 of 4 are now 1 to 2 of 2";
        assert_eq!(reload(), said);
        assert_eq!(rules.shown(), [(1, 0), (2, 0)]);
        std::fs::rename(&saved, &list).unwrap();
        assert_eq!(reload(), "reloaded; rules at places 1 to 2 of 2 are now 1 to 4 of 4");
        assert_eq!(reload(), "reloaded");
        // A file has the rules of each family together.
        assert_eq!(rules.shown().iter().map(|rule| rule.0).collect::<Vec<_>>(), [7, 2, 3, 7]);
        let removed = rules.ask(&["show"]).unwrap()["removed"].clone();
        assert_eq!(number(&removed, "packets"), sent, "of rules that have gone");
        assert!(network.ask(&["drain"]).is_some());
        assert_eq!(broker.ended()["closes"], true);
    });
}

#[test]
fn a_reload_changes_a_long_list_where_it_differs() {
    in_namespace(|| {
        let network = Switched::new(1, Switch::Static);
        let list = network.path("list");
        let text = |changed: bool| -> String {
            let rule = |number: u32| match number {
                100 | 2_500 if changed => format!("ip filter {number} reject *\n"),
                _ => format!("ip filter {number} pass 10.0.{}.{}\n", number / 256, number % 256),
            };
            (1..=3_000).map(rule).collect()
        };
        std::fs::write(&list, text(false)).unwrap();
        let config =
            network.configure(&format!("rules = \"{}\"\n", list.display()), |_| String::new());
        let broker = network.broker(&config);
        let rules = Rules(&network);
        let edition = || number(&rules.ask(&["show"]).unwrap(), "edition");
        assert_eq!(edition(), 0);
        std::fs::write(&list, text(true)).unwrap();
        let said = "reloaded; rules at places 100 to 2500 of 3000 are now 100 to 2500 of 3000";
        assert_eq!(network.ask(&["reload"]).unwrap(), said);
        // It is the same list, changed once.
        assert_eq!(edition(), 1);
        // A change that was not saved is reverted.
        assert!(rules.ask(&["delete", "100", "2500", "1"]).is_some());
        let said = "reloaded; rules at places 1 to 2497 of 2997 are now 1 to 2500 of 3000";
        assert_eq!(network.ask(&["reload"]).unwrap(), said);
        assert_eq!(edition(), 3);
        assert!(network.ask(&["drain"]).is_some());
        assert_eq!(broker.ended()["closes"], true);
    });
}

#[test]
fn packets_during_changes_are_judged_by_the_old_or_the_new_list() {
    in_namespace(|| {
        let network = Switched::new(1, Switch::Static);
        let list = network.path("list");
        std::fs::write(&list, "ip filter 1 pass *\nip filter 9 reject *\n").unwrap();
        let config =
            network.configure(&format!("rules = \"{}\"\n", list.display()), |_| String::new());
        let broker = network.broker(&config);
        let socket = network.path("control");
        let sent = 40_000;
        let words = format!("--rate 20000 --packets {sent} --flows 50");
        let changes = std::thread::scope(|scope| {
            let traffic = scope.spawn(|| network.generate(&words));
            // Each list passes all packets, and a mixture of two successive lists does not.
            let mut changes = 0_u64;
            while !traffic.is_finished() {
                let (old, new) = (1 + changes % 2, 2 - changes % 2);
                let text = format!("ip filter {new} pass *");
                let edits = match changes % 4 {
                    0 | 1 => vec![RuleEdit::Replace { rule: old.to_string(), text }],
                    _ => vec![
                        RuleEdit::Delete { rule: old.to_string() },
                        RuleEdit::Insert { text, place: RulePlace::Before("9".to_owned()) },
                    ],
                };
                ask(&socket, &Request::EditRules { edits }).unwrap();
                changes += 1;
            }
            changes
        });
        assert!(changes > 100, "{changes}");
        let row_of = || row(&network.ask(&["ledger"]).unwrap(), "rules").clone();
        wait_for("the packets", || number(&row_of(), "in") == sent);
        assert_eq!(number(&row_of()["drops"], "rejected"), 0);
        // Every packet is counted for one of the rules, also for those that were removed.
        let rules = Rules(&network);
        let said = rules.ask(&["show"]).unwrap();
        let shown = rules.shown();
        assert_eq!((shown.len(), shown[1]), (2, (9, 0)));
        assert_eq!(number(&said["default"], "packets"), 0);
        assert_eq!(shown[0].1 + number(&said["removed"], "packets"), sent);
        assert!(shown[0].1 < sent);
        assert!(network.ask(&["drain"]).is_some());
        assert_eq!(broker.ended()["closes"], true);
    });
}
