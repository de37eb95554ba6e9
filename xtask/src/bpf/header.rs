//! The C header of Rust layouts: constants, enumerations without fields, and structures of
//! words.

use std::fmt::Write as _;

use syn::{Expr, Fields, Item, Type};

const INTRODUCTION: &str =
    "/* Made by `cargo xtask bpf` from src/sys/layout.rs, which explains it. */\n#pragma once\n\n";

/// The header of the source of layouts.
///
/// # Errors
/// What C cannot have.
pub fn generate(source: &[u8]) -> Result<String, String> {
    let wrong = |error: &dyn std::fmt::Display| error.to_string();
    let source = std::str::from_utf8(source).map_err(|error| wrong(&error))?;
    let file = syn::parse_file(source).map_err(|error| wrong(&error))?;
    let mut header = INTRODUCTION.to_owned();
    for item in &file.items {
        match item {
            Item::Const(item) => {
                let value = expression(&item.expr)?;
                let _ = writeln!(header, "#define {} ({value})", item.ident);
            }
            Item::Enum(item) => {
                let prefix = snake(&item.ident.to_string());
                let _ = writeln!(header, "\nenum {prefix} {{");
                for variant in &item.variants {
                    let name = format!("{prefix}_{}", snake(&variant.ident.to_string()));
                    let _ = writeln!(header, "    {},", name.to_uppercase());
                }
                header.push_str("};\n\n");
            }
            Item::Struct(item) => {
                let _ = writeln!(header, "\nstruct {} {{", snake(&item.ident.to_string()));
                let Fields::Named(fields) = &item.fields else {
                    return Err(format!("`{}` has no names", item.ident));
                };
                for field in &fields.named {
                    let name = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
                    let _ = writeln!(header, "    {};", declaration(&field.ty, &name)?);
                }
                header.push_str("};\n\n");
            }
            _ => {}
        }
    }
    Ok(header)
}

/// An expression of numbers and constants, in 64 bits.
fn expression(expr: &Expr) -> Result<String, String> {
    match expr {
        Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(number), .. }) => {
            Ok(format!("{}LL", number.base10_digits()))
        }
        Expr::Path(path) if path.path.get_ident().is_some() => {
            Ok(path.path.get_ident().map(ToString::to_string).unwrap_or_default())
        }
        Expr::Paren(inner) => Ok(format!("({})", expression(&inner.expr)?)),
        Expr::Binary(binary) => {
            use syn::BinOp::{Add, BitOr, Mul, Shl, Sub};
            let op = match binary.op {
                Add(_) => "+",
                BitOr(_) => "|",
                Mul(_) => "*",
                Shl(_) => "<<",
                Sub(_) => "-",
                _ => return Err("an operator that C is not given".to_owned()),
            };
            Ok(format!("{} {op} {}", expression(&binary.left)?, expression(&binary.right)?))
        }
        _ => Err("a constant that is no number".to_owned()),
    }
}

/// `name` as a member of a Rust type: words, structures, and arrays of them.
fn declaration(kind: &Type, name: &str) -> Result<String, String> {
    match kind {
        Type::Array(array) => {
            declaration(&array.elem, &format!("{name}[{}]", expression(&array.len)?))
        }
        Type::Path(path) => match path.path.get_ident().map(ToString::to_string) {
            Some(word) if word == "AtomicU64" => Ok(format!("__u64 {name}")),
            Some(structure) => Ok(format!("struct {} {name}", snake(&structure))),
            None => Err(format!("the type of `{name}`")),
        },
        _ => Err(format!("the type of `{name}`")),
    }
}

/// `CamelCase` as `camel_case`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    #[test]
    fn layouts_become_c() {
        let rust = b"pub const MOST: usize = 1 << 4;\n\
            pub enum Way { ToUser, Out }\n\
            pub struct TwoWords { pub one: AtomicU64, pub more: [Pair; MOST] }";
        let header = super::generate(rust).unwrap();
        let c = header.strip_prefix(super::INTRODUCTION).unwrap();
        let expected = "#define MOST (1LL << 4LL)\n\
            \nenum way {\n    WAY_TO_USER,\n    WAY_OUT,\n};\n\n\
            \nstruct two_words {\n    __u64 one;\n    struct pair more[MOST];\n};\n\n";
        assert_eq!(c, expected);
        for wrong in [&b"pub const ONE: &str = \"\";"[..], b"pub struct A(u8);", b"?"] {
            assert!(super::generate(wrong).is_err());
        }
    }
}
