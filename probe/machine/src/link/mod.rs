//! `link`: a network link with delay, loss, reordering and a rate, where the kernel has none of that to offer.

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::tap::{self, TapName};
use ground::placement::in_netns;
use ground::{interface, interrupt, output, units};

mod direction;
mod document;
mod relay;

use direction::Impairment;
pub use document::{LinkDocument, LinkReady};
use relay::Relay;

/// Join two network namespaces by a link of given delay, jitter, loss, reordering and rate, each way.
///
/// The ends are TAPs, which are attached to when they exist, and else made, to vanish with this program. Prints
/// {"schema":"link.ready.v1"} when the link carries frames, then carries them until SIGTERM or SIGINT, or for
/// --duration, and tells what it did.
#[derive(clap::Args)]
pub struct Args {
    /// One end: a network namespace by name or path, with the TAP's name when it is not link0
    #[arg(value_name = "NS1[:IFNAME]")]
    first: LinkEnd,
    /// The other end
    #[arg(value_name = "NS2[:IFNAME]")]
    second: LinkEnd,
    /// One-way delay
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = units::parse_duration)]
    delay: Duration,
    /// Vary the delay evenly by up to this, both ways; frames stay in order
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = units::parse_duration)]
    jitter: Duration,
    /// Share of frames that are lost
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = units::parse_share)]
    loss: f64,
    /// Share of frames that are held back for 1.5 ms, so that later ones overtake them
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = units::parse_share)]
    reorder: f64,
    /// Bits of frames in a second; up to 1000 frames wait for it
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    rate: Option<f64>,
    /// Where the draws of loss, reordering and jitter start
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// End after this time
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    duration: Option<Duration>,
    /// Print JSON lines (link.ready.v1, and at the end link.v1) instead of text
    #[arg(long)]
    json: bool,
}

/// An end of a link, written `NS` or `NS:IFNAME`, the namespace by name or path.
#[derive(Clone, Debug)]
struct LinkEnd(TapName);

impl FromStr for LinkEnd {
    type Err = String;

    fn from_str(text: &str) -> Result<LinkEnd, String> {
        const DEFAULT_INTERFACE: &str = "link0";
        let (namespace, interface) = text.rsplit_once(':').unwrap_or((text, DEFAULT_INTERFACE));
        if namespace.is_empty() || !tap::is_interface_name(interface) {
            return Err(format!(
                "'{text}' is no end of a link; write it as NS or NS:IFNAME"
            ));
        }
        let netns = match namespace.contains('/') {
            true => PathBuf::from(namespace),
            false => PathBuf::from("/run/netns").join(namespace),
        };
        Ok(LinkEnd(TapName {
            netns,
            interface: interface.to_owned(),
        }))
    }
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let impairment = parse_impairment(&args)?;
    let stop = interrupt::set_flag_on_signals().context("cannot take signals")?;
    let ends = [&args.first.0, &args.second.0];
    let taps = [open(ends[0])?, open(ends[1])?];
    output::print_result(&LinkReady::new(ends), args.json)?;
    let mut relay = Relay::new(taps, impairment, args.seed)?;
    let elapsed_ns = relay.carry_frames(args.duration, stop)?;
    output::print_result(
        &document::build_document(ends, impairment, args.seed, elapsed_ns, &relay),
        args.json,
    )?;
    Ok(ExitCode::SUCCESS)
}

fn parse_impairment(args: &Args) -> anyhow::Result<Impairment> {
    const LONGEST: Duration = Duration::from_secs(60);
    if args.delay > LONGEST || args.jitter > LONGEST {
        bail!("a delay or jitter above {LONGEST:?} is no link's; give less");
    }
    if args.jitter > args.delay {
        bail!(
            "--jitter {:?} is more than --delay {:?}, and no frame can arrive before it was sent; raise --delay",
            args.jitter,
            args.delay
        );
    }
    Ok(Impairment {
        delay_ns: args.delay.as_nanos() as i64,
        jitter_ns: args.jitter.as_nanos() as i64,
        loss: args.loss,
        reorder: args.reorder,
        rate: args.rate,
    })
}

/// Attach to an end's TAP and switch it on.
fn open(end: &TapName) -> anyhow::Result<std::os::fd::OwnedFd> {
    let attach = || {
        // Without a virtio-net header the kernel hands over frames no longer than the MTU, as a wire would carry them.
        let flags = libc::IFF_TAP | libc::IFF_NO_PI;
        let tap = tap::attach(
            &end.interface,
            flags,
            libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC,
        )
        .context("cannot attach; is another program using it, or is it no tap?")?;
        interface::bring_up(&end.interface)?;
        Ok(tap)
    };
    in_netns(&end.netns, attach)
        .with_context(|| format!("tap {} of {}", end.interface, end.netns.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_namespace_by_name_or_path() {
        let end = |text: &str| {
            text.parse::<LinkEnd>()
                .map(|end| (end.0.netns.display().to_string(), end.0.interface))
        };
        assert_eq!(end("a"), Ok(("/run/netns/a".into(), "link0".into())));
        assert_eq!(
            end("/proc/7/ns/net:em1"),
            Ok(("/proc/7/ns/net".into(), "em1".into()))
        );
        assert!(end("").is_err() && end("a:").is_err() && end(":x").is_err());
    }
}
