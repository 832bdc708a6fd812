//! `link` between two network namespaces: what it says it did is what the machines at its ends see.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::support::*;

const THIS: &str = env!("CARGO_BIN_EXE_nearmetal-probe");

/// A link that carries frames, and its two ends with addresses 10.99.0.1 and 10.99.0.2.
struct Link {
    process: Child,
    output: BufReader<std::process::ChildStdout>,
    ends: [Netns; 2],
}

impl Link {
    fn start(arguments: &str) -> Link {
        let ends = [Netns::new(), Netns::new()];
        let [near, far] = ends.each_ref().map(Netns::path);
        let mut process = probe()
            .args(format!("link {near} {far}:far --json {arguments}").words())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(line.contains("link.ready.v1"), "{line}");
        for (end, address, interface) in [
            (&ends[0], "10.99.0.1/24", "link0"),
            (&ends[1], "10.99.0.2/24", "far"),
        ] {
            end.ip(&format!("addr add {address} dev {interface}"));
        }
        Link {
            process,
            output,
            ends,
        }
    }

    /// Compare clocks across the link, which makes frames and tells the delay both ways.
    fn compare_clocks(&self, count: &str) -> Value {
        let mut server = self.ends[1]
            .command(THIS)
            .args("clock serve --listen 10.99.0.2:9 --for 60s".words())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Read::read_exact(server.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let ask = format!("clock ask 10.99.0.2:9 --json --interval 1ms --count {count}");
        let mut client = self.ends[0].command(THIS);
        let output = client.args(ask.words()).output().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
        document(&output)
    }

    fn stop(mut self) -> Value {
        send(self.process.id(), libc::SIGTERM);
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(self.process.wait().unwrap().code(), Some(0));
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no count"))
}

#[test]
fn the_delay_is_seen_at_the_ends_and_told() {
    if !can_make_namespaces("the_delay_is_seen_at_the_ends_and_told") {
        return;
    }
    let link = Link::start("--delay 20ms");
    let clock = link.compare_clocks("10");
    let told = link.stop();
    assert_json!(told, {"schema": "link.v1", "asked": {"delay_ns": 20_000_000}});
    assert!(number(&clock["delay_min_ns"]) >= 40_000_000, "{clock}");
    for direction in ["there", "back"] {
        let lane = &told[direction];
        assert!(number(&lane["delay_ns"]["min"]) >= 19_980_000, "{lane}");
        assert!(number(&lane["delivered"]["packets"]) >= 10, "{lane}");
        assert_eq!((&lane["lost"], &lane["reordered"]), (&0.into(), &0.into()));
    }
}

#[test]
fn every_frame_is_accounted_for() {
    if !can_make_namespaces("every_frame_is_accounted_for") {
        return;
    }
    let link = Link::start("--loss 5% --reorder 5% --jitter 100us --delay 200us --rate 50Mbit/s");
    // A neighbour found by a lossy question could take seconds.
    let mac = |end: &Netns, interface: &str| {
        let facts = end.command(THIS).args(["facts", "--json"]).output();
        let interface = &document(&facts.unwrap())["interfaces"][interface];
        interface["mac"].as_str().unwrap().to_owned()
    };
    let [near, far] = &link.ends;
    let neighbour = |end: &Netns, interface: &str, address: &str, mac: &str| {
        end.ip(&format!(
            "neigh replace {address} lladdr {mac} dev {interface} nud permanent"
        ));
    };
    neighbour(near, "link0", "10.99.0.2", &mac(far, "far"));
    neighbour(far, "far", "10.99.0.1", &mac(near, "link0"));
    let clock = link.compare_clocks("20");
    let told = link.stop();
    let mut lost = 0;
    for direction in ["there", "back"] {
        let lane = &told[direction];
        let ends =
            ["lost", "overflowed", "undeliverable", "on_the_way"].map(|fate| number(&lane[fate]));
        assert_eq!(
            number(&lane["received"]["packets"]),
            number(&lane["delivered"]["packets"]) + ends.iter().sum::<u64>()
        );
        lost += ends[0];
    }
    let unanswered = number(&clock["asked"]) - number(&clock["answered"]);
    assert!(unanswered <= lost, "{unanswered} unanswered, {lost} lost");
}

#[test]
fn nothing_is_left_when_the_link_ends() {
    if !can_make_namespaces("nothing_is_left_when_the_link_ends") {
        return;
    }
    let mut link = Link::start("");
    link.process.kill().unwrap();
    link.process.wait().unwrap();
    let links = || {
        let output = link.ends[1].command("cat").arg("/proc/net/dev").output();
        text(&output.unwrap().stdout)
    };
    eventually("the tap is gone", || !links().contains("far"));
}

#[test]
fn a_link_that_cannot_be_is_told() {
    for (arguments, word) in [
        ("/no/such /no/such/either", "/no/such"),
        ("a b --loss 2", "1%"),
        ("a b --rate 100", "100Mbit/s"),
        ("a b --jitter 2ms --delay 1ms", "--delay"),
        ("a b:a-name-that-is-too-long", "NS:IFNAME"),
    ] {
        let output = run(&format!("link {arguments}"));
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {told}");
        assert!(told.contains(word), "{arguments}: {told}");
    }
}
