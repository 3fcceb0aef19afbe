//! The pool's settings, each with its reason.

use std::time::Duration;
use stitchpool_driver::{DeviceId, HandleKind};

/// How a pool behaves. [`Settings::default`] is right for one process that owns its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The devices memory may come from; empty: all that the driver lists.
    pub devices: Vec<DeviceId>,
    /// The pool holds at most so many bytes of each device; `None`: all the device has.
    pub limit_bytes: Option<u64>,
    /// Forced growth ends so far below the limit.
    pub headroom_bytes: u64,
    /// The largest handle to create. Fewer handles cost less to map, larger ones waste more. With one
    /// granule, every request succeeds for which enough wholly free granules lie anywhere.
    pub handle_bytes_max: u64,
    /// How handles may be exported.
    pub kind: HandleKind,
    /// Whether a stream may be made to wait for another's frees when memory is short. Streams whose
    /// kernels wait for each other could deadlock: turn it off for them.
    pub stream_waits: bool,
    /// Whether every device that can reach a block's memory may use it, not only the stream's own and those a
    /// request names. It counts from the first stream that is registered on the device: rights for devices that
    /// nobody uses would cost each mapping 30 us more, or 130 us for 64 MiB of fresh memory (measured on H200s).
    pub open_to_peers: bool,
    /// How long the CPU may wait for pending memory before a request fails.
    pub wait_max: Duration,
    /// A stream's frees are sealed at most this often, so that their passing is known in time.
    pub seal_pause: Duration,
    /// Memory that was not needed for so long may be given back.
    pub decay: Duration,
    /// So many bytes that backups of suspended blocks lay in are kept for the next suspend: making them
    /// anew costs seconds a few GiB. With 0 their memory goes back when the blocks have resumed.
    pub backup_keep_bytes: u64,
    /// Blocks whose content was discarded come back filled with a pattern (0xA5 in each byte) instead of
    /// whatever is there, so that a reader notices.
    pub poison: bool,
    /// Addresses to reserve; `None`: 64 times the devices' memory, at most 32 TiB.
    pub address_bytes: Option<u64>,
    /// Whether each request asks the driver first if its stream is being captured, at about 0.3 us a request:
    /// for applications that capture without a word to the pool. What a stream allocates while it is
    /// captured then lies in an arena of its own, named by [`Pool::graph_arena`](crate::Pool::graph_arena).
    pub ask_capture: bool,
    /// Whether a thread of the pool's own takes down what handles that moved have left mapped, a third of what moving
    /// them costs (17 of 45 us a handle on H200s): otherwise a free does, now and then. It sleeps while there is nothing.
    pub background_thread: bool,
}

impl Settings {
    pub(crate) fn seal_pause_us(&self) -> u64 {
        micros(self.seal_pause)
    }

    pub(crate) fn decay_us(&self) -> u64 {
        micros(self.decay)
    }
}

/// In the unit of the driver's clock.
fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            devices: Vec::new(),
            limit_bytes: None,
            headroom_bytes: 0,
            handle_bytes_max: 64 << 20,
            kind: HandleKind::Private,
            stream_waits: true,
            open_to_peers: false,
            wait_max: Duration::from_secs(10),
            seal_pause: Duration::from_millis(2),
            decay: Duration::from_secs(60),
            backup_keep_bytes: 0,
            poison: cfg!(debug_assertions),
            address_bytes: None,
            ask_capture: false,
            background_thread: false,
        }
    }
}
