//! A connection's bytes, with a note of each that moves.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::watch::Watch;

/// A peer that goes on sending after the last answer is read so many bytes from.
const LINGER_MAX: usize = 1 << 20;

/// Tells the [`Watch`] what is read and written, and reads on for a while behind the last answer.
#[derive(Debug)]
pub(super) struct Guarded<S> {
    stream: S,
    watch: Arc<Watch>,
    shut: Shut,
}

/// How far the end of the connection is.
#[derive(Debug)]
enum Shut {
    Open,
    /// Nothing is sent any more; so much was read since.
    Sent {
        read: usize,
    },
}

impl<S> Guarded<S> {
    pub(super) fn new(stream: S, watch: Arc<Watch>) -> Self {
        Self { stream, watch, shut: Shut::Open }
    }
}

impl<S: AsyncRead + Unpin> Guarded<S> {
    /// Reads until the peer ends, too, or has sent too much.
    fn poll_linger(&mut self, context: &mut Context<'_>, mut read: usize) -> Poll<()> {
        let mut bytes = [0; 4096];
        while read < LINGER_MAX {
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    read += buffer.filled().len();
                    self.shut = Shut::Sent { read };
                }
                // The peer has ended, one way or the other.
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }

    fn note_written(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Pending => self.watch.stuck(),
            Poll::Ready(_) => self.watch.sent(),
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        if buffer.filled().len() > before {
            self.watch.received();
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note_written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Shut::Open = self.shut {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
            self.shut = Shut::Sent { read: 0 };
            self.watch.closing();
        }
        let Shut::Sent { read } = self.shut else { return Poll::Ready(Ok(())) };
        self.poll_linger(context, read).map(Ok)
    }
}
