//! Every driver call of an operation refused in turn, roll-backs included: F10, F16d and e, F32, F69.

use crate::rig::{CHUNKS, HERE, KIB, Rig, Shape, Stream};
use stitchpool::driver::{Address, DeviceId, ErrorKind, Verb};
use stitchpool::{Error, Placement, Request};

const THERE: DeviceId = DeviceId(1);
const KINDS: [ErrorKind; 3] = [ErrorKind::OutOfMemory, ErrorKind::InvalidValue, ErrorKind::Unknown];

/// Eight chunks in turn on two devices, open to both.
fn striped(rig: &Rig, stream: Stream) -> Request {
    let stripe_bytes = rig.shape.chunk_bytes;
    let placement = Placement::RoundRobin { devices: vec![HERE, THERE], stripe_bytes };
    Request::new(8 * stripe_bytes, stream.id).placed(placement).open_to(&[HERE, THERE])
}

/// What comes before the request whose calls are refused.
#[derive(Clone, Copy, Debug)]
enum Before {
    /// Nothing: all its memory is created.
    Nothing,
    /// All memory is another stream's, freed, and in use still: it is taken over behind a wait.
    InUse,
    /// All memory is another stream's, freed, and out of use.
    Idle,
}

/// Two devices of four chunks each, with what comes before. Gives the stream that asks.
fn f10_rig(chunk_bytes: u64, before: Before) -> (Rig, Stream) {
    let rig = Shape { devices: 2, ..Shape::exact(chunk_bytes, 4) }.build();
    let (other, stream) = (rig.stream(), rig.stream());
    if !matches!(before, Before::Nothing) {
        let block = rig.ask(&striped(&rig, other)).unwrap();
        rig.fill(other, block, 8 * chunk_bytes, 1);
        rig.verify(other, block, 8 * chunk_bytes, 1);
        rig.free(block);
    }
    if matches!(before, Before::Idle) {
        rig.done(other);
    }
    (rig, stream)
}

fn f10_use(rig: &Rig, stream: Stream, block: Address) {
    rig.fill(stream, block, 8 * rig.shape.chunk_bytes, 2);
    rig.verify(stream, block, 8 * rig.shape.chunk_bytes, 2);
    rig.assert_right();
}

/// What a refusal must not change.
fn picture(rig: &Rig) -> (Vec<String>, u64, u64, u64) {
    let ledger = rig.ledger();
    (rig.pool().pictures(), ledger.handles, ledger.mappings, rig.physical_bytes())
}

#[test]
fn f10_a_refusal_of_any_call_changes_nothing() {
    for (chunk_bytes, before) in [(4 * KIB, Before::Nothing), (64 * KIB, Before::InUse), (4 * KIB, Before::Idle)] {
        for kind in KINDS {
            for nth in 1.. {
                let (rig, stream) = f10_rig(chunk_bytes, before);
                let was = picture(&rig);
                rig.faulty.fail_any(nth, kind);
                let outcome = rig.ask(&striped(&rig, stream));
                if rig.faulty.failed() == 0 {
                    f10_use(&rig, stream, outcome.unwrap());
                    assert!(nth > 8 + 1, "{before:?}: eight maps and their rights at least, and not {nth} calls");
                    break;
                }
                rig.faulty.clear();
                if let Err(error) = &outcome {
                    assert_eq!(picture(&rig), was, "{before:?}, call {nth}: {error}");
                    assert!(error.to_string().contains("chosen to fail"), "the refusal is told: {error}");
                }
                let block = outcome.unwrap_or_else(|_| rig.ask(&striped(&rig, stream)).unwrap());
                f10_use(&rig, stream, block);
            }
        }
    }
}

#[test]
fn f10_a_refused_roll_back_costs_no_more_than_what_was_refused() {
    for before in [Before::Nothing, Before::InUse, Before::Idle] {
        for nth in 1.. {
            let (mut rig, stream) = f10_rig(4 * KIB, before);
            rig.scarred = true;
            rig.faulty.fail_all_from(nth, ErrorKind::Unknown);
            let outcome = rig.ask(&striped(&rig, stream));
            let failed = rig.faulty.failed();
            rig.faulty.clear();
            if let Ok(block) = outcome {
                rig.free(block);
            }
            let stats = rig.pool().stats();
            for device in [HERE, THERE] {
                let lost_bytes = stats.devices[usize::from(device.0)].holdings.quarantined_bytes;
                let left_bytes = 4 * rig.shape.chunk_bytes - lost_bytes;
                let request = Request::new(left_bytes, stream.id).placed(Placement::Home(device));
                if left_bytes > 0 {
                    rig.ask(&request).unwrap_or_else(|error| panic!("{before:?}, call {nth}, {device}: {error}"));
                }
            }
            if failed == 0 {
                break;
            }
        }
    }
}

