//! Both sides prove that they know the secret, without telling it: each signs both sides' random numbers.
//!
//! ```text
//! guest:      {"schema":"agent.v1","nonce":N,"boot_id":B,"arch":A}
//! controller: {"nonce":M,"proof":HMAC-SHA256(secret, "controller" N M)}
//! guest:      {"proof":HMAC-SHA256(secret, "guest" N M)}
//! ```
//!
//! A line each; nonces and proofs are in base64. The guest speaks first, since QEMU's user-mode network accepts a
//! connection before anybody in the guest does.

use std::fs;
use std::fs::File;
use std::io::{BufRead, Read, Write};
use std::path::Path;

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::kernel::Kernel;

const NONCE: usize = 18;

pub struct Secret(Vec<u8>);

impl Secret {
    /// The whole file, to the last byte.
    pub fn read(path: &Path) -> anyhow::Result<Secret> {
        let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(!content.is_empty(), "{} is empty", path.display());
        Ok(Secret(content))
    }

    /// What one side proves itself by: in base64, over the guest's nonce and the controller's.
    fn signed(&self, side: &str, nonces: (&str, &str)) -> String {
        BASE64.encode(self.signing(side, nonces).finalize().into_bytes())
    }

    fn has_signed(&self, side: &str, nonces: (&str, &str), proof: &str) -> bool {
        BASE64
            .decode(proof)
            .is_ok_and(|proof| self.signing(side, nonces).verify_slice(&proof).is_ok())
    }

    fn signing(&self, side: &str, (guest, controller): (&str, &str)) -> Hmac<Sha256> {
        let mut signing =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        for part in [side, guest, controller] {
            signing.update(part.as_bytes());
        }
        signing
    }
}

const SCHEMA: &str = "agent.v1";

#[derive(Serialize, Deserialize)]
struct Greeting {
    schema: String,
    nonce: String,
    boot_id: String,
    arch: String,
}

#[derive(Serialize, Deserialize)]
struct Answer {
    nonce: String,
    proof: String,
}

#[derive(Serialize, Deserialize)]
struct Proof {
    proof: String,
}

/// Greet, and return once the other side has proved who it is and has been shown the same of us.
pub fn shake(
    reader: &mut impl BufRead,
    writer: &mut impl Write,
    secret: &Secret,
) -> anyhow::Result<()> {
    let greeting = Greeting {
        schema: SCHEMA.into(),
        nonce: nonce()?,
        boot_id: Kernel::running()
            .text("/proc/sys/kernel/random/boot_id")
            .unwrap_or_default(),
        arch: rustix::system::uname()
            .machine()
            .to_string_lossy()
            .into_owned(),
    };
    say(writer, &greeting)?;
    let answer: Answer =
        serde_json::from_str(&line(reader)?).context("this is no answer to a greeting")?;
    let nonces = (greeting.nonce.as_str(), answer.nonce.as_str());
    ensure!(
        secret.has_signed("controller", nonces, &answer.proof),
        "whoever connected does not know this lab's secret"
    );
    let proof = secret.signed("guest", nonces);
    say(writer, &Proof { proof })
}

/// The other side of it: wait to be greeted, prove who we are, and see that the guest is who it should be.
pub fn introduce(
    reader: &mut impl BufRead,
    writer: &mut impl Write,
    secret: &Secret,
) -> anyhow::Result<()> {
    let greeting: Greeting =
        serde_json::from_str(&line(reader)?).context("what answers there is no agent")?;
    ensure!(
        greeting.schema == SCHEMA,
        "what answers there is no agent of version {SCHEMA}"
    );
    let nonce = nonce()?;
    let nonces = (greeting.nonce.as_str(), nonce.as_str());
    let proof = secret.signed("controller", nonces);
    let ours = Answer {
        nonce: nonce.clone(),
        proof,
    };
    say(writer, &ours)?;
    let theirs: Proof = serde_json::from_str(&line(reader)?).context("this is no proof")?;
    ensure!(
        secret.has_signed("guest", nonces, &theirs.proof),
        "what answers there does not know this lab's secret"
    );
    Ok(())
}

/// One document in one line.
pub fn say(writer: &mut impl Write, document: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string(document)?;
    text.push('\n');
    Ok(writer.write_all(text.as_bytes())?)
}

/// A line of bounded length.
pub fn line(reader: &mut impl BufRead) -> anyhow::Result<String> {
    const LONGEST: u64 = 4 << 20;
    let mut text = String::new();
    reader.by_ref().take(LONGEST).read_line(&mut text)?;
    ensure!(
        text.ends_with('\n'),
        "the connection ended in the middle of a line"
    );
    Ok(text)
}

fn nonce() -> anyhow::Result<String> {
    let mut bytes = [0; NONCE];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(BASE64.encode(bytes))
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use serde_json::Value;

    use super::*;

    /// What the guest's side ends with when the controller's answers so, and what it said last.
    fn shaken(answer: impl FnOnce(&str) -> String) -> (anyhow::Result<()>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let controller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let guest = listener.accept().unwrap().0;
        let guests = thread::spawn(move || {
            let mut reader = BufReader::new(guest.try_clone().unwrap());
            shake(&mut reader, &mut &guest, &Secret(b"secret".into()))
        });
        let mut reader = BufReader::new(controller.try_clone().unwrap());
        let greeting: Value = serde_json::from_str(&line(&mut reader).unwrap()).unwrap();
        assert_eq!(greeting["schema"], "agent.v1");
        (&controller)
            .write_all(answer(greeting["nonce"].as_str().unwrap()).as_bytes())
            .unwrap();
        let mut said = String::new();
        let ended = guests.join().unwrap();
        reader.read_line(&mut said).unwrap();
        (ended, said)
    }

    fn signed(secret: &[u8], side: &str, nonce: &str) -> String {
        Secret(secret.into()).signed(side, (nonce, "mine"))
    }

    #[test]
    fn who_knows_the_secret_is_shown_that_the_guest_does_too() {
        let mut theirs = String::new();
        let (ended, said) = shaken(|nonce| {
            theirs = signed(b"secret", "guest", nonce);
            let proof = signed(b"secret", "controller", nonce);
            format!("{{\"nonce\":\"mine\",\"proof\":\"{proof}\"}}\n")
        });
        ended.unwrap();
        assert_eq!(said, format!("{{\"proof\":\"{theirs}\"}}\n"));
    }

    #[test]
    fn who_does_not_know_it_is_shown_nothing() {
        for (secret, side) in [(&b"another"[..], "controller"), (&b"secret"[..], "guest")] {
            let (ended, said) = shaken(|nonce| {
                let proof = signed(secret, side, nonce);
                format!("{{\"nonce\":\"mine\",\"proof\":\"{proof}\"}}\n")
            });
            assert!(format!("{:#}", ended.unwrap_err()).contains("secret"));
            assert_eq!(said, "");
        }
    }

    #[test]
    fn rubbish_is_refused() {
        for rubbish in [
            "\n",
            "GET / HTTP/1.1\r\n",
            "{\"nonce\":\"\",\"proof\":\"-\"}\n",
        ] {
            let (ended, said) = shaken(|_| rubbish.into());
            assert!(ended.is_err());
            assert_eq!(said, "");
        }
    }
}
