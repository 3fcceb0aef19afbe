//! A Rust type of the table, spelt in C.

/// Spells `rust` in C; `None` where there is no rule for it.
pub(crate) fn c_type(rust: &str) -> Option<String> {
    if let Some(target) = rust.strip_prefix("*mut ") {
        return Some(format!("{} *", c_type(target)?));
    }
    if let Some(target) = rust.strip_prefix("*const ") {
        return Some(format!("{} const *", c_type(target)?));
    }
    let spelt = match rust {
        "c_char" => "char",
        "c_uchar" => "unsigned char",
        "c_int" => "int",
        "c_uint" => "unsigned int",
        "c_ulonglong" => "unsigned long long",
        "c_void" => "void",
        "usize" => "size_t",
        "f32" => "float",
        // CUDA's own names are the same on both sides.
        _ if rust.starts_with("CU") || rust == "cuuint64_t" => rust,
        _ => return None,
    };
    Some(spelt.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_keep_their_depth_and_what_is_constant() {
        assert_eq!(c_type("*mut *const c_char").as_deref(), Some("char const * *"));
        assert_eq!(c_type("*const CUmemAllocationProp").as_deref(), Some("CUmemAllocationProp const *"));
        assert_eq!(c_type("*mut *mut c_void").as_deref(), Some("void * *"));
    }

    #[test]
    fn a_type_without_a_rule_is_not_guessed() {
        assert_eq!(c_type("*mut String"), None);
    }
}