#[test]
fn f10_a_refused_trim_leaves_what_was_refused_to_the_next() {
    for verb in [Verb::Unmap, Verb::Record, Verb::IsDone] {
        let (rig, stream) = f10_rig(4 * KIB, Before::Idle);
        let block = rig.take(stream, 0x1000);
        rig.free(block);
        rig.pool().trim();
        rig.host.run_all();
        rig.faulty.fail(verb, 1, ErrorKind::Unknown);
        let trimmed = rig.pool().trim();
        assert_eq!(trimmed.refusal.is_some(), verb == Verb::Unmap, "{trimmed:?}");
        rig.assert_sound();
        rig.host.run_all();
        let again = rig.pool().trim();
        assert_eq!((again.refusal, again.waiting_bytes, rig.physical_bytes()), (None, 0, 0), "after {verb}");
    }
}

#[test]
fn f10_a_handle_that_cannot_be_released_is_out_of_the_count() {
    let mut rig = Shape::exact(4 * KIB, 4).build();
    rig.scarred = true;
    let stream = rig.stream();
    rig.free(rig.take(stream, 16 * KIB));
    rig.faulty.fail(Verb::Release, 1, ErrorKind::Unknown);
    rig.pool().trim_and_wait().unwrap();
    let holdings = rig.figures().holdings;
    assert_eq!((holdings.quarantined_bytes, holdings.physical_bytes), (4 * KIB, 0));
    let shortage = rig.shortage(stream, 16 * KIB);
    assert_eq!(shortage.devices[0].quarantined_bytes, 4 * KIB);
    rig.take(stream, 12 * KIB);
}

#[test]
fn f69_the_first_refusal_is_the_one_that_is_told() {
    let (mut rig, stream) = f10_rig(4 * KIB, Before::Nothing);
    rig.scarred = true;
    rig.faulty.fail(Verb::SetRights, 1, ErrorKind::NotPermitted);
    rig.faulty.fail(Verb::Unmap, 1, ErrorKind::InvalidValue);
    rig.faulty.fail(Verb::Release, 1, ErrorKind::Unknown);
    match rig.ask(&striped(&rig, stream)) {
        Err(Error::Driver(error)) => assert_eq!((error.verb, error.kind), (Verb::SetRights, ErrorKind::NotPermitted)),
        other => panic!("the first refusal must be told, and not {other:?}"),
    }
}

#[test]
fn f69_a_shortage_is_told_as_such_whatever_else_is_refused() {
    let rig = Shape::exact(4 * KIB, 4).build();
    let (stream, _other) = (rig.stream(), rig.stream());
    rig.take(stream, 16 * KIB);
    rig.faulty.fail(Verb::Memory, 1, ErrorKind::InvalidValue);
    let shortage = rig.shortage(stream, 4 * KIB);
    assert!(shortage.to_string().starts_with("out of memory"), "{shortage}");
    assert_eq!(shortage.devices[0].device_free_bytes, None, "what the driver would not tell is not invented");
}

#[test]
fn f16e_a_refused_reservation_owns_no_address() {
    for chunk_bytes in CHUNKS {
        let rig = Shape::exact(chunk_bytes, 4).build();
        for nth in [1, 2] {
            // The pool asks for less where much is refused.
            rig.faulty.fail(Verb::Reserve, nth, ErrorKind::OutOfResources);
            drop(rig.another_pool());
        }
        rig.faulty.clear();
        let unreserved = rig.faulty.calls(Verb::Unreserve);
        rig.faulty.arm(stitchpool::driver::Fault {
            verb: Some(Verb::Reserve),
            nth: 1,
            lasting: true,
            kind: ErrorKind::OutOfResources,
        });
        let refused = stitchpool::Pool::new(rig.faulty.clone(), rig.shape.settings.clone());
        assert!(matches!(refused, Err(Error::Driver(error)) if error.kind == ErrorKind::OutOfResources));
        assert_eq!(rig.faulty.calls(Verb::Unreserve), unreserved, "an address that was never had is not given back");
    }
}

#[test]
fn f16e_a_pool_takes_the_addresses_there_are() {
    // Somebody has nearly all of them.
    let shape = Shape { address_space_bytes: 512 * 4 * KIB * 70, ..Shape::exact(4 * KIB, 16) };
    let rig = shape.build();
    let small = rig.another_pool();
    let raw = rig.stream().raw;
    let stream = small.register(raw).unwrap();
    let blocks: Vec<_> = (0..16).map(|_| small.alloc(&Request::new(4 * KIB, stream)).unwrap()).collect();
    blocks.into_iter().for_each(|block| small.free(block.address).unwrap());
}
