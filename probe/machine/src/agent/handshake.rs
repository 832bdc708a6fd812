//! Both sides prove that they know the secret, without telling it: each signs both sides' random numbers.
//!
//! ```text
//! guest:      {"schema":"agent.v1","nonce":N,"boot_id":B,"arch":A}
//! controller: {"nonce":M,"proof":HMAC-SHA256(secret, "controller" N B M)}
//! guest:      {"proof":HMAC-SHA256(secret, "guest" N B M)}
//! ```
//!
//! A line each; nonces and proofs are in base64. Each guest has a secret of its own, made of the lab's and its name. That B
//! is signed says which of its boots this is. The guest speaks first, since QEMU's user-mode network accepts a connection
//! before anybody in the guest does.

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

use ground::kernel_files::{self, KernelFiles};

const NONCE: usize = 18;

pub struct Secret(Vec<u8>);

impl Secret {
    /// The whole file, to the last byte.
    pub fn read(path: &Path) -> anyhow::Result<Secret> {
        let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(!content.is_empty(), "{} is empty", path.display());
        Ok(Secret(content))
    }

    /// A guest's own, made of the lab's.
    pub fn for_guest(&self, name: &str) -> Secret {
        let mut made =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        made.update(name.as_bytes());
        Secret(made.finalize().into_bytes().to_vec())
    }

    /// What one side proves itself by, in base64: over what the guest said of itself, and the controller's nonce.
    fn sign_greeting(&self, side: &str, guest: &Greeting, controller: &str) -> String {
        let signing = self.start_signature(side, guest, controller);
        BASE64.encode(signing.finalize().into_bytes())
    }

    fn has_signed(&self, side: &str, guest: &Greeting, controller: &str, proof: &str) -> bool {
        let signing = self.start_signature(side, guest, controller);
        BASE64
            .decode(proof)
            .is_ok_and(|proof| signing.verify_slice(&proof).is_ok())
    }

