//! Cases at exact capacity: a story that needs N chunks passes with N and fails cleanly with one less.

use crate::rig::{Rig, Shape, shortage};
use stitchpool::driver::Address;
use stitchpool::{Error, Request};

/// A story over a rig: `Err` names the request that was refused.
pub(crate) type Ending = Result<(), Box<Refused>>;

/// A request that was refused, and how.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) request: Request,
    pub(crate) error: Error,
}

/// Allocates in a story.
pub(crate) fn alloc(rig: &Rig, request: Request) -> Result<Address, Box<Refused>> {
    rig.ask(&request).map_err(|error| Box::new(Refused { request, error }))
}

/// Tells the story with `shape.chunks` chunks, where it must pass; and with one less, where a request
/// must be short of memory, must leave all as it was, and must succeed once the other blocks are gone.
pub(crate) fn needs_exactly(shape: &Shape, story: impl Fn(&Rig) -> Ending) {
    let enough = shape.clone().build();
    if let Err(refused) = story(&enough) {
        panic!("{} chunks are enough for {:?}: {}", shape.chunks, refused.request, refused.error);
    }
    drop(enough);
    fails_with(&Shape { chunks: shape.chunks - 1, ..shape.clone() }, story);
}

/// Tells the story where memory must run short. Gives the rig as it was left.
pub(crate) fn fails_with(shape: &Shape, story: impl Fn(&Rig) -> Ending) {
    let rig = shape.clone().build();
    let Err(refused) = story(&rig) else { panic!("{} chunks cannot be enough", shape.chunks) };
    let shortage = shortage::<()>(Err(refused.error));
    assert!(shortage.missing_bytes > 0 && shortage.missing_bytes <= shortage.asked_bytes, "{shortage}");
    rig.free_all();
    if refused.request.bytes <= shape.chunks * shape.chunk_bytes {
        rig.ask(&refused.request).unwrap_or_else(|error| panic!("with all blocks gone: {error}"));
    }
}
