//! async-openai, by middleware of reqwest and by a layer of tower.

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::types::chat::{
    ChatCompletionRequestUserMessage, CreateChatCompletionRequest, CreateChatCompletionResponse,
};
use clients::openai;
use reqwest::Request;
use tollgate_reqwest::RetryAfterLayer;

use super::*;

async fn chat(client: Client<OpenAIConfig>) {
    let request = CreateChatCompletionRequest {
        model: "a model".into(),
        messages: vec![ChatCompletionRequestUserMessage::from("hello").into()],
        ..Default::default()
    };
    let answer = client.chat().create(request).await;
    let answer: CreateChatCompletionResponse = answer.unwrap();
    assert_eq!(answer.choices[0].message.content.as_deref(), Some("hello"));
}

#[tokio::test(start_paused = true)]
async fn client_sends_nothing_in_a_pause_and_then_at_the_rate() {
    let server = Server::refusing(1).await;
    let rate = server.rate(Quota::per_second(10));
    let retry = RetryAfterLayer::copying(Request::try_clone).clock(&server.clock);
    let client = openai::client(&server.url, server.slots(), Arc::clone(&rate), retry);
    let jobs = (0..REQUESTS).map(|_| chat(client.clone()));
    server.run(jobs, Some(&rate)).await;
    assert_paused_and_then_at_the_rate(&server.arrived());
}

#[tokio::test(start_paused = true)]
async fn throttled_sends_every_attempt_at_the_rate() {
    let server = Server::refusing(3).await;
    let rate = server.rate(Quota::per_second(10));
    let client = openai::throttled(&server.url, server.slots(), rate);
    let jobs = (0..REQUESTS).map(|_| chat(client.clone()));
    server.run(jobs, None).await;
    let arrived = server.arrived();
    assert_eq!(arrived.len(), REQUESTS + 3);
    for (nth, at) in arrived.iter().enumerate() {
        assert!(*at >= nth as u128, "{arrived:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn clients_send_as_many_at_once_as_there_are_slots() {
    for is_throttled in [false, true] {
        let server = Server::holding().await;
        let rate = server.rate(Quota::UNLIMITED);
        let client = if is_throttled {
            openai::throttled(&server.url, server.slots(), rate)
        } else {
            openai::client(
                &server.url,
                server.slots(),
                rate,
                RetryAfterLayer::copying(Request::try_clone),
            )
        };
        let jobs = (0..REQUESTS).map(|_| chat(client.clone()));
        server.run(jobs, None).await;
        assert_eq!(server.seen.most_at_once.load(SeqCst), SLOTS);
    }
}
