//! Turns the driver's answers into refusals of the seam: the call's name, the code's name, and what
//! to do. It knows nothing of devices and sizes; the verbs add those.

use crate::{Error, ErrorKind, Result, Trouble, Verb};
use stitchpool_cuda_sys::*;

/// Makes one call of the table and names it in the refusal. It stands in an `unsafe` block, like
/// the call itself.
macro_rules! call {
    ($cuda:expr, $verb:expr, $function:ident($($argument:expr),* $(,)?)) => {
        $crate::cuda::failure::answer($verb, stringify!($function), ($cuda.$function)($($argument),*))
    };
}
pub(super) use call;

/// `Ok` for success; any other code as the refusal of `verb`.
#[inline]
pub(super) fn answer(verb: Verb, call: &'static str, code: CUresult) -> Result<()> {
    if code == CUDA_SUCCESS { Ok(()) } else { Err(refusal(verb, call, code)) }
}

#[cold]
pub(super) fn refusal(verb: Verb, call: &'static str, code: CUresult) -> Error {
    let kind = kind(verb, code);
    let name = code.name().unwrap_or("a code newer than this program");
    let remedy = remedy(verb, kind, code);
    let separator = if remedy.is_empty() { "" } else { "; " };
    let see = trouble(verb, code).map_or_else(String::new, |trouble| format!("; {}", trouble.see()));
    Error::new(verb, kind, format!("{call}: {name} ({}){separator}{remedy}{see}", code.0))
}

fn kind(verb: Verb, code: CUresult) -> ErrorKind {
    match code {
        // Before the first success of cuInit every refusal means that there is no driver to work with.
        _ if verb == Verb::Open => ErrorKind::Unavailable,
        // The driver has one code for two shortages: a reservation takes addresses, never memory.
        CUDA_ERROR_OUT_OF_MEMORY if verb == Verb::Reserve => ErrorKind::OutOfResources,
        CUDA_ERROR_OUT_OF_MEMORY => ErrorKind::OutOfMemory,
        CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES => ErrorKind::OutOfResources,
        CUDA_ERROR_INVALID_VALUE | CUDA_ERROR_INVALID_HANDLE => ErrorKind::InvalidValue,
        // Measured: so it answers to a descriptor of something else.
        CUDA_ERROR_UNKNOWN if verb == Verb::Import => ErrorKind::InvalidValue,
        CUDA_ERROR_INVALID_DEVICE => ErrorKind::InvalidDevice,
        // Measured: so it answers to rights for the CPU on device memory.
        CUDA_ERROR_NOT_SUPPORTED if verb == Verb::SetRights => ErrorKind::Unreachable,
        CUDA_ERROR_NOT_SUPPORTED => ErrorKind::NotSupported,
        CUDA_ERROR_NOT_PERMITTED => ErrorKind::NotPermitted,
        CUDA_ERROR_PEER_ACCESS_UNSUPPORTED | CUDA_ERROR_PEER_ACCESS_NOT_ENABLED => ErrorKind::Unreachable,
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
        | CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
        | CUDA_ERROR_STREAM_CAPTURE_MERGE
        | CUDA_ERROR_STREAM_CAPTURE_UNMATCHED
        | CUDA_ERROR_STREAM_CAPTURE_UNJOINED
        | CUDA_ERROR_STREAM_CAPTURE_ISOLATION
        | CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
        | CUDA_ERROR_CAPTURED_EVENT
        | CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD => ErrorKind::Capture,
        CUDA_ERROR_ILLEGAL_ADDRESS | CUDA_ERROR_INVALID_ADDRESS_SPACE | CUDA_ERROR_MISALIGNED_ADDRESS => {
            ErrorKind::IllegalAddress
        }
        CUDA_ERROR_TIMEOUT => ErrorKind::Timeout,
        CUDA_ERROR_DEINITIALIZED => ErrorKind::Deinitialized,
        CUDA_ERROR_NO_DEVICE | CUDA_ERROR_DEVICE_UNAVAILABLE | CUDA_ERROR_STUB_LIBRARY | CUDA_ERROR_NOT_INITIALIZED => {
            ErrorKind::Unavailable
        }
        _ => ErrorKind::Unknown,
    }
}

