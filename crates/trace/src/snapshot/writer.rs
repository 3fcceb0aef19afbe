//! Writes a trace as a snapshot that `PyTorch`'s viewer opens and [`crate::Trace::read`] reads back.

use super::DEVICES_MAX;
use crate::pickle::Pickler;
use crate::{Block, BlockState, DeviceTrace, Event, EventKind, Segment, Trace};
use std::io::{self, Write};

/// Writes `trace` as a pickled memory snapshot, uncompressed. Events of unknown kind are written as `other`.
///
/// # Errors
/// When the sink fails, or a device's ordinal is 1024 or more.
pub fn write_snapshot(trace: &Trace, sink: impl Write) -> io::Result<()> {
    if let Some(device) =
        trace.devices.iter().map(|device| device.device).find(|&device| device as usize >= DEVICES_MAX)
    {
        let reason = format!("device {device}: a snapshot lists each device up to the highest, at most {DEVICES_MAX}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let mut pickler = Pickler::begin(io::BufWriter::new(sink))?;
    pickler.begin_dict()?;
    pickler.text("segments")?;
    let segments: Vec<_> = trace
        .devices
        .iter()
        .flat_map(|device| device.segments.iter().map(|segment| (device.device, segment)))
        .collect();
    pickler.list(&segments, |pickler, (device, segment)| write_segment(pickler, *device, segment))?;
    pickler.text("device_traces")?;
    let count = trace.devices.iter().map(|device| device.device + 1).max().unwrap_or(0);
    let by_ordinal: Vec<Option<&DeviceTrace>> = (0..count).map(|device| trace.device(device)).collect();
    pickler
        .list(&by_ordinal, |pickler, device| pickler.list(device.map_or(&[], |device| &device.events), write_event))?;
    write_settings(&mut pickler, trace)?;
    pickler.text("external_annotations")?;
    pickler.empty_list()?;
    pickler.end_dict()?;
    pickler.end()
}

fn write_settings<W: Write>(pickler: &mut Pickler<W>, trace: &Trace) -> io::Result<()> {
    pickler.text("allocator_settings")?;
    pickler.begin_dict()?;
    if let Some(backend) = &trace.source.backend {
        pickler.text("PYTORCH_CUDA_ALLOC_CONF")?;
        pickler.text(&format!("backend:{backend}"))?;
    }
    if let Some(expandable) = trace.source.expandable_segments {
        pickler.text("expandable_segments")?;
        pickler.boolean(expandable)?;
    }
    pickler.end_dict()
}

fn write_segment<W: Write>(pickler: &mut Pickler<W>, device: u32, segment: &Segment) -> io::Result<()> {
    let sum = |of: fn(&Block) -> u64, is_counted: fn(&Block) -> bool| {
        segment.blocks.iter().filter(|block| is_counted(block)).fold(0, |sum: u64, block| sum.saturating_add(of(block)))
    };
    let is_allocated = |block: &Block| block.state == BlockState::Allocated;
    let is_active = |block: &Block| block.state != BlockState::Inactive;
    pickler.begin_dict()?;
    let numbers = [
        ("device", device.into()),
        ("address", segment.address),
        ("total_size", segment.total_bytes),
        ("allocated_size", sum(|block| block.size_bytes, is_allocated)),
        ("active_size", sum(|block| block.size_bytes, is_active)),
        ("requested_size", sum(|block| block.requested_bytes, is_active)),
        ("stream", segment.stream),
    ];
    write_numbers(pickler, &numbers)?;
    pickler.text("segment_type")?;
    pickler.text(if segment.is_small { "small" } else { "large" })?;
    pickler.text("segment_pool_id")?;
    pickler.pair(segment.pool)?;
    pickler.text("is_expandable")?;
    pickler.boolean(segment.is_expandable)?;
    pickler.text("frames")?;
    pickler.empty_list()?;
    pickler.text("blocks")?;
    pickler.list(&segment.blocks, write_block)?;
    pickler.end_dict()
}

fn write_block<W: Write>(pickler: &mut Pickler<W>, block: &Block) -> io::Result<()> {
    pickler.begin_dict()?;
    let numbers = [("address", block.address), ("size", block.size_bytes), ("requested_size", block.requested_bytes)];
    write_numbers(pickler, &numbers)?;
    pickler.text("state")?;
    pickler.text(block.state.name())?;
    pickler.text("frames")?;
    pickler.empty_list()?;
    pickler.end_dict()
}

fn write_event<W: Write>(pickler: &mut Pickler<W>, event: &Event) -> io::Result<()> {
    let address = if event.kind == EventKind::OutOfMemory { "device_free" } else { "addr" };
    pickler.begin_dict()?;
    pickler.text("action")?;
    pickler.text(event.kind.action())?;
    let numbers =
        [(address, event.address), ("size", event.size_bytes), ("stream", event.stream), ("time_us", event.time_us)];
    write_numbers(pickler, &numbers)?;
    pickler.end_dict()
}

fn write_numbers<W: Write>(pickler: &mut Pickler<W>, numbers: &[(&str, u64)]) -> io::Result<()> {
    for (key, value) in numbers {
        pickler.text(key)?;
        pickler.integer(*value)?;
    }
    Ok(())
}
