//! What the command line can say.

use crate::bytes;
use crate::host_shape::HostShape;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::str::FromStr;

/// A GPU memory pool that never fragments, put to the test.
#[derive(Debug, Parser)]
#[command(name = "stitchpool", version, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Plays recorded allocation traces through the pool and says how well it did.
    Replay(ReplayArgs),
    /// Plays recorded allocation traces and makes a page of HTML that shows where memory stood, and when.
    Report(ReportArgs),
    /// Allocates, uses and frees at random from several threads, and sees whether every byte stays.
    Stress(StressArgs),
    /// Tells of the driver, the devices, what they support, and this machine's limits.
    Info(InfoArgs),
}

/// Which driver to run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DriverChoice {
    /// CUDA if there is a GPU, else the host driver.
    Auto,
    /// NVIDIA's driver.
    Cuda,
    /// Memory of this process in place of a GPU's; costs are those measured on an H200.
    Host,
}

/// `stitchpool replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Traces: PyTorch memory snapshots (.pickle, also packed as .gz, .xz or .zst), or RMM logs (.csv).
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The driver to run on.
    #[arg(long, value_enum, default_value = "auto")]
    pub driver: DriverChoice,
    /// Devices in the pool; as many as the trace has if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=63))]
    pub devices: Option<u16>,
    /// What the pool may hold of each device, as 8GiB, or as 1.02x the trace's own peak.
    #[arg(long, value_name = "BYTES")]
    pub capacity: Option<Capacity>,
    /// Places what a device has no room for on the other devices of the pool, in the order of their numbers.
    #[arg(long)]
    pub spill: bool,
    /// Multiplies every size of the trace.
    #[arg(long, value_name = "F", default_value_t = 1.0, value_parser = parse_factor)]
    pub scale: f64,
    /// Plays the trace so many times on the same pool.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeat: u32,
    /// Fills each block after its allocation and verifies it before its free.
    #[arg(long)]
    pub check: bool,
    /// How far the GPU is behind the CPU, in milliseconds: on the host driver, and with --check.
    #[arg(long, value_name = "MS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub lag_ms: u64,
    /// Plays at the trace's own speed (on cuda).
    #[arg(long)]
    pub pace: bool,
    /// Prints one JSON object a file.
    #[arg(long)]
    pub json: bool,
}

/// `stitchpool report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// What to play, and how.
    #[command(flatten)]
    pub replay: ReplayArgs,
    /// Where to put the page. It holds all it needs: no other file, no network.
    #[arg(short, long, value_name = "PAGE", default_value = "report.html")]
    pub output: PathBuf,
}

/// `stitchpool stress`.
#[derive(Debug, Args)]
pub struct StressArgs {
    /// How long; 10 if --ops is not given either.
    #[arg(long, value_name = "S", value_parser = parse_factor)]
    pub seconds: Option<f64>,
    /// Ends after so many operations of all threads together.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub ops: Option<u64>,
    /// Threads. With one, the same seed does the same again.
    #[arg(long, value_name = "T", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// Streams that all threads share, dealt to the devices in turn. Each thread has one more of its own.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub streams: u16,
    /// Devices.
    #[arg(long, value_name = "D", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=63))]
    pub devices: u16,
    /// The driver to run on.
    #[arg(long, value_enum, default_value = "auto")]
    pub driver: DriverChoice,
    /// Makes driver calls fail at random. Refusals are expected then; wrong bytes and leaks are not.
    #[arg(long)]
    pub faults: bool,
    /// What the random choices begin with; printed at the end.
    #[arg(long, value_name = "X")]
    pub seed: Option<u64>,
    /// What the pool may hold of each device, as 512MiB.
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse)]
    pub capacity: Option<u64>,
    /// Prints a JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `stitchpool info`.
#[derive(Debug, Args)]
pub struct InfoArgs {
    /// The driver to ask.
    #[arg(long, value_enum, default_value = "auto")]
    pub driver: DriverChoice,
    /// Measures what each call of the driver costs here, and how fast memory is.
    #[arg(long)]
    pub measure: bool,
    /// What the host driver shall look like.
    #[command(flatten)]
    pub host: HostShape,
    /// Prints a JSON object.
    #[arg(long)]
    pub json: bool,
}

/// How much the pool may hold of each device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Capacity {
    /// So many bytes.
    Bytes(u64),
    /// So many times what the trace holds at most.
    OfPeak(f64),
}

impl FromStr for Capacity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_suffix('x') {
            Some(factor) => parse_factor(factor).map(Self::OfPeak),
            None => bytes::parse(text).map(Self::Bytes),
        }
    }
}

fn parse_factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor.is_finite() && factor > 0.0 && factor <= FACTOR_MAX => Ok(factor),
        _ => Err(format!("{text:?} is no factor: write a number above 0, at most {FACTOR_MAX}")),
    }
}

const FACTOR_MAX: f64 = 1_000_000.0;