/// The usual trouble that only the driver's own code tells of.
fn trouble(verb: Verb, code: CUresult) -> Option<Trouble> {
    match code {
        CUDA_ERROR_NO_DEVICE => Some(Trouble::NoDevice),
        // So cuInit answers where a device file is missing or closed to this user, or a service does not run yet.
        CUDA_ERROR_UNKNOWN | CUDA_ERROR_OPERATING_SYSTEM | CUDA_ERROR_SYSTEM_NOT_READY if verb == Verb::Open => {
            Some(Trouble::NoDevice)
        }
        CUDA_ERROR_STUB_LIBRARY => Some(Trouble::NoLibrary),
        CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER
        | CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
        | CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE => Some(Trouble::OldDriver),
        CUDA_ERROR_INVALID_CONTEXT | CUDA_ERROR_CONTEXT_IS_DESTROYED | CUDA_ERROR_INVALID_HANDLE => {
            Some(Trouble::WrongContext)
        }
        _ => None,
    }
}

fn remedy(verb: Verb, kind: ErrorKind, code: CUresult) -> &'static str {
    match (kind, code) {
        (_, CUDA_ERROR_NO_DEVICE) => {
            "no GPU is visible: check CUDA_VISIBLE_DEVICES and the device files, or use the host driver"
        }
        (_, CUDA_ERROR_STUB_LIBRARY) => {
            "the toolkit's stub stands before the driver's library: take the stubs off the library path"
        }
        (_, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH) => {
            "the library and the kernel module are of different versions: restart, or install one version of both"
        }
        (ErrorKind::Unavailable, CUDA_ERROR_UNKNOWN | CUDA_ERROR_OPERATING_SYSTEM) => {
            "look whether /dev/nvidia-uvm is there and all of /dev/nvidia* are open to this user (nvidia-smi needs fewer)"
        }
        (_, CUDA_ERROR_SYSTEM_NOT_READY) => "GPUs behind an NVSwitch need the service nvidia-fabricmanager: start it",
        (_, CUDA_ERROR_DEVICE_UNAVAILABLE) => "another process holds the device for itself",
        (ErrorKind::Unavailable, _) => "check that the driver runs (nvidia-smi), or use the host driver",
        (ErrorKind::OutOfMemory, _) => "give memory of the device back, or ask for less",
        (ErrorKind::OutOfResources, _) => "ask for less, or give reservations back",
        (ErrorKind::InvalidValue, _) => match verb {
            Verb::Export => "a handle leaves the process only as the kind that it was created as",
            Verb::Import => "what is imported must come from an export of this driver",
            Verb::Reserve | Verb::Create => "the size must be whole granules, and not 0",
            Verb::Unreserve => "the range must be one whole reservation with nothing mapped in it",
            Verb::Map => "the range must be free, in one reservation, and begin at a granule",
            Verb::Unmap | Verb::SetRights => "the range must be whole mappings",
            _ => "",
        },
        (ErrorKind::Unreachable, _) => {
            "a place that is named cannot use this memory, or not in this way; ask link first"
        }
        (ErrorKind::NotPermitted, _) => {
            "this process may not: fabric handles need the IMEX service and a channel; file descriptors do not"
        }
        (ErrorKind::Capture, _) => "end the capture first, or use a stream that it does not touch",
        (ErrorKind::IllegalAddress, _) => "the device's context is lost: end the process",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn success_is_no_refusal() {
        assert_eq!(answer(Verb::Map, "cuMemMap", CUDA_SUCCESS), Ok(()));
    }

    #[test]
    fn a_refusal_names_the_verb_the_call_the_code_and_what_to_do() {
        let error = answer(Verb::Create, "cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY).unwrap_err();
        assert_eq!(error.kind, ErrorKind::OutOfMemory);
        let words = error.of(4096).on(crate::DeviceId(3)).to_string();
        for part in ["create", "4096 bytes", "device 3", "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY (2)", "ask for less"] {
            assert!(words.contains(part), "{part:?} is not in {words:?}");
        }
    }

    #[test]
    fn each_code_that_policy_decides_by_has_its_kind() {
        for (code, kind) in [
            (CUDA_ERROR_INVALID_VALUE, ErrorKind::InvalidValue),
            (CUDA_ERROR_INVALID_DEVICE, ErrorKind::InvalidDevice),
            (CUDA_ERROR_NOT_SUPPORTED, ErrorKind::NotSupported),
            (CUDA_ERROR_NOT_PERMITTED, ErrorKind::NotPermitted),
            (CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, ErrorKind::Unreachable),
            (CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, ErrorKind::Capture),
            (CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, ErrorKind::Capture),
            (CUDA_ERROR_ILLEGAL_ADDRESS, ErrorKind::IllegalAddress),
            (CUDA_ERROR_TIMEOUT, ErrorKind::Timeout),
            (CUDA_ERROR_DEINITIALIZED, ErrorKind::Deinitialized),
            (CUDA_ERROR_LAUNCH_FAILED, ErrorKind::Unknown),
        ] {
            assert_eq!(refusal(Verb::Create, "cuMemCreate", code).kind, kind, "{code:?}");
        }
    }

    #[test]
    fn a_reservation_that_fails_for_want_of_addresses_is_no_want_of_memory() {
        assert_eq!(
            refusal(Verb::Reserve, "cuMemAddressReserve", CUDA_ERROR_OUT_OF_MEMORY).kind,
            ErrorKind::OutOfResources
        );
    }

    #[test]
    fn rights_that_no_link_can_carry_are_unreachable_and_not_merely_unsupported() {
        assert_eq!(refusal(Verb::SetRights, "cuMemSetAccess", CUDA_ERROR_NOT_SUPPORTED).kind, ErrorKind::Unreachable);
        assert_eq!(refusal(Verb::Map, "cuMemMap", CUDA_ERROR_NOT_SUPPORTED).kind, ErrorKind::NotSupported);
    }

    #[test]
    fn a_descriptor_of_something_else_is_an_invalid_value_and_said_to_be() {
        let error = refusal(Verb::Import, "cuMemImportFromShareableHandle", CUDA_ERROR_UNKNOWN);
        assert_eq!(error.kind, ErrorKind::InvalidValue);
        assert!(error.detail.contains("what is imported must come from an export"), "{}", error.detail);
    }

    #[test]
    fn whatever_stops_the_driver_from_opening_makes_it_unavailable() {
        for (code, trouble) in [
            (CUDA_ERROR_NO_DEVICE, Trouble::NoDevice),
            (CUDA_ERROR_OPERATING_SYSTEM, Trouble::NoDevice),
            (CUDA_ERROR_UNKNOWN, Trouble::NoDevice),
            (CUDA_ERROR_SYSTEM_NOT_READY, Trouble::NoDevice),
            (CUDA_ERROR_STUB_LIBRARY, Trouble::NoLibrary),
            (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, Trouble::OldDriver),
        ] {
            let error = refusal(Verb::Open, "cuInit", code);
            assert_eq!(error.kind, ErrorKind::Unavailable, "{code:?}");
            assert!(error.detail.matches("; ").count() >= 2, "no remedy in {:?}", error.detail);
            assert!(error.detail.ends_with(trouble.see()), "{:?}", error.detail);
        }
    }

    #[test]
    fn a_code_that_nobody_knows_yet_keeps_its_number() {
        let error = refusal(Verb::Map, "cuMemMap", CUresult(4711));
        assert_eq!(error.kind, ErrorKind::Unknown);
        assert!(error.detail.contains("4711"), "{}", error.detail);
    }
}
