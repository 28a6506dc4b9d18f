//! A descriptor that goes over a socket along with bytes.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Sends the beginning of some bytes, and a descriptor with it. Gives how many went.
pub(crate) fn send(socket: &UnixStream, bytes: &[u8], descriptor: impl AsFd) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor.as_fd()];
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("there is no room for a descriptor"));
    }
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Receives bytes, and a descriptor if one came with them, which replaces one from before.
pub(crate) fn receive(
    socket: &UnixStream,
    bytes: &mut [u8],
    descriptor: &mut Option<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            *descriptor = descriptors.last();
        }
    }
    Ok(received.bytes)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_descriptor_arrives_with_its_bytes() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut one, other) = UnixStream::pair().unwrap();
        assert_eq!(send(&ours, b"here it is", other).unwrap(), 10);
        let (mut bytes, mut found) = ([0; 64], None);
        assert_eq!(receive(&theirs, &mut bytes, &mut found).unwrap(), 10);
        let mut found = UnixStream::from(found.expect("a descriptor"));
        one.write_all(b"x").unwrap();
        found.read_exact(&mut bytes[..1]).unwrap();
        assert_eq!(bytes[0], b'x');
        let mut none = None;
        (&ours).write_all(b"alone").unwrap();
        assert_eq!(receive(&theirs, &mut bytes, &mut none).unwrap(), 5);
        assert!(none.is_none());
        drop(ours);
        assert_eq!(receive(&theirs, &mut bytes, &mut none).unwrap(), 0);
    }
}
