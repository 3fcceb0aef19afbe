//! Random faults of the driver.

use proptest::prelude::*;
use stitchpool::driver::{ErrorKind, Fault, Verb};

const KINDS: &[ErrorKind] =
    &[ErrorKind::OutOfMemory, ErrorKind::InvalidValue, ErrorKind::Unknown, ErrorKind::OutOfResources];

/// One of the next calls fails, of any verb or of one of these.
pub fn faults(verbs: &'static [Verb]) -> impl Strategy<Value = Fault> {
    let verb = prop::option::of(prop::sample::select(verbs));
    let fault = |(verb, nth, kind)| Fault { verb, nth, lasting: false, kind };
    (verb, 1..8_u64, prop::sample::select(KINDS)).prop_map(fault)
}
