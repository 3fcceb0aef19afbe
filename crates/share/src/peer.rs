//! The process at the other end of a socket: who it is, and whether it still lives.

use crate::error::{Error, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{PidfdFlags, pidfd_open};

/// Another process, as the system vouches for it.
#[derive(Debug)]
pub(crate) struct Peer {
    /// As this process sees it; 0 if it lies in a pid namespace that this one cannot see.
    pub(crate) pid: i32,
    uid: u32,
    /// Readable once the process is dead; none where the system would not give one.
    life: Option<OwnedFd>,
}

impl Peer {
    /// Who connected a socket, or listens there.
    pub(crate) fn of(socket: impl AsFd) -> rustix::io::Result<Self> {
        let credentials = rustix::net::sockopt::socket_peercred(socket)?;
        let life = pidfd_open(credentials.pid, PidfdFlags::empty()).ok();
        Ok(Self { pid: credentials.pid.as_raw_pid(), uid: credentials.uid.as_raw(), life })
    }

    /// Refuses a process of another user.
    pub(crate) fn demand_same_user(&self) -> Result<()> {
        same_user(self.pid, self.uid, rustix::process::geteuid().as_raw())
    }

    pub(crate) const fn life(&self) -> Option<&OwnedFd> {
        self.life.as_ref()
    }
}

fn same_user(pid: i32, theirs: u32, ours: u32) -> Result<()> {
    if theirs == ours { Ok(()) } else { Err(Error::ForeignUser { pid, theirs, ours }) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn another_user_is_refused_and_named_and_root_is_another_user_too() {
        assert_eq!(same_user(7, 1000, 1000), Ok(()));
        for (theirs, ours) in [(0, 1000), (1000, 0), (1001, 1000)] {
            let refusal = same_user(7, theirs, ours).unwrap_err().to_string();
            assert!(refusal.contains(&format!("user {theirs}")) && refusal.contains("process 7"), "{refusal}");
        }
    }

    #[test]
    fn a_peer_of_this_process_is_this_process() {
        let (here, _there) = UnixStream::pair().unwrap();
        let peer = Peer::of(&here).unwrap();
        assert_eq!(peer.pid.unsigned_abs(), std::process::id());
        peer.demand_same_user().unwrap();
        assert!(peer.life().is_some());
    }
}
