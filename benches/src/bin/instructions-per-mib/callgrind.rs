//! Runs this program under callgrind and reads what it counted.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context, Result, ensure};

use super::arm::{Arm, Kind};
use super::{Parameters, Run, Side};

/// One run, counted inside the arm's function alone.
pub fn count(parameters: &Parameters, arm: Arm, batch: usize, kind: Kind) -> Result<Side> {
    let (arm_name, kind_name) = (arm.name(), kind.name());
    let directory = parameters.keep.clone().unwrap_or_else(env::temp_dir);
    fs::create_dir_all(&directory)
        .with_context(|| format!("{} could not be made", directory.display()))?;
    let process = std::process::id();
    let file = directory.join(format!("callgrind.{process}.{arm_name}.{kind_name}.{batch}"));
    let mut option = OsString::from("--callgrind-out-file=");
    option.push(&file);
    let output = Command::new("valgrind")
        .args(["--quiet", "--tool=callgrind", "--collect-atstart=no"])
        .arg(format!("--toggle-collect=*{}*", arm.counted_function()))
        .arg(option)
        .arg(env::current_exe()?)
        .args(["--only", kind_name, "--arm", arm_name])
        .args(["--mib", &parameters.mib.to_string(), "--batch", &batch.to_string()])
        .args(["--warm-up-mib", &parameters.warm_up_mib.to_string()])
        .args(["--mbps", &parameters.mbps.to_string()])
        .args(["--rtt-ms", &parameters.rtt_ms.to_string()])
        .args(["--queue-bdp", &parameters.queue_bdp.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .context("valgrind could not be run; install it (Debian: apt-get install valgrind)")?;
    ensure!(output.status.success(), "the transfer under valgrind failed: {}", output.status);
    let run: Run = serde_json::from_slice(&output.stdout)
        .context("the transfer under valgrind printed something else than its report")?;
    let counted = fs::read_to_string(&file)
        .with_context(|| format!("callgrind has left no {}", file.display()))?;
    if parameters.keep.is_none() {
        let _ = fs::remove_file(&file);
    }
    let total = total(&counted).context("callgrind's file has no total")?;
    ensure!(total > 0, "callgrind has counted nothing: was the program stripped?");
    Ok(Side { instructions_per_mib: total / parameters.mib as u64, run })
}

/// The sum of a callgrind file.
fn total(counted: &str) -> Option<u64> {
    counted.lines().rev().find_map(|line| line.strip_prefix("totals: "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_from_the_end_of_callgrinds_file() {
        let file = "version: 1\nevents: Ir\nfn=(1) main\n1 5\n\ntotals: 1234\n";
        assert_eq!(total(file), Some(1234));
        assert_eq!(total("summary: 1\n"), None);
    }
}
