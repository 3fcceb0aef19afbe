//! The usual troubles, each by the heading of its section in docs/src/troubleshooting.md. It only
//! names them: which refusal is which trouble is said where the refusal is made.

use crate::{Error, ErrorKind, Verb};

macro_rules! troubles {
    ($($(#[$doc:meta])* $name:ident = $heading:literal,)*) => {
        /// A trouble that many meet, with a section of the troubleshooting page that tells the way out.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Trouble { $($(#[$doc])* $name,)* }

        impl Trouble {
            /// All of them, in the order of the page.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The heading of its section.
            #[must_use]
            pub const fn heading(self) -> &'static str {
                match self { $(Self::$name => $heading),* }
            }

            /// Where to read on, in words that end an error's text.
            #[must_use]
            pub const fn see(self) -> &'static str {
                match self { $(Self::$name => concat!("see \"", $heading, "\" in docs/src/troubleshooting.md")),* }
            }
        }
    };
}

troubles! {
    /// The driver is there, and lists nothing.
    NoDevice = "No device in a container",
    /// There is no driver's library where the loader looks.
    NoLibrary = "libcuda cannot be found",
    /// The driver, or the card, knows no virtual memory management.
    OldDriver = "The driver is too old",
    /// A size or an address that is no multiple of the granularity.
    Rounding = "Invalid value: not a whole granule",
    /// A device that cannot reach the memory of another.
    NoPeer = "Invalid device: no peer access",
    /// Work that touched memory it had no rights on.
    NoRights = "Illegal address: rights are missing",
    /// A device reaches another, but not over a direct link.
    SlowPeer = "Copies between devices are slow",
    /// A device is full, and nobody seems to hold it.
    NotBack = "Memory is not back after the end of a process",
    /// A stream or an event that belongs to another context.
    WrongContext = "The wrong context",
}

impl Error {
    /// The usual trouble that this refusal is a sign of, as far as its kind and verb tell. Where the
    /// driver's own code tells more, the detail names the section already.
    #[must_use]
    pub const fn trouble(&self) -> Option<Trouble> {
        match (self.kind, self.verb) {
            (
                ErrorKind::InvalidValue,
                Verb::Reserve | Verb::Unreserve | Verb::Create | Verb::Map | Verb::Unmap | Verb::SetRights,
            ) => Some(Trouble::Rounding),
            (ErrorKind::Unreachable, _) | (ErrorKind::InvalidDevice, Verb::SetRights) => Some(Trouble::NoPeer),
            (ErrorKind::IllegalAddress, _) => Some(Trouble::NoRights),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_trouble_has_its_section_in_the_order_of_the_page() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/troubleshooting.md");
        let text = std::fs::read_to_string(path).unwrap();
        let sections: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        let headings: Vec<&str> = Trouble::ALL.iter().map(|trouble| trouble.heading()).collect();
        assert_eq!(sections, headings);
    }

    #[test]
    fn a_refusal_that_is_a_usual_trouble_names_its_section() {
        let said = |verb, kind| Error::new(verb, kind, "no").to_string();
        for (verb, kind, trouble) in [
            (Verb::Create, ErrorKind::InvalidValue, Trouble::Rounding),
            (Verb::SetRights, ErrorKind::InvalidDevice, Trouble::NoPeer),
            (Verb::SetRights, ErrorKind::Unreachable, Trouble::NoPeer),
            (Verb::Kernel, ErrorKind::IllegalAddress, Trouble::NoRights),
        ] {
            assert!(said(verb, kind).ends_with(trouble.see()), "{}", said(verb, kind));
        }
        assert!(said(Verb::Create, ErrorKind::OutOfMemory).ends_with("out of memory: no"));
    }
}
