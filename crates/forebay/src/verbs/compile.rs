//! `forebay compile`: what an expression is compiled to.

use forebay_filter::{Profile, Program, compile};
use forebay_packet::LinkType;
use serde_json::json;

use crate::cli::{Cli, CompileArgs, Emit, RuleSet};
use crate::failure::Failure;
use crate::input::{expression_of, print, print_json, program_of};

pub fn run(cli: &Cli, args: &CompileArgs) -> Result<(), Failure> {
    let link = link_type(&args.linktype)?;
    let program = match program_of(&args.selection)? {
        Some(program) => program,
        None => compile(&expression_of(&args.selection)?, link)?,
    };
    if args.rules == RuleSet::Kernel {
        Program::verify(program.instructions(), Profile::Kernel)
            .map_err(|error| Failure::Usage(format!("the kernel would refuse it: {error}")))?;
    }
    if cli.json {
        let code: Vec<_> = program
            .instructions()
            .iter()
            .map(|one| json!({"code": one.code, "jt": one.jt, "jf": one.jf, "k": one.k}))
            .collect();
        return print_json(&json!({"link_type": link.0, "cbpf": code}));
    }
    let text = match args.emit {
        Emit::Cbpf => program.listing(),
        Emit::Ddd => program.ddd(),
    };
    print(|out| out.write_all(text.as_bytes()))
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
