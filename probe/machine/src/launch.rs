//! `launch`: become another program, in the place where it must run.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, setsid};
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};

use crate::credentials::{self, Kept, Owner};
use crate::program::{OWN_FAILURE, Program, User};
use crate::tap::{self, TapName};
use ground::output;
use ground::placement::{self, Place, WatchedProcess};
use ground::process::{self, Signals, Usage};

/// Start a program where and how it must run.
///
/// launch replaces itself by the program. It stays with --enter, because a pid namespace takes a new process, and with
/// --spent: it then passes SIGTERM, SIGINT and SIGHUP on to the program's process group, and the group is killed when
/// launch is.
///
/// What enters a machine, or dies with its parent, has the ordinary priority (nice 0 and SCHED_OTHER) if that is
/// permitted; anything else has the caller's.
///
/// Exit status: the program's, or 128 plus the signal that killed it; 127 when it was not found, 126 when it cannot be
/// executed, 125 when launch itself failed.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: Place,
    /// Open this existing tap for the program, which finds its descriptor's number where ARGV says {tap0}, {tap1} and so on
    #[arg(long = "tap", value_name = "NETNS_PATH:IFNAME")]
    taps: Vec<TapName>,
    /// Open this file for the program to read, which finds its descriptor's number where ARGV says {file0}, {file1} and so
    /// on. Whoever the program runs as need not be allowed to open it
    #[arg(long = "open", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Run inside the machine or container of this process: its mounts, host name, IPC, processes, root directory and,
    /// without --netns, its network
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    enter: Option<i32>,
    /// Add a line to this file, when the program has ended, with the ns of CPU time that it and the children it waited
    /// for have had. For a machine without a control group, which would count them
    #[arg(long, value_name = "FILE")]
    spent: Option<PathBuf>,
    /// Set this environment variable. May be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    env: Vec<(String, String)>,
    /// Start from an empty environment
    #[arg(long)]
    clear_env: bool,
    /// Run in this directory (of the entered machine)
    #[arg(long, value_name = "DIR")]
    chdir: Option<PathBuf>,
    /// Run in the directory that the program's HOME names, if it is there (of the entered machine)
    #[arg(long, conflicts_with = "chdir")]
    at_home: bool,
    /// Run as this user of the machine's /etc/passwd, with that user's own group and no other
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Run as this user and group, which need no account, without capabilities and without a way to more
    #[arg(long = "as", value_name = "UID:GID", conflicts_with_all = ["user", "enter"])]
    owner: Option<Owner>,
    /// With --as: be in this group too, by its number. May be repeated
    #[arg(long = "group", value_name = "GID", requires = "owner")]
    groups: Vec<u32>,
    /// With --as: keep this capability. May be repeated
    #[arg(long = "keep", value_name = "CAPABILITY", requires = "owner")]
    kept: Vec<Kept>,
    /// Write the program's process id, and a newline, to this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["enter", "spent"])]
    pid_file: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "ARGV")]
    argv: Vec<OsString>,
}

/// NAME=VALUE.
pub(crate) fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err(format!("'{text}' sets nothing; write it as NAME=VALUE")),
    }
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let status = launch_program(args).unwrap_or_else(|error| {
        output::print_complaint(format_args!("nearmetal-probe launch: {error:#}"));
        OWN_FAILURE
    });
    Ok(ExitCode::from(status))
}

fn launch_program(args: Args) -> anyhow::Result<u8> {
    if let Some(parent) = args.place.die_with_parent {
        placement::die_with_parent(parent)?;
    }
    if args.place.die_with_parent.is_some() || args.enter.is_some() {
        placement::be_ordinary();
    }
    args.place
        .cgroup
        .iter()
        .try_for_each(|dir| placement::join_cgroup(dir))?;
    let taps = args
        .taps
        .iter()
        .map(tap::open_inherited)
        .collect::<anyhow::Result<Vec<_>>>()?;
    let files = args
        .files
        .iter()
        .map(|path| open_inherited(path))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let argv = args
        .argv
        .iter()
        .map(|word| fill_in(&fill_in(word, "tap", &taps)?, "file", &files))
        .collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(path) = &args.place.netns {
        placement::enter_netns(path)?;
    }
    if let Some(cpus) = &args.place.cpus {
        placement::pin_this_thread(cpus)?;
    }
    if let Some(file) = &args.pid_file {
        // It is this process that becomes the program.
        std::fs::write(file, format!("{}\n", std::process::id()))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    let mut program = Errand {
        argv,
        env: args.env,
        clear_env: args.clear_env,
        chdir: args.chdir,
        at_home: args.at_home,
        user: args.user,
    };
    if let Some(owner) = args.owner {
        program.enter_directory()?; // whose parents may be closed to whom it becomes
        program.chdir = None;
        credentials::become_user(owner, &args.groups, &args.kept)?;
        if let Some(parent) = args.place.die_with_parent {
            placement::die_with_parent(parent)?;
        }
    }
    let entered = args.enter.and_then(Pid::from_raw);
    if entered.is_none() && args.spent.is_none() {
        return program.execute_program();
    }
    let watched = WatchedProcess::this_process()?;
    let spent = args.spent.as_deref().map(open_to_append).transpose()?;
    if let Some(pid) = entered {
        enter_namespaces(pid, args.place.netns.is_some())?;
    }
    supervise_program(&program, &watched, spent)
}

/// Open a file so that programs started later inherit the descriptor.
fn open_inherited(path: &Path) -> anyhow::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::NOCTTY, Mode::empty())
        .with_context(|| format!("cannot open {}", path.display()))
}

