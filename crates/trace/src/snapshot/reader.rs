//! Turns an unpickled snapshot into a trace. Names key and place of whatever has the wrong shape.

use super::DEVICES_MAX;
use super::key::Key;
use super::named::Named;
use super::record::{PackedEvent, Record, natural};
use super::store::{Content, EVENT_VALUES, Store, too_many};
use crate::bytes::Bytes;
use crate::pickle::{Machine, TextId, Value};
use crate::trace::start_at_zero;
use crate::{
    Block, BlockState, DeviceTrace, Error, ErrorKind, Event, EventKind, Limits, Result, Segment, Source, SourceKind,
    Trace,
};
use std::collections::BTreeMap;

/// How many values of 16 bytes a segment of the trace takes up, and a block.
const SEGMENT_VALUES: u64 = 6;
const BLOCK_VALUES: u64 = 2;

/// Reads a pickled snapshot.
pub(crate) fn read(bytes: Bytes<'_>, limits: &Limits) -> Result<Trace> {
    let kept_values = limits.kept_values.min(u64::from(u32::MAX));
    let unpickled = Machine::new(bytes, Store::new(kept_values), limits).run()?;
    let store = &unpickled.heap;
    let actions = Actions::new(store);
    Reader { store, actions, kept: store.kept(), limit_kept: kept_values }.trace(unpickled.value)
}

/// A snapshot being looked through.
struct Reader<'s> {
    store: &'s Store,
    actions: Actions,
    /// Values of 16 bytes in the store and in the trace so far. Counted anew, since a pickle may name one list often.
    kept: u64,
    limit_kept: u64,
}

/// What each string of the store says as an action; asked for every event, so looked up once.
struct Actions {
    kinds: Vec<EventKind>,
    others: BTreeMap<String, u64>,
}

impl Actions {
    fn new(store: &Store) -> Self {
        let texts = (0..u32::try_from(store.text_count()).unwrap_or(u32::MAX)).map(TextId);
        Self { kinds: texts.map(|id| EventKind::from_action(store.text_of(id))).collect(), others: BTreeMap::new() }
    }
}

impl<'s> Reader<'s> {
    fn trace(mut self, root: Value) -> Result<Trace> {
        let root = self.root(root)?;
        let mut source = Source { kind: SourceKind::PyTorch, ..Source::default() };
        self.settings(&root, &mut source)?;
        let mut devices: BTreeMap<u32, DeviceTrace> = BTreeMap::new();
        let lists = root.list(Key::DeviceTraces)?;
        if lists.len() > DEVICES_MAX {
            return Err(root.wrong(format!("device_traces has {} devices; at most {DEVICES_MAX} can be", lists.len())));
        }
        for (device, &list) in (0..).zip(lists) {
            let events = self.events(&root, device, list)?;
            if !events.is_empty() {
                devices.insert(device, DeviceTrace { device, events, segments: Vec::new() });
            }
        }
        for (at, &item) in root.list(Key::Segments)?.iter().enumerate() {
            let segment = root.inner(item, || format!("segments[{at}]"))?;
            let (device, segment) = self.segment(&segment)?;
            let trace = devices.entry(device).or_insert_with(|| DeviceTrace { device, ..DeviceTrace::default() });
            trace.segments.push(segment);
        }
        source.other_actions = self.actions.others;
        let mut devices: Vec<_> = devices.into_values().collect();
        start_at_zero(&mut devices);
        Ok(Trace { source, devices })
    }

