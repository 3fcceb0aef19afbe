//! Where the unpickler puts strings and containers: the one thing that a reader of some shape must supply.

use super::{NodeId, TextId, Value};
use crate::Result;

/// Keeps what an unpickler reads, as much of it as the shape has a use for. Each method may refuse at `position` when
/// it has no room left.
pub(crate) trait Heap {
    /// Keeps a string.
    fn text(&mut self, text: &str, position: u64) -> Result<TextId>;
    /// A new, empty dict.
    fn dict(&mut self, position: u64) -> Result<NodeId>;
    /// A new list or tuple of these items.
    fn list(&mut self, items: &[Value], position: u64) -> Result<NodeId>;
    /// Sets entries of a dict: `pairs` holds key, value, key, value. False when the node is no dict.
    fn set(&mut self, dict: NodeId, pairs: &[Value], position: u64) -> Result<bool>;
    /// Appends to a list. False when the node is no list.
    fn extend(&mut self, list: NodeId, items: &[Value], position: u64) -> Result<bool>;
}
