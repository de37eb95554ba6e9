//! The functions of `include/forebay.h` for rule lists.
//!
//! Rules are passed to C as the address of a [`Rules`] in its own box.
#![allow(unsafe_code, reason = "takes pointers from C")]

use std::ffi::{CStr, c_char, c_int, c_void};

use forebay_jit::Packets;
use forebay_packet::LinkType;
use forebay_rules::engine::NO_RULE;

use super::arguments::{check, check_apart, filled, give, guarded, places, table};
use crate::error::{Error, Status};
use crate::rules::{GROUP, NOT_IP, Rules, ip_version};

/// `forebay_rules_new`.
///
/// # Safety
/// `text` is null or `length` bytes; `list` and `engine` are null or
/// zero-terminated; `rules` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_rules_new(
    text: *const c_char,
    length: usize,
    list: *const c_char,
    engine: *const c_char,
    rules: *mut *mut Rules,
) -> Status {
    let make = || {
        // SAFETY: null or as many bytes, as the caller promises.
        let text = unsafe { table("text", text.cast::<u8>(), length) }?;
        // SAFETY: null or zero-terminated, as the caller promises.
        let list = unsafe { string(list) };
        // SAFETY: as above.
        let engine = unsafe { string(engine) };
        Rules::new(text, list, engine)
    };
    // SAFETY: null or may be written, as the caller promises.
    guarded(|| unsafe { give("rules", rules, make) })
}

/// `forebay_rules_match`.
///
/// # Safety
/// `rules` is null or came from this library and was not freed; `base` is
/// null or `readable_len` bytes may be read there; each table is null or has
/// `count` elements, and those of `rule` may be written. None of it is written
/// by others during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_rules_match(
    rules: *const Rules,
    linktype: u32,
    base: *const c_void,
    readable_len: usize,
    offset: *const u32,
    cap_len: *const u32,
    rule: *mut u32,
    count: usize,
) -> Status {
    guarded(|| {
        // SAFETY: null or rules of ours, as the caller promises.
        let rules = unsafe { rules.as_ref() }.ok_or(Error::Null("rules"))?;
        // SAFETY: null or as long as said, as the caller promises; the same
        // goes for the tables.
        let memory = unsafe { table("base", base.cast::<u8>(), readable_len) }?;
        // SAFETY: as above.
        let offset = unsafe { table("offset", offset, count) }?;
        // SAFETY: as above.
        let cap_len = unsafe { table("cap_len", cap_len, count) }?;
        check("rule", rule, count)?;
        check_apart("rule", rule, memory, &[("offset", offset), ("cap_len", cap_len)])?;
        // SAFETY: passed `check` and `check_apart`, and may be written, as the
        // caller promises.
        let answers = unsafe { places(rule, count) };
        // Rules do not use lengths on the wire.
        let packets = Packets::new(memory, offset, cap_len, cap_len).map_err(Error::Packets)?;
        for (start, answers) in (0..).step_by(GROUP).zip(answers.chunks_mut(GROUP)) {
            let packets = packets.slice(start..start + answers.len());
            rules.answer(LinkType(linktype), &packets, filled(answers, NOT_IP));
        }
        Ok(())
    })
}

/// `forebay_rules_count`.
///
/// # Safety
/// `rules` is null or came from this library and was not freed; so for all
/// functions that follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_rules_count(rules: *const Rules) -> usize {
    // SAFETY: null or rules of ours, as the caller promises.
    unsafe { rules.as_ref() }.map_or(0, Rules::len)
}

/// `forebay_rules_number`.
///
/// # Safety
/// As for [`forebay_rules_count`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_rules_number(rules: *const Rules, index: u32) -> u32 {
    // SAFETY: null or rules of ours, as the caller promises.
    let rule = unsafe { rules.as_ref() }.and_then(|rules| rules.rule(index));
    rule.map_or(NO_RULE, |rule| rule.number)
}

/// `forebay_rules_ip_version`.
///
/// # Safety
/// As for [`forebay_rules_count`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_rules_ip_version(rules: *const Rules, index: u32) -> c_int {
    // SAFETY: null or rules of ours, as the caller promises.
    let rule = unsafe { rules.as_ref() }.and_then(|rules| rules.rule(index));
    rule.map_or(0, ip_version)
}

/// `forebay_rules_passes`.
///
/// # Safety
/// As for [`forebay_rules_count`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_rules_passes(rules: *const Rules, index: u32) -> c_int {
    // SAFETY: null or rules of ours, as the caller promises.
    unsafe { rules.as_ref() }.is_some_and(|rules| rules.passes(index)).into()
}

