//! The verbs of the seam as values, for errors, faults and meters.

use std::fmt;

macro_rules! verbs {
    ($($name:ident = $word:literal),* $(,)?) => {
        /// One verb of [`Driver`](crate::Driver).
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Verb { $(#[doc = concat!("`", $word, "`")] $name),* }

        impl Verb {
            /// Every verb, in the order of the trait.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The verb's word, as the trait spells it.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }
        }
    };
}

verbs! {
    Open = "open", Devices = "devices", Memory = "memory", LinkBetween = "link", Granularity = "granularity",
    Reserve = "reserve", Unreserve = "unreserve", Create = "create", Release = "release",
    Map = "map", Unmap = "unmap", SetRights = "set_rights",
    Record = "record", Wait = "wait", IsDone = "is_done", Finish = "finish", Forget = "forget",
    CaptureOf = "capture", StreamIdentity = "stream_identity", Copy = "copy",
    Memset = "memset", Read = "read", Write = "write", Synchronize = "synchronize", Export = "export", Import = "import",
    Kernel = "kernel",
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
