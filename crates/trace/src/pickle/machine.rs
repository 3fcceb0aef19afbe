//! The unpickler: a stack machine that builds plain values and refuses all else. No recursion, so no depth can hurt it.

use super::memo::Memo;
use super::opcode::*;
use super::{Heap, NodeId, Value};
use crate::bytes::Bytes;
use crate::{Error, ErrorKind, Limits, Result};

const NEWEST_PROTOCOL: u8 = 5;
/// Longer strings are passed over: no key, state or setting of a trace is so long.
const KEPT_TEXT_BYTES: u64 = 4096;

/// An unpickler at work.
pub(crate) struct Machine<'a, 'l, H> {
    bytes: Bytes<'a>,
    heap: H,
    stack: Vec<Value>,
    /// Heights of the stack at the marks that stand open.
    marks: Vec<usize>,
    memo: Memo,
    limits: &'l Limits,
    /// Offset of the opcode that is being obeyed.
    position: u64,
}

/// What a pickle held: its value and the heap that its containers lie in.
pub(crate) struct Unpickled<H> {
    pub(crate) value: Value,
    pub(crate) heap: H,
}

impl<'a, 'l, H: Heap> Machine<'a, 'l, H> {
    pub(crate) fn new(bytes: Bytes<'a>, heap: H, limits: &'l Limits) -> Self {
        let memo = Memo::new(limits.memo_entries);
        Self { bytes, heap, stack: Vec::new(), marks: Vec::new(), memo, limits, position: 0 }
    }

    /// Reads the pickle to its end, which must be the stream's end too.
    pub(crate) fn run(mut self) -> Result<Unpickled<H>> {
        loop {
            self.position = self.bytes.position();
            let opcode = self.bytes.byte()?;
            if opcode == STOP {
                break;
            }
            self.obey(opcode)?;
        }
        let value = self.pop()?;
        if !self.stack.is_empty() || !self.marks.is_empty() {
            return Err(self.malformed(format!("{} values are left over at the pickle's end", self.stack.len())));
        }
        let end_position = self.bytes.position();
        if !self.bytes.peek(1)?.is_empty() {
            return Err(Error::new(ErrorKind::Malformed, end_position, "bytes follow the pickle's end"));
        }
        Ok(Unpickled { value, heap: self.heap })
    }

    #[inline]
    fn obey(&mut self, opcode: u8) -> Result<()> {
        match opcode {
            BINGET => {
                let index = u32::from(self.bytes.byte()?);
                self.recall(index)
            }
            LONG_BINGET => {
                let index = u32::from_le_bytes(self.bytes.array()?);
                self.recall(index)
            }
            MEMOIZE => {
                let start = self.below(1)?;
                self.memo.push(&self.stack[start], self.position)
            }
            BINPUT => {
                let index = u32::from(self.bytes.byte()?);
                let start = self.below(1)?;
                self.memo.put(index, &self.stack[start], self.position)
            }
            LONG_BINPUT => {
                let index = u32::from_le_bytes(self.bytes.array()?);
                let start = self.below(1)?;
                self.memo.put(index, &self.stack[start], self.position)
            }
            NONE | NEWTRUE | NEWFALSE | BININT | BININT1 | BININT2 | LONG1 | LONG4 | BINFLOAT => self.scalar(opcode),
            BINUNICODE | SHORT_BINUNICODE | BINUNICODE8 | BINSTRING | SHORT_BINSTRING => self.string(opcode),
            BINBYTES | SHORT_BINBYTES | BINBYTES8 | BYTEARRAY8 => self.binary(opcode),
            MARK => self.mark(),
            EMPTY_LIST | EMPTY_TUPLE | EMPTY_DICT | EMPTY_SET => self.empty(opcode),
            APPEND | APPENDS => self.append(opcode),
            SETITEM | SETITEMS => self.set(opcode),
            LIST | TUPLE | TUPLE1 | TUPLE2 | TUPLE3 | DICT => self.gather(opcode),
            ADDITEMS | FROZENSET => self.gather_set(opcode),
            POP | POP_MARK | DUP => self.shuffle(opcode),
            FRAME => self.bytes.array::<8>().map(drop),
            PROTO => self.protocol(),
            _ => Err(self.refusal(opcode)),
        }
    }

    fn protocol(&mut self) -> Result<()> {
        let protocol = self.bytes.byte()?;
        if protocol > NEWEST_PROTOCOL {
            return Err(self.malformed(format!("pickle protocol {protocol}; {NEWEST_PROTOCOL} is the newest there is")));
        }
        Ok(())
    }

