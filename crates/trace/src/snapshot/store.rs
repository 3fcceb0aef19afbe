//! Keeps of an unpickled snapshot what a trace needs, packed as soon as it is complete. Knows keys, not which dict
//! may have which: the reader asks for that.

use super::key::Key;
use super::record::{PackedEvent, Record};
use crate::pickle::{Heap, NodeId, TextId, Value};
use crate::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::rc::Rc;

/// What was kept so far.
pub(super) struct Store {
    texts: Vec<Rc<str>>,
    text_ids: HashMap<Rc<str>, TextId>,
    nodes: Vec<Node>,
    lists: Vec<Vec<Value>>,
    records: Vec<Record>,
    events: Vec<PackedEvent>,
    kept: u64,
    limit_kept: u64,
}

/// A container, by where its content lies. 8 bytes, since there may be tens of millions without content.
#[derive(Clone, Copy)]
enum Node {
    /// A dict without any key that is read.
    BareDict,
    /// A list of so many bare dicts, such as a stack of frames, or of nothing.
    BareList(u32),
    List(u32),
    Record(u32),
    Event(u32),
}

/// How many values of 16 bytes a record takes up, its entries included.
const RECORD_VALUES: u64 = 12;

/// How many an event does.
pub(super) const EVENT_VALUES: u64 = 3;

/// A container as the reader sees it.
pub(super) enum Content<'s> {
    List(&'s [Value]),
    Record(&'s Record),
    Event(PackedEvent),
    BareDict,
    /// A list of dicts without any key that is read, at least one.
    BareList,
    /// No container.
    Scalar,
}

impl Store {
    pub(super) fn new(limit_kept: u64) -> Self {
        let mut store = Self {
            texts: Vec::new(),
            text_ids: HashMap::new(),
            nodes: Vec::new(),
            lists: Vec::new(),
            records: Vec::new(),
            events: Vec::new(),
            kept: 0,
            limit_kept,
        };
        for (_, name) in Key::ALL {
            store.add_text(name);
        }
        store
    }

    /// How many values of 16 bytes are kept.
    pub(super) fn kept(&self) -> u64 {
        self.kept
    }

    pub(super) fn text_of(&self, id: TextId) -> &str {
        &self.texts[id.0 as usize]
    }

    /// Whether a value is this string.
    pub(super) fn is_text(&self, value: Value, text: &str) -> bool {
        matches!(value, Value::Text(id) if self.text_of(id) == text)
    }

    pub(super) fn text_count(&self) -> usize {
        self.texts.len()
    }

    pub(super) fn content(&self, value: Value) -> Content<'_> {
        let Value::Node(node) = value else { return Content::Scalar };
        match self.nodes[node.0 as usize] {
            Node::BareDict => Content::BareDict,
            Node::BareList(0) => Content::List(&[]),
            Node::BareList(_) => Content::BareList,
            Node::List(at) => Content::List(&self.lists[at as usize]),
            Node::Record(at) => Content::Record(&self.records[at as usize]),
            Node::Event(at) => Content::Event(self.events[at as usize]),
        }
    }

    /// The items of a list.
    pub(super) fn items(&self, value: Value) -> Option<&[Value]> {
        match self.content(value) {
            Content::List(items) => Some(items),
            _ => None,
        }
    }

    /// What a value is, for messages.
    pub(super) fn kind(&self, value: Value) -> &'static str {
        match self.content(value) {
            Content::Scalar => value.kind(),
            Content::List(_) => "a list",
            Content::BareList => "a list of dicts without any known key",
            Content::Event(_) => "an event's dict",
            Content::Record(_) | Content::BareDict => "a dict",
        }
    }

    fn add_text(&mut self, text: &str) -> TextId {
        let id = TextId(index(self.texts.len()));
        let shared: Rc<str> = text.into();
        self.texts.push(Rc::clone(&shared));
        self.text_ids.insert(shared, id);
        id
    }

    fn add_node(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(index(self.nodes.len() - 1))
    }

    /// Counts `values` more of 16 bytes; at least one for each thing that gets a number, so numbers stay below 2^32.
    #[inline]
    fn keep(&mut self, values: u64, position: u64) -> Result<()> {
        self.kept += values;
        if self.kept > self.limit_kept {
            return Err(too_many(self.limit_kept, position));
        }
        Ok(())
    }

    fn is_bare(&self, value: &Value) -> bool {
        matches!(value, Value::Node(node) if matches!(self.nodes[node.0 as usize], Node::BareDict))
    }

    fn add_event(&mut self, node: NodeId, event: PackedEvent, position: u64) -> Result<()> {
        self.nodes[node.0 as usize] = Node::Event(index(self.events.len()));
        self.events.push(event);
        self.keep(EVENT_VALUES, position)
    }

    /// Writes a dict's entries, packed where they can be.
    fn write(&mut self, node: NodeId, record: Record) -> Result<()> {
        let packed = PackedEvent::pack(record.fields.iter().copied());
        let slot = &mut self.nodes[node.0 as usize];
        match (packed, *slot) {
            (Some(event), Node::Event(at)) => self.events[at as usize] = event,
            (Some(event), _) => self.add_event(node, event, record.position)?,
            (None, Node::Record(at)) => self.records[at as usize] = record,
            (None, _) => {
                *slot = Node::Record(index(self.records.len()));
                let position = record.position;
                self.records.push(record);
                self.keep(RECORD_VALUES, position)?;
            }
        }
        Ok(())
    }
}

