//! What is asked of a guest: one request to a connection, or one reading of files after another.

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use super::files::FilesQuery;
use ground::process;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    Run(ProgramStart),
    Signal(ToGroup),
    Read(FilesQuery),
}

/// Start a program.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramStart {
    /// Its name, looked up in PATH as `env` has it, and what it is given.
    pub argv: Vec<String>,
    /// All that it finds in its environment, by name and value.
    pub env: Vec<(String, String)>,
}

/// Signal the process group of a program that was started.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToGroup {
    /// As it was told when the program was started.
    group: i32,
    number: i32,
}

impl Request {
    pub fn parse(line: &str) -> anyhow::Result<Request> {
        let request = serde_json::from_str(line).context("this is no request")?;
        if let Request::Run(run) = &request {
            ensure!(!run.argv.is_empty(), "a request without a program");
            let words = run.env.iter().flat_map(|(name, value)| [name, value]);
            ensure!(
                !words.chain(&run.argv).any(|word| word.contains('\0')),
                "a word holds a zero byte, which no program can be given"
            );
        }
        Ok(request)
    }
}

impl ToGroup {
    /// Nothing where the group has ended.
    pub fn send(&self) -> anyhow::Result<()> {
        let group = Pid::from_raw(self.group).context("this is no process group")?;
        let signal = Signal::from_named_raw(self.number).context("this is no signal")?;
        match process::send_to_group(group, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error).context("cannot signal the process group"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_controller_writes_is_understood() {
        let line = r#"{"run": {"argv": ["echo", "\u00e4"], "env": [["PATH", "/bin"]]}}"#;
        let run = ProgramStart {
            argv: vec!["echo".into(), "ä".into()],
            env: vec![("PATH".into(), "/bin".into())],
        };
        assert_eq!(Request::parse(line).unwrap(), Request::Run(run));
        let line = r#"{"signal": {"group": 7, "number": 15}}"#;
        let (group, number) = (7, 15);
        let signal = ToGroup { group, number };
        assert_eq!(Request::parse(line).unwrap(), Request::Signal(signal));
        let line = r#"{"read": {"paths": ["/proc/uptime"]}}"#;
        let paths = vec!["/proc/uptime".into()];
        let read = FilesQuery { paths };
        assert_eq!(Request::parse(line).unwrap(), Request::Read(read));
    }

    #[test]
    fn what_cannot_be_carried_out_is_told() {
        for (line, says) in [
            ("", "no request"),
            (r#"{"halt": {}}"#, "no request"),
            (r#"{"run": {"argv": [], "env": []}}"#, "without a program"),
            (r#"{"run": {"argv": ["\u0000"], "env": []}}"#, "zero byte"),
        ] {
            let error = format!("{:#}", Request::parse(line).unwrap_err());
            assert!(error.contains(says), "{error}");
        }
        for (group, number) in [(0, 15), (1, 99)] {
            ToGroup { group, number }.send().unwrap_err();
        }
    }
}
