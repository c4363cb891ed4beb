//! Requests to the API server, as raw as they come: what the load costs must not depend on what is measured.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::ConfigExt;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Requests in flight at most while objects are made.
pub(crate) const IN_FLIGHT: usize = 32;
const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json";

/// The API server, and the collection of `ReportJob`s in one namespace.
#[derive(Clone)]
pub(crate) struct Api {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    server: String,
    jobs: String,
}

/// The part of a list that is read.
#[derive(Deserialize)]
struct List {
    metadata: ListMeta,
    items: Vec<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
    #[serde(default)]
    remaining_item_count: usize,
}

impl Api {
    /// By `KUBECONFIG`, with a client certificate; only loopback is taken, since this floods a server.
    pub(crate) async fn infer(namespace: &str) -> Result<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = kube::Config::infer().await?;
        let host = config.cluster_url.host().unwrap_or_default();
        if !matches!(host, "127.0.0.1" | "localhost" | "[::1]") {
            bail!("{host}: the load is for an API server on this machine only");
        }
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let https = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(config.rustls_client_config()?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(IN_FLIGHT)
            .build(https);
        let server = config.cluster_url.to_string();
        let server = server.trim_end_matches('/').to_owned();
        let jobs = format!("{server}/apis/batch.acme.io/v1/namespaces/{namespace}/reportjobs");
        Ok(Self {
            client,
            server,
            jobs,
        })
    }

    pub(crate) async fn create(&self, body: String) -> Result<()> {
        self.call(Method::POST, &self.jobs, JSON, body).await?;
        Ok(())
    }

    pub(crate) async fn patch_status(&self, name: &str, body: String) -> Result<()> {
        let url = format!("{}/{name}/status", self.jobs);
        self.call(Method::PATCH, &url, MERGE, body).await?;
        Ok(())
    }

    /// Deletes the whole collection.
    pub(crate) async fn delete_all(&self) -> Result<()> {
        self.call(Method::DELETE, &self.jobs, JSON, String::new())
            .await?;
        Ok(())
    }

    /// How many objects there are, and the version to watch from.
    pub(crate) async fn count(&self) -> Result<(usize, String)> {
        let url = format!("{}?limit=1", self.jobs);
        let body = self.call(Method::GET, &url, JSON, String::new()).await?;
        let list: List = serde_json::from_slice(&body).context("read a list")?;
        let count = list.items.len() + list.metadata.remaining_item_count;
        Ok((count, list.metadata.resource_version))
    }

    /// The stream of events from a version on.
    pub(crate) async fn watch(&self, version: &str) -> Result<Incoming> {
        let url = format!(
            "{}?watch=1&timeoutSeconds=3600&resourceVersion={version}",
            self.jobs
        );
        let answer = self.client.request(request(Method::GET, &url)?).await?;
        if !answer.status().is_success() {
            bail!("watch: {}", answer.status());
        }
        Ok(answer.into_body())
    }

    /// Writes the API server has answered so far, by its own count and by resource. Leases are its housekeeping.
    pub(crate) async fn writes(&self) -> Result<BTreeMap<String, u64>> {
        let url = format!("{}/metrics", self.server);
        let body = self.call(Method::GET, &url, JSON, String::new()).await?;
        Ok(count_writes(std::str::from_utf8(&body)?))
    }

    async fn call(&self, method: Method, url: &str, kind: &str, body: String) -> Result<Bytes> {
        let mut request = request(method.clone(), url)?;
        request
            .headers_mut()
            .insert(header::CONTENT_TYPE, kind.parse()?);
        *request.body_mut() = Full::from(body);
        let answer = self.client.request(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        if !status.is_success() {
            let text = String::from_utf8_lossy(&body);
            bail!(
                "{method} {url}: {status}: {}",
                text.chars().take(300).collect::<String>()
            );
        }
        Ok(body)
    }
}

fn request(method: Method, url: &str) -> Result<Request<Full<Bytes>>> {
    Ok(Request::builder()
        .method(method)
        .uri(url)
        .header(header::USER_AGENT, "guesthouse-bench")
        .header(header::ACCEPT, JSON)
        .body(Full::default())?)
}

/// Sums `apiserver_request_total` over the writing verbs, by `resource/subresource`.
fn count_writes(metrics: &str) -> BTreeMap<String, u64> {
    let mut writes = BTreeMap::new();
    for line in metrics.lines() {
        let Some((labels, value)) = line
            .strip_prefix("apiserver_request_total{")
            .and_then(|rest| rest.split_once("} "))
        else {
            continue;
        };
        let label = |name: &str| {
            let at = labels.find(&format!("{name}=\""))? + name.len() + 2;
            labels[at..].split('"').next()
        };
        let verb = label("verb").unwrap_or_default();
        let resource = label("resource").unwrap_or_default();
        if !matches!(verb, "POST" | "PUT" | "PATCH" | "DELETE" | "APPLY") || resource == "leases" {
            continue;
        }
        // `subresource` is searched by its own name: `resource` must not match inside it.
        let sub = label("subresource").filter(|sub| !sub.is_empty());
        let name = sub.map_or_else(|| resource.to_owned(), |sub| format!("{resource}/{sub}"));
        let count: f64 = value.trim().parse().unwrap_or(0.0);
        *writes.entry(name).or_insert(0) += count as u64;
    }
    writes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_summed_by_resource_and_reads_and_leases_are_not_counted() {
        let text = concat!(
            "# HELP apiserver_request_total x\n",
            "apiserver_request_total{code=\"200\",resource=\"reportjobs\",subresource=\"status\",verb=\"PUT\"} 5\n",
            "apiserver_request_total{code=\"409\",resource=\"reportjobs\",subresource=\"status\",verb=\"PUT\"} 1\n",
            "apiserver_request_total{code=\"200\",resource=\"reportjobs\",subresource=\"\",verb=\"PATCH\"} 4\n",
            "apiserver_request_total{code=\"200\",resource=\"reportjobs\",subresource=\"\",verb=\"LIST\"} 9\n",
            "apiserver_request_total{code=\"200\",resource=\"leases\",subresource=\"\",verb=\"PUT\"} 9\n",
        );
        let writes = count_writes(text);
        assert_eq!(
            writes.into_iter().collect::<Vec<_>>(),
            [
                ("reportjobs".to_owned(), 4),
                ("reportjobs/status".to_owned(), 6)
            ]
        );
    }
}
