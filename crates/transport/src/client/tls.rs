//! TLS of a client, and what goes wrong with it, in words.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http_client::{Roots, client_config};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{CertificateError, Error as RustlsError};

use super::WebSocketUrl;
use crate::{Error, ErrorKind};

/// Largest file of certificates, in bytes: several times that of all public authorities.
const CA_FILE_BYTES: u64 = 4 << 20;

/// Whom a client trusts: the authorities of the operating system, and those of a file. Cheap to clone.
#[derive(Clone)]
pub struct ClientTls(TlsConnector);

impl std::fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientTls")
    }
}

impl ClientTls {
    /// Reads the certificates, of the operating system and of a PEM file, on a thread that may wait. Must be called
    /// within a tokio runtime.
    ///
    /// # Errors
    /// [`ErrorKind::CaFile`]: the file cannot be read, or is no PEM file with certificates.
    pub async fn new(ca_file: Option<PathBuf>) -> Result<Self, Error> {
        let stopped = |_| Error::new(ErrorKind::Tls, "the certificates were not read to the end");
        tokio::task::spawn_blocking(move || Self::read(ca_file.as_deref()))
            .await
            .map_err(stopped)?
    }

    fn read(ca_file: Option<&Path>) -> Result<Self, Error> {
        let unusable = |path: &Path, why: &dyn std::fmt::Display| {
            let message = format!("the CA file {} cannot be used: {why}", path.display());
            Error::new(ErrorKind::CaFile, message)
        };
        let pem = ca_file
            .map(|path| files::read(path, CA_FILE_BYTES).map_err(|error| unusable(path, &error)));
        let pem = pem.transpose()?;
        let config = client_config(&Roots::System, pem.as_deref(), None);
        let mut config = config.map_err(|error| match ca_file {
            Some(path) => unusable(path, &error),
            None => Error::new(ErrorKind::Tls, error.to_string()),
        })?;
        // A server that offers more would choose HTTP/2, which has another handshake.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Begins a session over a connection.
    pub(super) async fn connect(
        &self,
        url: &WebSocketUrl,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, Error> {
        let no_name =
            |_| Error::new(ErrorKind::InvalidAddress, "no certificate can be for this host");
        let name = ServerName::try_from(url.name().to_owned()).map_err(no_name)?;
        self.0.connect(name, stream).await.map_err(|error| described(&url.place(), error))
    }
}

/// Why there is no session.
fn described(place: &str, error: io::Error) -> Error {
    let why = error.get_ref().and_then(|inner| inner.downcast_ref::<RustlsError>());
    let untrusted = |why: &str, step: &'static str| {
        let message = format!("the certificate of {place} is not accepted: {why}");
        Error::new(ErrorKind::Certificate, message).next_step(step)
    };
    match why {
        Some(RustlsError::InvalidCertificate(why)) => match why {
            CertificateError::UnknownIssuer => untrusted(
                "no authority that is trusted has issued it",
                "if the server has an authority of its own, give its certificate as the CA file",
            ),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                untrusted(
                    "it is for another host",
                    "use the name in the address that the certificate is for",
                )
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                untrusted("it has expired", "renew it, and check the clock of this machine")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                untrusted("it is not valid yet", "check the clock of this machine")
            }
            other => untrusted(&other.to_string(), "check the certificate of the server"),
        },
        Some(RustlsError::InvalidMessage(_)) => {
            let message = format!("the server at {place} does not speak TLS");
            Error::new(ErrorKind::Tls, message).next_step("use a ws:// address if it has none")
        }
        Some(RustlsError::AlertReceived(alert)) => {
            let message = format!("the server at {place} refuses the TLS session: {alert:?}");
            Error::new(ErrorKind::Tls, message)
        }
        _ => {
            let message = format!("there is no TLS session with {place}");
            Error::new(ErrorKind::Tls, message).caused_by(error)
        }
    }
}
