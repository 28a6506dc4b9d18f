//! How many connections there may be, and which give way to others.
//!
//! Who connects and says nothing must not keep others out. So where there are too many, those go
//! that have kept the server waiting longest; connections that it works for stay.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::watch::{Order, Watch};

/// Where room must be made, this share of the connections goes at once: to look for them takes
/// time, which many that come would otherwise cost each time.
const SHARE_THAT_GOES: usize = 16;

/// How many connections there may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// In all.
    pub(super) all: usize,
    /// From one address.
    pub(super) of_one: usize,
}

/// All connections that are open.
#[derive(Debug)]
pub(super) struct Peers {
    room: Room,
    table: Mutex<Table>,
    left: Notify,
    /// How many there are, for whoever watches.
    open: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Table {
    connections: HashMap<u64, Connection>,
    of_one: HashMap<IpAddr, usize>,
    next: u64,
}

#[derive(Debug)]
struct Connection {
    peer: IpAddr,
    watch: Arc<Watch>,
}

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    peers: Arc<Peers>,
    number: u64,
}

impl Peers {
    pub(super) fn new(room: Room) -> Self {
        Self { room, table: Mutex::default(), left: Notify::new(), open: Arc::default() }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection in, if need be in the place of others. None where all that are there
    /// are being worked for.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr, watch: &Arc<Watch>) -> Option<Seat> {
        let peer = peer.to_canonical();
        let mut table = self.table();
        if table.count(peer) >= self.room.of_one {
            table.send_away(self.room.of_one, |connection| connection.peer == peer);
        }
        if table.connections.len() >= self.room.all {
            table.send_away(self.room.all, |_| true);
        }
        if table.count(peer) >= self.room.of_one || table.connections.len() >= self.room.all {
            return None;
        }
        let number = table.next;
        table.next += 1;
        *table.of_one.entry(peer).or_default() += 1;
        table.connections.insert(number, Connection { peer, watch: Arc::clone(watch) });
        self.open.fetch_add(1, Ordering::Relaxed);
        Some(Seat { peers: Arc::clone(self), number })
    }

    /// Makes some room, if that is possible.
    pub(super) fn make_room(&self) {
        let mut table = self.table();
        let all = table.connections.len();
        table.send_away(all, |_| true);
    }

    /// Has all connections end after the requests that are being worked on.
    pub(super) fn finish(&self) {
        for connection in self.table().connections.values() {
            connection.watch.tell(Order::Finish);
        }
    }

    /// Waits until no connection is left.
    pub(super) async fn are_gone(&self) {
        loop {
            let left = self.left.notified();
            if self.table().connections.is_empty() {
                return;
            }
            left.await;
        }
    }

    /// How many connections are open, those that were sent away and are not gone yet counted.
    pub(super) fn open(&self) -> &Arc<AtomicUsize> {
        &self.open
    }
}

impl Table {
    fn count(&self, peer: IpAddr) -> usize {
        self.of_one.get(&peer).copied().unwrap_or(0)
    }

    /// Ends some of the connections that `may_go`: those that have kept the server waiting
    /// longest.
    fn send_away(&mut self, room: usize, may_go: impl Fn(&Connection) -> bool) {
        let candidates = self.connections.iter().filter(|(_, connection)| may_go(connection));
        let waiting = candidates
            .filter_map(|(number, connection)| Some((connection.watch.waiting_since()?, *number)));
        let mut waiting: Vec<(Instant, u64)> = waiting.collect();
        waiting.sort_unstable();
        for (_, number) in waiting.into_iter().take((room / SHARE_THAT_GOES).max(1)) {
            if let Some(connection) = self.remove(number) {
                connection.watch.tell(Order::Leave);
            }
        }
    }

    fn remove(&mut self, number: u64) -> Option<Connection> {
        let connection = self.connections.remove(&number)?;
        if let Some(count) = self.of_one.get_mut(&connection.peer) {
            *count -= 1;
            if *count == 0 {
                self.of_one.remove(&connection.peer);
            }
        }
        Some(connection)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // One that was sent away is not there any more.
        self.peers.table().remove(self.number);
        self.peers.open.fetch_sub(1, Ordering::Relaxed);
        self.peers.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::task::Waker;
    use std::time::Duration;

    use super::super::watch::{Look, Patience};

    const HOUR: Duration = Duration::from_hours(1);
    const PATIENCE: Patience = Patience { header: HOUR, body: HOUR, idle: HOUR, write: HOUR };

    fn peer(last: u8) -> IpAddr {
        Ipv4Addr::new(127, 0, 0, last).into()
    }

    /// A connection that has waited since now, and a moment after it.
    async fn waiting() -> Arc<Watch> {
        let watch = Arc::new(Watch::new());
        tokio::time::advance(Duration::from_millis(1)).await;
        watch
    }

    async fn working() -> Arc<Watch> {
        let watch = waiting().await;
        watch.begin();
        watch
    }

    fn was_sent_away(watch: &Watch) -> bool {
        watch.look(&PATIENCE, Waker::noop()) == Look::Ordered(Order::Leave)
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_waited_longest_gives_way() {
        let peers = Arc::new(Peers::new(Room { all: 3, of_one: 3 }));
        let (busy, older, newer) = (working().await, waiting().await, waiting().await);
        let seats: Vec<_> =
            [&newer, &busy, &older].map(|watch| peers.admit(peer(1), watch).unwrap()).into();
        let last = working().await;
        let seat = peers.admit(peer(2), &last).expect("there is one that can go");
        assert!(was_sent_away(&older) && !was_sent_away(&newer) && !was_sent_away(&busy));
        assert_eq!(peers.table().connections.len(), 3);

        let last = working().await;
        let _seat = peers.admit(peer(2), &last).expect("there is another");
        assert!(was_sent_away(&newer));
        assert!(peers.admit(peer(2), &waiting().await).is_none(), "all are worked for");
        drop(seat);
        assert!(peers.admit(peer(2), &waiting().await).is_some());
        drop(seats);
    }

    #[tokio::test(start_paused = true)]
    async fn one_address_has_its_share_and_others_the_rest() {
        let peers = Arc::new(Peers::new(Room { all: 3, of_one: 2 }));
        let other = waiting().await;
        let _other = peers.admit(peer(9), &other).unwrap();
        let mine = [waiting().await, waiting().await];
        let _mine = mine.each_ref().map(|watch| peers.admit(peer(1), watch).unwrap());
        let third = waiting().await;
        let _third = peers.admit(peer(1), &third).unwrap();
        assert!(was_sent_away(&mine[0]), "its own gives way");
        assert!(!was_sent_away(&other), "though the other's has waited longer");
        assert_eq!(peers.table().connections.len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_are_gone_leave_no_trace() {
        let peers = Arc::new(Peers::new(Room { all: 64, of_one: 64 }));
        for round in 0..100 {
            let watch = waiting().await;
            let seat = peers.admit(peer(round), &watch).unwrap();
            if round % 2 == 0 {
                peers.make_room();
                assert!(was_sent_away(&watch));
            }
            drop(seat);
        }
        assert_eq!(peers.open().load(Ordering::Relaxed), 0);
        assert!(peers.table().connections.is_empty());
        assert!(peers.table().of_one.is_empty());
        peers.are_gone().await;
    }
}
