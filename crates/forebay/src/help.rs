//! The command line's definition, with the options of `forebay` explained only in its own
//! help.

use clap::{Arg, Command, CommandFactory as _};

use crate::cli::Cli;

/// The command line's definition. The help of `ctl` and its verbs lists the names of
/// options of the commands above, without explaining them again.
#[must_use]
pub fn command() -> Command {
    let command = Cli::command();
    let above = globals(&command);
    command.mut_subcommand("ctl", |ctl| name_once("forebay", ctl, &above, true))
}

fn globals(command: &Command) -> Vec<Arg> {
    command.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect()
}

/// Hides the options of `above` in the help of `command`, and in its verbs also its own
/// options.
fn name_once(parent: &str, command: Command, above: &[Arg], has_verbs: bool) -> Command {
    let own = globals(&command);
    let name = format!("{parent} {}", command.get_name());
    // clap does not propagate an option that a command already has.
    let command = command.args(above.iter().map(|arg| arg.clone().hide(true)));
    let longs = above.iter().filter_map(Arg::get_long).map(|long| format!("--{long}"));
    let longs = longs.collect::<Vec<_>>().join(", ");
    let command = command.after_help(format!("Takes also {longs}: see `{parent} --help`."));
    if !has_verbs {
        return command;
    }
    let all: Vec<Arg> = own.iter().chain(above).cloned().collect();
    command.mut_subcommands(|verb| name_once(&name, verb, &all, false))
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;

    use super::*;

    fn help(of: &[&str]) -> String {
        let words = ["forebay"].iter().chain(of).chain(&["--help"]);
        command().try_get_matches_from(words).unwrap_err().to_string()
    }

    #[test]
    fn options_of_the_command_above_are_not_explained_again() {
        command().debug_assert();
        let ctl = help(&["ctl"]);
        assert!(ctl.contains("The control socket of the broker"), "{ctl}");
        let mut texts = vec![ctl];
        let verbs =
            ["status", "sensors", "buckets", "ledger", "events", "reload", "drain", "sensor"];
        for verb in verbs {
            let text = help(&["ctl", verb]);
            assert!(!text.contains("The control socket of the broker"), "{text}");
            assert!(text.contains("--socket"), "they are named: {text}");
            texts.push(text);
        }
        for text in texts {
            for option in ["--json", "--quiet", "--verbose", "--isa"] {
                assert_eq!(text.matches(option).count(), 1, "{option}: {text}");
            }
            assert!(!text.contains("instructions") && !text.contains("avx2"), "{text}");
        }
        assert!(help(&[]).contains("avx2"), "there they are explained");
    }

    #[test]
    fn hidden_options_are_taken_wherever_they_stand() {
        for words in [
            ["forebay", "-v", "--json", "ctl", "-s", "x", "sensors"],
            ["forebay", "ctl", "--json", "-v", "-s", "x", "sensors"],
            ["forebay", "ctl", "sensors", "-s", "x", "--json", "-v"],
        ] {
            let cli = Cli::from_arg_matches(&command().get_matches_from(words)).unwrap();
            let crate::cli::Verb::Ctl(ctl) = cli.verb else { panic!("{words:?}") };
            let socket = ctl.socket.to_str().unwrap();
            assert_eq!((cli.json, cli.verbose, cli.quiet, socket), (true, 1, false, "x"));
        }
    }
}
