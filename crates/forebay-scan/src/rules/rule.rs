//! One rule: header, contents, conditions, and what its other options mean for filtering.

use super::addresses::Variables;
use super::buffers::{self, Buffer, Selection, Side};
use super::condition::{self, Condition};
use super::datagram::Place;
use super::extract::{self, Class, Other};
use super::header::{self, Endpoint, Header};
use super::keywords;
use super::options::{self, RuleOption};
use super::pieces::Hazards;
use super::source::{Fault, MAX_RULE_LEN};

/// The protocol number of TCP.
const TCP: u8 = 6;

/// The most contents of a rule.
pub const MAX_CONTENTS: usize = 256;

/// A `content` with its modifiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether ASCII letters match in both cases.
    pub nocase: bool,
    /// Whether it must not occur.
    pub negated: bool,
    /// Where it must occur.
    pub buffer: Buffer,
    /// Whether the buffer is transformed, or may be absent, so that the content need not occur.
    pub derived: bool,
    /// Whether it is marked as `fast_pattern`.
    pub fast_pattern: bool,
    /// Whether it must stand at the start of the buffer.
    pub at_start: bool,
    /// Whether it must stand at the end of the buffer.
    pub at_end: bool,
    /// Whether `depth`, `offset`, `distance` or `within` restrict its place.
    pub placed: bool,
    /// Where it must stand, from the start of the buffer.
    pub(super) place: Place,
}

/// Options that decide how a rule is classified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Regular expressions that must match.
    pub pcre: bool,
    /// A Lua script.
    pub lua: bool,
    /// A decoder, stream or application layer event.
    pub event: bool,
    /// A negated content.
    pub negated: bool,
    /// A content in a buffer whose bytes need not stand in the stream.
    pub derived: bool,
    /// State of the flow other than its direction: flow bits, the size of its stream.
    pub keeps_state: bool,
    /// A test for which a sensor needs more than the headers of a packet.
    pub inspects: bool,
    /// Bytes that the payload must have (`isdataat`).
    pub least_payload: u32,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The number of the file in the set.
    pub file: u32,
    /// The line, from 1.
    pub line: usize,
    /// `gid`, 1 if there is none.
    pub gid: u32,
    /// `sid`, 0 if there is none.
    pub sid: u32,
    /// `msg`.
    pub message: String,
    /// The header.
    pub header: Header,
    /// The contents in order.
    pub contents: Vec<Content>,
    /// What a packet must be for the rule to fire, apart from contents.
    pub condition: Condition,
    /// Options that decide the class.
    pub features: Features,
    /// Whether the rule can be filtered.
    pub class: Class,
    /// For a filterable rule: one of these stands in the stream or packet if the rule fires.
    pub literals: Vec<(Vec<u8>, bool)>,
    /// For a filterable rule: what could hide its literals.
    pub hazards: Hazards,
    /// For a filterable rule: the direction that its literals stand in.
    pub side: Side,
    /// For a filterable rule: how rare its literals are likely to be.
    pub(super) rarity: u32,
    /// For a filterable rule: other parts of its contents.
    pub(super) others: Vec<Other>,
}

impl Rule {
    /// Whether another rule differs in its place only.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let Self {
            file: _,
            line: _,
            gid,
            sid,
            message,
            header,
            contents,
            condition,
            features,
            class,
            literals,
            hazards,
            side,
            rarity: _,
            others,
        } = self;
        (*gid, *sid, *class, *side) == (other.gid, other.sid, other.class, other.side)
            && (message, header, contents) == (&other.message, &other.header, &other.contents)
            && (condition, features) == (&other.condition, &other.features)
            && (literals, hazards, others) == (&other.literals, &other.hazards, &other.others)
    }

    /// Whether the rule may fire on a flow between these ends, of which the application protocol is
    /// not known.
    #[must_use]
    pub fn admits_flow(&self, protocol: u8, a: Endpoint, b: Endpoint) -> bool {
        self.header.admits_flow(protocol, a, b)
            && self
                .condition
                .application
                .is_none_or(|application| condition::may_carry(application, protocol, a.1, b.1))
    }
}

/// The state of a rule while its options are read.
struct Parser {
    contents: Vec<Content>,
    condition: Condition,
    features: Features,
    /// The buffer of the contents to come.
    buffer: Buffer,
    /// Whether that buffer is transformed.
    transformed: bool,
    /// Whether it is transformed to one case.
    folded: bool,
    /// Whether the last match that `relative` refers to is that of the last content.
    after_content: bool,
    /// Whether names of modifiers select the buffer of contents to come, as in Snort 3.
    sticky_modifiers: bool,
    gid: u32,
    sid: u32,
    message: String,
}

