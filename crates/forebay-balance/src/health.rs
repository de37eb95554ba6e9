//! Whether a sensor is up.
//!
//! Three inputs decide, in this order. First an operator's command ([`Manual`]). Then the
//! link, if the sensor has one of its own: through a switch the broker's link does not show
//! the state of the sensor's. Last the hello frames that a sensor sends: after
//! [`HelloRule::misses`] intervals without one it is down. It is up again after
//! [`HelloRule::returns`] hellos in a row, none of them late, so that a sensor that sends
//! only occasionally does not flap. A sensor that has not sent any yet gets the time after
//! which it would be declared down.
//!
//! A hello carries the interval until the next one. The rule bounds that interval, so that
//! a sensor cannot announce one so long that its failure would be detected too late.

use crate::balancer::targets::Standing;

/// An operator's command for a sensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Manual {
    /// None: link and hello frames decide.
    #[default]
    Automatic,
    /// It is up, regardless of link and hello frames.
    Up,
    /// It is down.
    Down,
    /// It gets no new flows while it is up.
    Drain,
}

/// The hello frames expected of a sensor. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloRule {
    /// The interval of a sensor that has not announced one yet.
    pub interval: u64,
    /// The shortest interval accepted.
    pub shortest: u64,
    /// The longest interval accepted.
    pub longest: u64,
    /// Intervals without a hello after which a sensor is down.
    pub misses: u32,
    /// Hellos in a row after which it is up again.
    pub returns: u32,
}

impl Default for HelloRule {
    fn default() -> Self {
        let ms = 1_000_000;
        Self { interval: 200 * ms, shortest: 20 * ms, longest: 10_000 * ms, misses: 3, returns: 2 }
    }
}

/// The content of a hello frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Hello {
    /// Nanoseconds until the next hello.
    pub interval: u64,
    /// Packets that the sensor received since it started.
    pub received: u64,
    /// Packets that it received and lost since it started.
    pub dropped: u64,
}

/// Why a sensor's standing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// An operator's command, or its withdrawal.
    Manual,
    /// Its link went down.
    LinkDown,
    /// Its link is up again.
    LinkUp,
    /// No hello arrived for too long.
    HelloMissed {
        /// Nanoseconds without a hello.
        silent_for: u64,
    },
    /// Its hellos arrive again.
    HelloBack,
    /// The rule for its hellos changed.
    Expectation,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Manual => f.write_str("by command"),
            Self::LinkDown => f.write_str("its link is down"),
            Self::LinkUp => f.write_str("its link is up"),
            Self::HelloMissed { silent_for } => {
                write!(f, "no hello for {} ms", silent_for / 1_000_000)
            }
            Self::HelloBack => f.write_str("its hellos are back"),
            Self::Expectation => f.write_str("its hellos are judged anew"),
        }
    }
}

/// A change of standing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The previous standing.
    pub from: Standing,
    /// The new standing.
    pub to: Standing,
    /// The reason.
    pub reason: Reason,
}

/// Packets received and lost by a sensor, from its last two hellos.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SensorLoss {
    /// Packets received between them.
    pub received: u64,
    /// Packets lost between them.
    pub dropped: u64,
}

/// The health of one sensor. Times are of the monotonic clock, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Health {
    rule: Option<HelloRule>,
    manual: Manual,
    link: Option<bool>,
    last: Option<Hello>,
    loss: SensorLoss,
    hellos: u64,
    /// The time of the last hello, or from which hellos are expected.
    heard_at: u64,
    /// The announced interval, within the rule's bounds.
    interval: u64,
    /// Hellos in a row since it fell silent; `None` while it is not silent.
    returning: Option<u32>,
    standing: Standing,
}

impl Health {
    /// A sensor that is up at the time `now`; it must send hellos if there is a rule.
    #[must_use]
    pub fn new(rule: Option<HelloRule>, now: u64) -> Self {
        Self {
            rule,
            manual: Manual::Automatic,
            link: None,
            last: None,
            loss: SensorLoss::default(),
            hellos: 0,
            heard_at: now,
            interval: rule.map_or(0, |rule| rule.interval),
            returning: None,
            standing: Standing::Up,
        }
    }

    /// Its standing.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// The operator's last command.
    #[must_use]
    pub fn manual(&self) -> Manual {
        self.manual
    }

    /// The number of hellos.
    #[must_use]
    pub fn hellos(&self) -> u64 {
        self.hellos
    }

