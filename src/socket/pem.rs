//! Certificates and keys from PEM files, with errors that say what to do.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Largest file read, in bytes: four times the size of all public authorities together.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The word in the header of every form of encrypted key.
const ENCRYPTED: &[u8] = b"ENCRYPTED";
/// The first byte of DER, of a certificate as well as of PKCS#12.
const DER_SEQUENCE: u8 = 0x30;

/// A fault of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    /// The key of the configuration that names the file.
    pub key: &'static str,
    /// The file, its fault and what to do.
    pub says: String,
}

impl FileProblem {
    /// `says` about the file at `path`.
    pub(super) fn of(key: &'static str, path: &Path, says: &str) -> Self {
        Self { key, says: format!("{} {says}", path.display()) }
    }
}

/// The certificates of a file, in order; at least one.
pub(super) fn certificates(
    key: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, FileProblem> {
    let wrong = |says: &str| FileProblem::of(key, path, says);
    let bytes = read(path).map_err(|says| wrong(&says))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) | Err(PemError::NoItemsFound) => Err(wrong(&format!(
            "holds no certificate; expected PEM with -----BEGIN CERTIFICATE-----{}",
            told_apart(&bytes)
        ))),
        Err(error) => Err(wrong(damage(&error))),
    }
}

/// The private key in a file.
pub(super) fn private_key(
    key: &'static str,
    path: &Path,
) -> Result<PrivateKeyDer<'static>, FileProblem> {
    let wrong = |says: &str| FileProblem::of(key, path, says);
    let bytes = read(path).map_err(|says| wrong(&says))?;
    match PrivateKeyDer::from_pem_slice(&bytes) {
        Ok(key) => Ok(key),
        Err(_) if bytes.windows(ENCRYPTED.len()).any(|window| window == ENCRYPTED) => Err(wrong(
            "is encrypted and there is nobody to ask for the password; write it in the clear for \
             this process only: openssl pkey -in FILE -out FILE",
        )),
        Err(PemError::NoItemsFound) => Err(wrong(&format!(
            "holds no private key; expected PEM with -----BEGIN PRIVATE KEY-----{}",
            told_apart(&bytes)
        ))),
        Err(error) => Err(wrong(damage(&error))),
    }
}

/// The authorities of a file; at least one.
pub(super) fn authorities(key: &'static str, path: &Path) -> Result<RootCertStore, FileProblem> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(key, path)? {
        roots.add(certificate).map_err(|error| {
            FileProblem::of(key, path, &format!("holds a certificate that cannot be read: {error}"))
        })?;
    }
    Ok(roots)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => "does not exist; give the path of a PEM file".to_owned(),
        ErrorKind::PermissionDenied => {
            "may not be read by this user; change its owner or mode".to_owned()
        }
        _ => format!("cannot be read: {error}"),
    };
    let meta = fs::metadata(path).map_err(unreadable)?;
    if !meta.is_file() {
        return Err("is not a file; give the path of a PEM file".to_owned());
    }
    if meta.len() > FILE_BYTES_MAX {
        return Err("is larger than 1 MiB; that is no PEM file of ours".to_owned());
    }
    fs::read(path).map_err(unreadable)
}

/// A guess at the format of a file that is not PEM.
fn told_apart(bytes: &[u8]) -> &'static str {
    match bytes.first() {
        Some(&DER_SEQUENCE) => ", found DER or PKCS#12; openssl x509, pkey and pkcs12 convert it",
        None => ", found an empty file",
        Some(_) => "",
    }
}

fn damage(error: &PemError) -> &'static str {
    match error {
        PemError::MissingSectionEnd { .. } => "is cut off: a line with -----END is missing",
        PemError::Base64Decode(_) => "is damaged: what lies between BEGIN and END is no base64",
        _ => "is damaged: it is no PEM file",
    }
}
