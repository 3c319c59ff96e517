use std::time::Duration;

use reqwest::Request;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use serde_json::{Value, json};
use tollgate_reqwest::server_limits::Unit;
use tollgate_reqwest::{ApiLimit, ApiLimits, Charged, Pauses, PausesMiddleware, Usage};

const MINUTE: Duration = Duration::from_secs(60);

/// OpenAI charges a request when it arrives, also one that fails: the larger of its prompt and its `max_tokens`.
fn openai() -> ApiLimits<Request> {
    let cost = |request: &Request| prompt(request).max(max_tokens(request));
    let tokens = ApiLimit::new(Unit::Tokens, 90_000, MINUTE).cost(cost);
    ApiLimits::new([
        ApiLimit::new(Unit::Requests, 500, MINUTE).charged(|_, _, _| Charged::Estimate),
        tokens.charged(|_, _, _| Charged::Estimate),
    ])
}

/// Anthropic charges the prompt when a request arrives, and the output while it is generated.
fn anthropic() -> ApiLimits<Request> {
    ApiLimits::new([
        ApiLimit::new(Unit::Requests, 50, MINUTE),
        ApiLimit::new(Unit::InputTokens, 30_000, MINUTE).cost(prompt),
        ApiLimit::new(Unit::OutputTokens, 8_000, MINUTE).hold(max_tokens),
    ])
}

/// A gateway of your own that charges what a request has used.
fn gateway() -> ApiLimits<Request> {
    let estimate = |request: &Request| prompt(request) + max_tokens(request);
    ApiLimits::new([ApiLimit::new(Unit::Tokens, 1_000_000, MINUTE).hold(estimate)])
}

fn body(request: &Request) -> &[u8] {
    let body = request.body().and_then(|body| body.as_bytes());
    body.unwrap_or_default()
}

/// Estimates the tokens of a prompt: four bytes are one token.
fn prompt(request: &Request) -> u64 {
    body(request).len() as u64 / 4
}

/// The most tokens of the output.
fn max_tokens(request: &Request) -> u64 {
    let body: Value = serde_json::from_slice(body(request)).unwrap_or_default();
    body["max_tokens"].as_u64().unwrap_or(1_000)
}

fn client(http: reqwest::Client, limits: ApiLimits<Request>) -> ClientBuilder {
    ClientBuilder::new(http).with(PausesMiddleware::new(Pauses::new()).limits(limits))
}

/// Asks a question. Other callers may then use the tokens that this one has not used.
async fn ask(
    client: &ClientWithMiddleware,
    url: &str,
    question: &Value,
) -> Result<Value, Box<dyn std::error::Error>> {
    let response = client.post(url).body(question.to_string()).send().await?;
    // The handle outlives the response, which `text` consumes.
    let usage = response.extensions().get::<Usage>().cloned();
    let answer: Value = serde_json::from_str(&response.error_for_status()?.text().await?)?;
    if let Some(usage) = usage {
        let used = &answer["usage"];
        for (unit, field) in [
            (Unit::Tokens, "total_tokens"),
            (Unit::OutputTokens, "output_tokens"),
        ] {
            if let Some(used) = used[field].as_u64() {
                usage.settle(unit, used);
            }
        }
    }
    Ok(answer)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Make one client, and clone it: the clones share the limits.
    let client = client(reqwest::Client::new(), openai()).build();
    let messages = json!([{ "role": "user", "content": "Why is the sky blue?" }]);
    let question = json!({ "model": "a model", "max_tokens": 1_000, "messages": messages });
    let url = "http://127.0.0.1:3000/v1/chat/completions";
    println!("{}", ask(&client, url, &question).await?);
    Ok(())
}
