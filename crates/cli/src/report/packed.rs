//! Long lists of numbers as the page reads them: little-endian, in base64. A tenth of what digits take.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};

/// A list of numbers of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Packed<T>(pub Vec<T>);

/// A number with a fixed place in bytes.
pub trait Plain: Copy {
    /// Its bytes, lowest first.
    fn put(self, bytes: &mut Vec<u8>);
}

macro_rules! plain {
    ($($number:ty),*) => {$(
        impl Plain for $number {
            fn put(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

plain!(u8, u16, u32, f32);

impl<T: Plain> Serialize for Packed<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::with_capacity(self.0.len() * size_of::<T>());
        self.0.iter().for_each(|number| number.put(&mut bytes));
        serializer.serialize_str(&STANDARD.encode(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_packed_lowest_byte_first() {
        let packed = serde_json::to_string(&Packed(vec![1_u32, 0x0403_0201])).unwrap();
        assert_eq!(packed, "\"AQAAAAECAwQ=\"");
    }
}
