//! The functions and structs of the Rust side, read from its sources and spelled in C.

use crate::compiler::crate_path;

pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) answer: String,
    /// Types and names.
    pub(crate) parameters: Vec<(String, String)>,
}

pub(crate) struct Struct {
    pub(crate) name: String,
    pub(crate) fields: Vec<Field>,
    /// The size in the first version of the header, for those that grow.
    pub(crate) first_bytes: Option<u64>,
}

pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) of: String,
    /// How many, of an array.
    pub(crate) length: Option<String>,
}

fn sources(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(crate_path(folder)).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

/// Between two marks.
fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(from)?;
    Some(rest.split_once(to)?.0)
}

pub(crate) fn functions() -> Vec<Function> {
    let mut functions = Vec::new();
    for source in sources("src/entry") {
        for text in source.split("#[unsafe(no_mangle)]").skip(1) {
            let signature =
                between(text, "extern \"C\" fn ", "{").or_else(|| between(text, "extern \"C-unwind\" fn ", "{"));
            let (name, rest) = signature.unwrap().split_once('(').unwrap();
            let (parameters, answer) =
                rest.rsplit_once(") -> ").unwrap_or((rest.trim_end().trim_end_matches(')'), "c_void"));
            let named = parameters.split(',').map(str::trim).filter(|text| !text.is_empty());
            let parameters = named.map(|text| text.trim_start_matches('_').split_once(": ").unwrap());
            functions.push(Function {
                name: name.into(),
                answer: in_c(answer.trim()),
                parameters: parameters.map(|(name, rust)| (in_c(rust), name.into())).collect(),
            });
        }
    }
    functions
}

pub(crate) fn structs() -> Vec<Struct> {
    let mut structs = Vec::new();
    for source in sources("src/shape") {
        for text in source.split("#[repr(C)]").skip(1) {
            let (name, rest) = between(text, "pub struct ", "}").unwrap().split_once(" {").unwrap();
            let fields = rest.lines().filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(": "));
            let of_record = format!("Record for {name} {{");
            let first = source.split(&of_record).nth(1).and_then(|text| between(text, "FIRST_BYTES: usize = ", ";"));
            structs.push(Struct {
                name: in_c(name),
                fields: fields.map(|(name, rust)| field(name, rust.trim_end_matches(','))).collect(),
                first_bytes: first.map(|bytes| bytes.parse().unwrap()),
            });
        }
    }
    structs
}

fn field(name: &str, rust: &str) -> Field {
    let array = rust.strip_prefix('[').and_then(|array| array.strip_suffix(']')?.split_once("; "));
    let (of, length) = array.map_or((rust, None), |(of, length)| (of, Some(length.to_owned())));
    Field { name: name.into(), of: in_c(of), length }
}

/// A Rust type in C.
fn in_c(rust: &str) -> String {
    if let Some(target) = rust.strip_prefix("*mut ") {
        return format!("{} *", in_c(target));
    }
    if let Some(target) = rust.strip_prefix("*const ") {
        return format!("const {} *", in_c(target));
    }
    match rust {
        "u8" | "u32" | "u64" => format!("uint{}_t", &rust[1..]),
        "i32" => "int32_t".into(),
        "usize" => "size_t".into(),
        "c_char" => "char".into(),
        "c_void" => "void".into(),
        "Status" => "stitchpool_status".into(),
        "Option<Raise>" => "stitchpool_raise".into(),
        _ => {
            let function = rust.strip_prefix("Option<").and_then(|rust| rust.strip_suffix('>'));
            let shape = function.unwrap_or(rust).strip_prefix('C').or_else(|| rust.strip_suffix("Handle"));
            format!("stitchpool{}", snake(shape.unwrap_or_else(|| panic!("{rust} in C?"))))
        }
    }
}

fn snake(camel: &str) -> String {
    let letter = |letter: char| match letter.is_uppercase() {
        true => format!("_{}", letter.to_lowercase()),
        false => letter.into(),
    };
    camel.chars().map(letter).collect()
}