/// Parses a rule.
pub fn parse(text: &[u8], variables: &Variables) -> Result<Rule, Fault> {
    if text.len() > MAX_RULE_LEN {
        let found = text.len();
        let message = format!("a rule has at most {MAX_RULE_LEN} bytes; this one has {found}");
        return Err(Fault::new(0, message));
    }
    let Some(open) = text.iter().position(|&byte| byte == b'(') else {
        let at = text.len();
        return Err(Fault::expected(at, "the options in parentheses", b""));
    };
    let head = std::str::from_utf8(&text[..open])
        .map_err(|error| Fault::new(error.valid_up_to(), "expected a header in ASCII"))?;
    let header = header::parse(head, variables)?;
    let inner = text[open + 1..].trim_ascii_end();
    let Some(inner) = inner.strip_suffix(b")") else {
        return Err(Fault::expected(text.len(), "`)` at the end of the rule", b""));
    };
    let options = options::split(inner, open + 1)?;
    let first = options.iter().find(|option| {
        option.name == "content"
            || buffers::by_keyword(option.name).is_some_and(|(_, s)| s == Selection::Previous)
    });
    let mut parser = Parser {
        contents: Vec::new(),
        condition: Condition { application: header.protocol.application, ..Condition::default() },
        features: Features::default(),
        buffer: Buffer::PAYLOAD,
        transformed: false,
        folded: false,
        after_content: false,
        sticky_modifiers: first.is_some_and(|option| option.name != "content"),
        gid: 1,
        sid: 0,
        message: String::new(),
    };
    for option in &options {
        parser.option(option)?;
    }
    Ok(parser.finish(header))
}

impl Parser {
    fn option(&mut self, option: &RuleOption<'_>) -> Result<(), Fault> {
        let value = option.value;
        let moves = ["pcre", "byte_", "base64_", "asn1", "cvs", "ber_", "lua"];
        self.after_content &= !moves.iter().any(|prefix| option.name.starts_with(prefix));
        if condition::add(&mut self.condition, option.name, &text_of(value)).is_some() {
            return Ok(());
        }
        let is_name = ["sid", "gid", "msg"].contains(&option.name);
        self.features.inspects |= !is_name && !keywords::is_about_packets(option.name);
        match option.name {
            "content" | "uricontent" => return self.content(option),
            "sid" | "gid" => {
                let number = std::str::from_utf8(value.unwrap_or_default()).ok();
                let Some(number) = number.and_then(|number| number.parse().ok()) else {
                    let found = value.unwrap_or_default();
                    return Err(Fault::expected(option.value_at, "a number", found));
                };
                *(if option.name == "sid" { &mut self.sid } else { &mut self.gid }) = number;
            }
            "msg" => self.message = text_of(value).trim_matches('"').replace("\\", ""),
            "pcre" | "pcre2" => self.features.pcre = true,
            "lua" | "luajit" => self.features.lua = true,
            "app-layer-event" | "decode-event" | "stream-event" | "engine-event" => {
                self.features.event = true;
            }
            "flowbits" | "flowint" | "xbits" | "hostbits" | "stream_size"
            | "app-layer-protocol" => {
                self.condition.whole_flow = true;
                self.features.keeps_state = true;
            }
            "isdataat" => self.is_data_at(&text_of(value)),
            "absent" => {
                self.contents
                    .iter_mut()
                    .filter(|c| c.buffer == self.buffer)
                    .for_each(|c| c.derived = true);
                self.transformed = true;
            }
            name if keywords::folds_case(name) => self.folded = true,
            name if keywords::transforms(name) => self.transformed = true,
            name => self.modifier(name, value, option)?,
        }
        Ok(())
    }

