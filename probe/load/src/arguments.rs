//! The command line of `load`, which becomes a plan once every value has been found sensible.

use std::time::Duration;

use clap::ValueEnum;

use super::plan::{EngineName, Extent, Mode, OpenLoop, PerStep, Plan, Ramp, Spacing};
use super::request;
use super::request_mix::{self, RequestKind};
use super::target::{self, Target};
use super::trusted_roots::Client;
use ground::clock::Nanoseconds;
use ground::invocation::own_name;
use ground::units;

const EXAMPLES: &str = "\
Examples:
  How much can it serve?
    nearmetal load http://HOST/ --workers 64 --duration 30s
  How long do requests take, at a rate?
    nearmetal load http://HOST/ --mode open --rate 1000 --duration 30s
  From which rate on does it not keep up?
    nearmetal load http://HOST/ --mode ramp --from 100 --step 100 --to 5000 --per-step 5s

Exit status: 0 measured, with errors counted too; 1 not one reply came; 2 bad arguments; 3 of \
nearmetal, which finds no probe; 4 interrupted";

/// As many as studies take. No more than 65,535 connections lead from one address to a port, and opening far more than
/// there can be takes all of the time that is to be measured.
const MOST_WORKERS: u32 = 100_000;
/// As many as studies take too. Far more find no memory for their stacks.
const MOST_THREADS: u32 = 1024;

/// Send HTTP requests to a URL, http[s]://HOST[:PORT]/PATH, and measure every phase of them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = format!("{} load [OPTIONS] URL", own_name()))]
pub struct Args {
    // As the other commands of nearmetal, of which this is one, its help has arguments in the usage alone.
    #[arg(hide = true)]
    url: String,
    /// When to send: closed, each worker when it has its last reply; open, at a rate, whatever the server does;
    /// ramp, open and step by step until the server does not keep up
    #[arg(long, value_enum, default_value_t = ModeName::Closed)]
    mode: ModeName,
    /// Connections; in open mode those opened beforehand
    #[arg(long, default_value_t = 16, value_name = "N")]
    workers: u32,
    /// Threads, which share nothing
    #[arg(long, default_value_t = 1, value_name = "N")]
    threads: u32,
    /// How long to measure [default: 10s, unless --requests is given]
    #[arg(long, value_parser = units::parse_duration, value_name = "TIME")]
    duration: Option<Duration>,
    /// How many requests to measure
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// How long to send before measuring begins
    #[arg(long, value_parser = units::parse_duration, default_value = "0s", value_name = "TIME")]
    warmup: Duration,
    /// When to give a request up
    #[arg(long, value_parser = units::parse_duration, default_value = "5s", value_name = "TIME")]
    timeout: Duration,
    /// Use each connection for one request only
    #[arg(long)]
    new_connections: bool,
    /// Requests per second
    #[arg(long, value_parser = per_second, value_name = "R", help_heading = "Open mode")]
    rate: Option<f64>,
    // As of all that belongs to some modes, its default stands in the help alone: it does not count as given.
    /// How requests follow each other [default: constant]
    #[arg(long, value_enum, help_heading = "Open mode")]
    arrivals: Option<Spacing>,
    /// Burn the processor shortly before each request, to be on time to the microsecond; how long is learnt (2 to 200 us)
    #[arg(long, help_heading = "Open mode")]
    spin: bool,
    /// Seed of the Poisson arrivals [default: 1]
    #[arg(long, value_name = "N", help_heading = "Open mode")]
    seed: Option<u64>,
    /// The first rate, in requests per second
    #[arg(long, value_parser = per_second, value_name = "R", help_heading = "Ramp mode")]
    from: Option<f64>,
    /// What each step adds to the rate
    #[arg(long, value_parser = per_second, value_name = "R", help_heading = "Ramp mode")]
    step: Option<f64>,
    /// No rate above this is tried
    #[arg(long, value_parser = per_second, value_name = "R", help_heading = "Ramp mode")]
    to: Option<f64>,
    /// 20x makes 20 x rate connections, one request each; 10s makes requests for 10 s [default: 20x]
    #[arg(long, value_parser = PerStep::parse, value_name = "N|TIME", help_heading = "Ramp mode")]
    per_step: Option<PerStep>,
    /// The largest share of requests that fail, or get an error page, which still counts as keeping up [default: 1%]
    #[arg(long, value_parser = parse_share, value_name = "SHARE", help_heading = "Ramp mode")]
    max_errors: Option<f64>,
    /// Another path of the same server, in turn with the others; may be repeated
    #[arg(long, value_name = "PATH", help_heading = "Requests")]
    path: Vec<String>,
    /// The request's method [default: GET, or POST with --data]
    #[arg(short = 'X', long, help_heading = "Requests")]
    method: Option<String>,
    /// A header, as 'Name: value'; may be repeated
    #[arg(short = 'H', long, value_name = "HEADER", help_heading = "Requests")]
    header: Vec<String>,
    /// The request's body; @FILE reads it from a file
    #[arg(
        short = 'd',
        long,
        value_name = "TEXT|@FILE",
        help_heading = "Requests"
    )]
    data: Option<String>,
    /// Several kinds of requests to the URL's server, each as often as its weight says: a JSON list of {"path", "weight",
    /// "method", "send" or "send_file"}; @FILE reads it from a file
    #[arg(long, value_name = "JSON|@FILE", help_heading = "Requests")]
    mix: Option<String>,
    /// Trust the CAs whose certificates (PEM) are in this file [default: those that this machine trusts]
    #[arg(long, value_name = "FILE", help_heading = "https")]
    ca: Option<String>,
    /// Leave the server's certificate unchecked
    #[arg(long, help_heading = "https")]
    insecure: bool,
    /// The way to the kernel; auto takes io_uring for new connections, where there is one
    #[arg(long, value_enum, default_value_t = EngineName::Auto)]
    engine: EngineName,
    /// Print one JSON document (load.v1)
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Report progress as JSON lines on stderr, once a second
    #[arg(long, help_heading = "Output")]
    pub progress: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModeName {
    Closed,
    Open,
    Ramp,
}

