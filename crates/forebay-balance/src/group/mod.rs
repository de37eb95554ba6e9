//! A group of sensors that share traffic: everything but the packets.
//!
//! [`Group`] is used by the thread that balances. It is called every few milliseconds
//! ([`Group::tick`]), and receives hellos and link changes of the sensors; its decisions
//! are in the shared table when the call returns. The forwarding threads use the
//! [`Worker`](crate::moves::Worker)s returned by [`Group::new`].
//!
//! A sensor is identified by its index, which also selects its output. A sensor keeps its
//! index as long as it is configured; the index is reused only when no bucket, key or
//! record is left of it.

mod aftermath;
mod balancing;
mod event;
mod manager;
mod sensors;

pub use event::Event;
pub use manager::{Group, GroupSettings};
pub use sensors::{SensorSettings, SensorStatus};

use std::sync::atomic::{Ordering, fence};

use crate::assign::{AssignmentError, BUCKETS, MAX_SENSORS, Sensor};
use crate::balancer::targets::Standing;
use crate::health::{Hello, Manual};
use crate::moves::{Displaced, ForwardingTable, SensorDeath};
use crate::table::NO_SENSOR;
use aftermath::Count;
use sensors::Member;

impl<P: ForwardingTable> Group<P> {
    /// Does the work due at the time `now` of the monotonic clock, in nanoseconds, and
    /// returns the events since the last call. To be called every few hundredths of the
    /// idle timeout, and more often than the tolerance of late hellos.
    pub fn tick(&mut self, now: u64) -> Vec<Event> {
        self.now = self.now.max(now);
        for sensor in 0..self.members.len() {
            if let Some(transition) = self.members[sensor].health.tick(self.now) {
                self.events.push(Event::Standing { sensor: sensor as u16, transition });
            }
            self.follow_health(sensor);
        }
        let progress = self.mover.tick(self.now);
        self.events
            .extend(progress.cancelled.into_iter().map(|bucket| Event::Cancelled { bucket }));
        if self.now - self.rotated_at >= self.settings.idle_timeout / 2 {
            self.rotated_at = self.now;
            self.aftermath.rotate(self.mover.forwarding());
        }
        while let Some(count) = self.aftermath.end(self.mover.forwarding(), self.now) {
            self.tell_broken(count);
        }
        let interval = self.settings.interval.max(1);
        if self.balanced_at.is_none_or(|at| self.now - at >= interval) {
            self.balance();
        }
        self.note_drained();
        std::mem::take(&mut self.events)
    }

    /// Handles a hello of a sensor.
    pub fn hello(&mut self, sensor: u16, now: u64, hello: Hello) {
        self.hear(sensor, |member| member.health.hello(now, hello));
    }

    /// Handles a link change of a sensor.
    pub fn link(&mut self, sensor: u16, is_up: bool) {
        self.hear(sensor, |member| member.health.link(is_up));
    }

    /// Applies an operator's command for a sensor.
    pub fn command(&mut self, sensor: u16, manual: Manual) {
        self.hear(sensor, |member| member.health.command(manual));
    }

    fn hear(
        &mut self,
        sensor: u16,
        hear: impl FnOnce(&mut Member) -> Option<crate::health::Transition>,
    ) {
        let Some(member) = self.members.get_mut(usize::from(sensor)) else { return };
        if !member.is_configured {
            return;
        }
        if let Some(transition) = hear(member) {
            self.events.push(Event::Standing { sensor, transition });
        }
        self.follow_health(usize::from(sensor));
    }

    /// Changes the settings, except those of records.
    pub fn configure(&mut self, settings: GroupSettings) {
        let (idle_timeout, records) = (self.settings.idle_timeout, self.settings.records);
        self.settings = GroupSettings { idle_timeout, records, ..settings };
        self.balancer.configure(settings.balance);
        self.mover.set_most(settings.moves);
    }

