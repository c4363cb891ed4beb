//! The kinds of the plugins with children and effects: their mappings, and what stands in their objects.

use crate::api::{DEPLOYMENTS, PROVISION_REQUESTS, Resource, WEBSITES, WISHES};
use crate::artifacts::plugin;
use crate::scene::Scene;
use anyhow::{Result, ensure};
use provisioner::Provisioner;
use serde_json::{Value, json};

impl Scene<'_> {
    /// A mapping of websites to their plugin.
    pub fn websites(&self) -> Result<Value> {
        let mut mapping = self.mapping(WEBSITES, &plugin("website")?);
        mapping["grants"] = json!({
            "apply": [
                {"apiVersion": "v1", "kind": "ConfigMap"},
                {"apiVersion": "apps/v1", "kind": "Deployment"},
                {"apiVersion": "v1", "kind": "Service"},
                {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress"},
            ],
            "read": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
        });
        Ok(mapping)
    }

    /// What the Deployments' controller would say of all that it has not seen yet: they are rolled out.
    pub async fn roll_out(&self) -> Result<()> {
        for deployment in self.api.list(DEPLOYMENTS, &self.namespace).await? {
            let generation = &deployment["metadata"]["generation"];
            if deployment["status"]["observedGeneration"] == *generation {
                continue;
            }
            let replicas = &deployment["spec"]["replicas"];
            let said = json!({"status": {
                "observedGeneration": generation,
                "replicas": replicas, "updatedReplicas": replicas,
                "readyReplicas": replicas, "availableReplicas": replicas,
                "conditions": [
                    {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
                    {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
                ],
            }});
            let name = deployment["metadata"]["name"].as_str().unwrap_or_default();
            // One that is gone by now, or that somebody else wrote, is met the next time.
            let _ = self.patch_status(DEPLOYMENTS, name, said).await;
        }
        Ok(())
    }

    /// A provisioner of the test's own.
    pub async fn provisioner(&self) -> Result<Provisioner> {
        Ok(Provisioner::start("127.0.0.1:0").await?)
    }

    /// A mapping of provision requests to their plugin and the provisioner of that address.
    pub fn provision_requests(&self, url: &str) -> Result<Value> {
        let mut mapping = self.mapping(PROVISION_REQUESTS, &plugin("provision_request")?);
        mapping["config"] = json!({"provisioner": url, "pollSeconds": 1});
        mapping["grants"] = json!({"http": [
            {"host": "127.0.0.1:*", "methods": ["GET", "PUT", "DELETE"], "path": "/resources/"},
        ]});
        mapping["finalizer"] = json!("acme.io/cleanup");
        Ok(mapping)
    }

    /// Asks for a large one in place of what a provision request has, and waits until it is.
    pub async fn enlarge(&self, name: &str) -> Result<Value> {
        let large = json!({"spec": {"size": "large"}});
        self.patch(PROVISION_REQUESTS, name, large).await?;
        let is_large = |object: &Value| {
            object["status"]["observedGeneration"] == 2 && object["status"]["size"] == "large"
        };
        self.object_is(PROVISION_REQUESTS, name, "large", is_large)
            .await?;
        self.ready(PROVISION_REQUESTS, name).await
    }

    /// A mapping of wishes to a plugin that does as they say, `decide` or `decide_finalizing`, with these children granted.
    pub fn wishes(&self, name: &str, apply: &[Resource]) -> Result<Value> {
        let mut mapping = self.mapping(WISHES, &plugin(name)?);
        let apply: Vec<Value> = apply
            .iter()
            .map(|kind| json!({"apiVersion": kind.api_version, "kind": kind.kind}))
            .collect();
        mapping["grants"] = json!({
            "apply": apply,
            "http": [{"host": "127.0.0.1:*", "methods": ["PUT", "POST", "GET"]}],
        });
        Ok(mapping)
    }

    /// Creates a wish: what shall be decided at `reconcile` and `finalize`.
    pub async fn wish(&self, name: &str, spec: Value) -> Result<Value> {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        self.create(WISHES, object).await
    }

    /// Waits for an object to be ready, with this generation handled.
    pub async fn ready(&self, resource: Resource, name: &str) -> Result<Value> {
        self.condition_is(resource, name, "Ready", "True", "").await
    }

    /// Waits for an object not to be ready, `False` or `Unknown`, for a reason with these words.
    pub async fn unready(&self, resource: Resource, name: &str, message: &str) -> Result<Value> {
        let what = format!("not ready with `{message}`");
        self.object_is(resource, name, &what, |object| {
            let found = condition(object, "Ready");
            let says = found["message"].as_str().unwrap_or_default();
            found["observedGeneration"] == object["metadata"]["generation"]
                && found["status"] != "True"
                && says.contains(message)
        })
        .await
    }

    /// Waits for a condition of an object's newest generation.
    pub async fn condition_is(
        &self,
        resource: Resource,
        name: &str,
        type_: &str,
        status: &str,
        message: &str,
    ) -> Result<Value> {
        let what = format!("{type_}={status} with `{message}`");
        self.object_is(resource, name, &what, |object| {
            let found = condition(object, type_);
            found["status"] == status
                && found["observedGeneration"] == object["metadata"]["generation"]
                && found["message"]
                    .as_str()
                    .unwrap_or_default()
                    .contains(message)
        })
        .await
    }

    /// Waits until an object of this scene's namespace is gone.
    pub async fn gone(&self, resource: Resource, name: &str) -> Result<()> {
        let what = format!("{} {name} is gone", resource.kind);
        self.eventually(&what, async || {
            let found = self.api.find(resource, &self.namespace, name).await?;
            Ok(found.is_none().then_some(()))
        })
        .await
    }

    /// An object of this scene's namespace that must be there.
    pub async fn read(&self, resource: Resource, name: &str) -> Result<Value> {
        self.api.get(resource, &self.namespace, name).await
    }

    /// Waits until the object had a pass that wrote nothing after a position of the log: what was to be done is done.
    pub async fn quiet(&self, name: &str, position: usize) -> Result<()> {
        let object = format!("{}/{name}", self.namespace);
        self.until(&format!("a quiet pass of {name}"), || {
            let passes = self.passes_since(position)?;
            Ok(passes
                .iter()
                .any(|pass| pass["object"] == object.as_str() && pass["writes"] == 0))
        })
        .await
    }

    /// Waits until a pass that wrote what the object wants is over, after a position of the log.
    pub async fn applied(&self, name: &str, position: usize) -> Result<()> {
        let object = format!("{}/{name}", self.namespace);
        self.until(&format!("an applied pass of {name}"), || {
            let passes = self.passes_since(position)?;
            Ok(passes
                .iter()
                .any(|pass| pass["object"] == object.as_str() && pass["outcome"] == "applied"))
        })
        .await
    }

    /// An error unless the writes to this since a position are as many; what they were.
    pub fn wrote(&self, name: &str, mark: usize, count: usize) -> Result<()> {
        let writes = self.writes_to(name, mark)?;
        ensure!(
            writes.len() == count,
            "{count} writes to {name} were expected: {writes:#?}"
        );
        Ok(())
    }
}

/// The condition of that type, or null.
pub fn condition(object: &Value, type_: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|c| c["type"] == type_));
    found.cloned().unwrap_or_default()
}

/// A child that a wish asks for: its id, kind, name, and what else stands in it.
pub fn child(id: &str, kind: Resource, name: &str, rest: Value) -> Value {
    let mut object = json!({
        "apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name},
    });
    for (member, value) in rest.as_object().into_iter().flatten() {
        match (object.get_mut(member), value.as_object()) {
            (Some(Value::Object(known)), Some(more)) => known.extend(more.clone()),
            _ => object[member] = value.clone(),
        }
    }
    json!({"id": id, "object": object})
}
