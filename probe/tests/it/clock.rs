//! `clock` between two processes that share one clock, where the truth is known: an offset of nothing.

use std::net::UdpSocket;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::support::*;

struct Server(Child);

impl Server {
    fn start(arguments: &str) -> (Server, String) {
        let mut process = probe()
            .args(format!("clock serve --listen 127.0.0.1:0 {arguments}").words())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let line = first_line(process.stdout.as_mut().unwrap());
        let ready: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(ready["schema"], "clock.serve.v1");
        let address = ready["listening"].as_str().unwrap();
        (Server(process), address.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ask(address: &str, arguments: &str) -> Value {
    document(&run(&format!("clock ask --json {address} {arguments}")))
}

#[test]
fn a_clock_agrees_with_itself_within_the_bound_it_claims() {
    let (_server, address) = Server::start("");
    let clock = ask(&address, "--count 60");
    assert_json!(clock, {"schema": "clock.v1", "answered": 60});
    let number = |name: &str| clock[name].as_i64().unwrap();
    assert!(number("offset_ns").abs() <= number("bound_ns"), "{clock}");
    let delays = 1..=number("delay_ns");
    assert!(delays.contains(&number("delay_min_ns")), "{clock}");
    // Sixty questions, 10 ms apart: half of the 590 ms, since a first one that is late shortens the span.
    assert!(number("duration_ns") >= 295_000_000, "{clock}");
    assert_eq!(clock["sources"]["local"], clock["sources"]["remote"]);
}

#[test]
fn a_server_passes_over_what_is_no_question() {
    let (_server, address) = Server::start("");
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.send_to(b"nonsense", &address).unwrap();
    stranger.send_to(&[0; 4096], &address).unwrap();
    let clock = ask(&address, "--count 9 --interval 1ms");
    assert_eq!(clock["answered"], 9);
}

#[test]
fn a_server_ends_at_its_time_and_when_told() {
    let (mut server, _) = Server::start("--for 50ms");
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
    let (mut server, _) = Server::start("");
    send(server.0.id(), libc::SIGTERM);
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
}

#[test]
fn few_exchanges_are_not_trusted() {
    let (_server, address) = Server::start("");
    let clock = ask(&address, "--count 3 --interval 1ms");
    assert_eq!(clock["trustworthy"], false);
    assert!(clock["reasons"][0].as_str().unwrap().contains("only 3"));
    assert!(clock["drift"].is_null());
}

#[test]
fn questions_leave_on_time_though_answers_are_late_or_lost() {
    let slow = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = slow.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let mut packet = [0; 200];
        // Every third question is lost; the others are answered only when the last has come.
        let held: Vec<_> = (0..30)
            .map(|_| {
                let (length, asker) = slow.recv_from(&mut packet).unwrap();
                (packet[..length].to_vec(), asker)
            })
            .collect();
        for (number, (mut packet, asker)) in held.into_iter().enumerate() {
            if number % 3 != 2 {
                packet[15] = 2; // the question's kind made an answer's
                slow.send_to(&packet, asker).unwrap();
                slow.send_to(&packet, asker).unwrap();
            }
        }
    });
    let clock = ask(&address, "--count 30 --interval 2ms --timeout 3s");
    server.join().unwrap();
    assert_json!(clock, {"asked": 30, "answered": 20});
    // The first waited for the 29 that came after it.
    assert!(clock["round_trip_ns"]["max"].as_i64().unwrap() >= 56_000_000);
}

#[test]
fn nobody_there_is_told() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(&format!("clock serve --listen {address}"));
    assert_eq!(output.status.code(), Some(2));
    drop(taken);
    let output = run(&format!("clock ask {address}"));
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(told.contains("clock serve"), "{told}");
}