    /// Replaces the set of sensors, matched by identifier, and returns the index of each. A
    /// sensor that is no longer listed is dead from now on; a new one ramps up.
    ///
    /// # Errors
    /// [`AssignmentError`]; nothing has changed then.
    pub fn set_sensors(&mut self, sensors: &[SensorSettings]) -> Result<Vec<u16>, AssignmentError> {
        let gone = |member: &Member| !sensors.iter().any(|sensor| sensor.id == member.settings.id);
        let leaving: Vec<usize> =
            (0..self.members.len()).filter(|&i| gone(&self.members[i])).collect();
        let places = self.admit(sensors)?;
        // New sensors first, so that they can take over from removed ones.
        for &place in &places {
            self.members[usize::from(place)].is_known = true;
            self.follow_health(usize::from(place));
        }
        for sensor in leaving {
            let member = &mut self.members[sensor];
            if member.is_configured && gone(member) {
                member.is_configured = false;
                self.follow_health(sensor);
            }
        }
        Ok(places)
    }

    /// Reserves an index for each of `sensors` that is new, and leaves it without load
    /// until [`Group::set_sensors`], however long that takes: until then senders can be
    /// told of the new indices.
    ///
    /// # Errors
    /// As [`Group::can_take`]; nothing has changed then.
    pub fn admit(&mut self, sensors: &[SensorSettings]) -> Result<Vec<u16>, AssignmentError> {
        self.can_take(sensors)?;
        Ok(sensors.iter().map(|sensor| self.place(sensor)).collect())
    }

    /// Checks that these can be the sensors.
    ///
    /// # Errors
    /// [`AssignmentError`]
    pub fn can_take(&self, sensors: &[SensorSettings]) -> Result<(), AssignmentError> {
        let ids: Vec<Sensor> = sensors.iter().map(SensorSettings::share).collect();
        crate::assign::check(&ids)?;
        let known = |id| self.members.iter().any(|m| m.is_configured && m.settings.id == id);
        let new = sensors.iter().filter(|sensor| !known(sensor.id)).count();
        let vacant = (0..self.members.len()).filter(|&i| self.is_vacant(i)).count();
        let indices = self.members.len() + new.saturating_sub(vacant);
        if indices > MAX_SENSORS { Err(AssignmentError::TooMany(indices)) } else { Ok(()) }
    }

    fn is_vacant(&self, sensor: usize) -> bool {
        let member = &self.members[sensor];
        // An index that no sender was told of has no state.
        !member.is_configured && (!member.is_known || self.mover.is_buried(sensor as u16))
    }

    /// The index for a sensor with this configuration.
    fn place(&mut self, sensor: &SensorSettings) -> u16 {
        let known = self
            .members
            .iter()
            .position(|member| member.is_configured && member.settings.id == sensor.id);
        if let Some(i) = known {
            if let Some(transition) = self.members[i].configure(sensor, self.now) {
                self.events.push(Event::Standing { sensor: i as u16, transition });
            }
            return i as u16;
        }
        let fresh =
            Member { standing: Standing::Down, is_known: false, ..Member::new(sensor, self.now) };
        match (0..self.members.len()).find(|&i| self.is_vacant(i)) {
            Some(i) => {
                self.members[i] = fresh;
                i as u16
            }
            None => {
                self.members.push(fresh);
                self.displaced.push(Displaced::default());
                self.members.len() as u16 - 1
            }
        }
    }

    /// Updates the table to a sensor's health.
    fn follow_health(&mut self, sensor: usize) {
        let member = &self.members[sensor];
        let takes_part = member.is_configured && member.is_known;
        let wanted = if takes_part { member.health.standing() } else { Standing::Down };
        if wanted == member.standing {
            return;
        }
        match (member.standing, wanted) {
            (_, Standing::Down) => self.evict_sensor(sensor),
            (Standing::Down, _) if !self.mover.revive(sensor as u16) => return,
            _ => {}
        }
        self.members[sensor].standing = wanted;
        self.members[sensor].is_drained = false;
        if wanted == Standing::Up {
            self.adopt();
        }
    }