impl Args {
    /// The plan, or one line that says what is wrong and what would be right.
    pub fn plan(&self) -> Result<Plan, String> {
        let target = Target::parse(&self.url)?;
        let mix = self.choose_mix(&target)?;
        let use_of = "it opens connections for";
        check_count("--workers", self.workers, MOST_WORKERS, use_of)?;
        check_count("--threads", self.threads, MOST_THREADS, "it starts")?;
        if self.threads > self.workers && self.mode == ModeName::Closed {
            return Err(format!(
                "--threads {} leaves threads without a worker; give at least as many --workers",
                self.threads
            ));
        }
        if self.timeout.is_zero() {
            return Err("--timeout 0 would fail every request; give a longer one".into());
        }
        Ok(Plan {
            url: self.url.clone(),
            tls: self.choose_tls(&target)?,
            target,
            mode: self.choose_mode()?,
            workers: self.workers,
            threads: self.threads,
            extent: self.choose_extent()?,
            warmup: to_nanoseconds(self.warmup),
            timeout: to_nanoseconds(self.timeout),
            new_connections: self.new_connections
                || (self.mode == ModeName::Ramp
                    && matches!(self.per_step(), PerStep::Connections(_))),
            mix,
            headers: request::parse_headers(&self.header)?,
            engine: self.engine,
        })
    }

    fn choose_mode(&self) -> Result<Mode, String> {
        self.all_belong_to_the_mode()?;
        match self.mode {
            ModeName::Closed => Ok(Mode::Closed),
            ModeName::Open => {
                let rate = self
                    .rate
                    .ok_or("--mode open needs --rate; give it in requests per second")?;
                Ok(Mode::Open(self.open_loop(rate_of("--rate", rate)?)))
            }
            ModeName::Ramp => self.choose_ramp().map(Mode::Ramp),
        }
    }

    /// An option that changes nothing would be taken for one that did.
    fn all_belong_to_the_mode(&self) -> Result<(), String> {
        let (is_open, is_ramp) = (self.mode == ModeName::Open, self.mode == ModeName::Ramp);
        let open_or_ramp = ("open or ramp", is_open || is_ramp);
        for (name, is_given, (modes, belongs)) in [
            ("--rate", self.rate.is_some(), ("open", is_open)),
            ("--arrivals", self.arrivals.is_some(), open_or_ramp),
            ("--spin", self.spin, open_or_ramp),
            ("--seed", self.seed.is_some(), open_or_ramp),
            ("--from", self.from.is_some(), ("ramp", is_ramp)),
            ("--step", self.step.is_some(), ("ramp", is_ramp)),
            ("--to", self.to.is_some(), ("ramp", is_ramp)),
            ("--per-step", self.per_step.is_some(), ("ramp", is_ramp)),
            ("--max-errors", self.max_errors.is_some(), ("ramp", is_ramp)),
        ] {
            if is_given && !belongs {
                return Err(format!(
                    "{name} belongs to --mode {modes}; give that too, or leave {name} out"
                ));
            }
        }
        Ok(())
    }

    fn open_loop(&self, rate: f64) -> OpenLoop {
        OpenLoop {
            rate,
            spacing: self.arrivals.unwrap_or(Spacing::Constant),
            spin: self.spin,
            seed: self.seed.unwrap_or(1),
        }
    }

