//! What streams share, so that many of them cost little more than one.
//!
//! An event may carry a plan of megabytes. Those who follow its job and hardly read would each
//! hold the text of it until they have taken it; here they hold the same one. And they do not all
//! read the log at once: while it is read and made text of, an event takes several times its size.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use annals_tasks_sdk::JobId;
use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Texts below this size are made for each who wants them, in bytes.
pub(super) const LARGE: usize = 64 << 10;

/// So many streams read the log at the same time.
const READING: usize = 16;

/// What streams share.
#[derive(Debug)]
pub(super) struct Streams {
    reading: Semaphore,
    pub(super) texts: SharedTexts,
}

impl Default for Streams {
    fn default() -> Self {
        Self { reading: Semaphore::new(READING), texts: SharedTexts::default() }
    }
}

impl Streams {
    /// Waits for a turn to read, which ends when this is dropped. Nobody waits for a client, or
    /// for something to happen, while it is held.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.reading.acquire().await.ok()
    }
}

/// Which text it is: that of an event, among those of its job or of all jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) job: JobId,
    pub(super) seq: u64,
    pub(super) view: View,
}

/// In which stream an event stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum View {
    /// In that of its job.
    Job,
    /// In that of the whole log.
    Log,
}

/// The large texts that somebody holds.
#[derive(Debug, Default)]
pub(super) struct SharedTexts(Mutex<HashMap<Key, Weak<Text>>>);

#[derive(Debug)]
struct Text(String);

impl SharedTexts {
    /// The text of an event, made by `make` unless somebody holds it. That may happen more than
    /// once at the same time; later ones hold the same.
    pub(super) fn get(&self, key: Key, make: impl FnOnce() -> String) -> Bytes {
        if let Some(text) = self.held(key) {
            return text.bytes();
        }
        let text = make();
        if text.len() < LARGE {
            return Bytes::from(text);
        }
        let text = Arc::new(Text(text));
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|_, text| text.strong_count() > 0);
        held.insert(key, Arc::downgrade(&text));
        drop(held);
        text.bytes()
    }

    fn held(&self, key: Key) -> Option<Arc<Text>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key)?.upgrade()
    }
}

impl Text {
    fn bytes(self: Arc<Self>) -> Bytes {
        Bytes::from_owner(Owner(self))
    }
}

struct Owner(Arc<Text>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.0.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_text_is_made_once_for_as_long_as_somebody_holds_it() {
        let (texts, mut count) = (SharedTexts::default(), 0);
        let mut get = |seq, length| {
            let key = Key { job: JobId::from_u128(1), seq, view: View::Job };
            let text = texts.get(key, || {
                count += 1;
                "x".repeat(length)
            });
            (text, count)
        };
        let (first, _) = get(1, LARGE);
        let (second, count) = get(1, LARGE);
        assert_eq!((count, first.as_ptr()), (1, second.as_ptr()));
        let part = second.slice(5..10);
        drop((first, second));
        assert_eq!(get(1, LARGE).1, 1, "a part of it is held");
        drop(part);
        assert_eq!(get(1, LARGE).1, 2);
        assert_eq!((get(2, 10).1, get(2, 10).1), (3, 4));
        get(3, LARGE);
        assert_eq!(texts.0.lock().unwrap().len(), 1, "what nobody holds is forgotten");
    }
}
