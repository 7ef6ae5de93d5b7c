//! Entry point: flags → command → exit code.

use std::process::ExitCode;

use reprise::cli::{self, DemoArgs, Exit, RemainingWork, ServeArgs};
use reprise::config::{ConfigError, LoadedConfig};
use reprise::demo::{self, DemoOptions};
use reprise::server::{self, ConfigLoader};

// jemalloc: threads free each other's memory all the time, and a burst must return to the system.
// glibc's arenas waited for each other for a third of the time of the engine's thread. mimalloc
// kept 11.8 MiB of answers that nobody read, jemalloc less than 8 (`tests/hostile`). Its settings
// are in `.cargo/config.toml`: a build from another folder has jemalloc's own.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

struct Flags<'a>(&'a ServeArgs);

impl ConfigLoader for Flags<'_> {
    fn load(&self) -> Result<LoadedConfig, ConfigError> {
        self.0.load()
    }
}

fn main() -> ExitCode {
    match cli::run(std::env::args_os()) {
        RemainingWork::Done(exit) => exit.into(),
        RemainingWork::Serve(args) => serve(&args).into(),
        RemainingWork::Demo(DemoArgs { speed, exit, json }) => {
            demo::run(DemoOptions { speed, exit, json })
        }
    }
}

fn serve(args: &ServeArgs) -> Exit {
    match server::serve(&Flags(args), args.ready_file.as_deref()) {
        Ok(()) => Exit::Ok,
        Err(error) if error.is_config() => Exit::BadConfig.saying(&error.to_string()),
        Err(error) if error.is_panic() => Exit::Panicked.saying(&error.to_string()),
        Err(error) if error.is_locked() => Exit::Locked.saying(&error.to_string()),
        Err(error) => Exit::Failed.saying(&error.to_string()),
    }
}
