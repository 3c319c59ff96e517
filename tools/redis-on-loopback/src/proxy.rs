//! Simulates a network between a client and a server: it can be slow, cut, or lose data.
//!
//! Data lost on a connection are lost permanently: nothing passes on it any more in that direction,
//! because after a missing answer others would be mistaken for it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};
use tollgate_redis::Store;

/// The treatment of sent data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All data pass.
    Pass,
    /// Nothing passes. Data sent meanwhile arrive afterwards, as they would with TCP.
    BlackHole,
    /// Every connection is reset, including new ones.
    Reset,
    /// Connections stay open and new ones are accepted, but all data sent on them are lost.
    HalfOpen,
    /// The server receives the data, and its answers are lost.
    DropReplies,
    /// Every answer is delayed by this time.
    Delay(Duration),
    /// The messages of channels are lost; all else passes.
    DropMessages,
    /// The messages of channels arrive twice.
    DoubleMessages,
    /// The messages of channels arrive later by this time, and nothing waits for them.
    DelayMessages(Duration),
}

#[derive(Clone, Copy, Debug)]
struct Setting {
    mode: Mode,
    server: u16,
}

/// The network: a port that leads to a server. It ends on drop.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    setting: watch::Sender<Setting>,
    accepted: Arc<AtomicU64>,
    messages: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a network in front of the server of a port. Call it only inside a runtime.
    pub async fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mode = Mode::Pass;
        let (setting, watched) = watch::channel(Setting { mode, server });
        let accepted = Arc::new(AtomicU64::new(0));
        let messages = Arc::new(AtomicU64::new(0));
        let task = accept(
            listener,
            watched,
            Arc::clone(&accepted),
            Arc::clone(&messages),
        );
        let task = tokio::spawn(task);
        Self {
            port,
            setting,
            accepted,
            messages,
            task,
        }
    }

    /// Sets the mode from now on.
    pub fn set(&self, mode: Mode) {
        self.setting.send_modify(|setting| setting.mode = mode);
    }

    /// Makes connections to another server from now on.
    pub fn lead_to(&self, server: u16) {
        self.setting.send_modify(|setting| setting.server = server);
    }

    /// Returns the port of the proxy.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the number of connections that were made.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Returns the number of messages that were lost, doubled, or late.
    pub fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    /// Returns the URL for clients.
    pub fn address(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Returns a store. Call it only inside a runtime.
    pub fn store(&self) -> Store {
        Store::new(&self.address()).unwrap()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(
    listener: TcpListener,
    watched: watch::Receiver<Setting>,
    accepted: Arc<AtomicU64>,
    messages: Arc<AtomicU64>,
) {
    // The set is dropped with this task, and all of its tasks with it.
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            return;
        };
        accepted.fetch_add(1, Ordering::Relaxed);
        connections.spawn(connect(client, watched.clone(), Arc::clone(&messages)));
        while connections.try_join_next().is_some() {}
    }
}

async fn connect(
    client: TcpStream,
    mut watched: watch::Receiver<Setting>,
    messages: Arc<AtomicU64>,
) {
    // Ending connections are reset, as by a firewall, without waiting for anything.
    #[allow(
        deprecated,
        reason = "what takes its place is younger than the least tokio"
    )]
    client.set_linger(Some(Duration::ZERO)).unwrap();
    client.set_nodelay(true).unwrap();
    let server = SocketAddr::from(([127, 0, 0, 1], watched.borrow().server));
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    server.set_nodelay(true).unwrap();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (there, back) = (watched.clone(), watched.clone());
    tokio::select! {
        () = pump(from_client, to_server, there, None) => {}
        () = pump(from_server, to_client, back, Some(&messages)) => {}
        _ = watched.wait_for(|setting| setting.mode == Mode::Reset) => {}
    }
}

/// The beginning of a message in the third version of the protocol.
const MESSAGE: &[u8] = b">3\r\n$7\r\nmessage\r\n";

/// Takes the messages out of what the server has sent, and returns them. An end that may be the beginning of a message
/// is left in `rest`, because a read may cut a message.
fn take_messages(sent: &mut Vec<u8>, rest: &mut Vec<u8>) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    let starts = |sent: &[u8]| sent.windows(MESSAGE.len()).position(|part| part == MESSAGE);
    while let Some(start) = starts(sent) {
        // Two more strings, each with its length: four lines.
        let after = start + MESSAGE.len();
        let ends = sent[after..].iter().enumerate();
        let mut ends = ends.filter(|(_, byte)| **byte == b'\n');
        let Some((end, _)) = ends.nth(3) else {
            *rest = sent.split_off(start);
            return messages;
        };
        messages.push(sent.drain(start..=after + end).collect());
    }
    let mut begun = (1..MESSAGE.len()).rev();
    if let Some(length) = begun.find(|length| sent.ends_with(&MESSAGE[..*length])) {
        *rest = sent.split_off(sent.len() - length);
    }
    messages
}

/// Copies one direction, until one side ends. The answers of a server come with the number of messages that are not
/// passed on as they are.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut watched: watch::Receiver<Setting>,
    answers: Option<&AtomicU64>,
) {
    let mut buffer = vec![0; 64 * 1024];
    let mut lost = false;
    let mut rest = Vec::new();
    let mut late = VecDeque::<(Instant, Vec<u8>)>::new();
    loop {
        let due = late.front().map(|(due, _)| *due);
        let length = tokio::select! {
            length = from.read(&mut buffer) => length,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                let (_, message) = late.pop_front().unwrap();
                if to.write_all(&message).await.is_err() {
                    return;
                }
                continue;
            }
        };
        let Ok(length @ 1..) = length else {
            return;
        };
        let mut sent = std::mem::take(&mut rest);
        sent.extend_from_slice(&buffer[..length]);
        let passes = watched.wait_for(|setting| setting.mode != Mode::BlackHole);
        let Ok(mode) = passes.await.map(|setting| setting.mode) else {
            return;
        };
        match mode {
            Mode::HalfOpen => lost = true,
            Mode::DropReplies if answers.is_some() => lost = true,
            Mode::Delay(delay) if answers.is_some() => tokio::time::sleep(delay).await,
            Mode::DropMessages | Mode::DoubleMessages | Mode::DelayMessages(_) => {
                if let Some(count) = answers {
                    let messages = take_messages(&mut sent, &mut rest);
                    count.fetch_add(messages.len() as u64, Ordering::Relaxed);
                    match mode {
                        Mode::DoubleMessages => {
                            sent.extend(messages.iter().chain(&messages).flatten());
                        }
                        Mode::DelayMessages(delay) => {
                            let due = Instant::now() + delay;
                            late.extend(messages.into_iter().map(|message| (due, message)));
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        if !lost && to.write_all(&sent).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take_messages_of_a_message_in_two_reads_takes_it() {
        let message = [MESSAGE, b"$2\r\nc0\r\n$6\r\ncalm 0\r\n"].concat();
        let all = [b"+OK\r\n", &message[..], b":1\r\n", &message, b"+OK\r\n"].concat();
        for cut in 0..all.len() {
            let (mut passed, mut messages, mut rest) = (Vec::new(), Vec::new(), Vec::new());
            for part in [&all[..cut], &all[cut..]] {
                let mut sent = std::mem::take(&mut rest);
                sent.extend_from_slice(part);
                messages.extend(take_messages(&mut sent, &mut rest));
                passed.extend(sent);
            }
            assert_eq!(messages, [&message[..], &message], "{cut}");
            assert_eq!(passed, b"+OK\r\n:1\r\n+OK\r\n", "{cut}");
            assert!(rest.is_empty());
        }
    }
}
