//! `forebay compile`: the compiled forms of an expression, stage by stage.

use forebay_codegen::code::Code;
use forebay_codegen::explain::asm;
use forebay_codegen::{c, compile as generate};
use forebay_filter::ir::Function;
use forebay_filter::{Profile, Program, compile, lists};
use forebay_packet::LinkType;
use serde_json::{Value, json};

use crate::cli::{Cli, CompileArgs, Emit, RuleSet};
use crate::failure::Failure;
use crate::input::{compiler_options, expression_of, print, print_json, program_of};

pub fn run(cli: &Cli, args: &CompileArgs) -> Result<(), Failure> {
    let link = link_type(&args.linktype)?;
    let shown = match args.emit {
        Emit::Cbpf | Emit::Ddd => program_text(args, link)?,
        Emit::Ir => Shown::text(function_of(args, link)?.to_string()),
        Emit::C => Shown::text(c::unstructured(&function_of(args, link)?)),
        Emit::CStructured => Shown::text(c::structured(&function_of(args, link)?)),
        Emit::Schedule => code_text(cli, args, link, |code| code.schedule.clone())?,
        Emit::Asm => code_text(cli, args, link, asm::disassemble)?,
    };
    if cli.json {
        let mut object = shown.json;
        object["link_type"] = json!(link.0);
        return print_json(&object);
    }
    print(|out| out.write_all(shown.text.as_bytes()))
}

/// One compiler stage as text and JSON.
struct Shown {
    text: String,
    json: Value,
}

impl Shown {
    fn text(text: String) -> Self {
        let json = json!({"text": text});
        Self { text, json }
    }
}

fn program_text(args: &CompileArgs, link: LinkType) -> Result<Shown, Failure> {
    let program = program(args, link)?;
    if args.rules == RuleSet::Kernel {
        Program::verify(program.instructions(), Profile::Kernel)
            .map_err(|error| Failure::Usage(format!("the kernel would refuse it: {error}")))?;
    }
    let code: Vec<_> = program
        .instructions()
        .iter()
        .map(|one| json!({"code": one.code, "jt": one.jt, "jf": one.jf, "k": one.k}))
        .collect();
    let text = match args.emit {
        Emit::Ddd => program.ddd(),
        _ => program.listing(),
    };
    Ok(Shown { text, json: json!({"cbpf": code}) })
}

fn program(args: &CompileArgs, link: LinkType) -> Result<Program, Failure> {
    Ok(match program_of(&args.selection)? {
        Some(program) => program,
        None => compile(&expression_of(&args.selection)?, link)?,
    })
}

/// The function that the back ends compile.
fn function_of(args: &CompileArgs, link: LinkType) -> Result<Function, Failure> {
    Ok(match program_of(&args.selection)? {
        Some(program) => lists::of_program(&program),
        None => lists::compile_function(&expression_of(&args.selection)?, link)?,
    })
}

/// The text that `show` produces from the back end's code.
fn code_text(
    cli: &Cli,
    args: &CompileArgs,
    link: LinkType,
    show: impl Fn(&Code) -> String,
) -> Result<Shown, Failure> {
    let mut options = compiler_options(cli, args.selection.backend)?.codegen;
    options.explain = true;
    let function = function_of(args, link)?;
    let code = generate::compile(&function, &options)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    if let Some(remark) = &code.remark
        && !cli.quiet
    {
        eprintln!("{remark}");
    }
    let text = show(&code);
    let json = json!({
        "backend": code.backend.name(),
        "isa": options.isa.name(),
        "remark": code.remark,
        "text": text,
    });
    Ok(Shown { text, json })
}

fn link_type(text: &str) -> Result<LinkType, Failure> {
    let name = text.strip_prefix("DLT_").or_else(|| text.strip_prefix("LINKTYPE_"));
    LinkType::parse(name.unwrap_or(text)).ok_or_else(|| {
        Failure::Usage(format!(
            "--linktype {text}: not a link type; expected a name such as EN10MB or LINUX_SLL, \
             or a LINKTYPE_ number"
        ))
    })
}