fn open_to_append(path: &Path) -> anyhow::Result<File> {
    let opened = File::options().append(true).create(true).open(path);
    opened.with_context(|| format!("cannot write {}", path.display()))
}

/// Replace each `{KINDn}` in a word of the command by the number of that descriptor.
fn fill_in(word: &OsStr, kind: &str, opened: &[OwnedFd]) -> anyhow::Result<OsString> {
    let opening = format!("{{{kind}");
    let opening = opening.as_bytes();
    let mut filled = Vec::new();
    let mut rest = word.as_bytes();
    while let Some(start) = rest
        .windows(opening.len())
        .position(|window| window == opening)
    {
        let (before, placeholder) = rest.split_at(start);
        filled.extend_from_slice(before);
        let digits: Vec<u8> = placeholder[opening.len()..]
            .iter()
            .copied()
            .take_while(u8::is_ascii_digit)
            .collect();
        let length = opening.len() + digits.len();
        let number = std::str::from_utf8(&digits)?.parse::<usize>();
        rest = match (number, placeholder.get(length)) {
            (Ok(number), Some(b'}')) => {
                let descriptor = opened.get(number).ok_or_else(|| {
                    let option = if kind == "file" { "open" } else { kind };
                    anyhow!(
                        "{} asks for {{{kind}{number}}}, but --{option} is given {} times",
                        Path::new(word).display(),
                        opened.len()
                    )
                })?;
                filled.extend_from_slice(descriptor.as_raw_fd().to_string().as_bytes());
                &placeholder[length + 1..]
            }
            _ => {
                filled.extend_from_slice(opening);
                &placeholder[opening.len()..]
            }
        };
    }
    filled.extend_from_slice(rest);
    Ok(OsString::from_vec(filled))
}

