//! What people and disks change while the host serves: rights, policies, kinds, plugins, mappings, the cache.

use super::{HOLD, PASSING, Subject, grant};
use crate::api::{KINDS, ROLE_BINDINGS, Resource};
use crate::artifacts::plugin;
use crate::proxy::Asked;
use crate::run::now_ms;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::Path;

const POLICIES: Resource = Resource {
    api_version: "admissionregistration.k8s.io/v1",
    kind: "ValidatingAdmissionPolicy",
    plural: "validatingadmissionpolicies",
};
const POLICY_BINDINGS: Resource = Resource {
    api_version: "admissionregistration.k8s.io/v1",
    kind: "ValidatingAdmissionPolicyBinding",
    plural: "validatingadmissionpolicybindings",
};

impl Subject<'_> {
    /// The API server's policy denies what the host writes.
    pub(super) async fn admission(&self) -> Result<u64> {
        let name = "chaos-denies";
        let groups = [
            "",
            "apps",
            "networking.k8s.io",
            "batch.acme.io",
            "web.acme.io",
            "acme.io",
        ];
        let kinds = ["configmaps", "deployments", "services", "ingresses"];
        let statuses = [
            "reportjobs/status",
            "websites/status",
            "provisionrequests/status",
        ];
        let resources = [&kinds[..], &statuses].concat();
        let policy = json!({"metadata": {"name": name}, "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": groups, "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
                "resources": resources,
            }]},
            "matchConditions": [
                {"name": "host", "expression": "request.userInfo.username == 'chaos-host'"},
            ],
            "validations": [
                {"expression": "false", "message": "denied for a while", "reason": "Forbidden"},
            ],
        }});
        let mark = self.proxy.mark();
        self.scene.api.create(POLICIES, "", policy).await?;
        let binding = json!({"metadata": {"name": name}, "spec": {
            "policyName": name, "validationActions": ["Deny"],
        }});
        self.scene.api.create(POLICY_BINDINGS, "", binding).await?;
        let refused = self
            .until("the host's writes are denied", async || {
                let since = self.proxy.since(mark);
                let denied = |asked: &&Asked| asked.verb.is_write() && asked.server == 403;
                Ok(since.iter().filter(denied).count() as u64)
            })
            .await;
        tokio::time::sleep(HOLD).await;
        for kind in [POLICY_BINDINGS, POLICIES] {
            self.scene.api.delete(kind, "", name).await?;
        }
        refused
    }

    pub(super) async fn rights(&self) -> Result<u64> {
        let mark = self.proxy.mark();
        self.scene
            .api
            .delete(ROLE_BINDINGS, "", "chaos-host")
            .await?;
        let refused = self
            .until("the host is refused", async || {
                let since = self.proxy.since(mark);
                Ok(since.iter().filter(|asked| asked.server == 403).count() as u64)
            })
            .await;
        tokio::time::sleep(HOLD).await;
        grant(self.scene).await?;
        refused
    }

    pub(super) async fn kind(&self) -> Result<u64> {
        let mark = self.scene.log()?.len();
        self.scene
            .api
            .delete(KINDS, "", "passings.chaos.guesthouse.dev")
            .await?;
        let gone = self
            .until("the host sees that the kind is gone", async || {
                let log = self.scene.log()?;
                let is = |line: &&Value| line["state"] == "gone";
                Ok(log.iter().skip(mark).filter(is).count() as u64)
            })
            .await?;
        let define = async || Ok(self.scene.define(PASSING).await.ok());
        self.scene
            .eventually("the kind can be defined again", define)
            .await?;
        Ok(gone)
    }

    pub(super) fn empty_cache(&self) -> Result<()> {
        let cache = self.scene.dir.join("cache");
        self.host().take();
        if cache.exists() {
            std::fs::remove_dir_all(cache)?;
        }
        Ok(())
    }

    pub(super) async fn cache(&self) -> Result<u64> {
        self.host().take();
        for entry in std::fs::read_dir(self.scene.dir.join("cache/compiled"))? {
            let path = entry?.path();
            let bytes = std::fs::read(&path)?;
            std::fs::write(&path, &bytes[..bytes.len() / 2])?;
        }
        let mark = self.scene.log()?.len();
        self.run(None)?;
        self.until("the host does not take what is cut", async || {
            let log = self.scene.log()?;
            let ignored = |line: &&Value| line["message"] == "entry of compiled code is ignored";
            Ok(log.iter().skip(mark).filter(ignored).count() as u64)
        })
        .await
    }

    /// The same plugin with a custom section more: another digest.
    pub(super) async fn swap(&self) -> Result<u64> {
        let mark = self.scene.log()?.len();
        let mut bytes = std::fs::read(plugin("report_job")?)?;
        let payload = format!("{}-{}", now_ms(), self.new_number());
        let section = [&[5][..], b"chaos", payload.as_bytes()].concat();
        bytes.extend([0, u8::try_from(section.len())?]);
        bytes.extend(section);
        replace(&self.plugin, &bytes)?;
        self.active_since(mark).await
    }

    /// First to something that cannot be meant: what was good serves on. Then to something else that is.
    pub(super) async fn mapping(&self) -> Result<u64> {
        let mark = self.scene.log()?.len();
        self.scene.map("report-jobs", "{nonsense: 1}").await?;
        self.logged(mark, "MappingInvalid").await?;
        let even = self.new_number().is_multiple_of(2);
        self.map(if even { "1s" } else { "900ms" }).await?;
        self.active_since(mark).await
    }

    async fn active_since(&self, mark: usize) -> Result<u64> {
        self.logged(mark, "MappingActive").await
    }

    /// Waits until the host gave a reason in its log.
    async fn logged(&self, mark: usize, reason: &str) -> Result<u64> {
        let what = format!("the host logs {reason}");
        self.until(&what, async || {
            let log = self.scene.log()?;
            let is = |line: &&Value| line["reason"] == reason;
            Ok(log.iter().skip(mark).filter(is).count() as u64)
        })
        .await
    }

    /// Objects of the passing kind are stored in another version from now on, which is served as well.
    pub(super) async fn version(&self) -> Result<u64> {
        let name = "passings.chaos.guesthouse.dev";
        let api = &self.scene.api;
        let mut versions = api.get(KINDS, "", name).await?["spec"]["versions"].take();
        let all = versions.as_array_mut().context("versions")?;
        if all.len() == 1 {
            let mut second = all[0].clone();
            second["name"] = "v2".into();
            second["storage"] = false.into();
            all.push(second);
        }
        for version in all {
            version["storage"] = (version["storage"] == false).into();
        }
        let wanted = versions.clone();
        let patch = json!({"spec": {"versions": versions}});
        api.patch(KINDS, "", name, patch).await?;
        let stored = |versions: &Value| {
            let all = versions.as_array().into_iter().flatten();
            all.filter(|v| v["storage"] == true)
                .map(|v| v["name"].clone())
                .collect::<Vec<_>>()
        };
        let found = api.get(KINDS, "", name).await?["spec"]["versions"].take();
        Ok(u64::from(stored(&found) == stored(&wanted)))
    }
}

fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let aside = path.with_extension("new");
    std::fs::write(&aside, bytes)?;
    std::fs::rename(&aside, path).with_context(|| format!("replace {}", path.display()))
}
