//! Pipes of a specification.

use std::time::Duration;

use super::table::{GilbertElliottTable, PipeTable, QueueName, ReorderTable, TraceTable};
use crate::compose::{BoxedLink, Duplex, Pauses};
use crate::parameter::{number, probability};
use crate::pipe::{
    CoDelConfig, DualPi2Config, FqCoDelConfig, GilbertElliott, MAX_DELAY, MAX_RATE_BPS,
    PipeConfig, QueueDiscipline, Reorder, Schedule, check_jitter, check_rate, mean_rate_bps,
};
use crate::{Direction, ParameterError, Time};

/// The queue of a pipe is never smaller by default: a burst of a few packets has to fit.
pub const MIN_DEFAULT_PIPE_BUFFER: u64 = 64 << 10;

const MAX_RATE_MBPS: f64 = MAX_RATE_BPS as f64 / 1e6;
/// One kbit/s.
const MIN_RATE_MBPS: f64 = 0.001;
const MAX_DELAY_MS: f64 = MAX_DELAY.as_millis() as f64;
/// Some eleven days.
const MAX_TRACE_SECS: f64 = 1e6;
const MAX_BUFFER_MS: f64 = 60_000.0;
const MAX_BUFFER_BDP: f64 = 1000.0;

/// Both directions of a pipe, in the order of [`Direction::index`].
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PipeHop {
    sides: [Side; 2],
}

/// One direction.
#[derive(Clone, Debug, PartialEq)]
struct Side {
    /// All but the buffer, which depends on the path too.
    config: PipeConfig,
    buffer: Option<Buffer>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Buffer {
    Bytes(u64),
    Time(Duration),
    Bdp(f64),
}

impl PipeHop {
    pub(super) fn new(table: &PipeTable) -> Result<Self, ParameterError> {
        let forward = side(table, "forward", table.forward.as_deref())?;
        let reverse = side(table, "reverse", table.reverse.as_deref())?;
        Ok(Self { sides: [forward, reverse] })
    }

    /// The smallest propagation delay there and back.
    pub(super) fn rtt(&self) -> Duration {
        let least = |side: &Side| side.config.delay.values().min().unwrap_or_default();
        self.sides.iter().map(least).sum()
    }

    /// The average rate of a direction; none if it is unlimited.
    pub(super) fn capacity_bps(&self, direction: Direction, span: Duration) -> Option<f64> {
        let rate = self.side(direction).config.rate_bps.as_ref()?;
        Some(mean_rate_bps(rate, span))
    }

    /// The rate of a direction at a moment; none if it is unlimited.
    pub(super) fn rate_bps(&self, direction: Direction, now: Time) -> Option<f64> {
        self.side(direction).config.rate_bps.as_ref().map(|rate| rate.at(now) as f64)
    }

    /// The propagation delay of a direction at a moment.
    pub(super) fn delay(&self, direction: Direction, now: Time) -> Duration {
        self.side(direction).config.delay.at(now)
    }

    /// Size of the queue of one direction; `rtt` is that of link and path.
    pub(super) fn buffer_bytes(
        &self,
        direction: Direction,
        rtt: Duration,
    ) -> Result<u64, ParameterError> {
        self.side(direction).buffer_bytes(rtt)
    }

    pub(super) fn build(&self, rtt: Duration, seed: u64) -> Result<BoxedLink, ParameterError> {
        let config = |direction| {
            let buffer_bytes = self.buffer_bytes(direction, rtt)?;
            Ok(PipeConfig { buffer_bytes, ..self.side(direction).config.clone() })
        };
        let duplex =
            Duplex::new(&config(Direction::Forward)?, &config(Direction::Reverse)?, seed)?;
        Ok(Box::new(duplex))
    }