    /// Its last hello.
    #[must_use]
    pub fn last_hello(&self) -> Option<Hello> {
        self.last
    }

    /// Its losses between its last two hellos.
    #[must_use]
    pub fn loss(&self) -> SensorLoss {
        self.loss
    }

    /// The time of the last hello, or from which hellos are expected.
    #[must_use]
    pub fn heard_at(&self) -> u64 {
        self.heard_at
    }

    /// Changes the rule for hellos; the silence so far is discarded.
    pub fn expect(&mut self, rule: Option<HelloRule>, now: u64) -> Option<Transition> {
        if self.rule == rule {
            return None;
        }
        self.rule = rule;
        self.heard_at = self.heard_at.max(now);
        self.interval = rule.map_or(0, |rule| rule.interval);
        self.returning = None;
        self.settle(Reason::Expectation)
    }

    /// Applies an operator's command.
    pub fn command(&mut self, manual: Manual) -> Option<Transition> {
        self.manual = manual;
        self.settle(Reason::Manual)
    }

    /// Applies a link change.
    pub fn link(&mut self, is_up: bool) -> Option<Transition> {
        self.link = Some(is_up);
        self.settle(if is_up { Reason::LinkUp } else { Reason::LinkDown })
    }

    /// Applies a hello.
    pub fn hello(&mut self, now: u64, hello: Hello) -> Option<Transition> {
        let rule = self.rule?;
        let is_late = now.saturating_sub(self.heard_at) > self.patience(rule);
        let earlier = self.last.replace(hello).unwrap_or_default();
        // The counters of a restarted sensor begin at zero.
        let came = |now: u64, then: u64| now.checked_sub(then).unwrap_or(now);
        self.loss = SensorLoss {
            received: came(hello.received, earlier.received),
            dropped: came(hello.dropped, earlier.dropped),
        };
        self.hellos += 1;
        self.heard_at = self.heard_at.max(now);
        self.interval = hello.interval.clamp(rule.shortest, rule.longest.max(rule.shortest));
        if let Some(times) = &mut self.returning {
            *times = if is_late { 1 } else { *times + 1 };
            if *times >= rule.returns {
                self.returning = None;
            }
        }
        self.settle(Reason::HelloBack)
    }

    /// Advances the time.
    pub fn tick(&mut self, now: u64) -> Option<Transition> {
        let rule = self.rule?;
        let silent_for = now.saturating_sub(self.heard_at);
        if silent_for <= self.patience(rule) {
            return None;
        }
        self.returning = Some(0);
        self.settle(Reason::HelloMissed { silent_for })
    }

    /// The longest silence of a sensor that is up.
    fn patience(&self, rule: HelloRule) -> u64 {
        self.interval.saturating_mul(u64::from(rule.misses.max(1)))
    }

