//! A Rust file for the rules: tokens, comments and test code with their positions.
//!
//! Comments are found between tokens, without a second lexer: `proc-macro2` gives each
//! token its byte range, and the gaps have only white space and comments. It returns
//! documentation comments as attributes whose range is the comment itself; they are added
//! to the comments.

use std::collections::BTreeSet;
use std::ops::Range;
use std::str::FromStr;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::finding::Finding;

/// A token without its tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ident(String),
    Punct(char),
    Open(char),
    Close(char),
    Literal,
}

/// A token and its position.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub kind: Kind,
    pub range: Range<usize>,
}

impl Token {
    pub fn is(&self, word: &str) -> bool {
        matches!(&self.kind, Kind::Ident(name) if name == word)
    }
}

/// A comment, including its marks.
#[derive(Clone, Debug)]
pub(super) struct Comment {
    pub range: Range<usize>,
    pub documentation: bool,
}

/// A function's name and the lines from `fn` to its closing brace.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub name: String,
    pub first_line: usize,
    pub last_line: usize,
}

/// One parsed file.
pub(super) struct SourceFile<'a> {
    pub path: &'a str,
    pub text: &'a str,
    pub tokens: Vec<Token>,
    pub comments: Vec<Comment>,
    pub functions: Vec<Function>,
    /// Inner lint attributes of the file, as written: `forbid(unsafe_code)`.
    pub inner_attributes: Vec<String>,
    line_starts: Vec<usize>,
    test_ranges: Vec<Range<usize>>,
    test_modules: Vec<String>,
    whole_file_is_test: bool,
}

impl<'a> SourceFile<'a> {
    /// Parses `text`; a file that is not Rust is a finding.
    pub fn parse(path: &'a str, text: &'a str) -> Result<Self, Finding> {
        let refused = |line: usize, error: &dyn std::fmt::Display| Finding {
            path: path.to_owned(),
            line,
            rule: "parse",
            advice: format!("this is not Rust: {error}"),
        };
        let stream = TokenStream::from_str(text)
            .map_err(|error| refused(error.span().start().line, &error))?;
        let tree: syn::File = syn::parse2(stream.clone())
            .map_err(|error| refused(error.span().start().line, &error))?;

        let mut flat = Flattened { text, tokens: Vec::new(), documentation: BTreeSet::new() };
        flat.add(stream);
        let mut outline = Outline::default();
        outline.visit_file(&tree);
        let comments = comments(text, &flat);
        let whole_file_is_test = tree.attrs.iter().any(is_test_only)
            || path.split('/').any(|part| matches!(part, "tests" | "benches" | "examples"));
        let inner_attributes =
            tree.attrs.iter().map(|attribute| written(attribute, text)).collect();
        Ok(Self {
            path,
            text,
            tokens: flat.tokens,
            comments,
            functions: outline.functions,
            inner_attributes,
            line_starts: line_starts(text),
            test_ranges: outline.test_ranges,
            test_modules: outline.test_modules,
            whole_file_is_test,
        })
    }

    /// The line, from 1, that holds byte `at`.
    pub fn line(&self, at: usize) -> usize {
        self.line_starts.partition_point(|&start| start <= at)
    }

    /// Whether byte `at` is in code that is only compiled for tests.
    pub fn is_test(&self, at: usize) -> bool {
        self.whole_file_is_test || self.test_ranges.iter().any(|range| range.contains(&at))
    }

