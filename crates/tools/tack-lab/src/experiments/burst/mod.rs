//! A file pushed by adb's protocol: one write at a time, or as many as the credit allows.

mod kernel;

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Value, json};

use super::protocol_run::Route;
use super::{Contender, Context, Error, Experiment, Findings, median};
use crate::application::adb::{Device, Host, Push, Trace};
use crate::application::cable::Cable;
use crate::report::{Axis, Chart, Check, Colour, Plot, Series, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "burst",
    title: "Delayed ACK of adb",
    question: "What does it bring to send ahead of the application's acknowledgements, as adb does?",
    paper: "adb's note on delayed ACK: 202 MB/s with one A_WRTE in flight and 340 MB/s with available \
            send bytes, over USB 3.",
    measure,
};

/// Means of the note's three runs each, bytes per second.
const NOTE_ONE_AT_A_TIME: f64 = 201.83e6;
const NOTE_BURST: f64 = 340.17e6;
/// What a push sends in one `A_WRTE`.
const PAYLOAD: usize = 64 << 10;
/// Bytes of the headers of an `A_WRTE` and its `A_OKAY`, which cross the cable as well.
const HEADERS: f64 = 24.0 + 28.0;
/// USB 3 behind its 8b/10b code, Mbit/s.
const USB3_MBPS: f64 = 4000.0;
/// Credit, bytes. `None`: one `A_WRTE` at a time. The quick form takes fewer.
const CREDITS: [Option<u32>; 9] = [
    None,
    Some(64 << 10),
    Some(128 << 10),
    Some(256 << 10),
    Some(512 << 10),
    Some(1 << 20),
    Some(2 << 20),
    Some(4 << 20),
    Some(8 << 20),
];
const QUICK_CREDITS: [Option<u32>; 3] = [None, Some(64 << 10), Some(1 << 20)];
/// What the note's trace wishes for.
const NOTE_CREDIT: Option<u32> = Some(1 << 20);
const STACKS: [Contender; 3] =
    [Contender::TACK, Contender::DELAYED.coloured(Colour::Sky), Contender::QUICHE_CUBIC];
const TARGET_GAIN: f64 = 1.7;
/// One `A_WRTE` at a time, beside a stack that is not receiver-driven.
const TARGET_OF_QUICHE: f64 = 0.95;
/// How near a gain has to come to the note's to agree with it, as a share of that.
const NEAR: RangeInclusive<f64> = 0.9..=1.1;
const LIMIT: Duration = Duration::from_secs(300);

/// A path for a device.
#[derive(Clone, Copy, Debug)]
struct Place {
    label: &'static str,
    route: Route,
    /// Bytes of the file, in the full form and the quick one.
    bytes: [u64; 2],
}

impl Place {
    /// Bytes of the file in this form.
    fn file_bytes(&self, context: &Context) -> u64 {
        self.bytes[usize::from(context.quick())]
    }
}

/// The cable that the note measured on, as its two figures have it: full with credit, and silent for
/// this long behind each write without.
fn cable() -> Cable {
    let payload = PAYLOAD as f64;
    let bytes_per_second = NOTE_BURST * (payload + 24.0) / payload;
    let on_the_wire = (payload + HEADERS) / bytes_per_second;
    let round_trip = payload / NOTE_ONE_AT_A_TIME - on_the_wire;
    Cable { bytes_per_second, delay: Duration::from_secs_f64(round_trip / 2.0) }
}

/// The note's cable first, then the one whose gain has a target.
fn places() -> [Place; 4] {
    let noted = cable();
    let usb3_bytes_per_second = USB3_MBPS * 1e6 / 8.0;
    let turnaround = PAYLOAD as f64 / NOTE_ONE_AT_A_TIME
        - (PAYLOAD as f64 + HEADERS) / usb3_bytes_per_second;
    let pipe = |rate_mbps: f64, round_trip: f64| {
        Route::new(rate_mbps.round(), (round_trip * 1e6).round() as u64)
    };
    let as_noted = pipe(noted.bytes_per_second * 8.0 / 1e6, 2.0 * noted.delay.as_secs_f64());
    let usb3 = pipe(USB3_MBPS, turnaround);
    let (wifi, far) = (Route::new(200.0, 10_000), Route::new(100.0, 60_000));
    [
        Place { label: "as noted", route: as_noted, bytes: [64 << 20, 4 << 20] },
        Place { label: "USB 3", route: usb3, bytes: [64 << 20, 4 << 20] },
        Place { label: "Wi-Fi", route: wifi, bytes: [32 << 20, 1 << 20] },
        Place { label: "far", route: far, bytes: [32 << 20, 1 << 20] },
    ]
}

