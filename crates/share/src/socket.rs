//! Messages over a Unix socket that keeps their borders. It never waits longer than it is told to.

use crate::packet::{DESCRIPTORS_MAX, PACKET_BYTES_MAX, Packet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// What a look at a socket finds.
#[derive(Debug)]
pub(crate) enum Received {
    Packet(Packet),
    /// Nothing has come yet.
    Nothing,
    /// The other end is closed.
    End,
    /// Something that is no message of ours, in words.
    Garbage(String),
}

const CONTROL_BYTES: usize = rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX), ScmCredentials(1));

/// Sends a message at once. `AGAIN`: there is no room.
pub(crate) fn send(socket: impl AsFd, packet: &Packet) -> Result<(), Errno> {
    let descriptors: Vec<BorrowedFd<'_>> = packet.descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(Errno::MSGSIZE);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(&packet.bytes)], &mut control, flags).map(drop)
}

/// Takes the next message, if one has come.
pub(crate) fn receive(socket: impl AsFd) -> Result<Received, Errno> {
    let mut bytes = vec![0; PACKET_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let got = match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
        Ok(got) => got,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(Received::Nothing),
        Err(Errno::CONNRESET | Errno::PIPE) => return Ok(Received::End),
        Err(error) => return Err(error),
    };
    // Whatever came is owned from here on, and closed if it is not used.
    let descriptors = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
        _ => Vec::new(),
    });
    let descriptors: Vec<_> = descriptors.collect();
    if got.flags.contains(ReturnFlags::TRUNC) {
        return Ok(Received::Garbage(format!("it is longer than {PACKET_BYTES_MAX} bytes")));
    }
    if got.flags.contains(ReturnFlags::CTRUNC) {
        let why = "its descriptors did not fit: this process may have no more open (raise ulimit -n)";
        return Ok(Received::Garbage(why.into()));
    }
    if got.bytes == 0 && descriptors.is_empty() {
        return Ok(Received::End);
    }
    bytes.truncate(got.bytes);
    Ok(Received::Packet(Packet { bytes, descriptors }))
}

/// Waits until one of these can be read, or is closed, but not beyond `until`: which of them are.
pub(crate) fn await_any(these: &[BorrowedFd<'_>], until: Instant) -> Result<Vec<bool>, Errno> {
    let mut watched: Vec<PollFd<'_>> = these.iter().map(|&one| PollFd::from_borrowed_fd(one, PollFlags::IN)).collect();
    match poll(&mut watched, Some(&timespec(until.saturating_duration_since(Instant::now())))) {
        Ok(_) | Err(Errno::INTR) => Ok(watched.iter().map(|one| !one.revents().is_empty()).collect()),
        Err(error) => Err(error),
    }
}

/// Waits until a socket has room for a message, but not beyond `until`.
pub(crate) fn await_room(socket: impl AsFd, until: Instant) -> Result<(), Errno> {
    let mut watched = [PollFd::new(&socket, PollFlags::OUT)];
    match poll(&mut watched, Some(&timespec(until.saturating_duration_since(Instant::now())))) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}

fn timespec(wait: Duration) -> Timespec {
    // A day at a time is enough, and fits.
    let wait = wait.min(Duration::from_secs(86_400));
    Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) }
}