    /// Files that a `#[cfg(test)] mod name;` of this file makes test code.
    pub fn test_module_files(&self) -> Vec<String> {
        let (folder, file) = self.path.rsplit_once('/').unwrap_or(("", self.path));
        let folder = match file {
            "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
            _ => format!("{folder}/{}", file.trim_end_matches(".rs")),
        };
        self.test_modules
            .iter()
            .flat_map(|name| [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")])
            .collect()
    }

    /// Marks the file as test code if it is one of `files`.
    pub fn note_test_files(&mut self, files: &BTreeSet<String>) {
        self.whole_file_is_test |= files.contains(self.path);
    }

    /// The comments between token `index` and the one before it.
    pub fn comments_before(&self, index: usize) -> impl Iterator<Item = &Comment> {
        let from = match index.checked_sub(1) {
            Some(before) => self.tokens[before].range.end,
            None => 0,
        };
        let to = self.tokens[index].range.start;
        self.comments
            .iter()
            .filter(move |comment| comment.range.start >= from && comment.range.end <= to)
    }

    /// A finding at byte `at`.
    pub fn finding(&self, at: usize, rule: &'static str, advice: impl Into<String>) -> Finding {
        Finding { path: self.path.to_owned(), line: self.line(at), rule, advice: advice.into() }
    }
}

struct Flattened<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    /// Start and end of each documentation comment.
    documentation: BTreeSet<(usize, usize)>,
}

impl Flattened<'_> {
    fn add(&mut self, stream: TokenStream) {
        for tree in stream {
            let range = tree.span().byte_range();
            let written = self.text.get(range.clone()).unwrap_or_default();
            if written.starts_with("//") || written.starts_with("/*") {
                self.documentation.insert((range.start, range.end));
                continue;
            }
            match tree {
                TokenTree::Ident(name) => self.push(Kind::Ident(name.to_string()), name.span()),
                TokenTree::Punct(mark) => self.push(Kind::Punct(mark.as_char()), mark.span()),
                TokenTree::Literal(literal) => self.push(Kind::Literal, literal.span()),
                TokenTree::Group(group) => {
                    let marks = match group.delimiter() {
                        Delimiter::Parenthesis => Some(('(', ')')),
                        Delimiter::Brace => Some(('{', '}')),
                        Delimiter::Bracket => Some(('[', ']')),
                        Delimiter::None => None,
                    };
                    if let Some((open, _)) = marks {
                        self.push(Kind::Open(open), group.span_open());
                    }
                    self.add(group.stream());
                    if let Some((_, close)) = marks {
                        self.push(Kind::Close(close), group.span_close());
                    }
                }
            }
        }
    }

    fn push(&mut self, kind: Kind, span: Span) {
        self.tokens.push(Token { kind, range: span.byte_range() });
    }
}

/// All comments in order: the documentation ones, and those in the gaps.
fn comments(text: &str, flat: &Flattened<'_>) -> Vec<Comment> {
    let mut solid: Vec<Range<usize>> =
        flat.tokens.iter().map(|token| token.range.clone()).collect();
    solid.extend(flat.documentation.iter().map(|&(start, end)| start..end));
    solid.push(text.len()..text.len());
    solid.sort_by_key(|range| range.start);

    let documentation =
        |&(start, end): &(usize, usize)| Comment { range: start..end, documentation: true };
    let mut found: Vec<Comment> = flat.documentation.iter().map(documentation).collect();
    let mut from = 0;
    for range in solid {
        if range.start > from {
            comments_of_gap(text, from..range.start, &mut found);
        }
        from = from.max(range.end);
    }
    found.sort_by_key(|comment| comment.range.start);
    found
}

/// The comments of a gap, which otherwise has only white space.
fn comments_of_gap(text: &str, gap: Range<usize>, found: &mut Vec<Comment>) {
    let mut at = gap.start;
    while at < gap.end {
        let rest = &text[at..gap.end];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment_length(rest)
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        };
        found.push(Comment { range: at..at + length, documentation: false });
        at += length;
    }
}

