use std::process::ExitCode;

fn main() -> ExitCode {
    nearmetal_probe::main()
}