/// What a push reached, MB/s.
fn megabytes_per_second(host: &Host, bytes: u64) -> Option<f64> {
    Some(bytes as f64 / host.took()?.as_secs_f64() / 1e6)
}

/// A path, a stack and the credit.
type Cell = (Place, Contender, Option<u32>);

fn measure(context: &Context) -> Result<Findings, Error> {
    let seeds = context.seeds(5, 1);
    let places = places();
    let credits = context.pick(CREDITS.to_vec(), QUICK_CREDITS.to_vec());
    let mut cells = Vec::new();
    for place in places {
        for stack in STACKS {
            cells.extend(credits.iter().map(|&credit| (place, stack, credit)));
        }
    }
    let rates = stack_rates(context, &cells, &seeds)?;
    let over_cable = cable_rates(&credits)?;
    let cable_alone = Sweep {
        place: places[0].label,
        stack: "cable alone",
        colour: Colour::Grey,
        credits: &credits,
        rates: &over_cable,
    };
    let mut sweeps = vec![cable_alone];
    for (cells, rates) in cells.chunks(credits.len()).zip(rates.chunks(credits.len())) {
        let (place, stack, _) = cells[0];
        sweeps.push(Sweep {
            place: place.label,
            stack: stack.label,
            colour: stack.colour,
            credits: &credits,
            rates,
        });
    }
    let mut checks = checks(&sweeps, places.map(|place| place.label));
    let (fallback, traces) = negotiation()?;
    checks.push(fallback);
    let mut tables = vec![table(&sweeps)];
    let mut notes = notes();
    // What a TUN device and this machine can carry.
    match kernel::measure(context, &places[2..])? {
        Ok(table) => tables.push(table),
        Err(reason) => notes.push(reason),
    }
    tables.extend(traces);
    Ok(Findings {
        parameters: parameters(context, &places),
        seeds,
        tables,
        plots: vec![plot(&sweeps, places[0].label)],
        checks,
        notes,
    })
}

/// What a push reaches in each cell: the median over the seeds, MB/s.
fn stack_rates(context: &Context, cells: &[Cell], seeds: &[u64]) -> Result<Vec<f64>, Error> {
    let rates = context.each(cells, seeds, |(place, stack, credit), seed| {
        let bytes = place.file_bytes(context);
        let mut host = Host::new(Push { bytes, payload: PAYLOAD, wish: *credit });
        let mut device = Device::new(Some(u32::MAX));
        place.route.run(stack, (seed, LIMIT), &mut host, &mut device)?;
        Ok(megabytes_per_second(&host, bytes).unwrap_or(f64::NAN))
    })?;
    Ok(rates.into_iter().map(|rates| median(rates).unwrap_or(f64::NAN)).collect())
}

