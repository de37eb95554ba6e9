//! Comparisons of fields with values, sets of them and verdict maps.

use super::fields::{Field, field, flags, message_code, message_type, protocol_number, scalar};
use super::table::{Matched, Table};
use crate::language::catalogue::Direction;
use crate::language::conjunction::FlagSet;
use crate::language::error::ParseError;
use crate::language::making::MAX_RANGES;
use crate::language::masks::matching;
use crate::language::names;
use crate::language::words::{address, address_text};
use crate::rule::{Action, Family, IcmpTest, PortTest, ProtocolTest, Rule, TCP, TransportTest};
use crate::sets::{Number, ProtocolSet, RangeSet};
use forebay_packet::cancel;
use serde_json::{Value, json};
use std::rc::Rc;

/// A comparison with the values on its right.
struct Comparison<'t, 'r, 'a> {
    table: &'t Table<'r, 'a>,
    family: Family,
    line: usize,
}

impl Table<'_, '_> {
    /// What a condition matches of packets of `family`.
    pub(super) fn matched(
        &self,
        family: Family,
        condition: &Value,
        line: usize,
    ) -> Result<Rc<Matched>, ParseError> {
        let names_set = condition["right"].as_str().is_some_and(|text| text.starts_with('@'));
        let text = if names_set { condition.to_string() } else { String::new() };
        if let Some(known) = self.known.borrow().matched.get(&text) {
            return Ok(known.clone());
        }
        let matched = Rc::new(condition_of(self, family, condition, line)?);
        if names_set {
            let mut known = self.known.borrow_mut();
            let kept = known.kept + matched.size();
            // Beyond the limit a condition is read again each time.
            if kept <= MAX_RANGES {
                known.kept = kept;
                known.matched.insert(text, matched.clone());
            }
        }
        Ok(matched)
    }
}

/// Reads a condition for packets of `family`.
fn condition_of(
    table: &Table,
    family: Family,
    condition: &Value,
    line: usize,
) -> Result<Matched, ParseError> {
    let comparison = Comparison { table, family, line };
    let (left, right) = (&condition["left"], &condition["right"]);
    let operator = condition["op"].as_str().unwrap_or("==");
    if let Some(parts) = left["concat"].as_array() {
        let fields: Option<Vec<Field>> = parts.iter().map(field).collect();
        let (Some(fields), "==" | "in") = (fields, operator) else { return Ok(Matched::Unknown) };
        let Some(values) = comparison.values(right)? else { return Ok(Matched::Unknown) };
        let mut rules = Vec::new();
        for value in values.iter() {
            match comparison.tuple(&fields, value)? {
                Matched::Rules(found) => rules.extend(found),
                Matched::Unknown => return Ok(Matched::Unknown),
            }
        }
        return Ok(Matched::Rules(rules));
    }
    let (of, mask) = match left["&"].as_array().map(Vec::as_slice) {
        Some([of, mask]) => (of, Some(mask)),
        _ => (left, None),
    };
    let Some(field) = field(of) else { return Ok(Matched::Unknown) };
    comparison.one(field, mask, operator, right)
}

/// The verdicts of a verdict map.
pub(super) enum Verdicts {
    /// What each entry matches, and its verdict.
    Known(Vec<(Vec<Rule>, Value)>),
    /// Packets alone do not answer which entry it is. None if not even the verdicts are
    /// known.
    Unknown(Option<Vec<Value>>),
}

/// Reads the entries of a verdict map for packets of `family`; `is_certain` if no other
/// condition of its rule is of unknown outcome.
pub(super) fn verdict_map(
    table: &Table,
    family: Family,
    statement: &Value,
    line: usize,
    is_certain: bool,
) -> Result<Verdicts, ParseError> {
    let comparison = Comparison { table, family, line };
    let key = &statement["key"];
    let fields: Option<Vec<Field>> = match key["concat"].as_array() {
        Some(parts) => parts.iter().map(field).collect(),
        None => field(key).map(|field| vec![field]),
    };
    let Some(values) = comparison.values(&statement["data"])? else {
        return Ok(Verdicts::Unknown(None));
    };
    let mut pairs = Vec::new();
    for value in values.iter() {
        match value.as_array().map(Vec::as_slice) {
            Some([key, verdict]) => pairs.push((key, verdict)),
            _ => return Err(comparison.error(value, "a map's entry: a key and a verdict")),
        }
    }
    // What matches all other keys is tried behind them.
    let is_rest = |key: &Value| *element(key) == "*";
    pairs.sort_by_key(|(key, _)| is_rest(key));
    // A map has each key once.
    let named = pairs.partition_point(|(key, _)| !is_rest(key));
    pairs.truncate(named + 1);
    let unknown = || {
        let verdicts = pairs.iter().map(|(_, verdict)| (*verdict).clone()).collect();
        Ok(Verdicts::Unknown(Some(verdicts)))
    };
    let Some(fields) = fields else { return unknown() };
    let keys: Vec<&Value> = pairs[..named].iter().map(|pair| pair.0).collect();
    // Whether a packet with the key of an entry may reach the entries behind it.
    let goes_on = |(_, verdict): &(&Value, &Value)| {
        !is_certain || verdict.get("continue").is_some() || verdict.get("jump").is_some()
    };
    let mut entries = Vec::new();
    for &(key, verdict) in &pairs {
        let matched = match &fields[..] {
            [_, _, ..] if is_rest(key) && pairs[..keys.len()].iter().any(goes_on) => {
                let expected = "no `*` in a map of several fields whose other entries do not \
                                all decide";
                return Err(comparison.error(statement, expected));
            }
            _ if is_rest(key) => comparison.others(&fields, &keys)?,
            [field] => comparison.one(*field, None, "==", key)?,
            fields => comparison.tuple(fields, key)?,
        };
        match matched {
            Matched::Rules(rules) => entries.push((rules, verdict.clone())),
            Matched::Unknown => return unknown(),
        }
    }
    Ok(Verdicts::Known(entries))
}

