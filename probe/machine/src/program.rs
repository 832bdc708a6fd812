//! A program that this process is to become, or to start.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::fs::Access;

/// Exit status when what should have become the program failed itself.
pub const OWN_FAILURE: u8 = 125;
/// Exit status for a program that is there but cannot be executed, as shells have it.
const NOT_EXECUTABLE: u8 = 126;
/// Exit status for a program that is not there, as shells have it.
const NOT_FOUND: u8 = 127;

/// A command, looked up and ready, so that becoming it takes one system call.
pub struct Program {
    command: Command,
    name: OsString,
}

/// A user that a program can run as.
pub struct User {
    pub uid: u32,
    pub gid: u32,
    pub home: String,
}

impl Program {
    /// Look `argv`'s program up in PATH as it stands in `variables`, or else in this process' environment.
    pub fn new(
        argv: &[OsString],
        variables: &[(String, String)],
        clear_environment: bool,
    ) -> Program {
        let (name, arguments) = argv
            .split_first()
            .map_or((OsStr::new(""), &[][..]), |(name, rest)| {
                (name.as_os_str(), rest)
            });
        let given_path = variables
            .iter()
            .rev()
            .find(|(variable, _)| variable == "PATH")
            .map(|(_, value)| value.into());
        let path = given_path.or_else(|| env::var_os("PATH").filter(|_| !clear_environment));
        let mut command = Command::new(find_executable(name, path.as_deref()));
        command.arg0(name).args(arguments);
        if clear_environment {
            command.env_clear();
        }
        command.envs(variables.iter().map(|(variable, value)| (variable, value)));
        Program {
            command,
            name: name.to_owned(),
        }
    }

    /// Have it run as this user, in no other group than the user's own, and with that user's HOME.
    pub fn run_as(&mut self, user: &User) {
        // A process of root's that sets another uid gives up its supplementary groups with it.
        self.command.gid(user.gid).uid(user.uid);
        let names_home = self.command.get_envs().any(|(name, _)| name == "HOME");
        if !names_home {
            self.command.env("HOME", &user.home);
        }
    }

    /// Replace this process. Returns only when that fails, with the exit status for it and a line that says why.
    pub fn execute(mut self) -> (u8, String) {
        let error = self.command.exec();
        self.describe_failure(&error)
    }

    /// Start it as a child of this process, made ready by `prepare`. When that fails, as with `execute`.
    pub fn spawn(mut self, prepare: impl FnOnce(&mut Command)) -> Result<Child, (u8, String)> {
        prepare(&mut self.command);
        self.command
            .spawn()
            .map_err(|error| self.describe_failure(&error))
    }

    fn describe_failure(&self, error: &io::Error) -> (u8, String) {
        let (status, remedy) = match error.kind() {
            ErrorKind::NotFound => (
                NOT_FOUND,
                "is it installed there, with its interpreter, and in PATH?",
            ),
            _ => (NOT_EXECUTABLE, "is it an executable file for this machine?"),
        };
        (
            status,
            format!(
                "cannot run {}: {error}; {remedy}",
                Path::new(&self.name).display()
            ),
        )
    }
}

/// The file that execvp(3) would run.
fn find_executable(name: &OsStr, path: Option<&OsStr>) -> PathBuf {
    const DEFAULT_PATH: &str = "/bin:/usr/bin";
    if name.as_bytes().contains(&b'/') {
        return name.into();
    }
    let is_executable =
        |file: &PathBuf| file.is_file() && rustix::fs::access(file, Access::EXEC_OK).is_ok();
    let directories = env::split_paths(path.unwrap_or(OsStr::new(DEFAULT_PATH)));
    // A name alone would be looked up once more, so that a program which is not there gets a path that is not there.
    directories
        .map(|directory| directory.join(name))
        .find(is_executable)
        .unwrap_or_else(|| Path::new("/nonexistent").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_as_a_shell_would() {
        assert_eq!(find_executable(OsStr::new("./x"), None), Path::new("./x"));
        assert!(find_executable(OsStr::new("sh"), None).ends_with("bin/sh"));
        assert!(!find_executable(OsStr::new("sh"), Some(OsStr::new("/proc"))).exists());
        assert!(!find_executable(OsStr::new(""), None).exists());
    }
}