    fn settle(&mut self, reason: Reason) -> Option<Transition> {
        let is_silent = self.rule.is_some() && self.returning.is_some();
        let is_alive = self.link != Some(false) && !is_silent;
        let to = match self.manual {
            Manual::Up => Standing::Up,
            Manual::Down => Standing::Down,
            Manual::Automatic | Manual::Drain if !is_alive => Standing::Down,
            Manual::Automatic => Standing::Up,
            Manual::Drain => Standing::Draining,
        };
        let from = std::mem::replace(&mut self.standing, to);
        (from != to).then_some(Transition { from, to, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn hello() -> Hello {
        Hello { interval: 200 * MS, received: 0, dropped: 0 }
    }

    fn watched() -> Health {
        Health::new(Some(HelloRule::default()), 0)
    }

    #[test]
    fn silence_of_three_intervals_is_death_and_two_hellos_are_life() {
        let mut health = watched();
        assert_eq!(health.hello(100 * MS, hello()), None);
        assert_eq!(health.tick(700 * MS), None);
        let died = health.tick(701 * MS).unwrap();
        assert_eq!((died.from, died.to), (Standing::Up, Standing::Down));
        assert_eq!(died.reason, Reason::HelloMissed { silent_for: 601 * MS });
        assert_eq!(health.tick(5_000 * MS), None, "told once");
        assert_eq!(health.hello(9_000 * MS, hello()), None);
        let back = health.hello(9_200 * MS, hello()).unwrap();
        assert_eq!((back.to, back.reason), (Standing::Up, Reason::HelloBack));
    }

    #[test]
    fn a_silent_sensor_of_which_no_hellos_are_expected_any_more_is_up() {
        let mut health = watched();
        health.tick(10_000 * MS);
        let back = health.expect(None, 11_000 * MS).unwrap();
        assert_eq!((back.from, back.to), (Standing::Down, Standing::Up));
        assert_eq!(health.expect(None, 12_000 * MS), None);
        assert_eq!(health.tick(99_000 * MS), None);
    }

    #[test]
    fn hellos_now_and_then_do_not_bring_a_sensor_back() {
        let mut health = watched();
        health.tick(10_000 * MS);
        for i in 0..20 {
            assert_eq!(health.hello((11_000 + i * 700) * MS, hello()), None);
            health.tick((11_000 + i * 700 + 650) * MS);
            assert_eq!(health.standing(), Standing::Down);
        }
    }

    #[test]
    fn a_sensor_that_never_spoke_gets_the_time_to() {
        let mut health = watched();
        assert_eq!(health.tick(600 * MS), None);
        assert_eq!(health.tick(601 * MS).unwrap().to, Standing::Down);
        assert_eq!(Health::new(None, 0).tick(u64::MAX), None, "no hellos are expected");
    }

    #[test]
    fn a_promise_is_believed_within_bounds() {
        let mut health = watched();
        health.hello(0, Hello { interval: u64::MAX, ..hello() });
        assert_eq!(health.tick(30_000 * MS), None);
        assert!(health.tick(30_001 * MS).is_some());
        let mut health = watched();
        health.hello(0, Hello { interval: 0, ..hello() });
        assert_eq!(health.tick(60 * MS), None);
        assert!(health.tick(61 * MS).is_some());
    }

    #[test]
    fn the_operator_comes_first_and_the_link_second() {
        let mut health = watched();
        assert_eq!(health.command(Manual::Drain).unwrap().to, Standing::Draining);
        assert_eq!(health.link(false).unwrap().reason, Reason::LinkDown);
        assert_eq!(health.standing(), Standing::Down);
        assert_eq!(health.command(Manual::Up).unwrap().to, Standing::Up);
        assert_eq!(health.tick(10_000 * MS), None);
        assert_eq!(health.command(Manual::Automatic).unwrap().to, Standing::Down);
        assert_eq!(health.link(true), None, "still silent");
        health.hello(10_000 * MS, hello());
        assert_eq!(health.hello(10_100 * MS, hello()).unwrap().to, Standing::Up);
        assert_eq!(health.command(Manual::Down).unwrap().to, Standing::Down);
        assert_eq!(health.hello(10_200 * MS, hello()), None);
    }

    #[test]
    fn losses_are_differences_and_a_restart_counts_from_zero() {
        let mut health = watched();
        let counts = |received, dropped| Hello { received, dropped, ..hello() };
        health.hello(1, counts(1_000, 10));
        health.hello(2, counts(1_500, 11));
        assert_eq!(health.loss(), SensorLoss { received: 500, dropped: 1 });
        health.hello(3, counts(40, 2));
        assert_eq!(health.loss(), SensorLoss { received: 40, dropped: 2 });
        assert_eq!((health.hellos(), health.last_hello()), (3, Some(counts(40, 2))));
    }

    proptest! {
        /// Whatever comes in whatever order of times: transitions follow from each other, and
        /// a sensor is never up after a silence that is too long.
        #[test]
        fn transitions_follow_from_each_other(
            steps in prop::collection::vec((0_u8..8, 0_u64..1_000), 0..100),
        ) {
            let mut health = watched();
            let (mut standing, mut now) = (Standing::Up, 0);
            for (step, at) in steps {
                now = if step == 7 { at * MS } else { now + at * MS };
                let transition = match step {
                    0 | 1 => health.hello(now, hello()),
                    2 => health.link(at % 2 == 0),
                    3 => health.command(Manual::Automatic),
                    4 => health.command([Manual::Up, Manual::Down, Manual::Drain][at as usize % 3]),
                    _ => health.tick(now),
                };
                if let Some(transition) = transition {
                    prop_assert_eq!(transition.from, standing);
                    prop_assert_ne!(transition.from, transition.to);
                    standing = transition.to;
                }
                prop_assert_eq!(standing, health.standing());
                health.tick(now).inspect(|transition| standing = transition.to);
                let silent = now.saturating_sub(health.heard_at()) > 600 * MS;
                if silent && health.manual() == Manual::Automatic {
                    prop_assert_eq!(standing, Standing::Down);
                }
            }
        }
    }
}
