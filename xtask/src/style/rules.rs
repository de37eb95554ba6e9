//! The rules on one file: its shape, banned names, comments and attributes.

use super::finding::Finding;
use super::policy;
use super::source::{Kind, SourceFile, Token};

/// Macros that are not allowed in product code, with what to do instead.
const BANNED_MACROS: &[(&str, &str)] = &[
    ("todo", "write the code, or leave the feature out until it is written"),
    ("unimplemented", "write the code, or return an error that names what is not supported"),
    ("dbg", "remove it"),
];

/// Macros that print, which only crates with a terminal may.
const PRINTING_MACROS: &[&str] = &["print", "println", "eprint", "eprintln"];

/// Words that mark unfinished work.
const WORK_MARKS: &[&str] = &["TODO", "FIXME", "XXX"];

/// Runs every rule of this file.
pub(super) fn check(source: &SourceFile<'_>, findings: &mut Vec<Finding>) {
    check_shape(source, findings);
    check_comments(source, findings);
    for index in 0..source.tokens.len() {
        check_macro(source, index, findings);
        check_unwrap(source, index, findings);
        check_attribute(source, index, findings);
    }
}

fn check_shape(source: &SourceFile<'_>, findings: &mut Vec<Finding>) {
    if !source.text.starts_with("//!") {
        findings.push(source.finding(
            0,
            "module-docs",
            "open the file with `//!`: the problem it solves, the method and the invariants",
        ));
    }
    let lines = source.text.lines().count();
    let limit = if source.is_test(0) { policy::TEST_FILE_LINES } else { policy::FILE_LINES };
    if lines > limit {
        findings.push(source.finding(
            source.text.len(),
            "file-length",
            format!("{lines} lines, {limit} at most: split it where its subject divides"),
        ));
    }
    for function in &source.functions {
        let lines = function.last_line - function.first_line + 1;
        if lines > policy::FUNCTION_LINES {
            let (name, limit) = (&function.name, policy::FUNCTION_LINES);
            findings.push(Finding {
                path: source.path.to_owned(),
                line: function.first_line,
                rule: "function-length",
                advice: format!("`{name}` has {lines} lines, {limit} at most: name its steps"),
            });
        }
    }
}

fn check_comments(source: &SourceFile<'_>, findings: &mut Vec<Finding>) {
    for comment in &source.comments {
        let text = &source.text[comment.range.clone()];
        let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        if let Some(mark) = words.find(|word| WORK_MARKS.contains(word)) {
            let at = comment.range.start + text.find(mark).unwrap_or(0);
            findings.push(source.finding(
                at,
                "work-mark",
                format!("`{mark}`: finish the work, or open an issue and remove the mark"),
            ));
        }
    }
}

fn check_macro(source: &SourceFile<'_>, index: usize, findings: &mut Vec<Finding>) {
    let [Token { kind: Kind::Ident(name), range }, mark, ..] = &source.tokens[index..] else {
        return;
    };
    if mark.kind != Kind::Punct('!') || source.is_test(range.start) {
        return;
    }
    if let Some((_, instead)) = BANNED_MACROS.iter().find(|(banned, _)| banned == name) {
        findings.push(source.finding(range.start, "banned", format!("`{name}!`: {instead}")));
    }
    let may_print = policy::PRINTING.iter().any(|folder| source.path.starts_with(folder))
        || source.path.ends_with("build.rs");
    if PRINTING_MACROS.contains(&name.as_str()) && !may_print {
        findings.push(source.finding(
            range.start,
            "banned",
            format!("`{name}!`: a library returns its messages; only commands print"),
        ));
    }
}

/// `.unwrap()`, and `.expect("…")` whose text is not a sentence.
fn check_unwrap(source: &SourceFile<'_>, index: usize, findings: &mut Vec<Finding>) {
    let [dot, name, open, argument, ..] = &source.tokens[index..] else { return };
    if dot.kind != Kind::Punct('.') || open.kind != Kind::Open('(') {
        return;
    }
    let at = name.range.start;
    if source.is_test(at) {
        return;
    }
    if name.is("unwrap") && argument.kind == Kind::Close(')') {
        findings.push(source.finding(
            at,
            "banned",
            "`.unwrap()`: return an error, or where it cannot fail use `.expect(\"why it cannot\")`",
        ));
    }
    let written = &source.text[argument.range.clone()];
    if name.is("expect") && written.starts_with('"') && !written.trim().contains(' ') {
        findings.push(source.finding(
            at,
            "banned",
            format!("`.expect({written})`: state in words why it cannot fail"),
        ));
    }
}

fn check_attribute(source: &SourceFile<'_>, index: usize, findings: &mut Vec<Finding>) {
    let tokens = &source.tokens[index..];
    let name = match tokens {
        [hash, open, name, ..] if is_attribute(hash, open) => name,
        [hash, bang, open, name, ..]
            if bang.kind == Kind::Punct('!') && is_attribute(hash, open) =>
        {
            name
        }
        _ => return,
    };
    let at = tokens[0].range.start;
    if name.is("ignore") {
        findings.push(source.finding(
            at,
            "ignored-test",
            "a test that does not run checks nothing: skip it at run time with a reason, or delete it",
        ));
    }
    if name.is("allow") && !has_reason(source, index) {
        findings.push(source.finding(
            at,
            "allow-reason",
            "state why the lint is wrong here: `reason = \"…\"`, or a `//` comment on the line before or the same line",
        ));
    }
}

fn is_attribute(hash: &Token, open: &Token) -> bool {
    hash.kind == Kind::Punct('#') && open.kind == Kind::Open('[')
}

