//! `config show` and `config sample`.

use std::io::Write;

use clap::{Args, Subcommand, ValueEnum};

use super::exit::{CommandFailure, Exit};
use super::serve::ConfigSource;
use crate::config::SAMPLE;

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// The configuration in force: file, environment and flags over the defaults.
    Show(ConfigShowArgs),
    /// The shipped file: every key with its default, unit and range.
    Sample,
}

#[derive(Debug, Args)]
pub(super) struct ConfigShowArgs {
    #[command(flatten)]
    source: ConfigSource,
    /// The format of the output.
    #[arg(long, value_enum, default_value = "yaml")]
    format: OutputFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OutputFormat {
    Yaml,
    Json,
}

pub(super) fn run(command: &ConfigCommand, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let ConfigCommand::Show(args) = command else {
        return Ok(out.write_all(SAMPLE.as_bytes())?);
    };
    let config = args.source.load()?.config;
    let text = match args.format {
        OutputFormat::Yaml => config.to_yaml(),
        OutputFormat::Json => {
            serde_json::to_string_pretty(&config).map(|t| t + "\n").map_err(|e| e.to_string())
        }
    };
    let text = text.map_err(|why| {
        CommandFailure::new(Exit::Failed, format!("the configuration cannot be written: {why}"))
    })?;
    Ok(out.write_all(text.as_bytes())?)
}
