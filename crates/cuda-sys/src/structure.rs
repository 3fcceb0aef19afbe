//! C structures, laid out as C lays them out.

use crate::{CUmemAccess_flags, CUmemAllocationHandleType, CUmemAllocationType, CUmemLocationType};
use std::ffi::{c_char, c_int, c_uchar, c_ushort, c_void};

/// How a structure lies in memory, for checks against other sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Structure {
    /// C's name of it.
    pub name: &'static str,
    /// Its size in bytes.
    pub size_bytes: usize,
    /// Its alignment in bytes.
    pub align_bytes: usize,
    /// Each field by C's name, with its offset and its size in bytes.
    pub fields: &'static [(&'static str, usize, usize)],
}

macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident as $c:literal {
        $($(#[$field_doc:meta])* $field:ident as $c_field:literal: $ty:ty,)*
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            #[repr(C)]
            pub struct $name { $($(#[$field_doc])* pub $field: $ty,)* }
        )*

        /// Every structure of this crate.
        pub const STRUCTURES: &[Structure] = &[$(Structure {
            name: $c,
            size_bytes: size_of::<$name>(),
            align_bytes: align_of::<$name>(),
            fields: &[$(($c_field, std::mem::offset_of!($name, $field), size_of::<$ty>())),*],
        }),*];
    };
}

structures! {
    /// A place for memory, or whose access is meant.
    CUmemLocation as "CUmemLocation" {
        /// What kind of place.
        kind as "type": CUmemLocationType,
        /// A device's number, or a NUMA node's.
        id as "id": c_int,
    }

    /// Details of an allocation, unnamed in C.
    CUmemAllocationFlags as "__typeof__(((CUmemAllocationProp *)0)->allocFlags)" {
        /// Compressible memory, if not 0.
        compressionType as "compressionType": c_uchar,
        /// Open to other devices on the bus, if not 0.
        gpuDirectRDMACapable as "gpuDirectRDMACapable": c_uchar,
        /// Bits of further uses.
        usage as "usage": c_ushort,
        /// Zero.
        reserved as "reserved": [c_uchar; 4],
    }

    /// What to create.
    CUmemAllocationProp as "CUmemAllocationProp" {
        /// What kind of memory.
        kind as "type": CUmemAllocationType,
        /// How it may leave the process.
        requestedHandleTypes as "requestedHandleTypes": CUmemAllocationHandleType,
        /// Where it shall lie.
        location as "location": CUmemLocation,
        /// For Windows only; null.
        win32HandleMetaData as "win32HandleMetaData": *mut c_void,
        /// Details.
        allocFlags as "allocFlags": CUmemAllocationFlags,
    }

    /// Rights for one place.
    CUmemAccessDesc as "CUmemAccessDesc" {
        /// Who.
        location as "location": CUmemLocation,
        /// What it may do.
        flags as "flags": CUmemAccess_flags,
    }

    /// A device's identity.
    CUuuid as "CUuuid" {
        /// Sixteen bytes.
        bytes as "bytes": [c_char; 16],
    }

    /// A handle that other hosts of the fabric can import.
    CUmemFabricHandle as "CUmemFabricHandle" {
        /// Opaque bytes.
        data as "data": [c_uchar; 64],
    }
}
