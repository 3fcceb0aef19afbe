//! A second process that plays the same row: this test program once more, with a socket as its input.

use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::mem::MaybeUninit;
use std::process::{Command, Stdio};

/// Set in the child only: the granule of the rig that it is to play with.
const GRANULE: &str = "STITCHPOOL_TEST_CHILD_GRANULE";

pub(crate) struct Child {
    socket: OwnedFd,
    process: std::process::Child,
}

impl Child {
    /// Starts the test of this full name once more.
    pub(crate) fn start(test: &str, granule: u64) -> Self {
        let (socket, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new(program);
        command.args([test, "--exact", "--nocapture"]).env(GRANULE, granule.to_string());
        let process = command.stdin(Stdio::from(theirs)).stdout(Stdio::piped()).spawn().unwrap();
        Self { socket, process }
    }

    pub(crate) fn send(&self, descriptor: impl AsFd) {
        let descriptors = [descriptor.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(&self.socket, &[IoSlice::new(b"handle")], &mut control, SendFlags::NOSIGNAL).unwrap();
    }

    #[track_caller]
    pub(crate) fn demand_success(self) {
        let output = self.process.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "the child: {said}");
    }
}

/// The socket to the parent, iff this process is such a child.
pub(crate) fn socket() -> Option<OwnedFd> {
    std::env::var_os(GRANULE).map(|_| std::io::stdin().as_fd().try_clone_to_owned().unwrap())
}

pub(crate) fn granule() -> u64 {
    std::env::var(GRANULE).unwrap().parse().unwrap()
}

/// The descriptor that the parent sends.
pub(crate) fn receive(socket: &OwnedFd) -> OwnedFd {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 16];
    recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
    let received = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    received.unwrap()
}
