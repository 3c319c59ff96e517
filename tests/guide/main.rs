//! The programs of the guide, each included from the file that its page shows, in paused time. The feature `test-util`
//! gives their limits tokio's clock, so the programs name none.

mod cancel_and_shut_down;
mod cap_parallel_uploads;
mod crawl_politely;
mod find_the_right_limit;
mod limit_a_websocket;
mod limit_an_api_client;
mod limit_bandwidth;
mod limit_each_address;
mod limit_http_by_address;
mod limit_http_in_total;
mod limit_kafka;
mod limit_rayon;
mod limit_reqwest;
mod limit_sqlx;
mod per_tenant_limits;
mod share_a_limit;
mod who_goes_first;
