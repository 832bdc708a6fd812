//! `trace` reads every kind of capture file to the same result, and names what it cannot read.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::FromRawFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

use crate::support::*;
use crate::trace_support::*;

/// Two requests, with a reply of three segments each.
fn conversation() -> Talk {
    let mut talk = Talk::begun();
    for _ in 0..2 {
        talk.ask(GET);
        talk.answer_in(&reply(4000), 1448);
        talk.client_acks();
    }
    talk.finish();
    talk
}

fn assert_found(document: &serde_json::Value, how: &str) {
    assert_json!(document, {
        "requests": 2, "ignored": {},
        "server": {"segments": 6, "acks": 1, "retransmitted": 0, "reordered": 0},
        "client": {"segments": 2, "acks": 3},
    }, "{how}");
    assert_eq!(document["captures"][0]["problem"], json!(null), "{how}");
}

#[test]
fn every_order_unit_and_link_means_the_same() {
    let talk = conversation();
    for is_big_endian in [false, true] {
        for is_nanoseconds in [false, true] {
            for (link, name) in [
                (Link::Ethernet, "Ethernet"),
                (Link::Vlan, "Ethernet"),
                (Link::QinQ, "Ethernet"),
                (Link::Cooked, "Linux cooked"),
                (Link::Cooked2, "Linux cooked v2"),
                (Link::Raw, "raw IP"),
            ] {
                let pcap = Pcap {
                    is_big_endian,
                    is_nanoseconds,
                    link,
                    ..Pcap::default()
                };
                let document = trace(&pcap.file(&talk.packets));
                assert_found(&document, name);
                let capture = &document["captures"][0];
                assert_eq!(capture["links"], json!([name]));
                assert_eq!(capture["first_ns"], BEGIN);
                assert_eq!(capture["last_ns"], talk.packets.last().unwrap().time);
            }
        }
    }
}

#[test]
fn ipv6_is_followed_like_ipv4() {
    let mut talk = Talk::between("[fd00::2]:40000", "[fd00::1]:80");
    talk.mss = 1440;
    talk.handshake();
    talk.ask(GET);
    talk.answer_in(&reply(4000), 1428);
    let (document, requests) = talk.trace_requests();
    assert_json!(document, {"server": {"segments": 3, "coalesced": 0}});
    assert_eq!(requests[0]["client"], "[fd00::2]:40000");
}

/// A block of pcapng.
fn block(order: &Pcap, kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let length = order.u32(body.len() as u32 + 12);
    [order.u32(kind), length.clone(), body, length].concat()
}

fn interface(order: &Pcap, link: u16, resolution: Option<u8>) -> Vec<u8> {
    let mut body = [order.u16(link), order.u16(0), order.u32(0)].concat();
    if let Some(code) = resolution {
        let resolution = [order.u16(9), order.u16(1), vec![code, 0, 0, 0]];
        body.extend([resolution.concat(), order.u32(0)].concat());
    }
    block(order, 1, &body)
}

#[test]
fn pcapng_has_several_interfaces_with_clocks_of_their_own() {
    let talk = conversation();
    for is_big_endian in [false, true] {
        let order = Pcap::in_order(is_big_endian);
        let section = [
            order.u32(0x1a2b_3c4d),
            order.u16(1),
            order.u16(0),
            order.u32(u32::MAX),
            order.u32(u32::MAX),
        ];
        let mut file = block(&order, 0x0a0d_0d0a, &section.concat());
        file.extend(interface(&order, 1, Some(9)));
        file.extend(interface(&order, 101, None));
        file.extend(interface(&order, 276, Some(0x80 | 30)));
        // A block of a kind that nobody has heard of.
        file.extend(block(&order, 0x0bad, &[1, 2, 3]));
        for (number, packet) in talk.packets.iter().enumerate() {
            let (interface, link, ticks) = match number % 3 {
                0 => (0, Link::Ethernet, packet.time),
                1 => (1, Link::Raw, packet.time / 1000),
                _ => {
                    let ticks = (u128::from(packet.time) << 30).div_ceil(1_000_000_000);
                    (2, Link::Cooked2, ticks as u64)
                }
            };
            let frame = frame(packet, link);
            let length = order.u32(frame.len() as u32);
            let fields =
                [interface, (ticks >> 32) as u32, ticks as u32].map(|field| order.u32(field));
            let body = [fields.concat(), length.clone(), length, frame].concat();
            file.extend(block(&order, 6, &body));
        }
        let document = trace(&file);
        assert_found(&document, "pcapng");
        let capture = &document["captures"][0];
        assert_json!(capture, {
            "links": ["Ethernet", "raw IP", "Linux cooked v2"], "first_ns": BEGIN,
        });
        // The handshake, across all three resolutions.
        assert_eq!(document["each_request"]["connect_ns"]["min"], 2 * STEP);
    }
}

