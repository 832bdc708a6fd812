//! What a reader of the document should know before relying on it.

use super::document::Document;
use super::join_document::JoinDocument;
use super::text::count_things;
use super::unfollowed_packets::Foreign;
use ground::figures::format_count;

/// The snap length that shows the begin of a payload, whatever headers are before it.
const FINDS_REQUESTS: u32 = 96;
/// The one that shows all headers, whatever is in them and before them.
const HOLDS_OPTIONS: u32 = 128;

/// Packets in which bytes may be that were not found, for it does not show whose they are.
fn warn_hidden(document: &Document) -> Option<String> {
    let number = |foreign: Foreign| document.ignored.get(&foreign.name()).copied();
    let fragments = number(Foreign::Fragment).map(|number| {
        let fragments = count_things(number, "IP fragment");
        format!("{fragments}, which are not followed")
    });
    let cut = number(Foreign::CutHeader).map(|number| {
        let packets = count_things(number, "packet");
        format!("{packets} whose headers the snap length cut")
    });
    let all: Vec<_> = fragments.into_iter().chain(cut).collect();
    (!all.is_empty()).then(|| all.join(" and "))
}

pub fn list_warnings(document: &Document) -> Vec<String> {
    let mut warnings = Vec::new();
    for capture in &document.captures {
        let file = &capture.file;
        if let Some(problem) = &capture.problem {
            warnings.push(format!("{file}: {problem}"));
        }
        if capture.packets == 0 && capture.problem.is_none() {
            warnings.push(format!(
                "{file}: holds no packet; capture where they pass (ip route get ADDRESS, tcpdump -i NAME)"
            ));
        }
        if capture.untimed_packets > 0 {
            let which = match capture.untimed_packets == capture.packets {
                true => "its packets bear no times".to_owned(),
                false => format!(
                    "{} of {} packets without a time",
                    format_count(capture.untimed_packets),
                    format_count(capture.packets)
                ),
            };
            warnings.push(format!(
                "{file}: {which}, as in pcapng's simple packet blocks; what cannot be known by that is null. Capture with a program that notes them, such as tcpdump or dumpcap"
            ));
        }
        if capture.rewritten_connections > 0 {
            warnings.push(format!(
                "{file}: {} captured under two addresses, as where a capture on `any` shows packets before and after NAT rewrites them (a container's published port); each of their requests counts twice. Capture one interface (tcpdump -i NAME), or keep one of the addresses (tcpdump -r IN -w OUT host ADDRESS)",
                match capture.rewritten_connections {
                    1 => "1 connection was".to_owned(),
                    more => format!("{} connections were", format_count(more)),
                }
            ));
        }
        if capture.backward_packets > 0 {
            warnings.push(format!(
                "{file}: {} {} earlier, by more than 1 ms, than others of the same connection that stand before, as where several interfaces were captured or files put together; requests, times and what was sent again may be told wrong. Put the packets in order: reordercap IN OUT (it comes with Wireshark)",
                count_things(capture.backward_packets, "packet"),
                if capture.backward_packets == 1 { "is" } else { "are" },
            ));
        }
        let missed = capture.client.counts.missed_bytes + capture.server.counts.missed_bytes;
        if missed > 0 {
            let why = match warn_hidden(document) {
                None if capture.backward_packets > 0 => {
                    "found before; they are out of order, or the capture dropped packets".to_owned()
                }
                None => "captured; the capture dropped packets".to_owned(),
                Some(where_else) => format!("found; they may be in {where_else}"),
            };
            warnings.push(format!(
                "{file}: {missed} bytes were acknowledged but not {why}, and counts are too low{}",
                if document.joined.is_some() {
                    "; what it missed counts as lost between the captures, or as never seen leaving"
                } else {
                    ""
                }
            ));
        }
        let segments = capture.client.counts.segments + capture.server.counts.segments;
        let duplicates = capture.client.counts.duplicates + capture.server.counts.duplicates;
        if duplicates * 4 > segments && segments > 0 {
            warnings.push(format!(
                "{file}: {duplicates} packets were captured twice, as where two interfaces of one path are listened to; capture one of them"
            ));
        }
    }
    let tunnels = Foreign::TUNNELS.split(", ").filter_map(|name| {
        let number = document.ignored.get(name)?;
        Some(format!("{} of {name}", count_things(*number, "packet")))
    });
    let tunnels: Vec<_> = tunnels.collect();
    if !tunnels.is_empty() {
        warnings.push(format!(
            "{}: such tunnels are not looked into. Capture where packets have left them, as on the tunnel's own interface (ip link, tcpdump -i NAME)",
            tunnels.join(", ")
        ));
    }
    if document.packets > 0 && document.connections == 0 && !document.are_strangers() {
        let remedy = match document.ignored.contains_key(&Foreign::CutHeader.name()) {
            true => format!(
                "headers are cut, capture {HOLDS_OPTIONS} bytes of each (tcpdump -s {HOLDS_OPTIONS})"
            ),
            false => {
                "capture where it passes (ip route get ADDRESS, tcpdump -i NAME tcp)".to_owned()
            }
        };
        warnings.push(format!(
            "none of the packets is TCP that can be followed; {remedy}"
        ));
    }
    let snap_lengths = document.captures.iter().filter_map(|one| one.snap_length);
    let shortest = snap_lengths.filter(|snap| *snap > 0).min();
    if let Some(snap) = shortest.filter(|snap| *snap < FINDS_REQUESTS) {
        if document.requests == 0 && document.protocols.unknown > 0 {
            warnings.push(format!(
                "no request was found: packets were captured up to {snap} bytes, and it takes {FINDS_REQUESTS} to see how payloads begin"
            ));
        }
    }
    match &document.joined {
        Some(joined) => warn_joined(document, joined, &mut warnings),
        None if document.are_strangers() => {
            let are_all_here = document.captures.iter().all(|capture| capture.packets > 0);
            let why = match are_all_here {
                true => {
                    "were they made of the same traffic, at the same time, and with the same addresses (no NAT between them)? "
                }
                false => "",
            };
            warnings.push(format!(
                "the captures have no TCP packet in common of which it shows who the client is, so that nothing is told of both: {why}each can be looked at alone"
            ));
        }
        None => {}
    }
    if document.evicted > 0 {
        warnings.push(format!(
            "{} connections were forgotten while open, because there was too much of them at once to keep; of those that went on, counts are too high, or what waited is missing",
            document.evicted
        ));
    }
    if document.options.mss_assumed > 0
        && document.client.counts.coalesced + document.server.counts.coalesced > 0
    {
        warnings.push(format!(
            "no SYN with its options was captured of {}: what counts as coalesced there assumes the MSS of Ethernet",
            count_things(document.options.mss_assumed, "connection")
        ));
    }
    let cut = document.options.cut_packets;
    if cut > 0 {
        warnings.push(format!(
            "of {} not all of the TCP options were captured: what ends offer, timestamps and selective acknowledgements are then in none of the counts; a snap length of {HOLDS_OPTIONS} holds them all",
            count_things(cut, "packet")
        ));
    }
    warnings
}

fn warn_joined(document: &Document, joined: &JoinDocument, warnings: &mut Vec<String>) {
    if !joined.is_steady {
        warnings.push(
            "the clocks of the two captures did not go steadily beside each other, as where one is set: times between the captures are wrong by as much, and packets may count as lost that were not; look at the parts before and after it alone (editcap -A, -B)"
                .to_owned(),
        );
    }
    if !joined.is_end_known {
        let mut captures = document.captures.iter();
        let client = captures.find(|one| one.end == Some("client"));
        warnings.push(format!(
            "the packets do not tell for sure which capture is the client's end; {} is taken for it",
            client.map_or("the first", |one| one.file.as_str())
        ));
    }
    if joined.unfollowed_packets > 0 {
        warnings.push(format!(
            "{} packets were not followed from one capture to the other, because there were too many connections at once; what left, arrived, was lost or overtaken there is told of the others alone",
            joined.unfollowed_packets
        ));
    }
}
