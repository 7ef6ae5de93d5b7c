//! `user`: prints lines for a listener's `sasl.users_file`.

use std::io::{IsTerminal, Read, Write};

use clap::{Args, ValueEnum};
use uuid::Uuid;

use super::exit::{CommandFailure, Exit};
use crate::sasl::{Hash, ITERATIONS, ITERATIONS_MAX, UserName, Verifier};

/// The longest password; no real one is longer.
const PASSWORD_BYTES_MAX: u64 = 4 << 10;

#[derive(Debug, Args)]
pub(super) struct UserArgs {
    /// The user's name, as clients give it.
    name: String,
    /// For one mechanism only; PLAIN takes either.
    #[arg(long, value_enum)]
    mechanism: Option<ScramMechanism>,
    /// Rounds of PBKDF2: more make a stolen file harder to guess from, and each login slower.
    #[arg(long, default_value_t = ITERATIONS, value_parser = iterations)]
    iterations: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScramMechanism {
    #[value(name = "SCRAM-SHA-256")]
    ScramSha256,
    #[value(name = "SCRAM-SHA-512")]
    ScramSha512,
}

/// Reads a password from standard input and prints its verifiers.
pub(super) fn run(args: &UserArgs, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let Some(name) = UserName::new(&args.name) else {
        let says = format!(
            "{:?} is no user name: 1 to 128 characters, without colons, spaces at the ends or # \
             in front",
            args.name
        );
        return Err(CommandFailure::new(Exit::Usage, says));
    };
    let password = password(&args.name)?;
    let hashes = match args.mechanism {
        None => vec![Hash::Sha512, Hash::Sha256],
        Some(ScramMechanism::ScramSha256) => vec![Hash::Sha256],
        Some(ScramMechanism::ScramSha512) => vec![Hash::Sha512],
    };
    for hash in hashes {
        let salt = Uuid::new_v4().into_bytes().to_vec();
        let verifier = Verifier::of(hash, password.as_bytes(), salt, args.iterations);
        writeln!(out, "{name}:{verifier}")?;
    }
    Ok(())
}

/// The number of iterations, within the range of a users file.
fn iterations(text: &str) -> Result<u32, String> {
    let taken = text.parse().ok().filter(|n| (ITERATIONS..=ITERATIONS_MAX).contains(n));
    taken.ok_or_else(|| format!("expected {ITERATIONS} to {ITERATIONS_MAX}"))
}

fn password(name: &str) -> Result<String, CommandFailure> {
    let input = std::io::stdin();
    if input.is_terminal() {
        let says = format!(
            "a password is not typed here, where it would show; pipe it in: reprise user {name} < \
             password-file"
        );
        return Err(CommandFailure::new(Exit::Usage, says));
    }
    let mut text = String::new();
    let read = input.lock().take(PASSWORD_BYTES_MAX + 1).read_to_string(&mut text);
    let wrong = |why: &str| CommandFailure::new(Exit::Usage, format!("the password {why}"));
    read.map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    // The line end is no part of the password, as in every file of a secret.
    let password = text.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(wrong("on standard input is empty"));
    }
    if u64::try_from(text.len()).is_ok_and(|len| len > PASSWORD_BYTES_MAX) {
        return Err(wrong("is longer than 4 KiB"));
    }
    if password.contains('\0') {
        return Err(wrong("holds a zero byte, which PLAIN cannot send"));
    }
    Ok(password.to_owned())
}