    const fn side(&self, direction: Direction) -> &Side {
        &self.sides[direction.index()]
    }
}

impl Side {
    fn buffer_bytes(&self, rtt: Duration) -> Result<u64, ParameterError> {
        // A queue has to hold what the fastest moment of a trace brings.
        let rate = self.config.rate_bps.as_ref().and_then(|rate| rate.values().max());
        let Some(rate) = rate else { return Ok(u64::MAX) };
        match self.buffer {
            None => Ok(bytes_in(rtt, rate).max(MIN_DEFAULT_PIPE_BUFFER)),
            Some(Buffer::Bytes(bytes)) => Ok(bytes),
            Some(Buffer::Time(time)) => Ok(bytes_in(time, rate)),
            Some(Buffer::Bdp(bdp)) if rtt.is_zero() && bdp > 0.0 => {
                let allowed = "only with a round-trip time above 0 of the link or the path";
                Err(ParameterError::new("buffer_bdp", bdp, allowed))
            }
            Some(Buffer::Bdp(bdp)) => Ok((bytes_in(rtt, rate) as f64 * bdp) as u64),
        }
    }
}

/// How many bytes a rate moves in some time, rounded down.
pub(super) fn bytes_in(time: Duration, rate_bps: u64) -> u64 {
    let bytes = time.as_nanos() * u128::from(rate_bps) / 8 / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// One direction: what its own table says, else what the table around it says.
fn side(both: &PipeTable, name: &str, own: Option<&PipeTable>) -> Result<Side, ParameterError> {
    let none = PipeTable::default();
    let (both, own) = (Fields(both), Fields(own.unwrap_or(&none)));
    let within = |error: ParameterError| error.within(name);
    own.check_is_one_direction().map_err(within)?;
    let (usual, special) = (both.given()?, own.given().map_err(within)?);
    let default = PipeConfig::default();
    let side = Side {
        config: PipeConfig {
            rate_bps: special.rate_bps.or(usual.rate_bps),
            delay: special.delay.or(usual.delay).unwrap_or(default.delay),
            jitter: special.jitter.or(usual.jitter),
            queue: special.queue.or(usual.queue).unwrap_or(default.queue),
            bleach_ecn: special.bleach_ecn.or(usual.bleach_ecn).unwrap_or(default.bleach_ecn),
            loss: special.loss.or(usual.loss).unwrap_or(default.loss),
            gilbert_elliott: special.gilbert_elliott.or(usual.gilbert_elliott),
            reorder: special.reorder.or(usual.reorder),
            duplicate: special.duplicate.or(usual.duplicate).unwrap_or(default.duplicate),
            corrupt: special.corrupt.or(usual.corrupt).unwrap_or(default.corrupt),
            longest_run: default.longest_run,
            buffer_bytes: default.buffer_bytes,
        },
        buffer: special.buffer.or(usual.buffer),
    };
    side.config.check_queue().map_err(within)?;
    Ok(side)
}

/// What a table says, checked.
struct Given {
    rate_bps: Option<Schedule<u64>>,
    delay: Option<Schedule<Duration>>,
    jitter: Option<Schedule<Duration>>,
    queue: Option<QueueDiscipline>,
    buffer: Option<Buffer>,
    bleach_ecn: Option<bool>,
    loss: Option<f64>,
    gilbert_elliott: Option<GilbertElliott>,
    reorder: Option<Reorder>,
    duplicate: Option<f64>,
    corrupt: Option<f64>,
}

struct Fields<'a>(&'a PipeTable);

impl Fields<'_> {
    fn given(&self) -> Result<Given, ParameterError> {
        let table = self.0;
        let chance = |field, value: Option<f64>| {
            value.map(|value| probability(field, value)).transpose()
        };
        Ok(Given {
            rate_bps: self.rate()?,
            delay: self.delay()?,
            jitter: self.jitter()?,
            queue: table.queue.map(QueueName::discipline),
            buffer: self.buffer()?,
            bleach_ecn: table.bleach_ecn,
            loss: chance("loss", table.loss)?,
            gilbert_elliott: table.gilbert_elliott.as_ref().map(bursts).transpose()?,
            reorder: table.reorder.as_ref().map(reorder).transpose()?,
            duplicate: chance("duplicate", table.duplicate)?,
            corrupt: chance("corrupt", table.corrupt)?,
        })
    }

    fn rate(&self) -> Result<Option<Schedule<u64>>, ParameterError> {
        let bps = |mbps: f64| (mbps * 1e6).round() as u64;
        one_of(&[
            ("rate_mbps", self.0.rate_mbps.is_some()),
            ("rate_trace", self.0.rate_trace.is_some()),
        ])?;
        if let Some(mbps) = self.0.rate_mbps {
            let mbps = number("rate_mbps", mbps, MIN_RATE_MBPS..=MAX_RATE_MBPS, "Mbit/s")?;
            return Ok(Some(Schedule::constant(bps(mbps))));
        }
        let Some(trace) = &self.0.rate_trace else { return Ok(None) };
        let rate = trace
            .schedule(|mbps| number("steps", mbps, 0.0..=MAX_RATE_MBPS, "Mbit/s").map(bps));
        let rate = rate.map_err(|error| error.within("rate_trace"))?;
        check_rate("rate_trace.steps", &rate)?;
        Ok(Some(rate))
    }

    fn delay(&self) -> Result<Option<Schedule<Duration>>, ParameterError> {
        one_of(&[
            ("delay_ms", self.0.delay_ms.is_some()),
            ("delay_trace", self.0.delay_trace.is_some()),
        ])?;
        if let Some(ms) = self.0.delay_ms {
            return Ok(Some(Schedule::constant(delay("delay_ms", ms)?)));
        }
        let Some(trace) = &self.0.delay_trace else { return Ok(None) };
        let schedule = trace.schedule(|ms| delay("steps", ms));
        schedule.map(Some).map_err(|error| error.within("delay_trace"))
    }

    fn jitter(&self) -> Result<Option<Schedule<Duration>>, ParameterError> {
        one_of(&[
            ("jitter_ms", self.0.jitter_ms.is_some()),
            ("jitter_trace", self.0.jitter_trace.is_some()),
        ])?;
        if let Some(ms) = self.0.jitter_ms {
            return Ok(Some(Schedule::constant(jitter("jitter_ms", ms)?)));
        }
        let Some(trace) = &self.0.jitter_trace else { return Ok(None) };
        let schedule = trace.schedule(|ms| jitter("steps", ms));
        schedule.map(Some).map_err(|error| error.within("jitter_trace"))
    }

