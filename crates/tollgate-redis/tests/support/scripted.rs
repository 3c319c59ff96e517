//! A server that answers every command with the same line: it stands for servers and proxies that cannot be run here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tollgate_redis::Store;

#[derive(Debug, Default)]
struct Told {
    line: Mutex<String>,
    commands: AtomicU64,
}

/// The server, which ends on drop.
pub(crate) struct Scripted {
    port: u16,
    told: Arc<Told>,
    task: JoinHandle<()>,
}

impl Scripted {
    /// Starts a server that accepts every client, and answers everything else with this line. Call it only inside a
    /// runtime.
    pub(crate) async fn start(line: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let told = Arc::<Told>::default();
        let task = tokio::spawn(accept(listener, Arc::clone(&told)));
        let server = Self { port, told, task };
        server.answer(line);
        server
    }

    /// Sets the answer from now on.
    pub(crate) fn answer(&self, line: &str) {
        line.clone_into(&mut self.told.line.lock().unwrap());
    }

    /// Returns the number of commands that got the answer.
    pub(crate) fn commands(&self) -> u64 {
        self.told.commands.load(Ordering::Relaxed)
    }

    pub(crate) fn store(&self) -> Store {
        Store::new(&format!("redis://127.0.0.1:{}/", self.port)).unwrap()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, told: Arc<Told>) {
    // They end with this task.
    let mut clients = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let told = Arc::clone(&told);
        clients.spawn(async move { drop(serve(client, &told).await) });
    }
}

async fn serve(client: TcpStream, told: &Told) -> std::io::Result<()> {
    let mut client = BufReader::new(client);
    loop {
        let verb = command(&mut client).await?;
        let answer = if ["HELLO", "CLIENT"].contains(&verb.as_str()) {
            "+OK".to_owned()
        } else {
            told.commands.fetch_add(1, Ordering::Relaxed);
            told.line.lock().unwrap().clone()
        };
        client.write_all(format!("{answer}\r\n").as_bytes()).await?;
    }
}

/// Reads a command, an array of texts, and returns its first word.
async fn command(client: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    let count = number(client).await?;
    let mut verb = String::new();
    for index in 0..count {
        let mut text = vec![0; number(client).await? + 2];
        client.read_exact(&mut text).await?;
        if index == 0 {
            verb = String::from_utf8_lossy(&text[..text.len() - 2]).to_uppercase();
        }
    }
    Ok(verb)
}

/// Reads a line that consists of a mark and a number. The end of the connection is an error.
async fn number(client: &mut BufReader<TcpStream>) -> std::io::Result<usize> {
    let mut line = String::new();
    client.read_line(&mut line).await?;
    let number = line.get(1..).and_then(|rest| rest.trim().parse().ok());
    number.ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
}