#[test]
fn a_short_snap_length_still_tells_all_of_segments() {
    let talk = conversation();
    for snap in [54, 66, 96, 128] {
        let document = trace(&Pcap::cut_at(snap).file(&talk.packets));
        assert_json!(document, {
            "client": {"segments": 2, "payload_bytes": 2 * GET.len()},
            "server": {"segments": 6, "payload_bytes": 2 * reply(4000).len()},
        }, "{snap}");
        // From the first bytes of a head on, requests are found as well, and when they ended.
        if snap >= 96 {
            assert_eq!(document["requests"], 2, "{snap}");
            assert_eq!(document["status"], json!({"2xx": 2}), "{snap}");
            let transfer = &document["each_request"]["transfer_ns"];
            assert_json!(transfer, {"min": 2 * STEP, "max": 2 * STEP, "count": 2}, "{snap}");
        }
    }
}

#[test]
fn files_that_break_off_are_told_as_far_as_they_go() {
    let whole = Pcap::default().file(&conversation().packets);
    for length in [25, whole.len() / 2, whole.len() - 1] {
        let (output, _directory) = run_trace(&[&whole[..length]], "");
        let document = document(&output);
        assert_eq!(output.status.code(), Some(0));
        let problem = document["captures"][0]["problem"].as_str().unwrap();
        assert!(problem.contains("is cut within a packet"), "{problem}");
        assert_eq!(document["warnings"].as_array().unwrap().len(), 1);
    }
    let mut damaged = whole.clone();
    damaged[24 + 8..24 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    let document = trace(&damaged);
    assert_eq!(document["packets"], 0);
    let problem = document["captures"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("damaged"), "{problem}");
    assert!(problem.contains("byte 24"), "{problem}");
}

/// As where a machine goes down while it writes: the file has its length, and of its end nothing was written.
#[test]
fn zeros_at_the_end_are_no_packets() {
    for is_big_endian in [false, true] {
        let pcap = Pcap::in_order(is_big_endian);
        let packets = conversation().packets;
        let mut file = pcap.file(&packets);
        file.resize(file.len() + 4096, 0);
        let document = trace(&file);
        let capture = &document["captures"][0];
        assert_eq!(document["packets"], packets.len() as u64, "{capture}");
        let problem = capture["problem"].as_str().unwrap_or_default();
        assert!(problem.contains("zeros"), "{capture}");
        assert_eq!(document["requests"], 2);
    }
}

#[test]
fn what_is_no_capture_is_a_document_and_an_error() {
    for (bytes, why) in [
        (&b""[..], "empty"),
        (b"GET / HTTP/1.1\r\n", "neither pcap nor pcapng"),
        (b"\x1f\x8b\x08\x00", "gunzip"),
    ] {
        let (output, _directory) = run_trace(&[bytes], "");
        assert_eq!(output.status.code(), Some(2));
        let document = document(&output);
        assert_eq!(document["packets"], 0);
        let problem = document["captures"][0]["problem"].as_str().unwrap();
        assert!(problem.contains(why), "{problem}");
        let error = text(&output.stderr);
        assert!(error.contains(why) && error.lines().count() == 1, "{error}");
    }
}

/// What the document of a capture warns of, in one.
fn warnings(file: &[u8]) -> String {
    trace(file)["warnings"].to_string()
}

#[test]
fn captures_without_anything_to_tell_say_so() {
    let pcap = Pcap::default();
    assert!(warnings(&pcap.file(&[])).contains("holds no packet"));
    let arp = [&[2; 12][..], &[8, 6], &[0; 28]].concat();
    let strangers = [pcap.file(&[]), pcap.record(BEGIN, &arp)].concat();
    assert!(warnings(&strangers).contains("none of the packets is TCP"));
    let nothing = Pcap { snap: 0, ..pcap };
    assert!(warnings(&nothing.file(&conversation().packets)).contains("tcpdump -s 128"));
    let packets = conversation().packets;
    assert_eq!(warnings(&pcap.file(&packets)), "[]");
    let short = Pcap { snap: 66, ..pcap };
    assert!(warnings(&short.file(&packets)).contains("captured up to 66 bytes"));
}

/// A file of pcapng, of packets in simple blocks, which bear no time, where `is_simple` says so of their numbers.
fn some_untimed(packets: &[Packet], is_simple: impl Fn(usize) -> bool) -> Vec<u8> {
    let pcap = Pcap::default();
    let section = [&pcap.u32(0x1a2b_3c4d)[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    let mut file = block(&pcap, 0x0a0d_0d0a, &section);
    file.extend(interface(&pcap, 1, Some(9)));
    for (number, packet) in packets.iter().enumerate() {
        let frame = frame(packet, Link::Ethernet);
        let length = pcap.u32(frame.len() as u32);
        let time = [(packet.time >> 32) as u32, packet.time as u32].map(|half| pcap.u32(half));
        let (kind, body) = match is_simple(number) {
            true => (3, [length, frame].concat()),
            false => {
                let fields = [pcap.u32(0), time.concat(), length.clone(), length, frame];
                (6, fields.concat())
            }
        };
        file.extend(block(&pcap, kind, &body));
    }
    file
}

#[test]
fn times_that_are_not_there_are_null_and_said_to_be() {
    let packets = conversation().packets;
    let events = "syn synack ack request_first request_last response_first response_last".words();
    for (untimed, absent) in [
        (0..1, &events[..1]),
        (2..3, &events[2..3]),
        (3..4, &events[3..5]),
        (4..5, &events[5..6]),
        (0..5, &events[..6]),
    ] {
        let (document, lines) =
            trace_requests(&[&some_untimed(&packets, |number| untimed.contains(&number))]);
        assert_found(&document, &format!("{untimed:?}"));
        let capture = &document["captures"][0];
        assert_json!(capture, {"untimed_packets": untimed.len(), "backward_packets": 0});
        let first = packets
            .iter()
            .enumerate()
            .find(|(number, _)| !untimed.contains(number));
        assert_eq!(capture["first_ns"], first.unwrap().1.time);
        assert_eq!(capture["last_ns"], packets.last().unwrap().time);
        for event in &events {
            let is_absent = lines[0][event].is_null();
            assert_eq!(is_absent, absent.contains(event), "{untimed:?}: {event}");
        }
        let connects = u64::from(!absent.iter().any(|event| event == "syn" || event == "ack"));
        assert_eq!(document["each_request"]["connect_ns"]["count"], connects);
        let all = packets.len();
        let which = format!("{} of {all} packets without a time", untimed.len());
        assert_warns(&document, &which);
        assert_warns(&document, "tcpdump");
    }
    let (document, lines) = trace_requests(&[&some_untimed(&packets, |_| true)]);
    assert_eq!(numbers(&document, ["requests", "unanswered"]), [2, 0]);
    assert_eq!(document["captures"][0]["first_ns"], json!(null));
    assert_eq!(document["each_request"]["total_ns"]["count"], 0);
    assert!(lines[1]["response_last"].is_null());
    assert_warns(&document, "its packets bear no times");
    // The same of what a program without a clock wrote.
    let timeless: Vec<_> = packets
        .iter()
        .map(|packet| Packet {
            time: 0,
            ..packet.clone()
        })
        .collect();
    assert!(warnings(&Pcap::default().file(&timeless)).contains("its packets bear no times"));
    // Of two captures it is no less known what they have in common.
    let (document, _) = trace_requests(&[
        &some_untimed(&packets, |number| number < 2),
        &Pcap::default().file(&packets),
    ]);
    assert_eq!(document["joined"]["offset_ns"], 0);
}

/// Whatever is wrong with a file, it is said in one line, and nothing else is.
#[test]
fn what_is_wrong_with_a_file_is_one_warning() {
    let pcap = Pcap::default();
    let packets = conversation().packets;
    let whole = pcap.file(&packets);
    // No limit.
    let mut unlimited = whole.clone();
    unlimited[16..20].copy_from_slice(&[0; 4]);
    let told = trace(&unlimited);
    assert_found(&told, "a snap length of 0");
    assert_eq!(told["warnings"], json!([]));
    // The later half stands before the earlier one.
    let (earlier, later) = packets.split_at(packets.len() / 2);
    let turned = pcap.file(&[later, earlier].concat());
    let told = trace(&turned);
    assert!(told["captures"][0]["backward_packets"].as_u64() > Some(0));
    assert_warns(&told, "reordercap");
    // Nothing behind the header but a hole of 4 GiB.
    let directory = Directory::new();
    let path = directory.join("sparse.pcap");
    fs::write(&path, &whole).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(4 << 30).unwrap();
    let sparse = document(&run(&format!("trace --json {}", path.display())));
    assert_json!(sparse, {"packets": packets.len(), "requests": 2});
    assert_eq!(sparse["warnings"].as_array().unwrap().len(), 1);
    assert_warns(&sparse, "zeros instead of a packet");
}

#[test]
fn people_are_told_what_is_no_capture_without_empty_tables() {
    let directory = Directory::new();
    let path = directory.join("no.pcap");
    fs::write(&path, b"nothing").unwrap();
    let output = run(&["trace", path.to_str().unwrap()]);
    let said = text(&output.stdout);
    assert!(said.contains("no capture"), "{said}");
    assert!(!said.contains("sent by"), "{said}");
}

#[test]
fn two_captures_are_no_pipes() {
    let directory = Directory::new();
    let path = directory.join("one.pcap");
    fs::write(&path, Pcap::default().file(&conversation().packets)).unwrap();
    let probe = env!("CARGO_BIN_EXE_nearmetal-probe");
    let trace = |files: &str| {
        let command = format!("cat {0} | {probe} trace {files}", path.display());
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]).output().unwrap()
    };
    // One of them can be: it is read once.
    assert_eq!(trace("/dev/stdin").status.code(), Some(0));
    let output = trace(&format!("/dev/stdin {}", path.display()));
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(told.contains("is a pipe"), "{told}");
}

#[test]
fn foreign_packets_are_counted_by_name() {
    let pcap = Pcap::default();
    let mut file = pcap.file(&conversation().packets);
    let ethernet = |kind: u16, rest: &[u8]| [&[2; 12][..], &kind.to_be_bytes(), rest].concat();
    let ip = |fragment: u8, protocol: u8| {
        let mut header = vec![0x45, 0, 0, 60, 0, 1, fragment, 0, 64, protocol, 0, 0];
        header.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        header.resize(60, 0);
        header
    };
    for frame in [
        ethernet(0x0806, &[0; 28]),
        ethernet(0x88cc, &[0; 28]),
        ethernet(0x1234, &[0; 28]),
        ethernet(0x0800, &ip(0, 17)),
        ethernet(0x0800, &ip(0x20, 6)),
        ethernet(0x0800, &ip(0, 6)[..30]),
        ethernet(0x0800, &[0; 60]),
        ethernet(0x0800, b""),
        vec![2; 10],
    ] {
        file.extend(pcap.record(BEGIN, &frame));
    }
    let short = Pcap { snap: 44, ..pcap };
    file.extend(short.record(BEGIN, &ethernet(0x0800, &ip(0, 6))));
    let shorter = Pcap { snap: 10, ..pcap };
    file.extend(shorter.record(BEGIN, &ethernet(0x0800, &ip(0, 6))));
    let document = trace(&file);
    let expected = json!({
        "ARP": 1, "LLDP": 1, "unknown EtherType 0x1234": 1, "UDP": 1, "IP fragment": 1,
        "headers cut by the snap length": 2, "neither IPv4 nor IPv6": 1, "shorter than its headers": 3,
    });
    assert_json!(document, {"ignored": expected, "requests": 2});
    let mut other = Pcap::default().header();
    other[20..24].copy_from_slice(&147_u32.to_le_bytes());
    other.extend(pcap.record(BEGIN, &[0; 60]));
    let ignored = json!({"unknown link type 147": 1});
    assert_eq!(trace(&other)["ignored"], ignored);
}

#[test]
fn bad_arguments_are_one_line_and_exit_2() {
    let directory = Directory::new();
    let capture = directory.join("a.pcap");
    fs::write(&capture, Pcap::default().header()).unwrap();
    let link = directory.join("b.pcap");
    fs::hard_link(&capture, &link).unwrap();
    let [capture, link, folder] =
        [&*capture, &link, directory.path()].map(|path| path.display().to_string());
    for (arguments, why) in [
        ("/nowhere.pcap", "cannot open /nowhere.pcap"),
        ("FOLDER", "is a folder"),
        ("CAPTURE --requests CAPTURE", "name another file"),
        ("CAPTURE --requests LINK", "name another file"),
        ("CAPTURE --requests /nowhere/x", "cannot write /nowhere/x"),
        ("CAPTURE CAPTURE CAPTURE", ""),
        ("", "PCAP"),
    ] {
        let arguments = arguments
            .replace("CAPTURE", &capture)
            .replace("LINK", &link)
            .replace("FOLDER", &folder);
        let output = run(&format!("trace {arguments}"));
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        let error = text(&output.stderr);
        assert!(error.contains(why), "{error}");
        assert_eq!(error.trim().lines().count(), 1, "{error}");
    }
    assert_eq!(run(&format!("trace {capture}")).status.code(), Some(0));
}

#[test]
fn a_pipe_into_which_nobody_writes_any_more_can_be_left() {
    let directory = Directory::new();
    let path = directory.join("pipe");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut child = probe()
        .args(["trace", "--json"])
        .arg(&path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = File::options().write(true).open(&path).unwrap();
    // More than fits into a pipe: when it is written, the other end has begun to read.
    let packets: Vec<_> = (0..200).flat_map(|_| conversation().packets).collect();
    pipe.write_all(&Pcap::default().file(&packets)).unwrap();
    interrupt(&mut child);
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let problem = document["captures"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("interrupted, at byte"), "{problem}");
    assert!(numbers(&document, ["packets"])[0] > 0);
}

/// A terminal that nobody types at: its master's end, and where it lies.
fn terminal() -> (File, PathBuf) {
    // SAFETY: the descriptor is checked before it is owned, and the name is long enough for what is written to it.
    let (master, name) = unsafe {
        let descriptor = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
        assert!(descriptor >= 0 && libc::unlockpt(descriptor) == 0);
        let mut name = [0; 64];
        let named = libc::ptsname_r(descriptor, name.as_mut_ptr(), name.len());
        assert_eq!(named, 0);
        let name = CStr::from_ptr(name.as_ptr()).to_owned();
        (File::from_raw_fd(descriptor), name)
    };
    (master, name.into_string().unwrap().into())
}

#[test]
fn two_captures_that_were_left_before_they_were_compared_tell_nothing() {
    let directory = Directory::new();
    let path = directory.join("a.pcap");
    fs::write(&path, Pcap::default().file(&conversation().packets)).unwrap();
    // It can be opened as often as a file, and gives nothing to read.
    let (terminal, other) = terminal();
    let mut child = probe()
        .args(["trace", "--json"])
        .args([&path, &other])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let open = format!("/proc/{}/fd", child.id());
    let has_it = || {
        let mut files = fs::read_dir(&open).unwrap().flatten();
        files.any(|one| fs::read_link(one.path()).is_ok_and(|path| path == other))
    };
    eventually("it is opened", has_it);
    interrupt(&mut child);
    drop(terminal);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(text(&output.stdout), "");
    let said = text(&output.stderr);
    assert!(said.contains("interrupted"), "{said}");
    assert!(said.contains("nothing"), "{said}");
    assert_eq!(said.trim().lines().count(), 1, "{said}");
}

/// Interrupt it until it ends, if it does.
fn interrupt(child: &mut Child) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while child.try_wait().unwrap().is_none() && Instant::now() < deadline {
        // SAFETY: the child has not been waited for.
        unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
        thread::sleep(Duration::from_millis(50));
    }
}

/// A packet over IPv4 in pieces of so many bytes.
fn fragments(packet: &Packet, size: usize) -> Vec<Vec<u8>> {
    let whole = frame(packet, Link::Ethernet);
    let (headers, payload) = whole.split_at(34);
    let count = payload.chunks(size).count();
    let pieces = payload.chunks(size).enumerate();
    let fragment = |(number, piece): (usize, &[u8])| {
        let mut frame = headers.to_vec();
        frame[16..18].copy_from_slice(&(20 + piece.len() as u16).to_be_bytes());
        let more = if number + 1 < count { 0x2000 } else { 0 };
        let place = (number * size / 8) as u16 | more;
        frame[20..22].copy_from_slice(&place.to_be_bytes());
        [&frame, piece].concat()
    };
    pieces.map(fragment).collect()
}

#[test]
fn what_is_there_but_not_followed_was_not_dropped() {
    let pcap = Pcap::default();
    let packets = conversation().packets;
    let (lost, rest) = (&packets[5], [&packets[..5], &packets[6..]].concat());
    let file = |frames: &[Vec<u8>], snap: usize| {
        let cut = Pcap { snap, ..pcap };
        let before = pcap.file(&rest[..5]);
        let records = frames.iter().flat_map(|frame| cut.record(lost.time, frame));
        let behind = &pcap.file(&rest[5..])[24..];
        [before, records.collect(), behind.to_vec()].concat()
    };
    let said = warnings(&file(&fragments(lost, 800), 262_144));
    assert!(said.contains("2 IP fragments"), "{said}");
    assert!(!said.contains("dropped"), "{said}");
    let said = warnings(&file(&[frame(lost, Link::Ethernet)], 40));
    assert!(said.contains("1 packet whose headers"), "{said}");
    assert!(said.contains("the snap length cut"), "{said}");
    assert!(!said.contains("dropped"), "{said}");
    assert!(warnings(&pcap.file(&rest)).contains("the capture dropped packets"));
}