    fn buffer(&self) -> Result<Option<Buffer>, ParameterError> {
        let &PipeTable { buffer_bytes, buffer_ms, buffer_bdp, .. } = self.0;
        one_of(&[
            ("buffer_bytes", buffer_bytes.is_some()),
            ("buffer_ms", buffer_ms.is_some()),
            ("buffer_bdp", buffer_bdp.is_some()),
        ])?;
        if let Some(ms) = buffer_ms {
            let ms = number("buffer_ms", ms, 0.0..=MAX_BUFFER_MS, "ms")?;
            return Ok(Some(Buffer::Time(millis(ms))));
        }
        if let Some(bdp) = buffer_bdp {
            let bdp = number("buffer_bdp", bdp, 0.0..=MAX_BUFFER_BDP, "")?;
            return Ok(Some(Buffer::Bdp(bdp)));
        }
        Ok(buffer_bytes.map(Buffer::Bytes))
    }

    fn check_is_one_direction(&self) -> Result<(), ParameterError> {
        for (name, inner) in [("forward", &self.0.forward), ("reverse", &self.0.reverse)] {
            if inner.is_some() {
                let allowed = "no directions inside a direction";
                return Err(ParameterError::new(name, "a table", allowed));
            }
        }
        if !self.0.pauses.is_empty() {
            let allowed = "only for both directions of a hop";
            return Err(ParameterError::new("pauses", "given", allowed));
        }
        Ok(())
    }
}

/// The pauses of a hop.
pub(super) fn pauses(table: &[[f64; 2]]) -> Result<Pauses, ParameterError> {
    let pause = |[start, length]: &[f64; 2]| {
        let start = number("pauses", *start, 0.0..=MAX_TRACE_SECS, "s")?;
        let length = number("pauses", *length, 0.0..=MAX_DELAY_MS, "ms")?;
        Ok((Duration::from_secs_f64(start), millis(length)))
    };
    Pauses::new(table.iter().map(pause).collect::<Result<Vec<_>, _>>()?)
}

/// Fails if more than one of these fields is given: they say the same thing.
pub(super) fn one_of(fields: &[(&str, bool)]) -> Result<(), ParameterError> {
    let mut given = fields.iter().filter(|(_, given)| *given).map(|(name, _)| *name);
    let (Some(first), Some(second)) = (given.next(), given.next()) else { return Ok(()) };
    let all: Vec<_> = fields.iter().map(|(name, _)| *name).collect();
    let value = format!("given besides {first}");
    Err(ParameterError::new(second, value, format!("one of {}", all.join(", "))))
}

impl QueueName {
    fn discipline(self) -> QueueDiscipline {
        match self {
            Self::DropTail => QueueDiscipline::DropTail,
            Self::Codel => QueueDiscipline::CoDel(CoDelConfig::default()),
            Self::FqCodel => QueueDiscipline::FqCoDel(FqCoDelConfig::default()),
            Self::Dualpi2 => QueueDiscipline::DualPi2(DualPi2Config::default()),
        }
    }
}

impl TraceTable {
    fn schedule<T: Copy>(
        &self,
        value: impl Fn(f64) -> Result<T, ParameterError>,
    ) -> Result<Schedule<T>, ParameterError> {
        let secs = |field, secs| {
            number(field, secs, 0.0..=MAX_TRACE_SECS, "s").map(Duration::from_secs_f64)
        };
        let step = |[at, then]: &[f64; 2]| Ok((secs("steps", *at)?, value(*then)?));
        let steps = self.steps.iter().map(step).collect::<Result<_, _>>()?;
        let period = self.repeat_s.map(|period| secs("repeat_s", period)).transpose()?;
        Schedule::new(steps, period)
    }
}

fn bursts(table: &GilbertElliottTable) -> Result<GilbertElliott, ParameterError> {
    let chance = |field, value| {
        probability(field, value).map_err(|error| error.within("gilbert_elliott"))
    };
    Ok(GilbertElliott {
        p: chance("p", table.p)?,
        r: chance("r", table.r)?,
        loss_good: chance("loss_good", table.loss_good)?,
        loss_bad: chance("loss_bad", table.loss_bad)?,
    })
}

fn reorder(table: &ReorderTable) -> Result<Reorder, ParameterError> {
    let within = |error: ParameterError| error.within("reorder");
    Ok(Reorder {
        probability: probability("probability", table.probability).map_err(within)?,
        delay: delay("delay_ms", table.delay_ms).map_err(within)?,
    })
}

fn delay(field: &str, ms: f64) -> Result<Duration, ParameterError> {
    number(field, ms, 0.0..=MAX_DELAY_MS, "ms").map(millis)
}

fn jitter(field: &str, ms: f64) -> Result<Duration, ParameterError> {
    // Before a conversion that a negative number would not survive.
    let mean = number(field, ms, 0.0..=MAX_DELAY_MS, "ms").map(millis)?;
    check_jitter(field, mean)?;
    Ok(mean)
}

pub(super) fn millis(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}
