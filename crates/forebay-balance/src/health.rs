//! Whether a sensor is up.
//!
//! Three things speak for or against it. An operator's word ([`Manual`]) comes first.
//! Then the link, where a sensor has one of its own: through a switch the broker's link
//! says nothing about the sensor's. Last the hello frames that a sensor sends of itself:
//! when [`HelloRule::misses`] intervals have passed without one, it is down; it comes back
//! with [`HelloRule::returns`] of them, none too late, so that one which sends a frame now
//! and then does not come and go. A sensor that has not sent any yet gets the time that it
//! would take to be declared down.
//!
//! A hello says at what interval the next will come. The rule's bounds keep a sensor from
//! promising so rarely that its death would not be seen in time.

use crate::balancer::targets::Standing;

/// What an operator says of a sensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Manual {
    /// Nothing: link and hello frames decide.
    #[default]
    Automatic,
    /// It is up, whatever they say.
    Up,
    /// It is down.
    Down,
    /// It takes no new flows, as long as it is up.
    Drain,
}

/// What hello frames are expected. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloRule {
    /// The interval of a sensor that has not said it yet.
    pub interval: u64,
    /// The shortest interval that is believed.
    pub shortest: u64,
    /// The longest interval that is believed.
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

/// What a hello frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Hello {
    /// Nanoseconds until the next.
    pub interval: u64,
    /// Packets that the sensor received, since it started.
    pub received: u64,
    /// Packets that it received and lost, since it started.
    pub dropped: u64,
}

/// Why a sensor's standing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// An operator said so, or takes it back.
    Manual,
    /// Its link is gone.
    LinkDown,
    /// Its link is there again.
    LinkUp,
    /// No hello came for that many nanoseconds.
    HelloMissed {
        /// Nanoseconds without one.
        silent_for: u64,
    },
    /// Its hellos come again.
    HelloBack,
    /// Hellos are expected otherwise than before, or none are.
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
    /// What it was.
    pub from: Standing,
    /// What it is.
    pub to: Standing,
    /// Why.
    pub reason: Reason,
}

/// How much a sensor loses of what it receives, from its last two hellos.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SensorLoss {
    /// Packets received between them.
    pub received: u64,
    /// Packets lost between them.
    pub dropped: u64,
}

/// What is known of one sensor's health. Times are of the monotonic clock, in
/// nanoseconds.
#[derive(Clone, Debug)]
pub struct Health {
    rule: Option<HelloRule>,
    manual: Manual,
    link: Option<bool>,
    last: Option<Hello>,
    loss: SensorLoss,
    hellos: u64,
    /// When it was heard last, or began to be listened for.
    heard_at: u64,
    /// The interval that it promised, within the rule's bounds.
    interval: u64,
    /// Hellos in a row since it fell silent; nothing while it is not silent.
    returning: Option<u32>,
    standing: Standing,
}

impl Health {
    /// A sensor that is up at the time `now`, and is to send hellos if there is a rule.
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

    /// What an operator said last.
    #[must_use]
    pub fn manual(&self) -> Manual {
        self.manual
    }

    /// How many hellos came.
    #[must_use]
    pub fn hellos(&self) -> u64 {
        self.hellos
    }

    /// What its last hello said.
    #[must_use]
    pub fn last_hello(&self) -> Option<Hello> {
        self.last
    }

    /// How much it lost between its last two hellos.
    #[must_use]
    pub fn loss(&self) -> SensorLoss {
        self.loss
    }

    /// When it was heard last, or began to be listened for.
    #[must_use]
    pub fn heard_at(&self) -> u64 {
        self.heard_at
    }

    /// Expects hellos by another rule, or none; its silence so far is forgotten.
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

    /// An operator speaks.
    pub fn command(&mut self, manual: Manual) -> Option<Transition> {
        self.manual = manual;
        self.settle(Reason::Manual)
    }

    /// The link comes or goes.
    pub fn link(&mut self, is_up: bool) -> Option<Transition> {
        self.link = Some(is_up);
        self.settle(if is_up { Reason::LinkUp } else { Reason::LinkDown })
    }

    /// A hello came.
    pub fn hello(&mut self, now: u64, hello: Hello) -> Option<Transition> {
        let rule = self.rule?;
        let is_late = now.saturating_sub(self.heard_at) > self.patience(rule);
        let earlier = self.last.replace(hello).unwrap_or_default();
        // A sensor that was started again counts from zero.
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

    /// Time has passed.
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
