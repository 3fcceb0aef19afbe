//! What a host driver shall look like: devices, links, limits, and the oddities of other drivers.

use crate::Link;

const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// The settings of a [`HostDriver`](super::HostDriver). The default is one card as measured, with
/// 139.75 GiB in granules of 2 MiB, whose streams run at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// The devices by ordinal; at most 63.
    pub devices: Vec<HostDevice>,
    /// The number that each device's identity is made of, by ordinal; where there is none, the ordinal is it. As
    /// under `CUDA_VISIBLE_DEVICES`, two processes may see the same devices in another order, or not all of them.
    pub identities: Vec<u16>,
    /// Host memory as a place for handles.
    pub host_memory: HostDevice,
    /// Who reaches whose memory.
    pub peers: Peers,
    /// Bytes of addresses that may be reserved in all.
    pub address_space_bytes: u64,
    /// File descriptors that exportable and imported handles may hold in all.
    pub descriptor_limit: u64,
    /// Whether handles of kind `Fabric` are granted. They reach as far as file descriptors do: processes of
    /// the same user on this host.
    pub fabric: bool,
    /// When queued work runs.
    pub streams: StreamMode,
    /// Whether a destroyed stream's value is given to the next new stream, as CUDA does.
    pub recycle_stream_values: bool,
    /// Whether two uses of the same bytes by streams, one of them a write, must be ordered by streams,
    /// events or the CPU's waits, and an unmapping must come after the CPU has seen all use of it done.
    /// What is not so ordered becomes a fault, in whichever order it ran. It costs time and memory.
    pub watch_order: bool,
    /// Where the time comes from.
    pub clock: Clock,
    /// Oddities of other drivers.
    pub quirks: Quirks,
}

/// One place for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostDevice {
    /// All of its memory.
    pub capacity_bytes: u64,
    /// The unit of sizes and addresses: a power of two, 4 KiB at least.
    pub granularity_bytes: u64,
}

/// Which devices reach each other. Every device reaches host memory over its bus.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Peers {
    /// Each reaches each, over a direct link.
    #[default]
    All,
    /// None reaches another.
    None,
    /// Devices (by ordinal) of one group reach each other over a direct link, others not at all.
    Groups(Vec<Vec<u16>>),
    /// Row `from`, column `to`; the diagonal is not looked at.
    Matrix(Vec<Vec<Link>>),
}

/// When work that is queued on a stream runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StreamMode {
    /// At once, delays included.
    #[default]
    Immediate,
    /// When the test says so, and not before.
    ByHand,
    /// Once the driver's clock has passed the time of queueing by so much, in order of due time.
    Lagged {
        /// How far streams are behind the CPU, in microseconds.
        lag_us: u64,
    },
}

/// Where [`Driver::now_us`](crate::Driver::now_us) comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Clock {
    /// It stands until [`HostDriver::set_now_us`](super::HostDriver::set_now_us) moves it.
    #[default]
    ByHand,
    /// It is the time since the driver was made; setting it can only put it forward.
    Wall,
}

/// Oddities that some drivers have; all off by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Quirks {
    /// Exportable handles of this size or more are refused as out of memory.
    pub exportable_limit_bytes: Option<u64>,
    /// Memory that was mapped counts as used until the reservation it was mapped in is given back.
    pub release_only_on_unreserve: bool,
    /// A device gives no more than this in all, whatever it shows as free.
    pub live_limit_bytes: Option<u64>,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            devices: vec![HostDevice::default()],
            identities: Vec::new(),
            host_memory: HostDevice { capacity_bytes: 256 * GIB, ..HostDevice::default() },
            peers: Peers::default(),
            address_space_bytes: 126 * TIB,
            descriptor_limit: 1000,
            fabric: false,
            streams: StreamMode::default(),
            recycle_stream_values: true,
            watch_order: false,
            clock: Clock::default(),
            quirks: Quirks::default(),
        }
    }
}

impl Default for HostDevice {
    fn default() -> Self {
        Self { capacity_bytes: 139 * GIB + 768 * (GIB / 1024), granularity_bytes: 2 << 20 }
    }
}
