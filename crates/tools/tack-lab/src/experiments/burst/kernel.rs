//! The same pushes over the kernel's TCP.

use tack_emulator::tcp::SocketOptions;

use super::super::kernel_run::KernelRun;
use super::{Context, Error, LIMIT, PAYLOAD, Place, megabytes_per_second};
use crate::application::adb::{Device, Host, Push};
use crate::report::Table;

const CREDITS: [Option<u32>; 3] = [None, Some(64 << 10), Some(1 << 20)];

/// Without options, and with what adb sets.
const OPTIONS: [SocketOptions; 2] = [
    SocketOptions { no_delay: false, quick_ack: false },
    SocketOptions { no_delay: true, quick_ack: false },
];

/// What is pushed: in real time, so less than in virtual time.
pub(super) fn file_bytes(context: &Context) -> u64 {
    context.pick(16 << 20, 1 << 20)
}

/// Measures the table, or tells why it is missing.
pub(super) fn measure(
    context: &Context,
    places: &[Place],
) -> Result<Result<Table, String>, Error> {
    let bytes = file_bytes(context);
    let mut table = Table::new("Pushed over kernel TCP with CUBIC, in real time")
        .text("place", "path")
        .text("no_delay", "TCP_NODELAY")
        .number("available_kib", "ASB", "KiB", 0)
        .number("mb_per_s", "pushed", "MB/s", 2)
        .number("gain", "of one at a time", "", 2)
        .number("delayed_acks", "delayed ACKs, both ends", "", 0)
        .number("late_packets", "late", "", 0);
    for place in places {
        for options in OPTIONS {
            let mut one_at_a_time = f64::NAN;
            for credit in CREDITS {
                let mut host = Host::new(Push { bytes, payload: PAYLOAD, wish: credit });
                let mut device = Device::new(Some(u32::MAX));
                let form = (context.seed(), LIMIT);
                let run = place.route.run_tcp(
                    place.label,
                    [options; 2],
                    form,
                    &mut host,
                    &mut device,
                )?;
                let tcp = match run {
                    KernelRun::Done(tcp) => tcp,
                    KernelRun::Skipped(reason) => return Ok(Err(reason)),
                };
                let rate = megabytes_per_second(&host, bytes).unwrap_or(f64::NAN);
                if credit.is_none() {
                    one_at_a_time = rate;
                }
                table.row([
                    place.label.into(),
                    options.no_delay.into(),
                    credit.map(|bytes| bytes >> 10).into(),
                    rate.into(),
                    (rate / one_at_a_time).into(),
                    tcp.delayed_acks.iter().sum::<u64>().into(),
                    tcp.late_packets.into(),
                ]);
            }
        }
    }
    Ok(Ok(table))
}
