//! The adapter without a GPU: what its types are accepted for, and what it does on a libcuda that is pretended.
#![allow(clippy::unwrap_used, missing_docs)]

mod pretended;
mod types;
