//! The header against the Rust side. The compiler is the judge: it is given both, and accepts them only
//! if they say the same.

use crate::compiler::{c, crate_path, cxx, run, scratch};
use crate::rust_side::{Field, Struct, functions, structs};
use std::collections::BTreeSet;
use stitchpool_c::Status;
use stitchpool_c::entry::version::stitchpool_version;

fn header() -> String {
    std::fs::read_to_string(crate_path("include/stitchpool.h")).unwrap()
}

/// Drivers, pools, leases, views, growable buffers, pins and listeners.
const HANDLES: usize = 12;

/// Compiles the header with more behind it.
fn holds(name: &str, more: &str) {
    let source = scratch(&format!("{name}.c"));
    std::fs::write(&source, format!("#include \"stitchpool.h\"\n{more}")).unwrap();
    run(c().arg("-fsyntax-only").arg(&source));
}

/// The header's code without its comments.
fn code() -> String {
    let header = header();
    let mut parts = header.split("/*");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |code, part| code + part.split_once("*/").unwrap().1)
}

#[test]
fn the_header_declares_every_function_as_rust_defines_it() {
    let mut more = String::new();
    for function in functions() {
        let types: Vec<&str> = function.parameters.iter().map(|(of, _)| of.as_str()).collect();
        let types = if types.is_empty() { "void".into() } else { types.join(", ") };
        more += &format!("{} {}({types});\n", function.answer, function.name);
    }
    holds("functions", &more);
}

#[test]
fn the_header_declares_no_other_function_and_names_the_parameters_alike() {
    let code = code();
    let mut declared = BTreeSet::new();
    for statement in code.split(';').filter(|statement| statement.contains(')') && !statement.contains("(*")) {
        let (head, parameters) = statement.rsplit_once('(').unwrap();
        let name = head.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next_back().unwrap();
        let last_word = |text: &str| text.split([' ', '*', '\n']).next_back().unwrap().to_owned();
        let names: Vec<String> = parameters.trim_end_matches(')').split(',').map(last_word).collect();
        // What stands in a macro's brackets has no name before it.
        if name.is_empty() {
            continue;
        }
        declared.insert((name.to_owned(), if names == ["void"] { Vec::new() } else { names }));
    }
    let named = |(_, name): &(String, String)| name.clone();
    let defined = functions().into_iter().map(|function| {
        let names = function.parameters.iter().map(named).collect::<Vec<_>>();
        (function.name, names)
    });
    assert_eq!(declared, defined.collect());
}

#[test]
fn the_header_lays_every_struct_out_as_rust_does() {
    let (mut more, structs) = (String::new(), structs());
    let mut must = |what: &str, name: &str, condition: String| {
        more += &format!("_Static_assert({condition}, \"{what} of {name}\");\n");
    };
    for Struct { name, fields, first_bytes } in &structs {
        let mut offset = String::from("0");
        for Field { name: field, of, length } in fields {
            let theirs = format!("(({name} *)0)->{field}");
            let pointer = length.as_ref().map_or(format!("{of} *"), |length| format!("{of} (*)[{length}]"));
            must("type", &theirs, format!("_Generic(&{theirs}, {pointer}: 1, default: 0)"));
            // Fields follow each other without a gap, as `Record` demands, and as Rust lays them out then.
            must("place", &theirs, format!("offsetof({name}, {field}) == {offset}"));
            offset += &format!(" + sizeof({theirs})");
        }
        must("size", name, format!("sizeof({name}) == {offset}"));
        if let Some(first_bytes) = first_bytes {
            must("first version", name, format!("{first_bytes} <= sizeof({name})"));
        }
    }
    holds("structs", &more);
    let declared = code().matches("typedef struct").count();
    // The handles are structs that nobody sees into.
    assert_eq!(declared, structs.len() + HANDLES);
}

#[test]
fn the_header_numbers_the_statuses_as_rust_does() {
    let mut more = String::new();
    for (status, name) in Status::ALL {
        more += &format!("_Static_assert({} == {}, \"status\");\n", name.to_str().unwrap(), *status as i32);
    }
    more += &format!("_Static_assert(STITCHPOOL_VERSION == {}, \"version\");\n", stitchpool_version());
    holds("statuses", &more);
    let code = code();
    let statuses = code.split_once("typedef int32_t stitchpool_status;").unwrap().1.split_once('}').unwrap().0;
    assert_eq!(statuses.matches(" = ").count(), Status::ALL.len());
}

#[test]
fn the_header_is_good_cxx() {
    for standard in ["-std=c++11", "-std=c++20"] {
        run(cxx().arg(standard).arg(crate_path("include/stitchpool.h")));
    }
}