/// Length of the block comment that `rest` starts with; such comments nest.
fn block_comment_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    while at + 1 < bytes.len() {
        match (bytes[at], bytes[at + 1]) {
            (b'/', b'*') => depth += 1,
            (b'*', b'/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

fn written(attribute: &syn::Attribute, text: &str) -> String {
    text.get(attribute.meta.span().byte_range()).unwrap_or_default().to_owned()
}

/// Whether an attribute restricts its item to test builds: `cfg(test)`, `cfg(all(test, …))`
/// or `test` itself.
fn is_test_only(attribute: &syn::Attribute) -> bool {
    if attribute.path().is_ident("test") {
        return true;
    }
    let syn::Meta::List(list) = &attribute.meta else { return false };
    if !list.path.is_ident("cfg") {
        return false;
    }
    let condition: String =
        list.tokens.to_string().chars().filter(|c| !c.is_whitespace()).collect();
    condition == "test" || condition.starts_with("all(test,") || condition == "all(test)"
}

/// Functions and test code, collected from the syntax tree.
#[derive(Default)]
struct Outline {
    functions: Vec<Function>,
    test_ranges: Vec<Range<usize>>,
    test_modules: Vec<String>,
}

impl Outline {
    fn note_function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        self.functions.push(Function {
            name: signature.ident.to_string(),
            first_line: signature.fn_token.span.start().line,
            last_line: block.brace_token.span.close().end().line,
        });
    }

    fn note_test(&mut self, attributes: &[syn::Attribute], span: Span) {
        if attributes.iter().any(is_test_only) {
            self.test_ranges.push(span.byte_range());
        }
    }
}

impl<'ast> Visit<'ast> for Outline {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        self.note_test(attributes(item), item.span());
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.content.is_none() && module.attrs.iter().any(is_test_only) {
            self.test_modules.push(module.ident.to_string());
        }
        visit::visit_item_mod(self, module);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.note_function(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.note_test(&function.attrs, function.span());
        self.note_function(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.note_function(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> SourceFile<'_> {
        SourceFile::parse("crates/x/src/y.rs", text).unwrap_or_else(|finding| panic!("{finding}"))
    }

    #[test]
    fn comments_are_told_from_strings_and_characters() {
        let text = "//! Docs.\n/* a /* nested */ b */ fn f<'a>() { let _ = (\"// no\", '\"', r#\"/* no \"#); } // last";
        let source = parse(text);
        let found: Vec<_> = source
            .comments
            .iter()
            .map(|comment| (&text[comment.range.clone()], comment.documentation))
            .collect();
        assert_eq!(
            found,
            [("//! Docs.", true), ("/* a /* nested */ b */", false), ("// last", false)]
        );
    }

    #[test]
    fn places_are_bytes_even_after_wide_characters() {
        let text = "// ÄÖ → ü\nfn f() {}\n/// Dök.\nfn g() {}\n";
        let source = parse(text);
        let g = source.tokens.iter().find(|token| token.is("g")).unwrap();
        assert_eq!(&text[g.range.clone()], "g");
        assert_eq!(source.line(g.range.start), 4);
        assert_eq!(source.comments.len(), 2);
    }

    #[test]
    fn test_code_is_known_by_its_attribute() {
        let text = "fn a() {}\n#[cfg(test)]\nmod t { fn b() {} }\n#[cfg(not(test))]\nfn c() {}\n#[test]\nfn d() {}\n";
        let source = parse(text);
        let in_test = |name: &str| {
            let token = source.tokens.iter().find(|token| token.is(name)).unwrap();
            source.is_test(token.range.start)
        };
        assert_eq!(["a", "b", "c", "d"].map(in_test), [false, true, false, true]);
    }

    #[test]
    fn a_test_module_in_its_own_file_is_test_code() {
        let source = parse("#[cfg(test)]\nmod oracle;\nmod product;\n");
        let files: BTreeSet<_> = source.test_module_files().into_iter().collect();
        assert!(files.contains("crates/x/src/y/oracle.rs"));
        let mut oracle = SourceFile::parse("crates/x/src/y/oracle.rs", "fn f() {}").ok().unwrap();
        assert!(!oracle.is_test(0));
        oracle.note_test_files(&files);
        assert!(oracle.is_test(0));
    }

    #[test]
    fn functions_are_measured_from_fn_to_brace() {
        let source = parse("/// Docs.\n#[inline]\nfn f()\n{\n    let x = \"}\";\n}\n");
        let f = &source.functions[0];
        assert_eq!((f.name.as_str(), f.first_line, f.last_line), ("f", 3, 6));
    }

    #[test]
    fn what_is_not_rust_is_a_finding_with_its_line() {
        let finding = SourceFile::parse("a.rs", "fn f() {}\nfn {\n").err().unwrap();
        assert_eq!(finding.rule, "parse");
        let finding = SourceFile::parse("a.rs", "fn f() {}\nfn 3() {}\n").err().unwrap();
        assert_eq!((finding.rule, finding.line), ("parse", 2));
    }
}
