//! The literals that packets are scanned for: compiled of a configuration, and counted.

use std::sync::Arc;

use forebay_io::text::{self, Source};
use forebay_pipeline::stages::{CompiledScan, ScanOptions};
use forebay_scan::LiteralSet;
use serde_json::{Value, json};

use crate::compiled::{ConfigCompileError, decode_options};
use crate::config::{Config, Key};
use crate::group::nanos;
use crate::memory;
use crate::metrics::{Kind, Page};

/// Compiles the literals of a configuration. If they are those in force, the result is, too, with
/// its counters.
pub(crate) fn compile(
    config: &Config,
    in_force: Option<&Arc<CompiledScan>>,
) -> Result<Option<Arc<CompiledScan>>, ConfigCompileError> {
    let Some(scan) = &config.scan else { return Ok(None) };
    let file = &scan.literals;
    let refused = |what: String| ConfigCompileError::Scan(format!("{}: {what}", file.display()));
    let text = text::read(file, Source::Regular, "a file of literals", text::MOST_LITERALS)
        .map_err(|error| refused(error.to_string()))?;
    let literals = LiteralSet::from_hex_lines(&text, scan.nocase)
        .map_err(|error| refused(error.to_string()))?;
    drop(text);
    if literals.is_empty() {
        return Err(refused("no literals: expected at least one".to_owned()));
    }
    let decode = decode_options(config, Key::FiveTuple);
    let options = ScanOptions { decode, idle: nanos(config.idle_timeout), ..scan.options };
    if let Some(same) = in_force
        && *same.options() == options
        && *same.literals() == literals
    {
        return Ok(Some(Arc::clone(same)));
    }
    let longest = literals.literals().iter().map(|literal| literal.bytes.len()).max();
    let bytes = CompiledScan::memory_bytes(&options, longest.unwrap_or(0));
    memory::suffices(bytes * config.workers as u64, u64::MAX, "").map_err(&refused)?;
    let compiled = CompiledScan::new(literals, options);
    compiled.map(|compiled| Some(Arc::new(compiled))).map_err(|error| refused(error.to_string()))
}

/// What is scanned for, and what was found.
pub(crate) fn answer(scan: Option<&Arc<CompiledScan>>) -> Result<Value, String> {
    let scan = scan.ok_or("packets are not scanned: there is no table [scan]")?;
    let hits = scan.hits().read();
    let literal = |&(index, packets): &(u32, u64)| {
        let literal = &scan.literals().literals()[index as usize];
        json!({
            "literal": literal.to_string(),
            "nocase": literal.nocase,
            "number": index,
            "packets": packets,
        })
    };
    Ok(json!({
        "mode": scan.options().mode.name(),
        "engine": scan.options().engine.name(),
        "literals": scan.literals().len(),
        "hits": hits.literals.iter().map(literal).collect::<Vec<_>>(),
        "others": hits.others,
    }))
}

/// The counters of the literals.
pub(crate) fn metrics(scan: &CompiledScan, page: &mut Page) {
    const NAME: &str = "forebay_scan_literal_packets_total";
    page.metric(NAME, Kind::Counter, "Packets that a literal was found in.");
    let hits = scan.hits().read();
    for (index, packets) in hits.literals {
        let text = scan.literals().literals()[index as usize].to_string();
        let number = index.to_string();
        page.sample(NAME, &[("number", &number), ("literal", &text)], packets as f64);
    }
    page.sample(NAME, &[("number", "others")], hits.others as f64);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(file: &str, rest: &str) -> Config {
        let text = format!(
            "[scan]\nliterals = \"{file}\"\n{rest}\
             [[input]]\nname = \"i\"\ntype = \"af_packet\"\ninterface = \"i\"\n\
             [[output]]\nname = \"o\"\ntype = \"af_packet\"\ninterface = \"o\"\n\
             [[group]]\nname = \"g\"\nscan = \"hits\"\nsensor = [{{ name = \"s\" }}]\n"
        );
        Config::parse("run.toml", &text).unwrap()
    }

    #[test]
    fn equal_literals_stay_in_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("literals");
        let file = path.to_str().unwrap();
        std::fs::write(&path, "# two\n616263\n64\n").unwrap();
        let first = compile(&config(file, ""), None).unwrap();
        let same = compile(&config(file, ""), first.as_ref()).unwrap();
        assert!(Arc::ptr_eq(first.as_ref().unwrap(), same.as_ref().unwrap()));
        let other = compile(&config(file, "nocase = true\n"), first.as_ref()).unwrap().unwrap();
        assert!(!Arc::ptr_eq(first.as_ref().unwrap(), &other));
        let shown = answer(Some(&other)).unwrap();
        assert_eq!((&shown["literals"], &shown["mode"]), (&json!(2), &json!("stream")));

        std::fs::write(&path, "6162\n6\n").unwrap();
        let error = compile(&config(file, ""), None).unwrap_err().to_string();
        assert!(error.contains("line 2: expected pairs of hexadecimal digits"), "{error}");
        std::fs::write(&path, "").unwrap();
        let error = compile(&config(file, ""), None).unwrap_err().to_string();
        assert!(error.contains("expected at least one"), "{error}");
    }

    #[test]
    fn groups_that_select_need_the_table() {
        let text = "[[input]]\nname = \"i\"\ntype = \"af_packet\"\ninterface = \"i\"\n\
                    [[output]]\nname = \"o\"\ntype = \"af_packet\"\ninterface = \"o\"\n\
                    [[group]]\nname = \"g\"\nscan = \"hits\"\nsensor = [{ name = \"s\" }]\n";
        let error = Config::parse("run.toml", text).unwrap_err().to_string();
        assert!(
            error.contains("run.toml:11:8") && error.contains("expected a table [scan]"),
            "{error}"
        );
        let all = text.replace("hits", "all");
        Config::parse("run.toml", &all).unwrap();
        assert!(answer(None).is_err());
    }
}
