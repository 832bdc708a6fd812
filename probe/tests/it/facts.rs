//! `facts` on the machine that runs the tests, and in a network namespace with a known interface.

use std::fs;

use crate::support::*;

const THIS: &str = env!("CARGO_BIN_EXE_nearmetal-probe");

#[test]
fn facts_agree_with_the_kernels_own_files() {
    let facts = document(&run("facts --json"));
    assert_eq!(facts["schema"], "facts.v1");
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(facts["kernel"]["release"], release.trim());
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert_eq!(facts["kernel"]["boot_id"], boot_id.trim());
    let somaxconn = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    assert_eq!(facts["sysctls"]["net.core.somaxconn"], somaxconn.trim());
    assert!(facts["memory"]["total_bytes"].as_u64().unwrap() > 1 << 20);
    assert!(facts["filesystems"]["/"]["type"].is_string());
    assert_eq!(facts["interfaces"]["lo"]["mtu"], 65536);
}

#[test]
fn cpus_are_those_the_process_may_use() {
    let output = run(&format!("launch --cpus 0 -- {THIS} facts --json"));
    let facts = document(&output);
    assert_json!(facts, {"processor": {"allowed": "0", "allowed_count": 1}});
}

#[test]
fn the_priority_is_the_one_it_was_given() {
    let output = humble(THIS).args(["facts", "--json"]).output().unwrap();
    let given = serde_json::json!({"nice": 10, "policy": "SCHED_BATCH"});
    assert_eq!(document(&output)["scheduling"], given);
    let ordinary = serde_json::json!({"nice": 0, "policy": "SCHED_OTHER"});
    if can_raise_priority("the_priority_is_the_one_it_was_given") {
        let output = run(&format!("launch --die-with-parent -- {THIS} facts --json"));
        assert_eq!(document(&output)["scheduling"], ordinary);
    }
}

#[test]
fn hashes_are_sha256_and_a_missing_file_is_null() {
    let directory = Directory::new();
    let file = directory.join("abc");
    fs::write(&file, "abc").unwrap();
    let name = file.to_str().unwrap();
    let facts = document(&run(&format!(
        "facts --json --hash {name} --hash /no/such/file"
    )));
    // The digest of FIPS 180-2's first example.
    let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(facts["hashes"][name], expected);
    assert!(facts["hashes"]["/no/such/file"].is_null());
    let directory_hash = run(&["facts", "--hash", directory.path().to_str().unwrap()]);
    assert_eq!(directory_hash.status.code(), Some(2));
}

#[test]
fn offloads_are_read_back_as_they_were_set() {
    if !can_make_namespaces("offloads_are_read_back_as_they_were_set") {
        return;
    }
    let netns = Netns::new();
    netns.ip("link add left type veth peer name right");
    netns.ip("link set left mtu 1400 address 02:00:00:00:00:77");
    for state in ["off", "on"] {
        let mut set = netns.command("ethtool");
        set.args(["-K", "left", "tso", state]);
        assert!(set.status().unwrap().success());
        let output = netns.command(THIS).args(["facts", "--json"]).output();
        let facts = document(&output.unwrap());
        let left = &facts["interfaces"]["left"];
        assert_json!(left, {
            "features": {"tx-tcp-segmentation": state, "vlan-challenged": "fixed off"}, "mtu": 1400,
            "mac": "02:00:00:00:00:77", "driver": "veth", "kind": "veth", "speed_mbit": 10000,
        });
        assert!(facts["interfaces"].get("right").is_some());
    }
}

#[test]
fn people_get_text() {
    let told = text(&run("facts").stdout);
    let mut lines = told.lines();
    assert!(lines.any(|line| line.starts_with("  release: ")), "{told}");
}