/// Whether the `allow` that starts at token `index` has a reason. The list of files that
/// may contain `unsafe` is the reason for `unsafe_code`.
fn has_reason(source: &SourceFile<'_>, index: usize) -> bool {
    let end = source.tokens[index..]
        .iter()
        .position(|token| token.kind == Kind::Close(']'))
        .map_or(source.tokens.len(), |length| index + length);
    let attribute = &source.tokens[index..end];
    let names_reason = attribute.iter().any(|token| token.is("reason"));
    let listed = attribute.iter().any(|token| token.is("unsafe_code"))
        && super::unsafety::is_allowed(source.path);
    let line = source.line(source.tokens[index].range.start);
    let commented =
        source.comments.iter().filter(|comment| !comment.documentation).any(|comment| {
            let last = source.line(comment.range.end.saturating_sub(1));
            last == line || last + 1 == line
        });
    names_reason || listed || commented
}

#[cfg(test)]
mod tests {
    use super::super::check_snippet;
    use super::*;

    /// Findings of a snippet in a library, after its module docs.
    fn library(code: &str) -> Vec<(&'static str, usize)> {
        check_snippet("crates/forebay-io/src/x.rs", &format!("//! Docs.\n{code}"))
    }

    #[test]
    fn module_docs_come_first() {
        assert_eq!(check_snippet("crates/x/src/a.rs", "fn f() {}\n"), [("module-docs", 1)]);
        assert_eq!(check_snippet("crates/x/src/a.rs", "\n//! Late.\n"), [("module-docs", 1)]);
        assert_eq!(library("fn f() {}"), []);
    }

    #[test]
    fn files_and_functions_have_a_limit() {
        let statements = |n: usize| "    drop(1);\n".repeat(n);
        let fits = format!("fn f() {{\n{}}}\n", statements(policy::FUNCTION_LINES - 2));
        assert_eq!(library(&fits), []);
        let long = format!("fn f() {{\n{}}}\n", statements(policy::FUNCTION_LINES - 1));
        assert_eq!(library(&long), [("function-length", 2)]);
        let method = format!("struct S;\nimpl S {{\n{long}}}\n");
        assert_eq!(library(&method), [("function-length", 4)]);
        assert_eq!(library(&"// line\n".repeat(policy::FILE_LINES - 1)), []);
        assert_eq!(library(&"// line\n".repeat(policy::FILE_LINES))[0].0, "file-length");
    }

    #[test]
    fn unfinished_code_is_found_even_inside_other_macros() {
        assert_eq!(library("fn f() {\n todo!()\n}"), [("banned", 3)]);
        assert_eq!(library("fn f() { unimplemented!(\"x\") }"), [("banned", 2)]);
        assert_eq!(library("fn f() { let _ = vec![dbg!(1)]; }"), [("banned", 2)]);
        assert_eq!(library("#[cfg(test)]\nmod tests { fn f() { todo!() } }"), []);
        assert_eq!(library("fn f() -> &'static str { \"todo!()\" } // dbg!(x)"), []);
    }

    #[test]
    fn only_commands_print() {
        let code = "fn f() { println!(\"x\"); }";
        assert_eq!(library(code), [("banned", 2)]);
        let docs = format!("//! Docs.\n{code}");
        assert_eq!(check_snippet("crates/forebay/src/table.rs", &docs), []);
        assert_eq!(check_snippet("crates/forebay-io/tests/it.rs", &docs), []);
    }

    #[test]
    fn unwrap_needs_a_test_and_expect_a_sentence() {
        assert_eq!(library("fn f(x: Option<u8>) { x.unwrap(); }"), [("banned", 2)]);
        assert_eq!(library("fn f(x: Option<u8>) { assert!(x.unwrap() > 0); }"), [("banned", 2)]);
        assert_eq!(library("fn f(x: Option<u8>) { x.expect(\"oops\"); }"), [("banned", 2)]);
        assert_eq!(library("fn f(x: Option<u8>) { x.expect(\"set in new\"); }"), []);
        assert_eq!(library("fn f(x: Option<u8>) { x.unwrap_or(1); }"), []);
        assert_eq!(library("#[test]\nfn t() { Some(1).unwrap(); }"), []);
    }

    #[test]
    fn marks_of_unfinished_work_are_words_in_comments() {
        for mark in WORK_MARKS {
            assert_eq!(library(&format!("// {mark}: later\nfn f() {{}}")), [("work-mark", 2)]);
            assert_eq!(library(&format!("/// a\n/// {mark}\nfn f() {{}}")), [("work-mark", 3)]);
            assert_eq!(library(&format!("const A: &str = \"{mark}\";")), []);
            assert_eq!(library(&format!("// {mark}S are words too\nfn f() {{}}")), []);
        }
    }

    #[test]
    fn silenced_lints_are_explained() {
        assert_eq!(library("#[allow(dead_code)]\nfn f() {}"), [("allow-reason", 2)]);
        assert_eq!(library("/// Docs.\n#[allow(dead_code)]\nfn f() {}"), [("allow-reason", 3)]);
        assert_eq!(library("#![allow(dead_code)]\n"), [("allow-reason", 2)]);
        assert_eq!(library("#[allow(dead_code)] // the C side calls it\nfn f() {}"), []);
        assert_eq!(library("// The C side calls it.\n#[allow(dead_code)]\nfn f() {}"), []);
        assert_eq!(library("#[allow(dead_code, reason = \"C calls it\")]\nfn f() {}"), []);
    }

    #[test]
    fn tests_are_not_ignored() {
        let ignored = "//! Docs.\n#[test]\n#[ignore = \"slow\"]\nfn t() {}\n";
        assert_eq!(check_snippet("crates/x/tests/t.rs", ignored), [("ignored-test", 3)]);
        assert_eq!(library("#[test]\nfn t() {}"), []);
    }
}
