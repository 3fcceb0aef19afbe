//! Our tables as statements that a C compiler, given NVIDIA's header, finds true or refuses.

use crate::c_type::c_type;
use std::ffi::c_uint;
use stitchpool_cuda_sys::{
    CU_DEVICE_CPU, CU_DEVICE_INVALID, CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE,
    CU_MEMHOSTALLOC_WRITECOMBINED, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, FUNCTIONS, Function, NUMBERS, RESULTS,
    STRUCTURES, Structure,
};

/// One C statement for each constant, size, alignment, offset and signature that our interface holds.
///
/// # Panics
/// If the table has a type that cannot be spelt in C: then nothing about it could be checked.
#[must_use]
pub fn statements() -> Vec<String> {
    let numbers = RESULTS.iter().chain(NUMBERS).flat_map(|number| {
        let size = size(number.name, size_of::<c_uint>());
        let constants = number.constants.iter().map(|(name, value)| equal(name, &format!("{value}u")));
        std::iter::once(size).chain(constants)
    });
    numbers
        .chain(defines())
        .chain(STRUCTURES.iter().flat_map(structure))
        .chain(FUNCTIONS.iter().map(function))
        .collect()
}

fn defines() -> Vec<String> {
    vec![
        equal("CU_MEMHOSTALLOC_PORTABLE", &CU_MEMHOSTALLOC_PORTABLE.to_string()),
        equal("CU_MEMHOSTALLOC_DEVICEMAP", &CU_MEMHOSTALLOC_DEVICEMAP.to_string()),
        equal("CU_MEMHOSTALLOC_WRITECOMBINED", &CU_MEMHOSTALLOC_WRITECOMBINED.to_string()),
        equal("CU_DEVICE_CPU", &CU_DEVICE_CPU.to_string()),
        equal("CU_DEVICE_INVALID", &CU_DEVICE_INVALID.to_string()),
        equal("(size_t)CU_STREAM_LEGACY", &CU_STREAM_LEGACY.0.addr().to_string()),
        equal("(size_t)CU_STREAM_PER_THREAD", &CU_STREAM_PER_THREAD.0.addr().to_string()),
    ]
}

fn structure(structure: &Structure) -> Vec<String> {
    let name = structure.name;
    let mut said =
        vec![size(name, structure.size_bytes), equal(&format!("_Alignof({name})"), &structure.align_bytes.to_string())];
    for (field, offset_bytes, size_bytes) in structure.fields {
        said.push(equal(&format!("offsetof({name}, {field})"), &offset_bytes.to_string()));
        said.push(size(&format!("((({name} *)0)->{field})"), *size_bytes));
    }
    said
}

fn function(function: &Function) -> String {
    let spell = |rust: &&str| c_type(rust).unwrap_or_else(|| panic!("{}: no C for {rust}", function.symbol));
    let arguments: Vec<String> = function.arguments.iter().map(spell).collect();
    let arguments = if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
    let symbol = function.symbol;
    say(&format!("__builtin_types_compatible_p(__typeof__({symbol}), CUresult ({arguments}))"), symbol)
}

fn size(of: &str, bytes: usize) -> String {
    equal(&format!("sizeof({of})"), &bytes.to_string())
}

fn equal(left: &str, right: &str) -> String {
    say(&format!("{left} == {right}"), left)
}

fn say(condition: &str, about: &str) -> String {
    format!("_Static_assert({condition}, \"{about}\");")
}