    fn content(&mut self, option: &RuleOption<'_>) -> Result<(), Fault> {
        if self.contents.len() == MAX_CONTENTS {
            let message = format!("a rule has at most {MAX_CONTENTS} contents");
            return Err(Fault::new(option.at, message));
        }
        let value = option.value.unwrap_or_default();
        let (negated, bytes, after) = options::content(value, option.value_at)?;
        let uri = buffers::by_keyword("http.uri").map_or(Buffer::UNKNOWN, |(buffer, _)| buffer);
        self.features.negated |= negated;
        self.after_content = true;
        self.contents.push(Content {
            bytes,
            nocase: self.folded,
            negated,
            buffer: if option.name == "uricontent" { uri } else { self.buffer },
            derived: self.transformed,
            fast_pattern: false,
            at_start: false,
            at_end: false,
            placed: false,
            place: Place::default(),
        });
        // Snort 3: `content:"a",nocase,offset 3`.
        for modifier in after.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            let text = String::from_utf8_lossy(modifier);
            let (name, value) = text.split_once(' ').unwrap_or((&text, ""));
            if !name.is_empty() {
                self.modifier(name, Some(value.as_bytes()), option)?;
            }
        }
        Ok(())
    }

    /// An option that changes the content before it, or selects a buffer, or is not known.
    fn modifier(
        &mut self,
        name: &str,
        value: Option<&[u8]>,
        option: &RuleOption<'_>,
    ) -> Result<(), Fault> {
        let selected = buffers::by_keyword(name).filter(|_| !keywords::keeps_buffer(name));
        let placing = ["offset", "depth", "distance", "within"].contains(&name);
        let own = ["nocase", "startswith", "endswith", "fast_pattern"].contains(&name) || placing;
        if own {
            let Some(last) = self.contents.last_mut() else {
                return Err(Fault::new(option.at, format!("expected a content before `{name}`")));
            };
            last.placed |= placing;
            last.nocase |= name == "nocase";
            last.at_start |= name == "startswith";
            last.place.restrict(name, value);
            last.at_end |= name == "endswith";
            last.fast_pattern |= name == "fast_pattern";
        } else if let Some((buffer, selection)) = selected {
            // A buffer with a value (`http_header: field host`) is one of Snort 3.
            let snort3 = self.sticky_modifiers || value.is_some_and(|value| !value.is_empty());
            if selection == Selection::Following || snort3 {
                self.buffer = buffer;
                self.transformed = false;
                self.folded = false;
                self.implied(buffer);
            } else if let Some(last) = self.contents.last_mut() {
                last.buffer = buffer;
            }
        } else if !keywords::keeps_buffer(name) {
            // It may select a buffer, for the content before it or for those after it.
            if let Some(last) = self.contents.last_mut() {
                last.derived = true;
            }
            self.buffer = Buffer::UNKNOWN;
        }
        Ok(())
    }

    /// `isdataat:!1,relative` puts the content before it at the end of its buffer.
    fn is_data_at(&mut self, value: &str) {
        if self.buffer == Buffer::PAYLOAD
            && let Ok(number) = value.trim().parse::<u32>()
        {
            // Bytes are counted from 0, and one must be at that place, or just before it.
            self.features.least_payload = self.features.least_payload.max(number);
        }
        let mut words = value.split(',').map(str::trim);
        let none_after = words.next() == Some("!1") && words.any(|word| word == "relative");
        if let Some(last) = self.contents.last_mut()
            && none_after
            && self.after_content
        {
            last.at_end |= !last.negated;
        }
    }

    /// Notes the application protocol that a buffer implies.
    fn implied(&mut self, buffer: Buffer) {
        if self.condition.application.is_none() {
            self.condition.application = buffer.application;
        }
    }

    fn finish(mut self, header: Header) -> Rule {
        for buffer in self.contents.iter().map(|content| content.buffer).collect::<Vec<_>>() {
            self.implied(buffer);
        }
        for content in &mut self.contents {
            content.at_start |= content.place.is_start(content.bytes.len());
        }
        self.features.derived = self
            .contents
            .iter()
            .any(|c| !c.negated && (c.derived || c.buffer.form == buffers::Form::Derived));
        self.condition.whole_flow |= self.condition.application.is_some();
        // Without its session a sensor has no stream of TCP to inspect, and events are the session's.
        self.condition.whole_flow |=
            self.features.inspects && header.protocol.transport.admits(TCP);
        self.condition.whole_flow &=
            !self.condition.first_packets_only() || self.features.keeps_state;
        let extracted = extract::extract(&self.contents, &self.condition, &self.features);
        Rule {
            file: 0,
            line: 0,
            gid: self.gid,
            sid: self.sid,
            message: self.message,
            header,
            contents: self.contents,
            condition: self.condition,
            features: self.features,
            class: extracted.class,
            literals: extracted.literals,
            hazards: extracted.hazards,
            side: extracted.side,
            rarity: extracted.rarity,
            others: extracted.others,
        }
    }
}

fn text_of(value: Option<&[u8]>) -> String {
    String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
}
