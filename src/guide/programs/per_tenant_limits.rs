use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use tollgate::rate::QuotaChange;
use tollgate::{AcquireError, Keyed, Quota, RateLimiter};

const FREE: Quota = Quota::per_second(10).burst(20);
const PAID: Quota = Quota::per_second(100).burst(200);

struct Tenants {
    plans: Arc<RwLock<HashMap<String, Quota>>>,
    limits: Keyed<String, RateLimiter>,
}

impl Tenants {
    fn new() -> Self {
        let plans = Arc::new(RwLock::new(HashMap::<String, Quota>::new()));
        let limits = Keyed::rate_limiters(FREE).max_keys(10_000);
        let limits = limits.quota_change(QuotaChange::KeepSpent).quotas({
            let plans = Arc::clone(&plans);
            move |tenant| plans.read().unwrap().get(tenant).copied().unwrap_or(FREE)
        });
        Self { plans, limits }
    }

    /// Gives a tenant another plan. Its quota applies at once, and tokens already spent stay spent.
    /// An upgrade from 20 to 200 gives 180 more.
    fn set_plan(&self, tenant: &str, plan: Quota) {
        self.plans.write().unwrap().insert(tenant.to_owned(), plan);
        self.limits.requota(tenant);
    }
}

#[tokio::main]
async fn main() -> Result<(), AcquireError> {
    let tenants = Tenants::new();
    tenants.set_plan("acme", PAID);
    tenants.limits.key("acme").acquire().await?;
    // Or refuse at once instead of waiting:
    if let Err(refused) = tenants.limits.key("hooli").try_acquire() {
        println!("429, and Retry-After: {:?}", refused.retry_after());
    }
    Ok(())
}