impl Heap for Store {
    fn text(&mut self, text: &str, position: u64) -> Result<TextId> {
        if let Some(&id) = self.text_ids.get(text) {
            return Ok(id);
        }
        self.keep(4 + text.len() as u64 / 16, position)?;
        Ok(self.add_text(text))
    }

    fn dict(&mut self, position: u64) -> Result<NodeId> {
        self.keep(1, position)?;
        Ok(self.add_node(Node::BareDict))
    }

    fn list(&mut self, items: &[Value], position: u64) -> Result<NodeId> {
        self.keep(1, position)?;
        let node = self.add_node(Node::BareList(0));
        self.extend(node, items, position)?;
        Ok(node)
    }

    fn set(&mut self, dict: NodeId, pairs: &[Value], position: u64) -> Result<bool> {
        let known = pairs.chunks_exact(2).filter_map(|pair| match pair[0] {
            Value::Text(text) => Key::from_text(text.0).map(|key| (key, pair[1])),
            _ => None,
        });
        let mut record = match self.nodes[dict.0 as usize] {
            Node::BareDict => match PackedEvent::pack(known.clone()) {
                // Nearly every dict of a long trace.
                Some(event) => return self.add_event(dict, event, position).map(|()| true),
                None => Record::default(),
            },
            Node::Record(at) => std::mem::take(&mut self.records[at as usize]),
            Node::Event(at) => Record { fields: self.events[at as usize].unpack(), position },
            Node::BareList(_) | Node::List(_) => return Ok(false),
        };
        for (key, value) in known {
            record.set(key, value);
        }
        record.position = position;
        if !record.fields.is_empty() {
            self.write(dict, record)?;
        }
        Ok(true)
    }

    fn extend(&mut self, list: NodeId, items: &[Value], position: u64) -> Result<bool> {
        let at = match self.nodes[list.0 as usize] {
            Node::List(at) => at,
            Node::BareList(count) if items.iter().all(|item| self.is_bare(item)) => {
                let count = count.saturating_add(u32::try_from(items.len()).unwrap_or(u32::MAX));
                self.nodes[list.0 as usize] = Node::BareList(count);
                return Ok(true);
            }
            Node::BareList(count) => {
                self.keep(2 + u64::from(count), position)?;
                // One bare dict is as good as the other.
                let bare = Value::Node(self.dict(position)?);
                self.nodes[list.0 as usize] = Node::List(index(self.lists.len()));
                self.lists.push(vec![bare; count as usize]);
                index(self.lists.len() - 1)
            }
            _ => return Ok(false),
        };
        self.keep(items.len() as u64, position)?;
        self.lists[at as usize].extend_from_slice(items);
        Ok(true)
    }
}

/// The error of keeping more than `limit_kept` values.
#[cold]
pub(super) fn too_many(limit_kept: u64, position: u64) -> Error {
    let reason = format!("more than {limit_kept} values to keep; raise Limits::kept_values if the file is sound");
    Error::new(ErrorKind::LimitReached, position, reason)
}

/// A place in a table as its 32-bit number.
fn index(place: usize) -> u32 {
    u32::try_from(place).expect("each entry was counted against a limit below 2^32")
}
