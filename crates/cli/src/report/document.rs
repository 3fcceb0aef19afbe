//! The page: one file of HTML with its style, its script and its data inside. It asks nobody for anything else.

use super::run::Run;
use anyhow::Result;
use serde::Serialize;

/// All that the page is told.
#[derive(Debug, Serialize)]
struct Data<'a> {
    version: &'static str,
    runs: &'a [Run],
}

const FRAME: &str = include_str!("page/frame.html");
const STYLE: &str = include_str!("page/style.css");
/// Each file is a part of one program; they come in this order.
const SCRIPTS: [&str; 10] = [
    include_str!("page/format.js"),
    include_str!("page/unpack.js"),
    include_str!("page/canvas.js"),
    include_str!("page/clock.js"),
    include_str!("page/timeline.js"),
    include_str!("page/calls.js"),
    include_str!("page/stays.js"),
    include_str!("page/map.js"),
    include_str!("page/histogram.js"),
    include_str!("page/report.js"),
];

/// Writes the page of some runs.
pub fn document(runs: &[Run]) -> Result<String> {
    let data = escaped(&serde_json::to_string(&Data { version: env!("CARGO_PKG_VERSION"), runs })?);
    let script = SCRIPTS.concat();
    let mut page = String::with_capacity(FRAME.len() + STYLE.len() + script.len() + data.len());
    let mut rest = FRAME;
    // In one go from left to right: a part that looks like another's mark is left as it is.
    for (mark, part) in [("{{style}}", STYLE), ("{{data}}", data.as_str()), ("{{script}}", script.as_str())] {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        page.push_str(before);
        page.push_str(part);
        rest = after;
    }
    page.push_str(rest);
    Ok(page)
}

/// JSON in which nothing can end the element that it stands in, nor begin another. These letters stand in strings
/// only, where the escape means the same.
fn escaped(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => safe.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_the_data_can_end_its_element() {
        let hostile = "</script><script>alert(1)</script><!-- &lt; \u{2028}{{script}}";
        let json = serde_json::to_string(hostile).unwrap();
        let safe = escaped(&json);
        assert!(!safe.contains(['<', '>', '&', '\u{2028}']), "{safe}");
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), hostile);
    }

    #[test]
    fn the_frame_has_each_mark_once_and_in_order() {
        let marks = ["{{style}}", "{{data}}", "{{script}}"].map(|mark| {
            assert_eq!(FRAME.matches(mark).count(), 1, "{mark}");
            FRAME.find(mark).unwrap()
        });
        assert!(marks.is_sorted());
        assert!(!document(&[]).unwrap().contains("{{"));
    }
}