    fn scalar(&mut self, opcode: u8) -> Result<()> {
        let value = match opcode {
            NONE => Value::None,
            NEWTRUE => Value::Bool(true),
            NEWFALSE => Value::Bool(false),
            BININT => Value::Integer(i32::from_le_bytes(self.bytes.array()?).into()),
            BININT1 => Value::Integer(self.bytes.byte()?.into()),
            BININT2 => Value::Integer(u16::from_le_bytes(self.bytes.array()?).into()),
            BINFLOAT => Value::Float(f64::from_be_bytes(self.bytes.array()?)),
            _ => {
                let length = match opcode {
                    LONG1 => u64::from(self.bytes.byte()?),
                    _ => u64::from(u32::from_le_bytes(self.bytes.array()?)),
                };
                self.long(length)?
            }
        };
        self.push(value)
    }

    /// A little-endian two's complement integer of `length` bytes.
    fn long(&mut self, length: u64) -> Result<Value> {
        self.check_token(length)?;
        if length > 16 {
            self.bytes.skip(length)?;
            return Ok(Value::WideInteger);
        }
        let digits = self.bytes.take(usize::try_from(length).unwrap_or(16))?;
        let is_negative = digits.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut wide = [if is_negative { 0xff } else { 0 }; 16];
        wide[..digits.len()].copy_from_slice(digits);
        let number = i128::from_le_bytes(wide);
        Ok(i64::try_from(number)
            .map(Value::Integer)
            .or_else(|_| u64::try_from(number).map(Value::Unsigned))
            .unwrap_or(Value::WideInteger))
    }

    fn string(&mut self, opcode: u8) -> Result<()> {
        let length = match opcode {
            SHORT_BINUNICODE | SHORT_BINSTRING => u64::from(self.bytes.byte()?),
            BINUNICODE8 => u64::from_le_bytes(self.bytes.array()?),
            _ => u64::from(u32::from_le_bytes(self.bytes.array()?)),
        };
        self.check_token(length)?;
        if length > KEPT_TEXT_BYTES {
            self.bytes.skip(length)?;
            return self.push(Value::LongText);
        }
        let piece = self.bytes.take(usize::try_from(length).unwrap_or(Bytes::PIECE_BYTES))?;
        // Python writes lone surrogates, which UTF-8 has none of; a name may lose them, a key has none.
        let text = String::from_utf8_lossy(piece);
        let id = self.heap.text(&text, self.position)?;
        self.push(Value::Text(id))
    }

    fn binary(&mut self, opcode: u8) -> Result<()> {
        let length = match opcode {
            SHORT_BINBYTES => u64::from(self.bytes.byte()?),
            BINBYTES => u64::from(u32::from_le_bytes(self.bytes.array()?)),
            _ => u64::from_le_bytes(self.bytes.array()?),
        };
        self.check_token(length)?;
        self.bytes.skip(length)?;
        self.push(Value::Binary)
    }

    fn mark(&mut self) -> Result<()> {
        if self.marks.len() >= self.limits.nesting {
            let reason = format!("nested deeper than {}; raise Limits::nesting if it is sound", self.limits.nesting);
            return Err(Error::new(ErrorKind::LimitReached, self.position, reason));
        }
        self.marks.push(self.stack.len());
        Ok(())
    }

    fn empty(&mut self, opcode: u8) -> Result<()> {
        let value = match opcode {
            EMPTY_DICT => Value::Node(self.heap.dict(self.position)?),
            EMPTY_SET => Value::Set,
            _ => Value::Node(self.heap.list(&[], self.position)?),
        };
        self.push(value)
    }

    fn append(&mut self, opcode: u8) -> Result<()> {
        let start = if opcode == APPEND { self.below(1)? } else { self.pop_mark()? };
        let list = self.container_below(start, "a list")?;
        if !self.heap.extend(list, &self.stack[start..], self.position)? {
            return Err(self.malformed("appends to what is no list".to_owned()));
        }
        self.stack.truncate(start);
        Ok(())
    }

    fn set(&mut self, opcode: u8) -> Result<()> {
        let start = if opcode == SETITEM { self.below(2)? } else { self.pop_mark()? };
        let dict = self.container_below(start, "a dict")?;
        self.set_pairs(dict, start)
    }

    /// Gives what lies on the stack from `start` on to the dict, in pairs.
    fn set_pairs(&mut self, dict: NodeId, start: usize) -> Result<()> {
        let pairs = &self.stack[start..];
        if !pairs.len().is_multiple_of(2) {
            return Err(self.malformed("a dict gets a key without a value".to_owned()));
        }
        if !self.heap.set(dict, pairs, self.position)? {
            return Err(self.malformed("sets keys of what is no dict".to_owned()));
        }
        self.stack.truncate(start);
        Ok(())
    }