    /// The outermost dict.
    fn root(&self, value: Value) -> Result<Named<'s>> {
        let refuse = |what: String| Err(Error::new(ErrorKind::NotATrace, 0, what));
        match self.store.content(value) {
            Content::Record(record) if record.fields.iter().any(|(key, _)| *key == Key::DeviceTraces) => {
                let Record { fields, position } = record;
                Ok(Named { store: self.store, fields, position: *position, path: String::new() })
            }
            Content::List(_) | Content::BareList => refuse(
                "a bare list, as torch.cuda.memory_snapshot() gives: segments without events. Call \
                 torch.cuda.memory._record_memory_history() before the run and _dump_snapshot() after it"
                    .to_owned(),
            ),
            Content::Scalar => refuse(format!("a pickle of {}; a memory snapshot is a dict", value.kind())),
            _ => refuse("a pickled dict without `device_traces`: no memory snapshot".to_owned()),
        }
    }

    fn settings(&self, root: &Named<'s>, source: &mut Source) -> Result<()> {
        let Some(value) = root.get(Key::AllocatorSettings) else { return Ok(()) };
        let settings = root.inner(value, || Key::AllocatorSettings.name().to_owned())?;
        source.expandable_segments = settings.boolean(Key::ExpandableSegments)?;
        for key in [Key::AllocConf, Key::CudaAllocConf] {
            if let Some(Value::Text(text)) = settings.get(key) {
                let backend = self.store.text_of(text).split(',').find_map(|part| part.trim().strip_prefix("backend:"));
                source.backend = Some(backend.unwrap_or("native").to_owned());
            }
        }
        Ok(())
    }

    fn events(&mut self, root: &Named<'s>, device: u32, list: Value) -> Result<Vec<Event>> {
        let Some(items) = self.store.items(list) else {
            let kind = self.store.kind(list);
            return Err(root.wrong(format!("device_traces[{device}] is {kind}, must be a list of events")));
        };
        self.keep(EVENT_VALUES.saturating_mul(items.len() as u64), root)?;
        let mut events = Vec::with_capacity(items.len());
        let mut last_us = 0;
        for (at, &item) in items.iter().enumerate() {
            let path = || format!("device_traces[{device}][{at}]");
            let packed = match self.store.content(item) {
                Content::Event(packed) if packed.is_device_free && !self.is_out_of_memory(packed.action) => {
                    return Err(root.wrong(format!("{}.addr is missing, must be an int of 0 or more", path())));
                }
                Content::Event(packed) => packed,
                _ => self.loose_event(&root.inner(item, path)?, last_us)?,
            };
            last_us = packed.time_us;
            events.push(self.event(packed));
        }
        Ok(events)
    }

    /// An event whose dict has more or fewer keys than most. Old versions wrote no time: it gets `last_us`.
    fn loose_event(&self, event: &Named<'s>, last_us: u64) -> Result<PackedEvent> {
        let action = event.text(Key::Action)?;
        let kind = self.actions.kinds[action.0 as usize];
        let is_device_free = kind == EventKind::OutOfMemory && event.get(Key::DeviceFree).is_some();
        let address = if is_device_free { Key::DeviceFree } else { Key::Addr };
        // What concerns no memory may lack place and size.
        let is_needed = !matches!(kind, EventKind::Other | EventKind::Snapshot | EventKind::OutOfMemory);
        let number = |key| if is_needed { event.natural(key) } else { event.natural_or(key, 0) };
        Ok(PackedEvent {
            time_us: event.natural_or(Key::TimeUs, last_us)?,
            address: number(address)?,
            size_bytes: number(Key::Size)?,
            stream: event.stream()?,
            action,
            is_device_free,
        })
    }

    fn is_out_of_memory(&self, action: TextId) -> bool {
        self.actions.kinds[action.0 as usize] == EventKind::OutOfMemory
    }

    fn event(&mut self, packed: PackedEvent) -> Event {
        let kind = self.actions.kinds[packed.action.0 as usize];
        if kind == EventKind::Other {
            *self.actions.others.entry(self.store.text_of(packed.action).to_owned()).or_default() += 1;
        }
        let PackedEvent { time_us, address, size_bytes, stream, .. } = packed;
        Event { time_us, address, size_bytes, stream, kind }
    }

    fn segment(&mut self, segment: &Named<'s>) -> Result<(u32, Segment)> {
        let device = segment.natural(Key::Device)?;
        let device = u32::try_from(device).ok().filter(|device| (*device as usize) < DEVICES_MAX).ok_or_else(|| {
            segment.wrong(format!("{}.device is {device}; at most {DEVICES_MAX} devices can be", segment.path))
        })?;
        let address = segment.natural(Key::Address)?;
        let items = segment.list(Key::Blocks)?;
        self.keep(SEGMENT_VALUES.saturating_add(BLOCK_VALUES.saturating_mul(items.len() as u64)), segment)?;
        let mut blocks = Vec::with_capacity(items.len());
        let mut next = address;
        for (at, &item) in items.iter().enumerate() {
            let block = self.block(&segment.inner(item, || format!("{}.blocks[{at}]", segment.path))?, next)?;
            next = block.address.saturating_add(block.size_bytes);
            blocks.push(block);
        }
        let is_small = segment.get(Key::SegmentType).is_some_and(|value| self.store.is_text(value, "small"));
        let kept = Segment {
            address,
            total_bytes: segment.natural(Key::TotalSize)?,
            stream: segment.stream()?,
            is_small,
            is_expandable: segment.boolean(Key::IsExpandable)?.unwrap_or(false),
            pool: self.pool(segment)?,
            blocks,
        };
        Ok((device, kept))
    }

    /// A block; `next` is where it begins unless it says otherwise, as old versions did not.
    fn block(&self, block: &Named<'s>, next: u64) -> Result<Block> {
        let size_bytes = block.natural(Key::Size)?;
        let state = self.store.text_of(block.text(Key::State)?);
        Ok(Block {
            address: block.natural_or(Key::Address, next)?,
            size_bytes,
            requested_bytes: block.natural_or(Key::RequestedSize, size_bytes)?,
            state: BlockState::from_name(state)
                .ok_or_else(|| block.wrong(format!("{}.state is {state:?}, which is not known", block.path)))?,
        })
    }

    fn pool(&self, segment: &Named<'s>) -> Result<(u64, u64)> {
        let Some(value) = segment.get(Key::SegmentPoolId) else { return Ok((0, 0)) };
        match self.store.items(value).unwrap_or_default() {
            &[first, second] => natural(first).zip(natural(second)),
            _ => None,
        }
        .ok_or_else(|| segment.must_be(Key::SegmentPoolId, Some(value), "a pair of ints"))
    }

    /// Counts what the trace is about to take up.
    fn keep(&mut self, values: u64, at: &Named<'_>) -> Result<()> {
        self.kept = self.kept.saturating_add(values);
        if self.kept > self.limit_kept { Err(too_many(self.limit_kept, at.position)) } else { Ok(()) }
    }
}