    fn per_step(&self) -> PerStep {
        self.per_step.unwrap_or(PerStep::Connections(20.0))
    }

    fn choose_ramp(&self) -> Result<Ramp, String> {
        if self.requests.is_some() || self.duration.is_some() {
            return Err(
                "--mode ramp takes no --requests and no --duration; give the length of a step by --per-step".into(),
            );
        }
        let missing =
            |name: &str| format!("--mode ramp needs {name}; give it in requests per second");
        let rate = |name, rate: Option<f64>| rate_of(name, rate.ok_or_else(|| missing(name))?);
        let from = rate("--from", self.from)?;
        let step = rate("--step", self.step)?;
        let to = rate("--to", self.to)?;
        if to < from {
            return Err(format!(
                "--to {to} lies below --from {from}; give a higher one"
            ));
        }
        Ok(Ramp {
            from,
            step,
            to,
            per_step: self.per_step(),
            max_errors: self.max_errors.unwrap_or(0.01),
            open: self.open_loop(from),
        })
    }

    fn choose_extent(&self) -> Result<Extent, String> {
        match (self.duration, self.requests) {
            (Some(_), Some(_)) => {
                Err("--duration and --requests exclude each other; give one".into())
            }
            (_, Some(0)) => Err("--requests 0 measures nothing; give at least 1".into()),
            (_, Some(requests)) => Ok(Extent::Requests(requests)),
            (Some(duration), None) if duration.is_zero() => {
                Err("--duration 0 measures nothing; give a longer one".into())
            }
            (Some(duration), None) => Ok(Extent::Duration(to_nanoseconds(duration))),
            (None, None) => Ok(Extent::Duration(to_nanoseconds(Duration::from_secs(10)))),
        }
    }

    fn choose_mix(&self, target: &Target) -> Result<Vec<RequestKind>, String> {
        let Some(mix) = &self.mix else {
            return self.paths_in_turn(target);
        };
        for (name, is_given) in [
            ("--path", !self.path.is_empty()),
            ("--method", self.method.is_some()),
            ("--data", self.data.is_some()),
        ] {
            if is_given {
                return Err(format!(
                    "--mix says itself what {name} says; leave {name} out"
                ));
            }
        }
        if target.path != "/" {
            return Err(format!(
                "the paths stand in --mix, and '{}' in the URL would not be asked for; leave it out",
                target.path
            ));
        }
        let text = match mix.strip_prefix('@') {
            None => mix.clone(),
            Some(file) => std::fs::read_to_string(file).map_err(|error| {
                format!("--mix: cannot read '{file}': {error}; name a file that you may read")
            })?,
        };
        request_mix::parse(&text).map_err(|reason| format!("--mix: {reason}"))
    }

    fn paths_in_turn(&self, target: &Target) -> Result<Vec<RequestKind>, String> {
        for path in &self.path {
            target::check_path(path).map_err(|reason| format!("--path: {reason}"))?;
        }
        if let Some(method) = &self.method {
            request_mix::parse_token("--method", method)?;
        }
        let body = self
            .data
            .as_deref()
            .map(|text| match text.strip_prefix('@') {
                None => Ok(text.as_bytes().into()),
                Some(file) => {
                    request_mix::read_body(file).map_err(|reason| format!("--data: {reason}"))
                }
            });
        let body = body.transpose()?;
        std::iter::once(&target.path)
            .chain(&self.path)
            .map(|path| RequestKind::new(self.method.as_deref(), path, 1, body.clone()))
            .collect()
    }

    fn choose_tls(&self, target: &Target) -> Result<Option<Client>, String> {
        match (target.is_tls, self.ca.as_deref(), self.insecure) {
            (_, Some(_), true) => Err("--ca and --insecure exclude each other; give one".into()),
            (true, ca, insecure) => Client::new(target, ca, insecure).map(Some),
            (false, None, false) => Ok(None),
            (false, Some(_), _) => {
                Err("--ca belongs to an https:// URL; write that, or leave --ca out".into())
            }
            (false, None, true) => {
                Err("--insecure belongs to an https:// URL; write that, or leave it out".into())
            }
        }
    }
}

fn to_nanoseconds(duration: Duration) -> Nanoseconds {
    u64::try_from(duration.as_nanos()).expect("units take no longer time")
}

fn check_count(name: &str, count: u32, most: u32, what: &str) -> Result<(), String> {
    match count {
        0 => Err(format!("{name} 0 does nothing; give at least 1")),
        _ if count > most => Err(format!(
            "{name} {count} are more than {what}; give at most {most}"
        )),
        _ => Ok(()),
    }
}

fn rate_of(name: &str, rate: f64) -> Result<f64, String> {
    if rate.is_finite() && (1e-3..=1e8).contains(&rate) {
        Ok(rate)
    } else {
        Err(format!(
            "{name} {rate} is not a rate; give requests per second between 0.001 and 100000000"
        ))
    }
}

