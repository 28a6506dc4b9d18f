//! Frames: a length of four bytes, and so many bytes of JSON.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt};

/// A longer one is refused: values are limited to less.
pub(super) const FRAME_MAX: usize = 64 << 20;

const HEADER: usize = 4;

/// A value as a frame; none where it is too long for one.
pub(super) fn encode<T: Serialize>(value: &T) -> io::Result<Option<Vec<u8>>> {
    let mut frame = vec![0; HEADER];
    serde_json::to_writer(&mut frame, value)?;
    let body = frame.len() - HEADER;
    let length = u32::try_from(body).ok().filter(|_| body <= FRAME_MAX);
    Ok(length.map(|length| {
        frame[..HEADER].copy_from_slice(&length.to_le_bytes());
        frame
    }))
}

/// Reads a frame; none where the other side is gone.
pub(super) fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut header = [0; HEADER];
    match from.read_exact(&mut header) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let mut body = vec![0; length(header)?];
    match from.read_exact(&mut body) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    Ok(Some(serde_json::from_slice(&body)?))
}

/// Writes a frame.
pub(super) fn write(mut to: &UnixStream, frame: &[u8]) -> io::Result<()> {
    to.write_all(frame)
}

fn length(header: [u8; HEADER]) -> io::Result<usize> {
    let length = u32::from_le_bytes(header) as usize;
    if length <= FRAME_MAX {
        return Ok(length);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"))
}

/// Frames as they come in.
pub(super) struct Frames<R> {
    from: R,
    received: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, received: Vec::new() }
    }

    /// The next one; none where the other side is gone. May be dropped half-way: what was read of
    /// it stays.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some(frame) = self.take()? {
                return Ok(Some(frame));
            }
            if self.from.read_buf(&mut self.received).await? == 0 {
                return Ok(None);
            }
        }
    }

    fn take<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some(header) = self.received.first_chunk::<HEADER>() else { return Ok(None) };
        let end = HEADER + length(*header)?;
        let Some(body) = self.received.get(HEADER..end) else { return Ok(None) };
        let value = serde_json::from_slice(body)?;
        self.received.drain(..end);
        Ok(Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_come_out_whole_however_they_come_in() {
        let texts = ["", "one", "two\nlines"];
        let frames = texts.map(|text| encode(&text).unwrap().unwrap()).concat();
        for step in 1..=frames.len() {
            let mut mock = tokio_chunks(&frames, step);
            for text in texts {
                assert_eq!(mock.next::<String>().await.unwrap().as_deref(), Some(text));
            }
            assert!(mock.next::<String>().await.unwrap().is_none());
        }
        let mut from = &frames[..];
        for text in texts {
            assert_eq!(read::<String>(&mut from).unwrap().as_deref(), Some(text));
        }
        assert!(read::<String>(&mut from).unwrap().is_none());
    }

    #[tokio::test]
    async fn what_is_no_frame_is_refused() {
        let huge = [0xff_u8; 8];
        assert!(Frames::new(&huge[..]).next::<String>().await.is_err());
        assert!(read::<String>(&mut &huge[..]).is_err());
        let nonsense = [1, 0, 0, 0, b'x'];
        assert!(Frames::new(&nonsense[..]).next::<String>().await.is_err());
        assert!(encode(&"x".repeat(FRAME_MAX)).unwrap().is_none());
    }

    /// The bytes in pieces of this size.
    fn tokio_chunks(bytes: &[u8], step: usize) -> Frames<impl AsyncRead + Unpin> {
        let (mut there, here) = tokio::io::duplex(step);
        let bytes = bytes.to_vec();
        tokio::spawn(async move {
            tokio::io::AsyncWriteExt::write_all(&mut there, &bytes).await.expect("it is read");
        });
        Frames::new(here)
    }
}
