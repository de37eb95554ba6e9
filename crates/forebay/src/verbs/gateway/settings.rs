//! The options of a gateway, as the configuration of a broker.

use clap::ValueEnum as _;
use forebay_broker::config::Config;
use forebay_pipeline::units;
use serde_json::json;

use crate::cli::{GatewayArgs, Mode};
use crate::failure::Failure;

/// The name of the configuration in errors.
const NAME: &str = "options";

/// A broker's configuration with these options. Its ports are not used.
pub(super) fn config(args: &GatewayArgs) -> Result<Config, Failure> {
    if args.prefix.is_some() && args.mode != Mode::Prefix {
        return Err(Failure::Usage("--prefix is an option of --mode prefix".to_owned()));
    }
    // Strings and lists are written in TOML as in JSON.
    let mut scan = format!("max_flows = {}\n", args.max_flows);
    match &args.literals {
        Some(file) => scan += &format!("literals = {}\n", json!(text(file)?)),
        None => {
            let files = args.rules.iter().map(|file| text(file)).collect::<Result<Vec<_>, _>>()?;
            scan += &format!("rules = {}\n", json!(files));
        }
    }
    scan += "[scan.variables]\n";
    for (name, value) in &args.variables {
        scan += &format!("{} = {}\n", json!(name), json!(value));
    }
    let mode = args.mode.to_possible_value();
    let mode = mode.as_ref().map_or("hold", |mode| mode.get_name());
    let flow_memory = match &args.flow_memory {
        Some(size) => size.clone(),
        None => {
            let memory = units::size(&args.memory);
            let memory = memory.map_err(|error| Failure::Usage(format!("--memory: {error}")))?;
            format!("{}B", memory / 4)
        }
    };
    let prefix = args.prefix.iter().map(|size| format!(", prefix = {}", json!(size)));
    let gateway = format!(
        "{{ mode = {}, memory = {}, flow_memory = {}, wait = {}{} }}",
        json!(mode),
        json!(args.memory),
        json!(flow_memory),
        json!(args.wait),
        prefix.collect::<String>(),
    );
    let config = format!(
        "[scan]\n{scan}\
         [flow]\nidle_timeout = \"{}ms\"\ntunnel_depth = {}\nvlan_in_key = {}\n\
         [[input]]\nname = \"in\"\ntype = \"pcap\"\nfile = \"in.pcap\"\n\
         [[output]]\nname = \"out\"\ntype = \"pcap\"\nfile = \"out.pcap\"\n\
         [[group]]\nname = \"gateway\"\ngateway = {gateway}\nsensor = [{{ name = \"sensor\" }}]\n",
        args.idle_timeout.as_millis(),
        args.tunnel_depth,
        args.vlan_in_key,
    );
    Ok(Config::parse(NAME, &config)?)
}

fn text(path: &std::path::Path) -> Result<&str, Failure> {
    path.to_str()
        .ok_or_else(|| Failure::Usage(format!("{}: expected a name in UTF-8", path.display())))
}