impl Comparison<'_, '_, '_> {
    fn error(&self, found: &Value, expected: &str) -> ParseError {
        ParseError::at(self.line, &found.to_string(), expected)
    }

    fn any(&self) -> Rule {
        Rule::any(0, self.family, Action::Reject)
    }

    /// The values of a set, by name or in place; one value alone. None for sets that
    /// packets or time change.
    fn values(&self, right: &Value) -> Result<Option<Rc<[Value]>>, ParseError> {
        if let Some(values) = right["set"].as_array() {
            return Ok(Some(values.as_slice().into()));
        }
        match right.as_str().and_then(|text| text.strip_prefix('@')) {
            Some(name) => self.table.set(name, self.line),
            None => Ok(Some([right.clone()].into())),
        }
    }

    /// Values in several fields at once.
    fn tuple(&self, fields: &[Field], value: &Value) -> Result<Matched, ParseError> {
        let value = element(value);
        let parts = value["concat"].as_array().map_or(&[][..], Vec::as_slice);
        if parts.len() != fields.len() {
            return Err(self.error(value, "as many values as fields"));
        }
        let mut rules = vec![self.any()];
        for (&field, part) in fields.iter().zip(parts) {
            match self.one(field, None, "==", part)? {
                Matched::Unknown => return Ok(Matched::Unknown),
                Matched::Rules(found) => {
                    let both = |rule: &Rule| -> Vec<Rule> {
                        found.iter().filter_map(|other| rule.and(other)).collect()
                    };
                    rules = rules.iter().flat_map(both).collect();
                }
            }
        }
        Ok(Matched::Rules(rules))
    }

    /// What `*` matches in a map that has `keys` too: packets that have all fields, with
    /// values that are none of the keys.
    fn others(&self, fields: &[Field], keys: &[&Value]) -> Result<Matched, ParseError> {
        let mut values = Vec::new();
        for key in keys {
            match self.values(key)? {
                Some(found) => values.extend_from_slice(&found),
                None => return Ok(Matched::Unknown),
            }
        }
        let mut rules = vec![self.any()];
        for &field in fields {
            // The keys of several fields are distinguished by their order.
            let values = if fields.len() == 1 { &values[..] } else { &[] };
            match self.one(field, None, "!=", &json!({ "set": values }))? {
                Matched::Unknown => return Ok(Matched::Unknown),
                Matched::Rules(all) => {
                    let both = |rule: &Rule| -> Vec<Rule> {
                        all.iter().filter_map(|other| rule.and(other)).collect()
                    };
                    rules = rules.iter().flat_map(both).collect();
                }
            }
        }
        Ok(Matched::Rules(rules))
    }

    fn protocol(&self, test: TransportTest) -> Rule {
        Rule { protocol: ProtocolTest::Only(test), ..self.any() }
    }

    fn port(&self, protocol: Option<u8>, source: bool, set: RangeSet<u16>) -> Rule {
        let mut rule = match protocol {
            Some(protocol) => self.protocol(TransportTest::of(ProtocolSet::one(protocol))),
            None => self.any(),
        };
        *(if source { &mut rule.source_ports } else { &mut rule.destination_ports }) =
            PortTest::In(set);
        rule
    }

    fn icmp(&self, family: Family, types: RangeSet<u8>, codes: RangeSet<u8>) -> Vec<Rule> {
        if family != self.family {
            return Vec::new();
        }
        let icmp = Some(IcmpTest { types, codes });
        let test = TransportTest::of(ProtocolSet::one(family.icmp()));
        vec![self.protocol(TransportTest { icmp, ..test })]
    }

    /// A comparison of one field.
    fn one(
        &self,
        field: Field,
        mask: Option<&Value>,
        operator: &str,
        right: &Value,
    ) -> Result<Matched, ParseError> {
        if mask.is_some() && !matches!(field, Field::Address { .. } | Field::TcpFlags) {
            return Ok(Matched::Unknown);
        }
        let Some(values) = self.values(right)? else { return Ok(Matched::Unknown) };
        let values: Vec<&Value> = values.iter().map(element).collect();
        let rules = match field {
            Field::Address { family, .. } if family != self.family => Vec::new(),
            Field::Address { source, .. } => {
                let set = match mask {
                    Some(mask) => self.masked(mask, &values)?,
                    None => self.ranges(&values, |value| self.address(value))?,
                };
                let greatest = self.family.greatest();
                let Some(set) = compared(set, operator, greatest) else { return Ok(NEVER) };
                let (set, any) = (set, self.any());
                vec![match source {
                    true => Rule { source: set, ..any },
                    false => Rule { destination: set, ..any },
                }]
            }
            Field::Port { protocol, source } => {
                let read = |value: &Value| scalar(value, names::service);
                let set = self.ranges(&values, read)?;
                let Some(set) = compared(set, operator, u16::MAX) else { return Ok(NEVER) };
                vec![self.port(protocol, source, set)]
            }
            Field::Protocol { family: Some(family) } if family != self.family => Vec::new(),
            Field::Protocol { .. } => {
                let set = self.ranges(&values, |value| scalar(value, protocol_number))?;
                let Some(set) = compared(set, operator, u8::MAX) else { return Ok(NEVER) };
                let numbers = set.ranges().iter().flat_map(|&(first, last)| first..=last);
                vec![self.protocol(TransportTest::of(numbers.collect()))]
            }
            Field::IcmpType(family) => {
                let read = |value: &Value| scalar(value, |name| message_type(family, name));
                let set = compared(self.ranges(&values, read)?, operator, u8::MAX);
                set.map_or_else(Vec::new, |types| self.icmp(family, types, RangeSet::full()))
            }
            Field::IcmpCode(family) => {
                let read = |value: &Value| scalar(value, |name| message_code(family, name));
                let set = compared(self.ranges(&values, read)?, operator, u8::MAX);
                set.map_or_else(Vec::new, |codes| self.icmp(family, RangeSet::full(), codes))
            }
            Field::TcpFlags => self.tcp_flags(mask, operator, right)?,
            Field::Family => self.of_family(operator, &values)?,
            Field::Interface(direction) => return self.interface(direction, operator, &values),
        };
        Ok(Matched::Rules(rules))
    }

    /// The union of values, each one, a prefix or a range; none if that is empty.
    fn ranges<T: Number>(
        &self,
        values: &[&Value],
        read: impl Fn(&Value) -> Option<(T, T)>,
    ) -> Result<Option<RangeSet<T>>, ParseError> {
        let mut all = Vec::new();
        for value in values {
            cancel::check();
            if *value == "*" {
                all.push((T::LEAST, T::GREATEST));
                continue;
            }
            let range = match value["range"].as_array().map(Vec::as_slice) {
                Some([first, last]) => {
                    read(first).zip(read(last)).map(|(first, last)| (first.0, last.1))
                }
                _ => read(value),
            };
            all.push(range.ok_or_else(|| self.error(value, "a value of the field"))?);
            if all.len() > MAX_RANGES {
                return Err(self.error(value, &format!("a set of at most {MAX_RANGES} values")));
            }
        }
        Ok(RangeSet::from_ranges(all))
    }

    fn address(&self, value: &Value) -> Option<(u128, u128)> {
        let prefix = &value["prefix"];
        if let Some(text) = prefix["addr"].as_str() {
            let length = prefix["len"].as_u64().filter(|&n| n <= self.family.bits().into())?;
            return Some(self.family.prefix(address(self.family, text)?, length as u8));
        }
        let found = address(self.family, value.as_str()?)?;
        Some((found, found))
    }

    /// The addresses that under `mask` are one of `values`.
    fn masked(
        &self,
        mask: &Value,
        values: &[&Value],
    ) -> Result<Option<RangeSet<u128>>, ParseError> {
        const EXPECTED: &str = "an address";
        let of = |value: &Value| {
            let read = value.as_str().and_then(|text| address(self.family, text));
            read.or_else(|| value.as_u64().map(u128::from))
                .ok_or_else(|| self.error(value, EXPECTED))
        };
        let mask = of(mask)?;
        let mut all = Vec::new();
        for value in values {
            cancel::check();
            let value = of(value)?;
            if value & !mask & self.family.greatest() == 0 {
                let shown = || Value::from(address_text(self.family, mask));
                let set = matching(self.family, value, !mask);
                let expected = "a mask that admits at most 4096 ranges";
                let set = set.ok_or_else(|| self.error(&shown(), expected))?;
                all.extend_from_slice(set.ranges());
            }
            if all.len() > MAX_RANGES {
                return Err(self.error(values[0], &format!("at most {MAX_RANGES} ranges")));
            }
        }
        Ok(RangeSet::from_ranges(all))
    }

    fn tcp_flags(
        &self,
        mask: Option<&Value>,
        operator: &str,
        right: &Value,
    ) -> Result<Vec<Rule>, ParseError> {
        let expected = "TCP flags";
        let read = |value: &Value| flags(value).ok_or_else(|| self.error(value, expected));
        let mask = mask.map_or(Ok(u8::MAX), read)?;
        let values: Vec<u8> = match right["set"].as_array() {
            Some(values) => {
                values.iter().map(|value| read(element(value))).collect::<Result<_, _>>()?
            }
            None if right.is_string() && right.as_str().is_some_and(|s| s.starts_with('@')) => {
                return Err(self.error(right, expected));
            }
            None => vec![read(right)?],
        };
        let bits = values.iter().fold(0, |all, value| all | value);
        let set = FlagSet::from_fn(|flags| match operator {
            "==" => values.contains(&(flags & mask)),
            "!=" => !values.contains(&(flags & mask)),
            "in" => flags & mask & bits != 0,
            "!" => flags & mask & bits == 0,
            "<" => flags & mask < bits,
            ">" => flags & mask > bits,
            "<=" => flags & mask <= bits,
            _ => flags & mask >= bits,
        });
        let test = |tcp_flags| {
            let tcp = TransportTest::of(ProtocolSet::one(TCP));
            self.protocol(TransportTest { tcp_flags, ..tcp })
        };
        // A packet without flags is asked for them even where any will do.
        let any = vec![crate::rule::FlagTest::Equal { mask: 0, value: 0 }];
        let tests = set.tests().map(|tests| if tests.is_empty() { any } else { tests });
        Ok(tests.map(test).into_iter().collect())
    }

    fn of_family(&self, operator: &str, values: &[&Value]) -> Result<Vec<Rule>, ParseError> {
        let mut is_it = false;
        for value in values {
            let family = match (value.as_str(), value.as_u64()) {
                (Some("ipv4" | "ip"), _) | (_, Some(2 | 4 | 0x0800)) => Some(Family::Ipv4),
                (Some("ipv6" | "ip6"), _) | (_, Some(10 | 6 | 0x86dd)) => Some(Family::Ipv6),
                (Some(_), _) | (_, Some(_)) => None,
                _ => return Err(self.error(value, "a family")),
            };
            is_it |= family == Some(self.family);
        }
        let holds = if operator == "!=" { !is_it } else { is_it };
        Ok(if holds { vec![self.any()] } else { Vec::new() })
    }

    fn interface(
        &self,
        direction: Direction,
        operator: &str,
        values: &[&Value],
    ) -> Result<Matched, ParseError> {
        let Some((known, way)) = &self.table.ruleset.interface else {
            return Ok(Matched::Unknown);
        };
        if *way != direction || !matches!(operator, "==" | "!=" | "in") {
            return Ok(Matched::Unknown);
        }
        let is = |value: &&Value| {
            value.as_str().is_some_and(|name| match name.strip_suffix('*') {
                Some(start) => known.starts_with(start),
                None => known == name,
            })
        };
        let holds = values.iter().any(is) != (operator == "!=");
        Ok(Matched::Rules(if holds { vec![self.any()] } else { Vec::new() }))
    }
}

const NEVER: Matched = Matched::Rules(Vec::new());

/// A value without the further properties that a set gives it.
fn element(value: &Value) -> &Value {
    value["elem"].get("val").unwrap_or(value)
}

/// The values of a field, from 0 to `greatest`, that compare so with those of `set`.
fn compared<T: Number>(
    set: Option<RangeSet<T>>,
    operator: &str,
    greatest: T,
) -> Option<RangeSet<T>> {
    let domain = T::LEAST..=greatest;
    let Some(set) = set else {
        return if operator == "!=" { RangeSet::range(domain) } else { None };
    };
    let set = set.intersection(&RangeSet::range(domain.clone())?)?;
    let (first, last) = (set.ranges()[0].0, set.ranges()[set.ranges().len() - 1].1);
    match operator {
        "!=" => set.complement(domain),
        "<" => RangeSet::range(T::LEAST..=first.predecessor()?),
        "<=" => RangeSet::range(T::LEAST..=last),
        ">" => RangeSet::range(last.successor()?..=greatest),
        ">=" => RangeSet::range(first..=greatest),
        _ => Some(set),
    }
}
