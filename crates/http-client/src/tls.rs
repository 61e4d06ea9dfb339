//! TLS by rustls: whom a client trusts, and how it identifies itself.

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use rustls::{ClientConfig, RootCertStore};

/// TLS cannot be set up.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TlsError {
    /// A root certificate is not valid PEM or DER.
    #[error("a root certificate cannot be read: {0}; check the PEM file")]
    RootCertificate(String),
    /// The client's certificate or its key is not valid PEM, or they do not belong together.
    #[error("the client certificate cannot be used: {0}; check its PEM file and that of its key")]
    ClientCertificate(String),
    /// The cryptographic provider supports none of the protocol versions.
    #[error("no supported TLS version is available")]
    Protocol(#[from] rustls::Error),
}

/// The authorities that a client trusts.
#[derive(Clone, Debug, Default)]
pub enum Roots {
    /// The public ones that are part of this program.
    #[default]
    Bundled,
    /// Those of the operating system.
    System,
    /// Those of a PEM file.
    Pem(Vec<u8>),
}

/// A client certificate and its key, as PEM.
#[derive(Clone)]
pub struct ClientIdentity {
    /// The certificate, with those between it and its authority.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub private_key: Vec<u8>,
}

/// TLS that trusts the public roots that are part of this program and those in `extra_roots_pem`.
///
/// # Errors
/// When an additional certificate cannot be read.
pub fn tls_config(extra_roots_pem: Option<&[u8]>) -> Result<ClientConfig, TlsError> {
    client_config(&Roots::Bundled, extra_roots_pem, None)
}

/// TLS that trusts `roots` and those in the PEM texts of `extra`. Blocks while it reads the roots of the
/// operating system.
///
/// # Errors
/// When a certificate or a key cannot be read, or the two do not belong together.
pub fn client_config<'p>(
    roots: &Roots,
    extra: impl IntoIterator<Item = &'p [u8]>,
    identity: Option<&ClientIdentity>,
) -> Result<ClientConfig, TlsError> {
    let mut store = match roots {
        Roots::Bundled => bundled(),
        Roots::System => system(),
        Roots::Pem(pem) => {
            let mut store = RootCertStore::empty();
            add_pem(&mut store, pem)?;
            store
        }
    };
    for pem in extra {
        add_pem(&mut store, pem)?;
    }
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(store);
    let Some(identity) = identity else { return Ok(builder.with_no_client_auth()) };
    let unusable = |problem: &dyn Error| TlsError::ClientCertificate(problem.to_string());
    let (certificate, private_key) =
        (text_of(&identity.certificate), text_of(&identity.private_key));
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&certificate).collect();
    let chain = chain.map_err(|error| unusable(&error))?;
    if chain.is_empty() {
        return Err(TlsError::ClientCertificate("its file has no certificate".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(&private_key)
        .map_err(|error| TlsError::ClientCertificate(format!("the private key: {error}")))?;
    builder.with_client_auth_cert(chain, key).map_err(|error| unusable(&error))
}

/// A PEM text without the byte order mark that editors write, in UTF-8 where it is in UTF-16: the parser takes a
/// marked first line for none.
fn text_of(pem: &[u8]) -> Cow<'_, [u8]> {
    match pem {
        [0xef, 0xbb, 0xbf, ..] | [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            let decoded = files::decoded(pem.to_owned());
            decoded.map_or_else(Cow::Owned, |text| Cow::Owned(text.into_bytes()))
        }
        _ => Cow::Borrowed(pem),
    }
}

fn bundled() -> RootCertStore {
    RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }
}

/// The roots of the operating system, or the bundled ones where it has none.
fn system() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    // Systems ship a few certificates that rustls does not accept; those are left out.
    let (added, ignored) = store.add_parsable_certificates(found.certs);
    if added > 0 {
        tracing::debug!(added, ignored, "the roots of the operating system are trusted");
        return store;
    }
    let problems: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    tracing::warn!(
        problems = problems.join("; "),
        "the operating system has no usable root certificates: the bundled ones apply; install the \
         system's certificates, or name a PEM file in SSL_CERT_FILE"
    );
    bundled()
}

fn add_pem(store: &mut RootCertStore, pem: &[u8]) -> Result<(), TlsError> {
    let unreadable = |error: &dyn Error| TlsError::RootCertificate(error.to_string());
    let before = store.len();
    for certificate in CertificateDer::pem_slice_iter(&text_of(pem)) {
        let certificate = certificate.map_err(|error| unreadable(&error))?;
        store.add(certificate).map_err(|error| unreadable(&error))?;
    }
    if store.len() == before {
        return Err(TlsError::RootCertificate("the file has no certificate".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority() -> (String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["client".to_owned()]).unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    #[test]
    fn pem_that_cannot_be_used_is_named() {
        let (certificate, key) = authority();
        let check = |extra: &str, identity: Option<(&str, &str)>, expect: Option<&str>| {
            let identity = identity.map(|(certificate, key)| ClientIdentity {
                certificate: certificate.into(),
                private_key: key.into(),
            });
            let extra = Some(extra.as_bytes()).filter(|pem| !pem.is_empty());
            let built = client_config(&Roots::Bundled, extra, identity.as_ref());
            let message = built.err().map(|error| error.to_string());
            match (expect, &message) {
                (None, None) => {}
                (Some(part), Some(message)) if message.contains(part) => {}
                _ => panic!("{extra:?}: {message:?}"),
            }
        };
        check("", None, None);
        check(&certificate, None, None);
        check("no pem", None, Some("no certificate"));
        check("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", None, Some("root"));
        check("", Some((&certificate, &key)), None);
        check("", Some(("", &key)), Some("no certificate"));
        check("", Some((&certificate, "")), Some("private key"));
        let (_, other) = authority();
        check("", Some((&certificate, &other)), Some("client certificate"));
    }

    #[test]
    fn pem_with_a_byte_order_mark_is_read() {
        type Encoding = fn(u16) -> [u8; 2];
        let (certificate, key) = authority();
        let utf16 = |text: &str, unit: Encoding| {
            format!("\u{feff}{text}").encode_utf16().flat_map(unit).collect::<Vec<u8>>()
        };
        for unit in [None, Some(u16::to_le_bytes as Encoding), Some(u16::to_be_bytes)] {
            let encoded = |text: &str| match unit {
                None => format!("\u{feff}{text}").into_bytes(),
                Some(unit) => utf16(text, unit),
            };
            let roots = encoded(&certificate);
            let identity =
                ClientIdentity { certificate: encoded(&certificate), private_key: encoded(&key) };
            let mut store = RootCertStore::empty();
            add_pem(&mut store, &roots).unwrap();
            assert_eq!(store.len(), 1);
            let built = client_config(&Roots::Bundled, [&roots[..]], Some(&identity));
            assert!(built.is_ok(), "{:?}", built.err());
        }
    }

    #[test]
    fn a_file_of_roots_replaces_the_others() {
        let (certificate, _) = authority();
        let config = client_config(&Roots::Pem(certificate.into_bytes()), None, None);
        assert!(config.is_ok());
        assert!(client_config(&Roots::Pem(Vec::new()), None, None).is_err());
        assert!(client_config(&Roots::System, None, None).is_ok());
    }
}