fn per_second(text: &str) -> Result<f64, String> {
    text.parse()
        .map_err(|_| format!("'{text}' is not a number; write requests per second, such as 100"))
}

/// A share such as `1%` or `0.01`.
fn parse_share(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    number
        .parse::<f64>()
        .ok()
        .map(|number| number / scale)
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("'{text}' is not a share; write it as 1% or 0.01"))
}

#[cfg(test)]
pub mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// The plan of a command line; other modules' tests start from it.
    pub fn plan(line: &str) -> Result<Plan, String> {
        let words = std::iter::once("load").chain(line.split(' '));
        Line::try_parse_from(words)
            .map_err(|error| error.to_string())?
            .args
            .plan()
    }

    #[test]
    fn the_defaults_are_a_closed_loop_of_ten_seconds() {
        let plan = plan("http://a/").unwrap();
        assert_eq!(plan.mode, Mode::Closed);
        assert_eq!(plan.extent, Extent::Duration(10_000_000_000));
        assert!(!plan.new_connections);
    }

    #[test]
    fn a_ramp_by_connections_uses_each_once() {
        let line = "http://a/ --mode ramp --from 1 --step 1 --to 5";
        assert!(plan(line).unwrap().new_connections);
        let by_time = format!("{line} --per-step 10s");
        assert!(!plan(&by_time).unwrap().new_connections);
    }

    #[test]
    fn bad_values_are_refused_with_a_remedy() {
        for (options, reason) in [
            ("--mode open", "needs --rate"),
            ("--rate 5", "belongs to --mode open"),
            ("--mode open --rate 0", "is not a rate"),
            ("--mode open --rate NaN", "is not a rate"),
            ("--from 5", "belongs to --mode ramp"),
            ("--arrivals constant", "--arrivals belongs to --mode open"),
            ("--spin", "--spin belongs to --mode open or ramp"),
            ("--seed 1", "--seed belongs to --mode open or ramp"),
            ("--per-step 20x", "--per-step belongs to --mode ramp"),
            (
                "--mode open --rate 5 --max-errors 1%",
                "--max-errors belongs to --mode ramp",
            ),
            (
                "--mode ramp --from 1 --step 1 --to 5 --rate 5",
                "--rate belongs to --mode open",
            ),
            ("--mode ramp --from 1 --step 1", "needs --to"),
            ("--mode ramp --duration 5s", "takes no --requests"),
            ("--mode ramp --from 9 --step 1 --to 5", "lies below"),
            ("--workers 0", "at least 1"),
            ("--workers 100001", "at most 100000"),
            ("--workers 2 --threads 3", "without a worker"),
            ("--workers 9999 --threads 1025", "at most 1024"),
            ("--requests 5 --duration 5s", "exclude each other"),
            ("--requests 0", "measures nothing"),
            ("--duration 0s", "measures nothing"),
            ("--duration 5", "no unit"),
            ("--duration 99999999999999h", "more than can be"),
            ("--warmup 3000000h", "more than can be"),
            ("--timeout 0s", "would fail"),
            ("--path x", "must begin with"),
            ("-H x", "no colon"),
            ("-H Content-Length:5", "cannot be given"),
            ("-H A:\u{1}b", "control character"),
            ("-H A:b\r\nC:d", "control character"),
            ("-H A:b\n", "control character"),
            ("-H A\r\nB:c", "not a word"),
            ("-H Host:a -H host:b", "given twice"),
            ("-H connection:close", "cannot be given"),
            ("--mix [] --path /b", "leave --path out"),
            ("http://a/x --mix []", "would not be asked for"),
            ("--mix []", "0 entries"),
            ("--mix @/no/such/file", "cannot read"),
            ("--insecure", "belongs to an https:// URL"),
            ("--ca /x", "belongs to an https:// URL"),
            ("https://a/ --ca /x --insecure", "exclude each other"),
            ("https://a/ --ca /no/such/file", "cannot use"),
            ("https://a/ --ca /dev/null", "holds no certificate"),
            ("-X G(T", "not a word"),
            ("-d @/no/such/file", "cannot read"),
            ("--per-step 20", "20x"),
            ("--max-errors 200%", "not a share"),
        ] {
            let url = if options.starts_with("http") {
                ""
            } else {
                "http://a/ "
            };
            let line = format!("{url}{options}");
            let message = plan(&line).unwrap_err();
            assert!(message.contains(reason), "{line}: {message}");
            // Behind the last one stands the remedy; one before it would make what is wrong of another.
            assert_eq!(message.matches("; ").count(), 1, "{line}: {message}");
        }
    }
}
