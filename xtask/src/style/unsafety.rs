//! The rules on `unsafe`: where it may be, and its comments.
//!
//! A SAFETY comment belongs right before its `unsafe`, or right before the statement or
//! item that contains it: the search goes back over the tokens to the last `;`, `{`, `}`,
//! `,` or `=>` and no further, so that one comment never covers two places.

use super::finding::Finding;
use super::policy;
use super::source::{Kind, SourceFile};

/// Whether the file at `path` may contain `unsafe`.
pub(super) fn is_allowed(path: &str) -> bool {
    path.contains("/tests/")
        || policy::UNSAFE_PLACES.iter().any(|place| match place.path.strip_suffix('/') {
            Some(_) => path.starts_with(place.path),
            None => path == place.path,
        })
}

/// Runs every rule of this file.
pub(super) fn check(source: &SourceFile<'_>, findings: &mut Vec<Finding>) {
    for (index, token) in source.tokens.iter().enumerate() {
        if !token.is("unsafe") {
            continue;
        }
        let at = token.range.start;
        if !is_allowed(source.path) {
            let places: Vec<_> = policy::UNSAFE_PLACES.iter().map(|place| place.path).collect();
            let places = places.join(", ");
            findings.push(source.finding(
                at,
                "unsafe-place",
                format!("`unsafe` is confined to {places} and tests: use safe code, or add the file to the list with its reason"),
            ));
        }
        if !is_explained(source, index) {
            findings.push(source.finding(
                at,
                "unsafe-reason",
                "say what makes it sound: `// SAFETY: …` right before it (`# Safety` in the docs of an unsafe fn)",
            ));
        }
    }
    check_lint(source, findings);
}

/// Whether the `unsafe` at token `index` needs no comment or has one.
fn is_explained(source: &SourceFile<'_>, index: usize) -> bool {
    let next = source.tokens.get(index + 1).map(|token| &token.kind);
    match next {
        // `#[unsafe(no_mangle)]`, which rustc itself explains.
        Some(Kind::Open('(')) => return true,
        // The type of a pointer to an unsafe function: nothing is called.
        Some(Kind::Ident(word)) if word == "fn" && !names_function(source, index + 2) => {
            return true;
        }
        _ => {}
    }
    let mut at = index;
    loop {
        let explained = source.comments_before(at).any(|comment| {
            let text = &source.text[comment.range.clone()];
            text.contains("SAFETY:") || text.contains("# Safety")
        });
        if explained {
            return true;
        }
        let Some(before) = at.checked_sub(1) else { return false };
        if ends_statement(&source.tokens[before].kind) {
            return false;
        }
        at = before;
    }
}

fn names_function(source: &SourceFile<'_>, index: usize) -> bool {
    source.tokens.get(index).is_some_and(|token| matches!(token.kind, Kind::Ident(_)))
}

fn ends_statement(kind: &Kind) -> bool {
    matches!(kind, Kind::Punct(';' | ',' | '>') | Kind::Open('{') | Kind::Close('}'))
}

/// The root file of a crate must refuse `unsafe`: `forbid` if no file of the crate is
/// listed, else `deny`.
fn check_lint(source: &SourceFile<'_>, findings: &mut Vec<Finding>) {
    let Some(folder) = ["src/lib.rs", "src/main.rs"]
        .iter()
        .find_map(|root| source.path.strip_suffix(root))
        .filter(|folder| folder.starts_with("crates/") || *folder == "xtask/")
    else {
        return;
    };
    let holds_unsafe = policy::UNSAFE_PLACES.iter().any(|place| place.path.starts_with(folder));
    let level = if holds_unsafe { "deny" } else { "forbid" };
    let wanted = format!("{level}(unsafe_code)");
    if !source.inner_attributes.contains(&wanted) {
        findings.push(source.finding(
            0,
            "unsafe-lint",
            format!("add `#![{wanted}]` after the module docs"),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::check_snippet;
    use super::*;

    const LISTED: &str = "crates/forebay-packet/src/region.rs";

    fn listed(code: &str) -> Vec<(&'static str, usize)> {
        check_snippet(LISTED, &format!("//! Docs.\n{code}"))
    }

    #[test]
    fn unsafe_stays_in_the_listed_places() {
        let code = "//! Docs.\nfn f() {\n    // SAFETY: x.\n    unsafe { g() }\n}\n";
        assert_eq!(check_snippet("crates/forebay-io/src/x.rs", code), [("unsafe-place", 4)]);
        assert_eq!(check_snippet(LISTED, code), []);
        assert_eq!(check_snippet("crates/forebay-bench/src/peers/libpcap.rs", code), []);
        assert_eq!(check_snippet("crates/forebay-filter/tests/oracle/mod.rs", code), []);
        let named = "//! Docs.\n// unsafe\nconst A: &str = \"unsafe { }\";\n";
        assert_eq!(check_snippet("crates/forebay-io/src/x.rs", named), []);
    }

    #[test]
    fn a_block_has_its_own_reason() {
        assert_eq!(listed("fn f() { unsafe { g() } }"), [("unsafe-reason", 2)]);
        assert_eq!(listed("fn f() {\n// SAFETY: a.\nlet x = unsafe { g() };\n}"), []);
        assert_eq!(
            listed("fn f() {\n// SAFETY: a.\nlet x = unsafe { g() };\nlet y = unsafe { g() };\n}"),
            [("unsafe-reason", 5)]
        );
        assert_eq!(
            listed("fn f() {\n// A remark.\nlet x = unsafe { g() };\n}"),
            [("unsafe-reason", 4)]
        );
        assert_eq!(listed("// SAFETY: of f.\nfn f() { unsafe { g() } }"), [("unsafe-reason", 3)]);
        assert_eq!(listed("fn f() { h(\n// SAFETY: a.\nunsafe { g() }) }"), []);
    }

    #[test]
    fn so_have_impls_functions_and_foreign_items() {
        assert_eq!(listed("unsafe impl Send for R {}"), [("unsafe-reason", 2)]);
        assert_eq!(listed("// SAFETY: owned alone.\nunsafe impl Send for R {}"), []);
        assert_eq!(listed("/// Reads.\npub unsafe fn f() {}"), [("unsafe-reason", 3)]);
        assert_eq!(
            listed("/// Reads.\n///\n/// # Safety\n/// `p` is live.\npub unsafe fn f() {}"),
            []
        );
        assert_eq!(listed("unsafe extern \"C\" { fn g(); }"), [("unsafe-reason", 2)]);
        assert_eq!(listed("type F = unsafe extern \"C\" fn();"), [("unsafe-reason", 2)]);
        assert_eq!(listed("type F = unsafe fn();"), []);
    }

    #[test]
    fn a_crate_refuses_unsafe_at_its_root() {
        let root = "//! Docs.\n#![forbid(unsafe_code)]\n";
        assert_eq!(check_snippet("crates/forebay-gen/src/lib.rs", root), []);
        assert_eq!(
            check_snippet("crates/forebay-gen/src/main.rs", "//! Docs.\n"),
            [("unsafe-lint", 1)]
        );
        assert_eq!(check_snippet("crates/forebay-packet/src/lib.rs", root), [("unsafe-lint", 1)]);
        let denied = "//! Docs.\n#![deny(unsafe_code)]\n";
        assert_eq!(check_snippet("crates/forebay-packet/src/lib.rs", denied), []);
    }

    #[test]
    fn each_listed_place_has_a_reason() {
        for place in policy::UNSAFE_PLACES {
            assert!(place.reason.len() > 20, "{}", place.path);
        }
    }
}