/// `forebay_rules_free`.
///
/// # Safety
/// `rules` is null or came from this library, was not freed before, and is
/// not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_rules_free(rules: *mut Rules) {
    if !rules.is_null() {
        guarded(|| {
            // SAFETY: made by `give`, and given back only once, as the caller
            // promises.
            drop(unsafe { Box::from_raw(rules) });
            Ok(())
        });
    }
}

/// The bytes of a string, if there is one.
///
/// # Safety
/// `start` is null or zero-terminated, and not written as long as the slice
/// lives.
unsafe fn string<'a>(start: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: not null, so zero-terminated as the caller promises.
    (!start.is_null()).then(|| unsafe { CStr::from_ptr(start) }.to_bytes())
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::{ptr, thread};

    use forebay_packet::BATCH;
    use forebay_rules::Key;
    use forebay_rules::choose::EngineName;
    use forebay_rules::language::yamaha;

    use super::*;
    use crate::ffi::forebay_last_error;

    const TEXT: &str = "\
        ip filter 7 reject 10.0.0.0/8 * tcp * 22 # not yet\n\
        ip filter 20 pass * 192.0.2.0/24 tcp\n\
        ipv6 filter 7 pass 2001:db8::/32 * udp\n\
        ip lan1 secure filter in 7 20\n\
        ipv6 lan1 secure filter in 7\n\
        ip wan secure filter out 20\n";

    /// The message of the last failing call of this thread.
    fn last() -> String {
        // SAFETY: zero-terminated, and no call fails meanwhile.
        unsafe { CStr::from_ptr(forebay_last_error()) }.to_str().unwrap().to_owned()
    }

    /// Rules from the library, freed at the end.
    struct Owned(*mut Rules);

    // SAFETY: documented in the header, and checked by the compiler for `Rules` in
    // `rules_are_for_all_threads`.
    unsafe impl Sync for Owned {}

    impl Drop for Owned {
        fn drop(&mut self) {
            // SAFETY: from the library, and freed here only.
            unsafe { forebay_rules_free(self.0) };
        }
    }

    fn new(text: &[u8], list: Option<&CStr>, engine: Option<&CStr>) -> Result<Owned, Status> {
        let mut rules = ptr::NonNull::dangling().as_ptr();
        let [list, engine] = [list, engine].map(|name| name.map_or(ptr::null(), CStr::as_ptr));
        // SAFETY: all pointers are of this function or null.
        let status = unsafe {
            forebay_rules_new(text.as_ptr().cast(), text.len(), list, engine, &mut rules)
        };
        assert_eq!(rules.is_null(), status != Status::Ok);
        if status == Status::Ok { Ok(Owned(rules)) } else { Err(status) }
    }

    fn refused(text: &[u8], list: Option<&CStr>, engine: Option<&CStr>) -> (Status, String) {
        (new(text, list, engine).err().unwrap(), last())
    }

    #[test]
    fn mistakes_in_rules_are_told() {
        let mut rules = ptr::null_mut();
        let (one, no) = (c"#".as_ptr(), ptr::null());
        // SAFETY: null pointers are allowed; a length that is too large is refused
        // before any access.
        let status = unsafe { forebay_rules_new(no, 1, no, no, &mut rules) };
        assert_eq!((status, last()), (Status::InvalidArgument, "text is a null pointer".into()));
        // SAFETY: as above.
        let status = unsafe { forebay_rules_new(one, usize::MAX, no, no, &mut rules) };
        assert_eq!(status, Status::InvalidArgument);
        // SAFETY: as above.
        let status = unsafe { forebay_rules_new(one, 1, no, no, ptr::null_mut()) };
        assert_eq!((status, last()), (Status::InvalidArgument, "rules is a null pointer".into()));

        let (status, text) = refused(b"ip filter 1 pass *\nip filter 2 drop *\n", None, None);
        assert_eq!(status, Status::BadRules);
        assert!(text.starts_with("line 2: found \"drop\", expected "), "{text}");
        let (status, text) = refused(b"# one\n# two\n# \xff\n", None, None);
        assert_eq!(status, Status::BadRules);
        assert_eq!(text, "line 3: found byte 0xff, expected text in UTF-8");
        let (status, text) = refused(b"ip filter 1\0 pass *", None, None);
        assert_eq!(status, Status::BadRules);
        assert!(text.starts_with("line 1: found \"1\\0\""), "{text}");
    }

    #[test]
    fn one_list_is_chosen() {
        let (status, text) = refused(TEXT.as_bytes(), None, None);
        assert_eq!(status, Status::BadRules);
        assert_eq!(text, "several lists: choose with `list`: lan1:in (3 rules), wan:out (1 rule)");
        for (name, shown) in [(c"lan2:in", "lan2:in"), (c"\xff", "\u{fffd}")] {
            let (status, text) = refused(TEXT.as_bytes(), Some(name), None);
            let expected = format!(
                "`list` {shown}: no such list: there are lan1:in (3 rules), wan:out (1 rule)"
            );
            assert_eq!((status, text), (Status::BadRules, expected));
        }
        let (_, text) = refused(b"ip filter 1 pass *", Some(c"lan1:in"), None);
        assert!(text.ends_with("the file names no list: all its rules are one"), "{text}");
        let rules = new(TEXT.as_bytes(), Some(c"wan:out"), None).unwrap();
        // SAFETY: rules of the library.
        assert_eq!(unsafe { forebay_rules_count(rules.0) }, 1);
    }

    #[test]
    fn engines_are_chosen_by_name() {
        for (name, shown) in [(c"fast", "fast"), (c"", ""), (c"tree\xff", "tree\u{fffd}")] {
            let (status, text) = refused(b"", None, Some(name));
            assert_eq!(status, Status::InvalidArgument);
            assert!(text.starts_with(&format!("unknown engine '{shown}', expected")), "{text}");
        }
        let list = "10.0.0.1-10.0.0.254,10.1.0.1-10.1.0.254,10.2.0.1-10.2.0.254";
        let ports = "1,3,5,7,9,11,13,15,17,19,21,23,25,27,29";
        let wide = format!("ip filter 3 pass {list} {list} tcp {ports} {ports}");
        for engine in EngineName::ALL {
            let name = CString::new(engine.name()).unwrap();
            assert!(new(b"ip filter 3 pass *", None, Some(&name)).is_ok(), "{engine}");
        }
        // As prefixes it would multiply; `tree` matches it by its ranges.
        for engine in [c"tree", c"auto"] {
            let rules = new(wide.as_bytes(), None, Some(engine)).unwrap();
            // SAFETY: rules of the library.
            assert_eq!(unsafe { forebay_rules_count(rules.0) }, 1);
        }
        let (status, text) = refused(wide.as_bytes(), None, Some(c"naive"));
        assert_eq!(status, Status::BadRules);
        assert!(text.starts_with("line 1: rule 3: its lists make "), "{text}");
    }

    #[test]
    fn rules_can_be_asked() {
        let rules = new(TEXT.as_bytes(), Some(c"lan1:in"), Some(c"naive")).unwrap();
        let asked = |rules: *const Rules, index: u32| {
            // SAFETY: null or rules of the library.
            unsafe {
                let number = forebay_rules_number(rules, index);
                let ip_version = forebay_rules_ip_version(rules, index);
                (number, ip_version, forebay_rules_passes(rules, index))
            }
        };
        // SAFETY: as above.
        assert_eq!(unsafe { forebay_rules_count(rules.0) }, 3);
        assert_eq!([0, 1, 2].map(|i| asked(rules.0, i)), [(7, 4, 0), (20, 4, 1), (7, 6, 1)]);
        for (index, passes) in [(3, 0), (NO_RULE, 0), (NOT_IP, 1), (NOT_IP - 1, 0)] {
            assert_eq!(asked(rules.0, index), (NO_RULE, 0, passes), "{index}");
        }
        for index in [0, NO_RULE, NOT_IP] {
            assert_eq!(asked(ptr::null(), index), (NO_RULE, 0, 0), "{index}");
        }
        // SAFETY: null is allowed.
        unsafe {
            assert_eq!(forebay_rules_count(ptr::null()), 0);
            forebay_rules_free(ptr::null_mut());
        }
    }

    #[test]
    fn batches_for_rules_are_checked() {
        let rules = new(b"ip filter 1 pass *", None, None).unwrap();
        // Offsets, captured lengths, packets, answers.
        let mut words = [0_u32, 4, 4, 4, 0x45, 0x45, 0x45, 5, 5, 5];
        let word = words.as_mut_ptr();
        let at = |index: usize| word.wrapping_add(index);
        let run = |base: *const u32, len: usize, cap_len: *const u32, rule: *mut u32, count| {
            // SAFETY: inside `words`, or refused by the call before any access.
            unsafe {
                forebay_rules_match(rules.0, 1, base.cast(), len, at(0), cap_len, rule, count)
            }
        };
        let refused = |base, len, cap_len, rule, count, text: &str| {
            assert_eq!(run(base, len, cap_len, rule, count), Status::InvalidArgument, "{text}");
            assert_eq!(last(), text);
        };
        refused(ptr::null(), 8, at(2), at(7), 2, "base is a null pointer");
        refused(at(4), 8, ptr::null(), at(7), 2, "cap_len is a null pointer");
        refused(at(4), 8, at(2), ptr::null_mut(), 2, "rule is a null pointer");
        let askew = at(2).wrapping_byte_add(2);
        refused(at(4), 8, askew, at(7), 2, "cap_len is not aligned to the size of its elements");
        let count = usize::MAX / 4;
        let text = format!("offset has {count} elements, more than memory can hold");
        refused(at(4), 8, at(2), at(7), count, &text);
        let text = "packet 1 ends at byte 8, past the 7 bytes there are";
        refused(at(4), 7, at(2), at(7), 2, text);
        let text = "packet 0 ends at byte 4, past the 3 bytes there are";
        refused(at(4), 3, at(2), at(7), 1, text);
        for (rule, name) in [(1, "offset"), (2, "cap_len"), (5, "base")] {
            refused(at(4), 8, at(2), at(rule), 2, &format!("rule shares memory with {name}"));
        }
        // SAFETY: a null pointer is allowed.
        let status =
            unsafe { forebay_rules_match(ptr::null(), 1, ptr::null(), 0, at(0), at(2), at(7), 2) };
        assert_eq!((status, last()), (Status::InvalidArgument, "rules is a null pointer".into()));
        assert_eq!(run(ptr::null(), 0, ptr::null(), ptr::null_mut(), 0), Status::Ok);
        assert_eq!(words[7..], [5; 3]);
        let word = words.as_mut_ptr();
        let at = |index: usize| word.wrapping_add(index);
        // SAFETY: inside `words`, of which two elements are written.
        let status =
            unsafe { forebay_rules_match(rules.0, 1, at(4).cast(), 8, at(0), at(2), at(7), 2) };
        assert_eq!((status, &words[7..]), (Status::Ok, &[NOT_IP, NOT_IP, 5][..]));
    }

    /// Raw IP packets of 44 bytes: IPv4, IPv6 and others in turn.
    fn packets(count: usize) -> Vec<[u8; 44]> {
        let packet = |n: usize| {
            let mut packet = [0; 44];
            packet[0] = [0x45, 0x60, 0x45, 0x70][n % 4];
            if n % 4 == 1 {
                packet[5] = 4;
                packet[6] = [17, 6][n / 4 % 2];
                packet[8..12].copy_from_slice(&[0x20, 0x01, 0x0d, [0xb8, 0xb9][n / 8 % 2]]);
            } else {
                packet[9] = [6, 17, 6][n % 3];
                packet[12] = [10, 11][n / 4 % 2];
                packet[16..19].copy_from_slice(&[192, 0, [2, 3][n / 8 % 2]]);
                packet[23] = [22, 80][n / 16 % 2];
            }
            packet
        };
        (0..count).map(packet).collect()
    }

    /// Matches packets of raw IP.
    fn matched(rules: &Owned, packets: &[[u8; 44]]) -> Vec<u32> {
        let count = packets.len();
        let offset: Vec<u32> = (0..count as u32).map(|i| i * 44).collect();
        let cap_len = vec![44_u32; count];
        let mut rule = vec![7; count];
        let (base, len) = (packets.as_ptr().cast(), size_of_val(packets));
        let (offset, cap_len, to) = (offset.as_ptr(), cap_len.as_ptr(), rule.as_mut_ptr());
        // SAFETY: tables of `count` elements, and memory as long as said.
        let status =
            unsafe { forebay_rules_match(rules.0, 101, base, len, offset, cap_len, to, count) };
        assert_eq!(status, Status::Ok, "{}", last());
        rule
    }

    #[test]
    fn rules_are_for_all_threads() {
        fn shareable<T: Send + Sync>() {}
        shareable::<Rules>();
        let list = yamaha::parse(TEXT).unwrap().list("lan1:in").unwrap();
        let packets = packets(3 * GROUP);
        let truth = packets.iter().map(|packet| {
            let rule = Key::of_packet(LinkType::RAW, packet).map(|key| list.decide(&key).rule);
            rule.map_or(NOT_IP, |rule| rule.map_or(NO_RULE, |index| index as u32))
        });
        let truth = &truth.collect::<Vec<_>>();
        let found = |answer: u32| truth.contains(&answer);
        assert!([0, 1, 2, NO_RULE, NOT_IP].into_iter().all(found));
        for engine in EngineName::ALL.map(EngineName::name) {
            let name = std::ffi::CString::new(engine).unwrap();
            let rules = &match new(TEXT.as_bytes(), Some(c"lan1:in"), Some(&name)) {
                Ok(rules) => rules,
                // The machine may not support the engine.
                Err(status) => {
                    assert_eq!(status, Status::Unavailable, "{engine}: {}", last());
                    continue;
                }
            };
            thread::scope(|scope| {
                for counts in [[1, 2 * GROUP], [BATCH, GROUP - 1], [GROUP + 1, 3 * GROUP], [31, 5]]
                {
                    let run = |count| {
                        let answers = matched(rules, &packets[..count]);
                        assert!(answers == truth[..count], "{engine}, {count} packets");
                    };
                    scope.spawn(move || counts.map(run));
                }
            });
        }
    }
}
