//! The monotonic clock of a thread.

use std::cell::Cell;
use std::mem;
use std::sync::OnceLock;
use std::time::Duration;

use libc::{c_int, clockid_t, timespec};

/// What virtual clocks show when they start: late enough to look back from.
const START: Duration = Duration::from_secs(1 << 20);

thread_local! {
    /// Const and without a destructor: reading it allocates nothing and asks nothing of the
    /// C library, which may be on its way into `clock_gettime` itself.
    static NOW: Cell<Option<Duration>> = const { Cell::new(None) };
}

pub fn is_virtual() -> bool {
    NOW.get().is_some()
}

/// Sets this thread's clock, or gives it back the real one.
pub fn set(since_start: Option<Duration>) {
    NOW.set(since_start.map(|since_start| START + since_start));
}

type ClockGettime = unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int;

/// The C library's function, or `None` if the dynamic linker does not know it.
fn real() -> Option<ClockGettime> {
    static REAL: OnceLock<Option<ClockGettime>> = OnceLock::new();
    *REAL.get_or_init(|| {
        // SAFETY: the name is a C string; RTLD_NEXT asks for the definition behind this
        // executable's own, and dlsym has no other precondition.
        let symbol = unsafe { libc::dlsym(libc::RTLD_NEXT, c"clock_gettime".as_ptr()) };
        // SAFETY: a non-null result is the address of the C library's clock_gettime, which has
        // this type (POSIX), and null is `None` of an optional function pointer.
        unsafe { mem::transmute::<*mut libc::c_void, Option<ClockGettime>>(symbol) }
    })
}

/// Takes the place of the C library's function.
///
/// # Safety
///
/// As POSIX demands: `time` points to memory for a `timespec`.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    match NOW.get() {
        Some(now) if clock == libc::CLOCK_MONOTONIC => {
            let now = timespec {
                tv_sec: now.as_secs().cast_signed(),
                tv_nsec: now.subsec_nanos().into(),
            };
            // SAFETY: the caller vouches for `time`.
            unsafe { time.write(now) };
            0
        }
        _ => match real() {
            // SAFETY: the same call, with the caller's own arguments.
            Some(real) => unsafe { real(clock, time) },
            // SAFETY: the system call of that name takes the same arguments.
            None => unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as c_int },
        },
    }
}
