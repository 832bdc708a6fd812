//! Whom a client trusts.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::crypto::{self, WebPkiSupportedAlgorithms};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use schemars::JsonSchema;
use serde::Serialize;

use super::errors::Failure;
use super::target::Target;

const REMEDY: &str =
    "give the certificate of its CA with --ca FILE, or --insecure to leave it unchecked";

/// How connections to one server are secured.
#[derive(Clone, Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    pub checks: bool,
}

/// What client and server agreed upon.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Agreement {
    /// Such as `TLSv1_3`.
    pub version: Option<&'static str>,
    /// Such as `TLS13_AES_256_GCM_SHA384`.
    pub cipher: Option<&'static str>,
    /// Such as `X25519`.
    pub key_exchange: Option<&'static str>,
}

impl Client {
    /// Trust the CAs in the file `ca`, else those of this machine; anybody if `insecure`.
    pub fn new(target: &Target, ca: Option<&str>, insecure: bool) -> Result<Self, String> {
        let name = ServerName::try_from(target.host.clone()).map_err(|_| {
            format!(
                "no certificate can be for '{}'; name the host otherwise",
                target.host
            )
        })?;
        let provider = Arc::new(crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("cannot set TLS up: {error}; use http://"))?;
        let builder = if insecure {
            let anybody = Anybody(provider.signature_verification_algorithms);
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(anybody))
        } else {
            builder.with_root_certificates(load_roots(ca)?)
        };
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Each connection is a client of its own: a session that is resumed costs a server a fraction of a new one.
        config.resumption = Resumption::disabled();
        Ok(Self {
            config: Arc::new(config),
            name,
            checks: !insecure,
        })
    }

    pub fn new_connection(&self) -> Result<UnbufferedClientConnection, Error> {
        UnbufferedClientConnection::new(self.config.clone(), self.name.clone())
    }
}

pub fn choose_remedy(reason: &str) -> &'static str {
    match reason {
        CA_AS_SERVER => {
            "give the server one that is not a CA's own (CA:FALSE), or --insecure to leave it unchecked"
        }
        OTHER_NAME => "use the name that it is for in the URL, or --insecure to leave it unchecked",
        EXPIRED | TOO_EARLY => {
            "renew it or set the clock, or give --insecure to leave it unchecked"
        }
        _ => REMEDY,
    }
}

fn load_roots(ca: Option<&str>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(file) = ca else {
        let found = openssl_probe::probe().cert_file;
        let certificates = found
            .iter()
            .flat_map(CertificateDer::pem_file_iter)
            .flatten();
        roots.add_parsable_certificates(certificates.flatten());
        if roots.is_empty() {
            return Err(format!("this machine has no list of CAs; {REMEDY}"));
        }
        return Ok(roots);
    };
    let wrong = |why: &dyn std::fmt::Display| {
        format!("--ca: cannot use '{file}': {why}; name a file of certificates in PEM")
    };
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))? {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    match roots.is_empty() {
        true => Err(wrong(&"it holds no certificate")),
        false => Ok(roots),
    }
}

pub const NOT_TLS: &str = "not TLS";
pub const EXPIRED: &str = "certificate that has expired";
pub const TOO_EARLY: &str = "certificate that is not valid yet";
pub const OTHER_NAME: &str = "certificate for another name";
const CA_AS_SERVER: &str = "certificate that is a CA's own";

/// In which class an error of rustls counts.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        use rustls::AlertDescription as Alert;
        use rustls::CertificateError as Wrong;
        match error {
            Error::InvalidCertificate(wrong) => Failure::Certificate(match wrong {
                Wrong::Expired | Wrong::ExpiredContext { .. } => EXPIRED,
                Wrong::NotValidYet | Wrong::NotValidYetContext { .. } => TOO_EARLY,
                Wrong::NotValidForName | Wrong::NotValidForNameContext { .. } => OTHER_NAME,
                Wrong::UnknownIssuer => "certificate of an unknown CA",
                Wrong::BadSignature => "certificate with a wrong signature",
                Wrong::BadEncoding => "malformed certificate",
                Wrong::InvalidPurpose | Wrong::InvalidPurposeContext { .. } => {
                    "certificate that is not for servers"
                }
                Wrong::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
                    CA_AS_SERVER
                }
                _ => "certificate that is not valid",
            }),
            Error::NoCertificatesPresented => Failure::Certificate("missing certificate"),
            Error::InvalidMessage(_) => Failure::Tls(NOT_TLS),
            Error::AlertReceived(alert) => Failure::Tls(match alert {
                Alert::HandshakeFailure | Alert::InsufficientSecurity => {
                    "the server agrees to no cipher"
                }
                Alert::ProtocolVersion => "the server speaks another version of TLS",
                Alert::CertificateRequired => "the server wants a certificate of the client",
                Alert::UnrecognisedName => "the server does not know the name",
                Alert::NoApplicationProtocol => "the server does not speak HTTP/1.1",
                _ => "the server broke TLS off",
            }),
            Error::PeerIncompatible(_) => Failure::Tls("nothing in common with the server's TLS"),
            Error::DecryptError => Failure::Tls("a record that cannot be decrypted"),
            _ => Failure::Tls("the server broke the protocol of TLS"),
        }
    }
}

/// Accepts every certificate; its holder still has to prove that it is its own.
#[derive(Debug)]
struct Anybody(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