    fn gather(&mut self, opcode: u8) -> Result<()> {
        let start = match opcode {
            TUPLE1 => self.below(1)?,
            TUPLE2 => self.below(2)?,
            TUPLE3 => self.below(3)?,
            _ => self.pop_mark()?,
        };
        let node = if opcode == DICT {
            let dict = self.heap.dict(self.position)?;
            self.set_pairs(dict, start)?;
            dict
        } else {
            self.heap.list(&self.stack[start..], self.position)?
        };
        self.stack.truncate(start);
        self.push(Value::Node(node))
    }

    /// Sets are plain data, but no trace has any: their items are dropped.
    fn gather_set(&mut self, opcode: u8) -> Result<()> {
        let start = self.pop_mark()?;
        self.stack.truncate(start);
        if opcode == FROZENSET {
            return self.push(Value::Set);
        }
        self.top().map(drop)
    }

    fn shuffle(&mut self, opcode: u8) -> Result<()> {
        match opcode {
            DUP => self.push(*self.top()?),
            POP_MARK => {
                let start = self.pop_mark()?;
                self.stack.truncate(start);
                Ok(())
            }
            _ if self.marks.last() == Some(&self.stack.len()) => self.pop_mark().map(drop),
            _ => self.pop().map(drop),
        }
    }

    fn recall(&mut self, index: u32) -> Result<()> {
        self.check_height()?;
        // Half of all opcodes come here: the value is copied from place to place, never through a `Result`.
        let value = self.memo.get(index, self.position)?;
        self.stack.push(*value);
        Ok(())
    }

    #[inline]
    fn push(&mut self, value: Value) -> Result<()> {
        self.check_height()?;
        self.stack.push(value);
        Ok(())
    }

    #[inline]
    fn check_height(&self) -> Result<()> {
        if self.stack.len() >= self.limits.stack_values {
            let reason = format!("more than {} values at once; raise Limits::stack_values", self.limits.stack_values);
            return Err(Error::new(ErrorKind::LimitReached, self.position, reason));
        }
        Ok(())
    }

    fn pop(&mut self) -> Result<Value> {
        let start = self.below(1)?;
        let value = self.stack[start];
        self.stack.truncate(start);
        Ok(value)
    }

    #[inline]
    fn top(&self) -> Result<&Value> {
        self.below(1).map(|start| &self.stack[start])
    }

    /// Where the topmost `count` values begin, none of them below an open mark.
    fn below(&self, count: usize) -> Result<usize> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.len().checked_sub(count) {
            Some(start) if start >= floor => Ok(start),
            _ => Err(self.malformed("takes a value where there is none".to_owned())),
        }
    }

    fn pop_mark(&mut self) -> Result<usize> {
        self.marks.pop().ok_or_else(|| self.malformed("ends a group that was never begun".to_owned()))
    }

    /// The container that lies right below `start`.
    fn container_below(&self, start: usize, wanted: &str) -> Result<NodeId> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let found = if start > floor { self.stack.get(start - 1).copied() } else { None };
        match found {
            Some(Value::Node(node)) => Ok(node),
            Some(other) => Err(self.malformed(format!("expects {wanted}, finds {}", other.kind()))),
            None => Err(self.malformed(format!("expects {wanted}, finds nothing"))),
        }
    }

    fn check_token(&self, length: u64) -> Result<()> {
        if length > self.limits.token_bytes {
            let reason = format!(
                "a value of {length} bytes; at most {} are allowed (Limits::token_bytes)",
                self.limits.token_bytes
            );
            return Err(Error::new(ErrorKind::LimitReached, self.position, reason));
        }
        Ok(())
    }

    #[cold]
    fn refusal(&self, opcode: u8) -> Error {
        let named =
            |table: &[(u8, &'static str)]| table.iter().find(|(byte, _)| *byte == opcode).map(|(_, name)| *name);
        if let Some(name) = named(&REFUSED) {
            let reason = format!("the pickle asks for {name}, which could run code; a memory snapshot is plain data");
            return Error::new(ErrorKind::Refused, self.position, reason);
        }
        if let Some(name) = named(&OUTDATED) {
            return self.malformed(format!(
                "{name} belongs to pickle protocol 0; write the snapshot with protocol 2 or later"
            ));
        }
        self.malformed(format!("{opcode:#04x} is no pickle opcode"))
    }

    #[cold]
    fn malformed(&self, reason: String) -> Error {
        Error::new(ErrorKind::Malformed, self.position, reason)
    }
}
