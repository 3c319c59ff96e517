//! A server of hyper has one connection at once, also if it is idle; the next client is served when that is closed.
use hyper::{Response, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate::Semaphore;
use tollgate_io::Listener;

static SLOTS: Semaphore = Semaphore::new(1);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut listener = Listener::new(TcpListener::bind("127.0.0.1:0").await?, &SLOTS);
    let address = listener.get_ref().local_addr()?;
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let answer =
                service_fn(async |_| hyper::Result::Ok(Response::new("hello".to_string())));
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(connection), answer));
        }
    });
    for client in 1..=3 {
        // The connection stays open until the end of the loop.
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(REQUEST).await?;
        let (read, left) = (stream.read(&mut [0; 512]).await?, SLOTS.available_permits());
        println!("client {client}: {read} bytes, {left} slots left");
    }
    Ok(())
}