/// Join the namespaces and the root directory of process `pid`.
fn enter_namespaces(pid: Pid, keep_network: bool) -> anyhow::Result<()> {
    let number = pid.as_raw_nonzero();
    let target = placement::open_pidfd(pid)?;
    let root = rustix::fs::open(
        format!("/proc/{number}/root"),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .with_context(|| {
        format!("cannot open the root directory of process {number}; is it running?")
    })?;
    let mut namespaces = ThreadNameSpaceType::MOUNT
        | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME
        | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION
        | ThreadNameSpaceType::PROCESS_ID
        | ThreadNameSpaceType::NETWORK;
    if keep_network {
        namespaces -= ThreadNameSpaceType::NETWORK;
    }
    move_into_thread_name_spaces(target.as_fd(), namespaces).with_context(|| {
        format!("cannot join the namespaces of process {number}; it takes root and Linux 5.8")
    })?;
    rustix::process::fchdir(&root)
        .and_then(|()| rustix::process::chroot("."))
        .and_then(|()| rustix::process::chdir("/"))
        .with_context(|| format!("cannot take over the root directory of process {number}"))
}

/// Run the program, in the pid namespace that may have been joined, and stay until it ends.
///
/// Two processes: this one, which may be outside, is what the caller knows. A keeper hears of this one's death, which a
/// SIGKILL would otherwise hide, and takes the program's whole process group along.
fn supervise_program(
    program: &Errand,
    launcher: &WatchedProcess,
    spent: Option<File>,
) -> anyhow::Result<u8> {
    let signals = Signals::block_signals(&[Signal::TERM, Signal::INT, Signal::HUP, Signal::CHILD]);
    match process::fork_process()? {
        Some(keeper) => {
            let pass_on = |signal| process::signal_one(keeper, signal);
            let status = process::supervise_child(keeper, &signals, pass_on).shell_status();
            if let Some(mut file) = spent {
                writeln!(file, "{}", Usage::of_children().cpu_ns())
                    .context("cannot write what the program spent")?;
            }
            Ok(status)
        }
        None => keep_program(program, launcher, &signals),
    }
}

/// The keeper: start the program as the leader of a session of its own, and end with it.
fn keep_program(
    program: &Errand,
    launcher: &WatchedProcess,
    inherited: &Signals,
) -> anyhow::Result<u8> {
    const LAUNCHER_DIED: Signal = Signal::USR1;
    let signals = Signals::block_signals(&[
        Signal::TERM,
        Signal::INT,
        Signal::HUP,
        Signal::CHILD,
        LAUNCHER_DIED,
    ]);
    launcher.signal_on_death(LAUNCHER_DIED)?;
    setsid().context("cannot start a session")?;
    let this = WatchedProcess::this_process()?;
    let Some(child) = process::fork_process()? else {
        this.signal_on_death(Signal::KILL)?;
        setsid().context("cannot start a session")?;
        inherited.restore_mask();
        return program.execute_program();
    };
    let mut told_to_end = false;
    let end = process::supervise_child(child, &signals, |signal| {
        told_to_end = true;
        process::signal_group(
            child,
            if signal == LAUNCHER_DIED {
                Signal::KILL
            } else {
                signal
            },
        );
    });
    if told_to_end {
        let _ = rustix::process::kill_process_group(child, Signal::KILL);
    }
    Ok(end.shell_status())
}

/// The program that launch becomes, and the directory to become it in.
struct Errand {
    argv: Vec<OsString>,
    env: Vec<(String, String)>,
    clear_env: bool,
    chdir: Option<PathBuf>,
    at_home: bool,
    user: Option<String>,
}

impl Errand {
    /// Replace this process; returns the exit status only when that fails.
    fn execute_program(&self) -> anyhow::Result<u8> {
        self.enter_directory()?;
        // An image of somebody's need not have it.
        if let Some(home) = self.home_variable().filter(|_| self.at_home) {
            let _ = std::env::set_current_dir(home);
        }
        let mut program = Program::new(&self.argv, &self.env, self.clear_env);
        if let Some(name) = &self.user {
            program.run_as(&find_user(name)?);
        }
        let (status, reason) = program.execute();
        output::print_complaint(format_args!("nearmetal-probe launch: {reason}"));
        Ok(status)
    }

    fn enter_directory(&self) -> anyhow::Result<()> {
        let Some(directory) = &self.chdir else {
            return Ok(());
        };
        std::env::set_current_dir(directory).with_context(|| {
            format!(
                "cannot enter the directory {}; does it exist there?",
                directory.display()
            )
        })
    }

    /// As the program will find it.
    fn home_variable(&self) -> Option<OsString> {
        let given = self.env.iter().rfind(|(name, _)| name == "HOME");
        match given {
            Some((_, home)) => Some(home.into()),
            None if self.clear_env => None,
            None => std::env::var_os("HOME"),
        }
    }
}

/// Look a user up where the program will run.
fn find_user(name: &str) -> anyhow::Result<User> {
    const ACCOUNTS: &str = "/etc/passwd";
    let accounts = std::fs::read_to_string(ACCOUNTS)
        .with_context(|| format!("cannot read the machine's {ACCOUNTS}"))?;
    parse_user(&accounts, name).ok_or_else(|| {
        anyhow!("there is no user {name}; the machine's {ACCOUNTS} names those that there are")
    })
}

/// The user of this name in the text of a passwd(5) file.
fn parse_user(accounts: &str, name: &str) -> Option<User> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then_some(())?;
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        let home = fields.nth(1)?.to_owned();
        Some(User { uid, gid, home })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_looked_up_by_the_whole_name() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\nwww:x:33:34:www:/var/www:/bin/sh\nbad:x\n";
        let user = parse_user(accounts, "www").unwrap();
        assert_eq!((user.uid, user.gid, &*user.home), (33, 34, "/var/www"));
        assert!(parse_user(accounts, "ww").is_none());
        assert!(parse_user(accounts, "bad").is_none());
    }

    #[test]
    fn placeholders_become_descriptors_and_the_rest_stays() {
        let tap = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let number = tap.as_raw_fd();
        let taps = [tap];
        let fill = |word: &str| fill_in(OsStr::new(word), "tap", &taps);
        for word in [
            "tap,fd={tap0},vhost=off",
            "{tap0}{tap0}",
            "{tap} {tapx} {tap0 {ta",
        ] {
            let filled = word.replace("{tap0}", &number.to_string());
            assert_eq!(fill(word).unwrap(), *filled);
        }
        assert!(fill("{tap1}").unwrap_err().to_string().contains("{tap1}"));
    }

    #[test]
    fn a_variable_needs_a_name() {
        assert_eq!(parse_variable("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert!(parse_variable("=x").is_err());
        assert!(parse_variable("A").is_err());
    }
}