fn table(sweeps: &[Sweep<'_>]) -> Table {
    let mut table = Table::new("Pushed, by available send bytes")
        .text("place", "path")
        .text("stack", "stack")
        .number("available_kib", "ASB", "KiB", 0)
        .number("mb_per_s", "pushed", "MB/s", 1)
        .number("gain", "of one at a time", "", 2);
    for sweep in sweeps {
        for (credit, rate) in sweep.credits.iter().zip(sweep.rates) {
            table.row([
                sweep.place.into(),
                sweep.stack.into(),
                credit.map(|bytes| bytes >> 10).into(),
                (*rate).into(),
                (rate / sweep.rates[0]).into(),
            ]);
        }
    }
    table
}

/// The sweeps at one place.
fn plot(sweeps: &[Sweep<'_>], place: &str) -> Plot {
    let shown = sweeps.iter().filter(|sweep| sweep.place == place);
    Plot::new(
        "Pushed over the note's cable",
        Axis::log("ASB, KiB (32: one A_WRTE at a time)"),
        Axis::linear("MB/s"),
        Chart::Lines { series: shown.map(Sweep::line).collect() },
    )
}

fn parameters(context: &Context, places: &[Place; 4]) -> Value {
    json!({
        "payload_bytes": PAYLOAD,
        "file_bytes": places.map(|place| place.file_bytes(context)),
        "kernel_file_bytes": kernel::file_bytes(context),
        "cable_bytes_per_second": cable().bytes_per_second,
        "cable_round_trip_us": 2.0 * cable().delay.as_secs_f64() * 1e6,
        "paths": places.map(|place| json!({
            "path": place.label,
            "rate_mbps": place.route.rate_mbps,
            "rtt_ms": place.route.rtt_ms(),
        })),
    })
}

/// What a reader has to know.
fn notes() -> Vec<String> {
    vec![
            "The cable is fitted to the note: its rate to 340 MB/s, its round trip to 202 MB/s with \
             writes of 64 KiB, adb's for a push. That a cable alone reaches both figures shows that the \
             protocol does what it should, and proves nothing about USB. Nothing on it can gain more \
             than the note has. The path \"USB 3\" has the rate of that bus and a round trip with which one write at a time \
             makes 202 MB/s: there the gain is bounded by the bus and not by what kept the note at 340 MB/s. The stacks run over a pipe \
             of the same rate, in which their headers count, and from a cold start."
                .to_owned(),
        ]
}

/// What a stack reached at one place.
struct Sweep<'a> {
    place: &'static str,
    stack: &'static str,
    colour: Colour,
    credits: &'a [Option<u32>],
    /// MB/s, by credit.
    rates: &'a [f64],
}

impl Sweep<'_> {
    /// Rates by credit, with the lack of it at half of the least.
    fn line(&self) -> Series {
        let x = |credit: &Option<u32>| f64::from(credit.map_or(32, |bytes| bytes >> 10));
        let points = self.credits.iter().zip(self.rates);
        let points = points.map(|(credit, rate)| (x(credit), *rate)).collect();
        Series::measured(self.stack, self.colour, points)
    }

    /// With the credit of the note's trace.
    fn with_credit(&self) -> f64 {
        let at = self.credits.iter().position(|credit| *credit == NOTE_CREDIT);
        at.map_or(f64::NAN, |at| self.rates[at])
    }

    fn gain(&self) -> f64 {
        self.with_credit() / self.rates[0]
    }
}

