//! What the host counts, for Prometheus: `GET /metrics` on an address of its own, off unless it is named.
//!
//! Labels are closed sets: never an object's name or an error's text (policy-server#287). docs/metrics.md lists all of it.

use std::{fmt, net::SocketAddr, sync::Arc};

use axum::{Router, extract::State, http::header::CONTENT_TYPE, response::IntoResponse, routing};
use guesthouse_sandbox::Sandbox;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, text},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};
use tokio::net::TcpListener;

/// The text format's own type.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Listens for those who ask; the task ends with the process.
pub(crate) async fn serve(
    address: SocketAddr,
    sandbox: Arc<Sandbox>,
) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    let mut registry = Registry::with_prefix("guesthouse");
    registry.register_collector(Box::new(Plugins(sandbox)));
    let router = Router::new()
        .route("/metrics", routing::get(scrape))
        .with_state(Arc::new(registry));
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!("metrics are not served any more: {error}");
        }
    });
    Ok(bound)
}

async fn scrape(State(registry): State<Arc<Registry>>) -> impl IntoResponse {
    let mut page = String::new();
    match text::encode(&mut page, &registry) {
        Ok(()) => Ok(([(CONTENT_TYPE, OPEN_METRICS)], page)),
        Err(error) => Err(error.to_string()),
    }
}

/// The sandbox' own figures, read when they are asked for.
struct Plugins(Arc<Sandbox>);

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plugins")
    }
}

impl Collector for Plugins {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.0.stats();
        let mut put = |name, help, metric: &dyn EncodeMetric| {
            let encoder = encoder.encode_descriptor(name, help, None, metric.metric_type())?;
            metric.encode(encoder)
        };
        put(
            "plugins",
            "Plugins in use, one for each digest",
            &ConstGauge::new(stats.plugins),
        )?;
        put(
            "plugins_resident",
            "Plugins whose native code is in memory",
            &ConstGauge::new(stats.resident),
        )?;
        for (name, help, count) in [
            ("plugin_compilations", "Modules compiled", stats.compiled),
            (
                "plugin_cache_hits",
                "Loads that took native code from the cache",
                stats.cached,
            ),
            (
                "plugin_shared_loads",
                "Loads of what was loaded already",
                stats.shared,
            ),
            (
                "plugin_rests",
                "Native code given up for want of calls",
                stats.rested,
            ),
            (
                "plugin_wakes",
                "Native code brought back by a call",
                stats.woken,
            ),
        ] {
            put(name, help, &ConstCounter::new(count))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guesthouse_sandbox::Settings;

    #[tokio::test]
    async fn every_metric_is_served_and_documented() {
        let sandbox = Arc::new(Sandbox::new(Settings::default()).unwrap());
        let address = serve(([127, 0, 0, 1], 0).into(), sandbox).await.unwrap();
        // Another test may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let answer = client
            .get(format!("http://{address}/metrics"))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.headers()["content-type"], OPEN_METRICS);
        let page = answer.text().await.unwrap();
        let documented = include_str!("../../../docs/metrics.md");
        let names = page.lines().filter_map(|line| line.strip_prefix("# HELP "));
        let names: Vec<&str> = names.filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(names.len(), 7, "{page}");
        for name in names {
            assert!(
                documented.contains(&format!("`{name}")),
                "docs/metrics.md has no {name}"
            );
        }
        assert!(page.ends_with("# EOF\n"), "{page}");
    }
}
