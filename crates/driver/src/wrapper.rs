//! What stands before a driver and is one itself: each verb is the inner driver's own, but where the wrapper says
//! otherwise. It adds nothing by itself.

use crate::{
    Address, Capture, DeviceId, DeviceInfo, DeviceMemory, Driver, Grant, HandleKind, HandleSpec, Link, RawEvent,
    RawHandle, RawStream, Result, Shareable, Verb,
};
use std::time::Duration;

macro_rules! verbs {
    (
        always { $($safe:ident: fn $safe_name:ident($($safe_value:ident: $safe_type:ty),*) -> $safe_answer:ty;)* }
        under_conditions { $($verb:ident: fn $name:ident($($value:ident: $type:ty),*) -> $answer:ty;)* }
    ) => {
        /// A [`Driver`] made of another. It says what comes around every call, and restates the verbs that it does
        /// more for; the rest are passed on.
        pub trait Wrapper: Send + Sync + std::fmt::Debug {
            /// The driver that it stands before.
            fn inner(&self) -> &dyn Driver;

            /// Makes a call of the inner driver's, whichever verb it is.
            ///
            /// # Errors
            /// The call's, or one in its place.
            fn around<T>(&self, _verb: Verb, call: impl FnOnce(&dyn Driver) -> Result<T>) -> Result<T> {
                call(self.inner())
            }

            $(
                #[doc = concat!("As [`Driver::", stringify!($safe_name), "`].\n\n# Errors\nAs there.")]
                fn $safe_name(&self, $($safe_value: $safe_type),*) -> Result<$safe_answer> {
                    self.around(Verb::$safe, |driver| driver.$safe_name($($safe_value),*))
                }
            )*
            $(
                #[doc = concat!(
                    "As [`Driver::", stringify!($name), "`].\n\n# Errors\nAs there.\n\n# Safety\n- As there."
                )]
                unsafe fn $name(&self, $($value: $type),*) -> Result<$answer> {
                    // SAFETY: the caller keeps this verb's conditions.
                    self.around(Verb::$verb, |driver| unsafe { driver.$name($($value),*) })
                }
            )*
        }

        impl<W: Wrapper> Driver for W {
            fn name(&self) -> &'static str {
                self.inner().name()
            }

            fn now_us(&self) -> u64 {
                self.inner().now_us()
            }

            $(fn $safe_name(&self, $($safe_value: $safe_type),*) -> Result<$safe_answer> {
                Wrapper::$safe_name(self, $($safe_value),*)
            })*
            $(unsafe fn $name(&self, $($value: $type),*) -> Result<$answer> {
                // SAFETY: the caller keeps this verb's conditions.
                unsafe { Wrapper::$name(self, $($value),*) }
            })*
        }
    };
}

verbs! {
    always {
        Devices: fn devices() -> Vec<DeviceInfo>;
        Memory: fn memory(device: DeviceId) -> DeviceMemory;
        LinkBetween: fn link(from: DeviceId, to: DeviceId) -> Link;
        Granularity: fn granularity(device: DeviceId, kind: HandleKind) -> u64;
        Reserve: fn reserve(bytes: u64, alignment: u64) -> Address;
        Create: fn create(spec: HandleSpec) -> RawHandle;
        Import: fn import(shareable: &Shareable, spec: HandleSpec) -> RawHandle;
    }
    under_conditions {
        Unreserve: fn unreserve(at: Address, bytes: u64) -> ();
        Release: fn release(handle: RawHandle) -> ();
        Map: fn map(at: Address, bytes: u64, handle: RawHandle) -> ();
        Unmap: fn unmap(at: Address, bytes: u64) -> ();
        SetRights: fn set_rights(at: Address, bytes: u64, grants: &[Grant]) -> ();
        Record: fn record(stream: RawStream) -> RawEvent;
        Wait: fn wait(stream: RawStream, event: RawEvent) -> ();
        IsDone: fn is_done(event: RawEvent) -> bool;
        Finish: fn finish(event: RawEvent, limit: Duration) -> ();
        Forget: fn forget(event: RawEvent) -> ();
        CaptureOf: fn capture(stream: RawStream) -> Capture;
        StreamIdentity: fn stream_identity(stream: RawStream) -> u64;
        Copy: fn copy(stream: RawStream, to: Address, from: Address, bytes: u64) -> ();
        Memset: fn memset(stream: RawStream, at: Address, bytes: u64, value: u8) -> ();
        Read: fn read(device: DeviceId, at: Address, into: &mut [u8]) -> ();
        Write: fn write(device: DeviceId, at: Address, from: &[u8]) -> ();
        Synchronize: fn synchronize(device: DeviceId) -> ();
        Export: fn export(handle: RawHandle, kind: HandleKind) -> Shareable;
    }
}