/// What the rates are held against; the first sweep is that of the cable alone.
fn checks(sweeps: &[Sweep<'_>], [as_noted, usb3, _, far]: [&str; 4]) -> Vec<Check> {
    let noted_gain = NOTE_BURST / NOTE_ONE_AT_A_TIME;
    let near_note = |what: &str, gain: f64| {
        let near = NEAR.contains(&(gain / noted_gain));
        Check::paper(what, format!("{gain:.2}"), format!("{noted_gain:.2} ± 10 %"), near)
    };
    let of = |stack: Contender, place: &str| {
        sweeps[1..].iter().find(|sweep| sweep.place == place && sweep.stack == stack.label)
    };
    let gain = |place| of(Contender::TACK, place).map_or(f64::NAN, Sweep::gain);
    let one_at_a_time =
        |stack, place| of(stack, place).map_or(f64::NAN, |sweep| sweep.rates[0]);
    let cable = &sweeps[0];
    let (alone, noted) = (cable.rates[0], NOTE_ONE_AT_A_TIME / 1e6);
    let (credit, burst) = (cable.with_credit(), NOTE_BURST / 1e6);
    let behind =
        one_at_a_time(Contender::TACK, far) / one_at_a_time(Contender::QUICHE_CUBIC, far);
    vec![
        Check::model_near("cable alone: one A_WRTE at a time", alone, "MB/s", noted, 1.0),
        Check::model_near("cable alone: ASB of 1 MiB", credit, "MB/s", burst, 1.0),
        near_note("cable alone, as noted: gain with ASB of 1 MiB", cable.gain()),
        near_note("tacklib TACK, as noted: gain with ASB of 1 MiB", gain(as_noted)),
        Check::at_least(
            "tacklib TACK over USB 3: gain with ASB of 1 MiB",
            gain(usb3),
            "",
            TARGET_GAIN,
        ),
        Check::at_least(
            "tacklib TACK, far, one A_WRTE at a time: share of what quiche CUBIC pushes",
            behind,
            "",
            TARGET_OF_QUICHE,
        ),
    ]
}

/// What the protocol reaches over the cable, by credit.
fn cable_rates(credits: &[Option<u32>]) -> Result<Vec<f64>, Error> {
    const BYTES: u64 = 16 << 20;
    let rate = |credit: &Option<u32>| {
        let mut host = Host::new(Push { bytes: BYTES, payload: PAYLOAD, wish: *credit });
        let mut device = Device::new(Some(u32::MAX));
        cable().run(&mut host, &mut device, LIMIT)?;
        Ok(megabytes_per_second(&host, BYTES).unwrap_or(f64::NAN))
    };
    credits.iter().map(rate).collect()
}

/// Devices with delayed ACK and without: that the host falls back, and what passes.
fn negotiation() -> Result<(Check, Vec<Table>), Error> {
    let run = |wish, device: Option<u32>| {
        let push = Push { bytes: 3 * PAYLOAD as u64, payload: PAYLOAD, wish };
        let (mut host, mut device) = (Host::new(push), Device::new(device));
        cable().run(&mut host, &mut device, LIMIT)?;
        Ok::<_, Error>((host, device))
    };
    let (plain, _) = run(None, NOTE_CREDIT)?;
    let (ahead, device) = run(NOTE_CREDIT, NOTE_CREDIT)?;
    let (refused, old_device) = run(NOTE_CREDIT, None)?;
    let agreed = ahead.uses_delayed_ack() && device.granted() == NOTE_CREDIT;
    let fell_back = refused.was_refused()
        && old_device.granted().is_none()
        && refused.took() == plain.took();
    let check = Check::model(
        "negotiation: granted where the device knows of it, and as without where it does not",
        f64::from(u8::from(agreed) + u8::from(fell_back)),
        "of 2",
        2.0..=2.0,
    );
    Ok((
        check,
        vec![
            trace("One A_WRTE at a time", plain.trace()),
            trace("With available send bytes", ahead.trace()),
            trace("With a device that does not know of delayed ACK", refused.trace()),
        ],
    ))
}

fn trace(title: &str, trace: &Trace) -> Table {
    let mut table = Table::new(format!("{title}: three A_WRTE over the cable"))
        .number("at_us", "time", "µs", 0)
        .text("line", "packet");
    for line in trace.lines() {
        table.row([(line.at.as_secs_f64() * 1e6).into(), line.to_string().into()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cable_alone_reaches_both_figures_of_the_note() {
        let rates = cable_rates(&[None, NOTE_CREDIT]).unwrap();
        assert!((rates[0] * 1e6 / NOTE_ONE_AT_A_TIME - 1.0).abs() < 0.01, "{rates:?}");
        assert!((rates[1] * 1e6 / NOTE_BURST - 1.0).abs() < 0.01, "{rates:?}");
    }

    #[test]
    fn credit_of_one_write_is_as_slow_as_none() {
        let rates = cable_rates(&[None, Some(64 << 10), Some((64 << 10) + 1)]).unwrap();
        assert!((rates[1] / rates[0] - 1.0).abs() < 0.001, "{rates:?}");
        assert!(rates[2] > 1.5 * rates[0], "{rates:?}");
    }

    #[test]
    fn devices_without_delayed_ack_are_fallen_back_to() {
        let (check, traces) = negotiation().unwrap();
        assert!(check.passed, "{check}");
        assert_eq!(traces.len(), 3);
    }
}
