//! The rights of all devices on one mapping.

use crate::Rights;
use rustix::mm::MprotectFlags;

/// One bit a device and right; the bit after the last device stands for the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Opened {
    read: u64,
    /// Subset of `read`.
    write: u64,
}

impl Opened {
    /// The same, but for one device's rights.
    pub(super) const fn with(self, index: usize, rights: Rights) -> Self {
        let bit = 1 << index;
        let (read, write) = (self.read & !bit, self.write & !bit);
        match rights {
            Rights::None => Self { read, write },
            Rights::Read => Self { read: read | bit, write },
            Rights::ReadWrite => Self { read: read | bit, write: write | bit },
        }
    }

    /// Whether a device may do what `needs` says.
    pub(super) const fn allows(self, index: usize, needs: Rights) -> bool {
        let bit = 1 << index;
        match needs {
            Rights::None => true,
            Rights::Read => self.read & bit != 0,
            Rights::ReadWrite => self.write & bit != 0,
        }
    }

    /// Whether anybody may do what `needs` says, and so this process too.
    pub(super) const fn allows_anybody(self, needs: Rights) -> bool {
        match needs {
            Rights::None => true,
            Rights::Read => self.read != 0,
            Rights::ReadWrite => self.write != 0,
        }
    }

    /// What this process must be able to do so that every device can do its part.
    pub(super) fn protection(self) -> MprotectFlags {
        let mut flags = MprotectFlags::empty();
        flags.set(MprotectFlags::READ, self.read != 0);
        flags.set(MprotectFlags::WRITE, self.write != 0);
        flags
    }
}
