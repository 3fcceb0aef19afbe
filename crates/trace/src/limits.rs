//! Bounds on what reading a trace may cost, so that no file can exhaust the machine.

/// Bounds on reading one file. The defaults hold some sixteen million events and keep a hostile file below
/// about 4 GiB of memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of the unpacked stream. Stops decompression bombs.
    pub unpacked_bytes: u64,
    /// Containers that stand open inside each other.
    pub nesting: usize,
    /// Values on the unpickler's stack at once.
    pub stack_values: usize,
    /// Entries of the unpickler's memo.
    pub memo_entries: usize,
    /// Values kept for the trace, about 16 bytes each: containers, list items, strings; an event takes eight in all.
    pub kept_values: u64,
    /// Bytes of a single string, integer or line.
    pub token_bytes: u64,
    /// Bytes that a decompressor may hold as its window.
    pub window_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            unpacked_bytes: 4 << 30,
            nesting: 1000,
            stack_values: 1 << 24,
            memo_entries: 1 << 26,
            kept_values: 1 << 27,
            token_bytes: 16 << 20,
            window_bytes: 128 << 20,
        }
    }
}
