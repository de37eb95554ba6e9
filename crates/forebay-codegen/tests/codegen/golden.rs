//! What the compiler prints for a few small filters, word for word.
//!
//! Each folder of `tests/golden` holds a filter expression in `filter`, and
//! beside it what each stage makes of it. `BLESS=1` writes the files anew; read
//! the difference before it is committed.

use std::fs;
use std::path::{Path, PathBuf};

use forebay_codegen::code::{Backend, Isa, Options};
use forebay_codegen::explain::asm::disassemble;
use forebay_codegen::{c, compile};
use forebay_filter::lists::of_program;
use forebay_filter::{compile as to_program, ir};
use forebay_packet::LinkType;

/// Filters whose machine code is short enough to be read.
const WITH_ASM: [&str; 2] = ["ip", "ip-and-tcp"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn filters() -> Vec<(String, String)> {
    let mut filters: Vec<_> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path.join("filter")).unwrap().trim().to_owned())
        })
        .collect();
    filters.sort();
    filters
}

/// All that is kept for a filter: file names and their text.
fn printed(name: &str, expression: &str) -> Vec<(String, String)> {
    let program = to_program(expression, LinkType(1)).unwrap();
    let function = of_program(&program);
    let mut files = vec![
        ("cbpf".to_owned(), program.listing()),
        ("ir".to_owned(), function.to_string()),
        ("c".to_owned(), c::unstructured(&function)),
        ("c-structured".to_owned(), c::structured(&function)),
    ];
    if WITH_ASM.contains(&name) {
        // What is prefetched, no verdict tells.
        for backend in [Backend::List, Backend::Pe] {
            let options = Options::new(backend, Isa::Avx2);
            let options = Options { explain: true, prefetch: 16, ..options };
            let code = compile::compile(&function, &options).unwrap();
            files.push((format!("{backend}-prefetch.asm"), disassemble(&code)));
        }
    }
    for (backend, isa) in [
        (Backend::List, Isa::Avx2),
        (Backend::Pe, Isa::Scalar),
        (Backend::Pe, Isa::Avx2),
        (Backend::Pe, Isa::Avx512Bw),
        (Backend::Pe, Isa::Avx512Vbmi),
        (Backend::Ems, Isa::Avx2),
    ] {
        // The patterns of longer filters fill thousands of lines.
        if backend == Backend::Ems && !WITH_ASM.contains(&name) {
            continue;
        }
        let options = Options { explain: true, ..Options::new(backend, isa) };
        let code = compile::compile(&function, &options).unwrap();
        if backend != Backend::List {
            files.push((format!("{backend}-{isa}.schedule"), code.schedule.clone()));
        }
        if WITH_ASM.contains(&name) && (backend != Backend::Pe || isa >= Isa::Avx512Vbmi) {
            files.push((format!("{backend}-{isa}.asm"), disassemble(&code)));
        }
    }
    if name == "port" {
        // Behind two forms with a packet in each lane.
        let options = Options::new(Backend::Pe, Isa::Avx2);
        let signatures = Options { explain: true, pe_form: 2, ..options };
        let code = compile::compile(&function, &signatures).unwrap();
        files.push(("pe-avx2-signatures.schedule".to_owned(), code.schedule));
    }
    files
}

#[test]
fn the_compiler_prints_what_it_did() {
    let bless = std::env::var_os("BLESS").is_some_and(|value| value == "1");
    let mut different = Vec::new();
    for (name, expression) in filters() {
        for (file, text) in printed(&name, &expression) {
            let path = folder().join(&name).join(&file);
            if bless {
                fs::write(&path, &text).unwrap();
            } else if fs::read_to_string(&path).ok().as_deref() != Some(text.as_str()) {
                different.push(format!("{name}/{file}"));
            }
        }
    }
    assert!(different.is_empty(), "other than kept (BLESS=1 keeps them): {different:?}");
}

#[test]
fn the_printed_ir_reads_back() {
    for (name, expression) in filters() {
        let function = of_program(&to_program(&expression, LinkType(1)).unwrap());
        assert_eq!(ir::text::parse(&function.to_string()).unwrap(), function, "{name}");
    }
}
