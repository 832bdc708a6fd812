//! How a verb speaks: one JSON document on stdout, progress as JSON lines on stderr, and its exit codes.

use serde::Serialize;

/// Exit code for arguments that cannot be carried out.
pub const INPUT_IS_WRONG: u8 = 2;

/// Print one document as a single line of JSON on stdout.
pub fn document(value: &impl Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(value)?);
    Ok(())
}
