//! Sizes in bytes as people write and read them.

use std::fmt::Write;

const UNITS: [(&str, u32); 5] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("B", 0)];

/// Reads `4096`, `512MiB`, `1.5 GiB`. Units count in powers of 1024, whether an `i` is written or not.
pub fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..digits], text[digits..].trim().to_ascii_lowercase());
    let known = UNITS.iter().find(|(name, _)| {
        let name = name.to_ascii_lowercase();
        unit == name || unit == name.replace('i', "") || unit == name[..1]
    });
    let shift = match (unit.as_str(), known) {
        ("", _) => 0,
        (_, Some((_, shift))) => *shift,
        _ => return Err(format!("{text:?} has no unit of bytes: write B, KiB, MiB, GiB or TiB, or a plain number")),
    };
    let scaled = match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(1 << shift),
        Err(_) => {
            let bytes = number.parse::<f64>().map(|part| part * (1_u64 << shift) as f64);
            bytes.ok().filter(|bytes| *bytes < u64::MAX as f64).map(|bytes| bytes as u64)
        }
    };
    scaled.ok_or_else(|| format!("{text:?} is no number of bytes below 16 EiB: write one like 8GiB or 4096"))
}

/// Writes a size in the unit that suits it.
pub fn show(bytes: u64) -> String {
    let (name, shift) = match bytes {
        0..0x400 => ("B", 0),
        0x400..0x10_0000 => ("KiB", 10),
        0x10_0000..0x4000_0000 => ("MiB", 20),
        0x4000_0000..0x100_0000_0000 => ("GiB", 30),
        _ => ("TiB", 40),
    };
    let mut shown = String::new();
    let places = if shift == 0 { 0 } else { 2 };
    // Writing to a string cannot fail.
    let _ = write!(shown, "{:.places$} {name}", bytes as f64 / (1_u64 << shift) as f64);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let cases = [
            ("0", 0),
            ("4096", 4096),
            ("1KiB", 1024),
            ("1k", 1024),
            ("512 MiB", 512 << 20),
            ("1.5GiB", 3 << 29),
            ("2gb", 2 << 30),
            ("1TiB", 1 << 40),
            ("7B", 7),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_its_text() {
        for text in ["", "GiB", "1.2.3", "12 parsecs", "-1", "99999999999999999999", "17000000TiB"] {
            let refusal = parse(text).map_or_else(|why| why, |bytes| panic!("{text} was read as {bytes}"));
            assert!(refusal.contains(text), "{refusal}");
        }
    }

    #[test]
    fn sizes_are_shown_in_a_unit_that_suits_them() {
        assert_eq!([show(0), show(1536), show(3 << 29), show(5 << 40)], ["0 B", "1.50 KiB", "1.50 GiB", "5.00 TiB"]);
    }
}
