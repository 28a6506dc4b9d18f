//! Films: how they are drawn, filtered, packed and unpacked. Nothing here knows of tasks.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub(crate) const WIDTH: usize = 320;
pub(crate) const HEIGHT: usize = 240;
const FRAME_MARK: &[u8] = b"FRAME\n";

/// A film in the YUV4MPEG2 format, in grey.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Film {
    pub(crate) path: PathBuf,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) frames: u64,
    header_bytes: u64,
}

/// One grey byte per pixel.
pub(crate) type Frame = Vec<u8>;

/// Writes a film: a ball that bounces before a slope of grey.
pub(crate) fn render(path: &Path, frames: u64) -> io::Result<()> {
    let unfinished = path.with_extension("unfinished");
    let mut file = io::BufWriter::new(File::create(&unfinished)?);
    writeln!(file, "YUV4MPEG2 W{WIDTH} H{HEIGHT} F25:1 Ip A1:1 Cmono")?;
    for number in 0..frames {
        file.write_all(FRAME_MARK)?;
        file.write_all(&draw(number))?;
    }
    file.into_inner()?.sync_all()?;
    // Under its own name there is a whole film or none, whenever the power goes.
    std::fs::rename(unfinished, path)
}

fn draw(number: u64) -> Frame {
    let bounce = |speed: u64, span: usize| {
        let span = span as u64 - 48;
        let way = number * speed % (2 * span);
        24 + if way < span { way } else { 2 * span - way }
    };
    let (ball_x, ball_y) = (bounce(5, WIDTH), bounce(3, HEIGHT));
    let pixel = |place: usize| {
        let (x, y) = (place % WIDTH, place / WIDTH);
        let near = ball_x.abs_diff(x as u64).pow(2) + ball_y.abs_diff(y as u64).pow(2) < 400;
        if near { 250 } else { u8::try_from(40 + (y / 16) * 8).unwrap_or(u8::MAX) }
    };
    (0..WIDTH * HEIGHT).map(pixel).collect()
}

impl Film {
    /// Reads what the file says of itself.
    pub(crate) fn probe(path: PathBuf) -> io::Result<Self> {
        let mut file = File::open(&path)?;
        let mut head = [0; 128];
        let read = file.read(&mut head)?;
        let end = head[..read].iter().position(|byte| *byte == b'\n');
        let end = end.ok_or_else(|| broken("the film has no header"))?;
        let header = String::from_utf8_lossy(&head[..end]);
        let number = |letter: char| {
            let word = header.split(' ').skip(1).find_map(|word| word.strip_prefix(letter));
            word.and_then(|word| word.parse().ok()).ok_or_else(|| broken("the film has no size"))
        };
        let (width, height) = (number('W')?, number('H')?);
        let header_bytes = end as u64 + 1;
        let frame_bytes = (FRAME_MARK.len() + width * height) as u64;
        let frames = (file.metadata()?.len() - header_bytes) / frame_bytes;
        Ok(Self { path, width, height, frames, header_bytes })
    }

    /// A file in the film's folder.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.path.with_file_name(name)
    }

    /// Reads one frame, the first being 0.
    pub(crate) fn frame(&self, number: u64) -> io::Result<Frame> {
        let mut frame = vec![0; self.width * self.height];
        let bytes = (FRAME_MARK.len() + frame.len()) as u64;
        let mut file = File::open(&self.path)?;
        let place = self.header_bytes + number * bytes + FRAME_MARK.len() as u64;
        file.seek(SeekFrom::Start(place))?;
        file.read_exact(&mut frame)?;
        Ok(frame)
    }

    /// One frame with its edges softened.
    pub(crate) fn soft(&self, number: u64) -> io::Result<Frame> {
        let frame = self.frame(number)?;
        let around = |at: usize, step: usize| {
            let before = at.saturating_sub(step);
            u32::from(frame[before]) + u32::from(frame[(at + step).min(frame.len() - 1)])
        };
        let mean = |at: usize| {
            let sum = 4 * u32::from(frame[at]) + around(at, 1) + around(at, self.width);
            u8::try_from(sum / 8).unwrap_or(u8::MAX)
        };
        Ok((0..frame.len()).map(mean).collect())
    }
}

/// How far a packed film is: everything before this is safe on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
}

/// Packs a film: of each frame what differs from the one before, in runs of equal bytes.
pub(crate) struct Packer<'a> {
    film: &'a Film,
    out: File,
    last: Frame,
    pub(crate) mark: Mark,
}

impl<'a> Packer<'a> {
    /// Goes on behind a mark. What an earlier packer wrote behind it is cut off.
    pub(crate) fn go_on(film: &'a Film, path: &Path, mark: Mark) -> io::Result<Self> {
        let mut out = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        out.set_len(mark.bytes)?;
        out.seek(SeekFrom::End(0))?;
        let last = match mark.frames.checked_sub(1) {
            Some(number) => film.soft(number)?,
            None => vec![0; film.width * film.height],
        };
        Ok(Self { film, out, last, mark })
    }

    /// Packs the next frame.
    pub(crate) fn frame(&mut self) -> io::Result<()> {
        let frame = self.film.soft(self.mark.frames)?;
        let difference = frame.iter().zip(&self.last).map(|(now, before)| now ^ before);
        let runs = runs(difference);
        self.out.write_all(&u32::try_from(runs.len()).unwrap_or(u32::MAX).to_le_bytes())?;
        self.out.write_all(&runs)?;
        self.mark.frames += 1;
        self.mark.bytes += 4 + runs.len() as u64;
        self.last = frame;
        Ok(())
    }

    /// Makes all frames up to the mark safe.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.out.sync_data()
    }
}

fn runs(bytes: impl Iterator<Item = u8>) -> Vec<u8> {
    let mut runs: Vec<u8> = Vec::new();
    for byte in bytes {
        match runs.as_mut_slice() {
            [.., count, value] if *value == byte && *count < u8::MAX => *count += 1,
            _ => runs.extend([1, byte]),
        }
    }
    runs
}

/// Unpacks a film, and says how many of its frames are those of the original, softened.
pub(crate) fn compare(film: &Film, packed: &Path) -> io::Result<u64> {
    let mut reader = io::BufReader::new(File::open(packed)?);
    let mut frame = vec![0; film.width * film.height];
    for number in 0..film.frames {
        let mut length = [0; 4];
        reader.read_exact(&mut length)?;
        let mut runs = vec![0; u32::from_le_bytes(length) as usize];
        reader.read_exact(&mut runs)?;
        let bytes = runs.chunks_exact(2).flat_map(|run| vec![run[1]; usize::from(run[0])]);
        frame.iter_mut().zip(bytes).for_each(|(byte, change)| *byte ^= change);
        if frame != film.soft(number)? {
            return Ok(number);
        }
    }
    let mut rest = Vec::new();
    if reader.read_to_end(&mut rest)? > 0 {
        return Err(broken("the packed film goes on behind its last frame"));
    }
    Ok(film.frames)
}

/// Writes every fourth pixel of a frame as a PPM picture.
pub(crate) fn thumbnail(film: &Film, number: u64, path: &Path) -> io::Result<()> {
    let frame = film.frame(number)?;
    let mut out = io::BufWriter::new(File::create(path)?);
    writeln!(out, "P6 {} {} 255", film.width / 4, film.height / 4)?;
    for line in frame.chunks_exact(film.width).step_by(4).take(film.height / 4) {
        for grey in line.iter().step_by(4).take(film.width / 4) {
            out.write_all(&[*grey; 3])?;
        }
    }
    out.into_inner()?.sync_all()
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
