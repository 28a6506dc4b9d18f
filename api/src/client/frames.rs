//! Server-sent events: from bytes to frames, as the HTML standard has it.

/// A frame larger than this ends the stream. The largest that a server sends holds a plan.
const FRAME_BYTES_MAX: usize = 128 << 20;

/// One event of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Its type; empty where it has none.
    pub(crate) kind: String,
    /// What to go on behind, once this has been taken; none where the frame does not say.
    pub(crate) id: Option<String>,
    /// What it carries, its lines joined.
    pub(crate) data: String,
}

/// Puts frames together of bytes, however they are cut. A frame that has not ended is none.
#[derive(Debug)]
pub(super) struct Frames {
    /// No frame has more bytes than this.
    limit: usize,
    /// Bytes of a line that has not ended.
    line: Vec<u8>,
    /// Whether the last byte was a carriage return, whose line feed may follow.
    after_return: bool,
    /// Whether a byte order mark may still come.
    has_begun: bool,
    frame: Frame,
    has_data: bool,
    size: usize,
}

/// A frame was larger than any that a server sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

impl Default for Frames {
    fn default() -> Self {
        Self::up_to(FRAME_BYTES_MAX)
    }
}

impl Frames {
    fn up_to(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_return: false,
            has_begun: false,
            frame: Frame::default(),
            has_data: false,
            size: 0,
        }
    }

    /// Takes bytes, and gives the frames that they complete.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, TooLarge> {
        let mut complete = Vec::new();
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let is_second_half = at == 0 && rest[0] == b'\n' && self.after_return;
            self.after_return = rest[at] == b'\r';
            if !is_second_half {
                self.grow(&rest[..at])?;
                complete.extend(self.end_of_line());
            }
            rest = &rest[at + 1..];
        }
        if !rest.is_empty() {
            self.after_return = false;
            self.grow(rest)?;
        }
        Ok(complete)
    }

    fn grow(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        self.size += bytes.len();
        if self.size > self.limit {
            return Err(TooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_of_line(&mut self) -> Option<Frame> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let mut line = &*line;
        if !std::mem::replace(&mut self.has_begun, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            return self.end_of_frame();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        self.field(field, value.strip_prefix(' ').unwrap_or(value));
        None
    }

    fn field(&mut self, name: &str, value: &str) {
        match name {
            "event" => value.clone_into(&mut self.frame.kind),
            "id" if !value.contains('\0') => self.frame.id = Some(value.into()),
            "data" => {
                if self.has_data {
                    self.frame.data.push('\n');
                }
                self.has_data = true;
                self.frame.data.push_str(value);
            }
            // A comment has no name; others mean nothing here.
            _ => {}
        }
    }

    fn end_of_frame(&mut self) -> Option<Frame> {
        self.size = 0;
        let frame = std::mem::take(&mut self.frame);
        let has_data = std::mem::take(&mut self.has_data);
        // What has neither data nor a type says nothing, such as the end of a comment.
        (has_data || !frame.kind.is_empty()).then_some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: &str, id: Option<&str>, data: &str) -> Frame {
        Frame { kind: kind.into(), id: id.map(Into::into), data: data.into() }
    }

    fn check(text: &str, frames: &[Frame]) {
        let bytes = text.as_bytes();
        assert_eq!(Frames::default().take(bytes).unwrap(), frames, "{text:?}");
        // However the bytes are cut, the frames are the same.
        for size in 1..=bytes.len() {
            let mut parser = Frames::default();
            let cut: Vec<Frame> =
                bytes.chunks(size).flat_map(|chunk| parser.take(chunk).unwrap()).collect();
            assert_eq!(cut, frames, "{text:?} in pieces of {size}");
        }
    }

    #[test]
    fn frames_are_read_as_the_standard_has_it() {
        check("data: a\n\n", &[frame("", None, "a")]);
        check("id: 7\nevent: end\ndata: {}\n\n", &[frame("end", Some("7"), "{}")]);
        check("data: a\ndata:b\ndata\ndata:  c\n\n", &[frame("", None, "a\nb\n\n c")]);
        check(
            "data: a\r\n\r\ndata: b\r\rdata: c\n\n",
            &[frame("", None, "a"), frame("", None, "b"), frame("", None, "c")],
        );
        check("\u{feff}data: a\n\n", &[frame("", None, "a")]);
        check("data: \u{feff}ü\n\n", &[frame("", None, "\u{feff}ü")]);
        check(": still here\n\n: again\n\ndata: a\n\n", &[frame("", None, "a")]);
        check("retry: 10\nunknown: x\nid\ndata: a\n\n", &[frame("", Some(""), "a")]);
        check("event: end\n\n", &[frame("end", None, "")]);
        check("id: a\0b\ndata: a\n\n", &[frame("", None, "a")]);
    }

    #[test]
    fn what_has_not_ended_is_no_frame() {
        check("data: a\n\nid: 2\ndata: b\n", &[frame("", None, "a")]);
        check("data: a", &[]);
        check("", &[]);
    }

    #[test]
    fn a_frame_without_end_is_refused() {
        let mut frames = Frames::up_to(10);
        assert_eq!(frames.take(b"data: 7890"), Ok(Vec::new()));
        assert_eq!(frames.take(b"1"), Err(TooLarge));
        let mut frames = Frames::up_to(10);
        assert_eq!(frames.take(b"id: 4\nid: 9"), Ok(Vec::new()), "lines add up");
        assert_eq!(frames.take(b"1"), Err(TooLarge));
        let mut frames = Frames::up_to(10);
        assert_eq!(frames.take(&b": comment\n\n".repeat(100)), Ok(Vec::new()));
    }
}