    /// Reassigns all buckets and keys of a dead sensor.
    fn evict_sensor(&mut self, sensor: usize) {
        self.members[sensor].standing = Standing::Down;
        self.tell_if_none_is_left();
        let entries = self.entries();
        let its: Vec<u16> = (0..=u16::MAX)
            .filter(|&bucket| usize::from(entries[usize::from(bucket)].default_sensor()) == sensor)
            .collect();
        let places = self.balancer.spread(&self.shares(), &entries, &its);
        let mut instead = vec![NO_SENSOR; BUCKETS];
        for (&bucket, place) in its.iter().zip(places) {
            instead[usize::from(bucket)] = place;
        }
        // A move may have been cancelled since the entries were read.
        let any = self.members.iter().position(|member| member.standing == Standing::Up);
        let any = any.map_or(NO_SENSOR, |place| place as u16);
        let death = self.mover.kill(sensor as u16, &mut |bucket| {
            let place = instead[usize::from(bucket)];
            if place == NO_SENSOR { any } else { place }
        });
        let buckets = death.moved.len();
        let (live, or_more, its) = self.live_at(&death);
        self.events.push(Event::Died { sensor: sensor as u16, buckets, live, or_more });
        let until = self.now.saturating_add(self.settings.idle_timeout);
        let early = self.aftermath.begin(self.mover.forwarding(), sensor as u16, until, &its);
        if let Some(count) = early {
            self.tell_broken(count);
        }
    }

    /// Sets the flag if no sensor gets packets any more. Workers see it before a bucket loses its
    /// sensor.
    fn tell_if_none_is_left(&self) {
        let is_gone = |member: &Member| member.standing == Standing::Down || member.is_drained;
        if self.members.iter().all(is_gone) {
            self.is_without_sensor.store(true, Ordering::Release);
            fence(Ordering::SeqCst);
        }
    }

    fn tell_broken(&mut self, count: Count) {
        let Count { sensor, flows, or_more } = count;
        self.events.push(Event::Broken { sensor, flows, or_more });
    }

    /// Estimated flows of a dead sensor with a packet within the idle timeout, whether
    /// there may be many more, and their fraction of each bucket's flows.
    fn live_at(&self, death: &SensorDeath) -> (u64, bool, Vec<(u16, f32)>) {
        let mut keys = death.keys.clone();
        let (mut live, mut or_more) = (0.0, false);
        let mut its = Vec::with_capacity(death.moved.len() + keys.len());
        for (bucket, _) in &death.moved {
            let flows = self.aftermath.flows_here(self.mover.forwarding(), *bucket);
            let elsewhere = self.mover.pinned_keys(*bucket) as f32;
            let recorded = keys.remove(bucket).unwrap_or(0) as f32;
            let here = (flows.about - elsewhere).max(recorded);
            live += f64::from(here);
            or_more |= flows.or_more;
            its.push((*bucket, part(here, flows.about)));
        }
        for (bucket, recorded) in keys {
            let flows = self.aftermath.flows_here(self.mover.forwarding(), bucket);
            live += f64::from(recorded);
            its.push((bucket, part(recorded as f32, flows.about)));
        }
        (live.round() as u64, or_more, its)
    }

    /// Reports sensors that have drained.
    fn note_drained(&mut self) {
        let is_waiting =
            |member: &Member| member.standing == Standing::Draining && !member.is_drained;
        if !self.members.iter().any(is_waiting) {
            return;
        }
        let held = self.mover.held(self.members.len());
        for (sensor, (member, held)) in self.members.iter_mut().zip(held).enumerate() {
            if is_waiting(member) && held == crate::moves::Held::default() {
                member.is_drained = true;
                self.events.push(Event::Drained { sensor: sensor as u16 });
            }
        }
        self.tell_if_none_is_left();
    }
}

/// The fraction of `whole` in `part`, at most 1.
fn part(part: f32, whole: f32) -> f32 {
    if part < whole { part / whole } else { 1.0 }
}

#[cfg(test)]
mod tests;
