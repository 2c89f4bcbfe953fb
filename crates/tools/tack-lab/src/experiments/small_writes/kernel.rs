//! The same uploads over the kernel's TCP.

use std::time::Duration;

use tack_emulator::tcp::SocketOptions;

use super::super::kernel_run::KernelRun;
use super::{Cell, Contender, Context, Error, LIMIT, ROUTE, Run, WRITERS, WRITES, saved};
use crate::application::raw_paste::{Device, Host, Interpreter};
use crate::report::Table;

/// Measures the table, or tells why it is missing.
pub(super) fn measure(context: &Context) -> Result<Result<Table, String>, Error> {
    let writes = context.pick(WRITES.to_vec(), vec![256, 4096]);
    let mut table = Table::new("10 KB as one command over kernel TCP, in real time")
        .text("no_delay", "TCP_NODELAY")
        .number("write_bytes", "write", "bytes", 0)
        .text("writer", "writer")
        .number("upload_ms", "upload", "ms", 1)
        .number("saved_percent", "saved", "%", 1)
        .number("drains", "drains", "", 0)
        .number("delayed_acks", "delayed ACKs, both ends", "", 0)
        .number("late_packets", "late", "", 0);
    for no_delay in [false, true] {
        let options = [SocketOptions { no_delay, quick_ack: false }; 2];
        for &write in &writes {
            let mut sync_ms = f64::NAN;
            for writer in WRITERS {
                let cell = Cell::whole(Contender::TACK, writer, write);
                let mut host = Host::new(cell.upload(Duration::ZERO));
                let mut device = Device::new(Interpreter {
                    window: cell.window,
                    per_command: Duration::ZERO,
                    per_byte: Duration::ZERO,
                });
                let form = (context.seed(), LIMIT);
                let run = ROUTE.run_tcp(writer.label, options, form, &mut host, &mut device)?;
                let tcp = match run {
                    KernelRun::Done(tcp) => tcp,
                    KernelRun::Skipped(reason) => return Ok(Err(reason)),
                };
                let run = Run::of(&host, 0);
                if sync_ms.is_nan() {
                    sync_ms = run.ms;
                }
                table.row([
                    no_delay.into(),
                    write.into(),
                    writer.label.into(),
                    run.ms.into(),
                    saved(sync_ms, run.ms).into(),
                    run.drains.into(),
                    tcp.delayed_acks.iter().sum::<u64>().into(),
                    tcp.late_packets.into(),
                ]);
            }
        }
    }
    Ok(Ok(table))
}
