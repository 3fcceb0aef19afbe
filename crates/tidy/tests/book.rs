//! The book in docs: its pages are in its summary, its links lead somewhere, its examples are run.
//! What mdBook makes of it is looked at by tests/browser/book.py.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use stitchpool_tidy::{files, root, text};

const PAGES: &str = "docs/src";

/// The pages by their path from the root.
fn chapters() -> Vec<String> {
    files(PAGES, ".md").into_iter().filter(|path| !path.ends_with("/SUMMARY.md")).collect()
}

/// The text without its code: what stands there is no link and no heading.
fn prose(text: &str) -> String {
    let mut in_code = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !fence && !in_code
    });
    lines.map(|line| format!("{line}\n")).collect()
}

/// Where a text's links lead, images included.
fn links(text: &str) -> Vec<String> {
    let parts = prose(text);
    let ends = parts.split("](").skip(1).filter_map(|part| Some(part.split_once(')')?.0.to_owned()));
    ends.filter(|link| !link.starts_with("http")).collect()
}

/// The anchors of a page, as mdBook makes them of its headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let prose = prose(text);
    let headings = prose.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchor = |heading: &str| {
        let letters = heading.to_lowercase();
        let letters = letters.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        letters.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
    };
    headings.map(anchor).collect()
}

/// A path with its `..` walked.
fn walked(path: &Path) -> PathBuf {
    let mut walked = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            walked.pop()
        } else {
            walked.push(part);
            true
        };
    }
    walked
}

#[test]
fn every_chapter_is_in_the_summary_once() {
    let listed = links(&text(&format!("{PAGES}/SUMMARY.md")));
    let once: BTreeSet<String> = listed.iter().map(|link| format!("{PAGES}/{link}")).collect();
    assert_eq!(once.len(), listed.len(), "a chapter is listed twice: {listed:?}");
    assert_eq!(once, chapters().into_iter().collect(), "what SUMMARY.md lists against what is there");
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let pages = chapters().into_iter().chain([format!("{PAGES}/SUMMARY.md"), "README.md".to_owned()]);
    for page in pages {
        for link in links(&text(&page)) {
            let (file, anchor) = link.split_once('#').unwrap_or((link.as_str(), ""));
            let folder = Path::new(&page).parent().unwrap();
            let target = if file.is_empty() { PathBuf::from(&page) } else { walked(&folder.join(file)) };
            assert!(root().join(&target).is_file(), "{page} links to {link}, which is not there");
            let known = anchors(&text(target.to_str().unwrap()));
            assert!(anchor.is_empty() || known.contains(anchor), "{page} links to {link}; its headings are {known:?}");
        }
    }
}

/// They are documentation tests of the root package; see src/book.rs.
#[test]
fn every_example_in_rust_is_run() {
    let book = text("src/book.rs");
    for page in chapters().into_iter().filter(|page| text(page).contains("```rust")) {
        assert!(book.contains(&format!("\"../{page}\"")), "src/book.rs does not include {page}");
    }
}

#[test]
fn no_line_of_the_book_is_a_leftover() {
    for page in chapters() {
        let text = text(&page);
        assert!(text.starts_with("# "), "{page} begins with its title");
        let leftover = ["TODO", "FIXME", "TBD"].iter().find(|word| text.contains(*word));
        assert!(leftover.is_none(), "{page} has a {}", leftover.unwrap());
    }
}

/// A case names its tests by their numbers: each of them is a test somewhere, and each such test has its case.
#[test]
fn every_field_case_names_tests_that_are_there() {
    let cases = text(&format!("{PAGES}/cases.md"));
    let named: BTreeSet<&str> = cases.split('`').skip(1).step_by(2).filter(|name| is_case(name)).collect();
    let folders = ["tests", "crates", "python/tests"];
    let files = folders.iter().flat_map(|folder| files(folder, ".rs").into_iter().chain(files(folder, ".py")));
    let mut found = BTreeSet::new();
    for file in files {
        let words = text(&file);
        let names = words.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        found.extend(names.map(|name| name.trim_start_matches("test_").to_owned()).filter(|name| is_case(name)));
    }
    let unknown: Vec<_> = named.iter().filter(|name| !found.contains(**name)).collect();
    assert!(unknown.is_empty(), "cases.md names what is no test: {unknown:?}");
    let rows: BTreeSet<u32> = cases.lines().filter_map(|line| line.strip_prefix("| F")).flat_map(cases_of).collect();
    let without: Vec<_> =
        found.iter().filter(|name| !name[1..3].parse().is_ok_and(|case| rows.contains(&case))).collect();
    assert!(without.is_empty(), "cases.md has no row for {without:?}");
}

/// The cases of a row: `01 |`, or `45 to F48 |`, or `54, F60 |`.
fn cases_of(row: &str) -> Vec<u32> {
    let cell = row.split(" |").next().unwrap_or_default();
    let part = |part: &str| {
        let ends: Vec<u32> = part.split(" to F").filter_map(|end| end.parse().ok()).collect();
        ends[0]..=ends[ends.len() - 1]
    };
    cell.split(", F").flat_map(part).collect()
}

/// Whether a name begins with a case's number, and perhaps a letter.
fn is_case(name: &str) -> bool {
    let digits = name.get(1..3).is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
    let rest = name.get(3..).unwrap_or_default().trim_start_matches(|letter: char| letter.is_ascii_lowercase());
    name.starts_with('f') && digits && rest.starts_with('_')
}