    fn start_signature(&self, side: &str, guest: &Greeting, controller: &str) -> Hmac<Sha256> {
        let mut signing =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        for part in [side, &guest.nonce, &guest.boot_id, controller] {
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
pub fn greet_controller(
    reader: &mut impl BufRead,
    writer: &mut impl Write,
    secret: &Secret,
) -> anyhow::Result<()> {
    let greeting = Greeting {
        schema: SCHEMA.into(),
        nonce: draw_nonce()?,
        boot_id: KernelFiles::running()
            .read_text("/proc/sys/kernel/random/boot_id")
            .unwrap_or_default(),
        arch: kernel_files::name_architecture(),
    };
    write_line(writer, &greeting)?;
    let answer: Answer =
        serde_json::from_str(&read_line(reader)?).context("this is no answer to a greeting")?;
    ensure!(
        secret.has_signed("controller", &greeting, &answer.nonce, &answer.proof),
        "whoever connected does not know this machine's secret"
    );
    let proof = secret.sign_greeting("guest", &greeting, &answer.nonce);
    write_line(writer, &Proof { proof })
}

/// The other side of it: wait to be greeted, prove who we are, and see that the guest is who it should be.
pub fn greet_guest(
    reader: &mut impl BufRead,
    writer: &mut impl Write,
    secret: &Secret,
) -> anyhow::Result<()> {
    let greeting: Greeting =
        serde_json::from_str(&read_line(reader)?).context("what answers there is no agent")?;
    ensure!(
        greeting.schema == SCHEMA,
        "what answers there is no agent of version {SCHEMA}"
    );
    let nonce = draw_nonce()?;
    let proof = secret.sign_greeting("controller", &greeting, &nonce);
    let ours = Answer { nonce, proof };
    write_line(writer, &ours)?;
    let theirs: Proof = serde_json::from_str(&read_line(reader)?).context("this is no proof")?;
    ensure!(
        secret.has_signed("guest", &greeting, &ours.nonce, &theirs.proof),
        "what answers there does not know this machine's secret"
    );
    Ok(())
}

/// One document in one line.
pub fn write_line(writer: &mut impl Write, document: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string(document)?;
    text.push('\n');
    Ok(writer.write_all(text.as_bytes())?)
}

/// A line of bounded length.
pub fn read_line(reader: &mut impl BufRead) -> anyhow::Result<String> {
    const LONGEST: u64 = 4 << 20;
    let mut text = String::new();
    reader.by_ref().take(LONGEST).read_line(&mut text)?;
    ensure!(
        text.ends_with('\n'),
        "the connection ended in the middle of a line"
    );
    Ok(text)
}

fn draw_nonce() -> anyhow::Result<String> {
    let mut bytes = [0; NONCE];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(BASE64.encode(bytes))
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::*;

    /// What the guest's side ends with when the controller's answers so, and what it said last.
    fn shake_with(answer: impl FnOnce(&Greeting) -> String) -> (anyhow::Result<()>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let controller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let guest = listener.accept().unwrap().0;
        let guests = thread::spawn(move || {
            let mut reader = BufReader::new(guest.try_clone().unwrap());
            greet_controller(&mut reader, &mut &guest, &Secret(b"secret".into()))
        });
        let mut reader = BufReader::new(controller.try_clone().unwrap());
        let greeting: Greeting = serde_json::from_str(&read_line(&mut reader).unwrap()).unwrap();
        assert_eq!(greeting.schema, SCHEMA);
        write!(&controller, "{}", answer(&greeting)).unwrap();
        let mut said = String::new();
        let ended = guests.join().unwrap();
        reader.read_line(&mut said).unwrap();
        (ended, said)
    }

    fn sign_answer(secret: &[u8], side: &str, greeting: &Greeting) -> String {
        let proof = Secret(secret.into()).sign_greeting(side, greeting, "mine");
        format!("{{\"nonce\":\"mine\",\"proof\":\"{proof}\"}}\n")
    }

    #[test]
    fn who_knows_the_secret_is_shown_that_the_guest_does_too() {
        let mut theirs = String::new();
        let (ended, said) = shake_with(|greeting| {
            theirs = Secret(b"secret".into()).sign_greeting("guest", greeting, "mine");
            sign_answer(b"secret", "controller", greeting)
        });
        ended.unwrap();
        assert_eq!(said, format!("{{\"proof\":\"{theirs}\"}}\n"));
    }

    #[test]
    fn who_does_not_know_it_is_shown_nothing() {
        for (secret, side) in [(&b"another"[..], "controller"), (&b"secret"[..], "guest")] {
            let (ended, said) = shake_with(|greeting| sign_answer(secret, side, greeting));
            assert!(format!("{:#}", ended.unwrap_err()).contains("secret"));
            assert_eq!(said, "");
        }
    }

    #[test]
    fn what_was_proved_to_one_guest_is_nothing_to_another() {
        let (ended, said) = shake_with(|greeting| {
            let another = Greeting {
                schema: SCHEMA.into(),
                nonce: greeting.nonce.clone(),
                boot_id: "another".into(),
                arch: greeting.arch.clone(),
            };
            sign_answer(b"secret", "controller", &another)
        });
        ended.unwrap_err();
        assert_eq!(said, "");
    }

    #[test]
    fn a_guests_secret_is_the_one_that_the_controller_makes() {
        // Python: hmac.digest(b"secret", b"nm-a-1", "sha256").hex()
        let expected = "2d27a795016cc6f5ebc82c0fccadb81a3f9bb4d428bcd5f223a04fba36c79746";
        let made = Secret(b"secret".into()).for_guest("nm-a-1").0;
        let made: String = made.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(made, expected);
    }

    #[test]
    fn rubbish_is_refused() {
        let empty = "{\"nonce\":\"\",\"proof\":\"-\"}\n";
        for rubbish in ["\n", "GET / HTTP/1.1\r\n", empty] {
            let (ended, said) = shake_with(|_| rubbish.into());
            assert!(ended.is_err());
            assert_eq!(said, "");
        }
    }
}
