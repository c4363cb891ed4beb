//! The children of a website. Each states the fields it means and no others; a port names its protocol, since that is part of
//! the key that server-side apply finds it by.

use guesthouse_sdk::prelude::*;
use guesthouse_sdk::{ObjectRef, Value};

use crate::Website;

/// Ids of the effects, one for each child.
pub const CONTENT: &str = "content";
/// The pods that serve it.
pub const DEPLOYMENT: &str = "deployment";
/// Their address in the cluster.
pub const SERVICE: &str = "service";
/// Their address in the world.
pub const INGRESS: &str = "ingress";

/// Annotation of the pods: another content, other pods.
pub const CONTENT_HASH: &str = "web.acme.io/content";

/// Longest name of a child: the names of pods are 17 longer (`-0123456789-01234`), and still labels.
const NAME: usize = 63 - 17;

/// The name of a website's children, a DNS label (RFC 1035) of at most 46 characters.
///
/// The object's own name where it is one. Otherwise what it can be, cut, and a hash of the whole, so that no two names meet.
pub fn child_name(name: &str) -> String {
    let mut label: String = name.replace('.', "-");
    if !label.starts_with(|first: char| first.is_ascii_lowercase()) {
        label.insert_str(0, "web-");
    }
    if label == name && label.len() <= NAME {
        return label;
    }
    let hash = &fingerprint([name])[..8];
    // An object's name is ASCII; anything else would not be a label anyway.
    label.retain(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    label.truncate(NAME - 1 - hash.len());
    [label.trim_end_matches('-'), "-", hash].concat()
}

/// Which Deployment serves it.
pub(crate) fn deployment(seen: &Observation<Website>) -> ObjectRef {
    Kind::new("apps/v1", "Deployment").named(child_name(seen.name()))
}

/// All of a website's children.
pub(crate) fn all(seen: &Observation<Website>) -> Vec<Apply> {
    let parts = Parts {
        seen,
        name: child_name(seen.name()),
    };
    let mut all = vec![parts.content(), parts.deployment(), parts.service()];
    all.extend(seen.spec().host.as_deref().map(|host| parts.ingress(host)));
    all
}

struct Parts<'a> {
    seen: &'a Observation<'a, Website>,
    name: String,
}

impl Parts<'_> {
    /// What finds the pods; a Deployment's selector can never change.
    fn labels(&self) -> Value {
        json!({"app.kubernetes.io/name": "website", "app.kubernetes.io/instance": self.name})
    }

    fn content_name(&self) -> String {
        [self.name.as_str(), "-content"].concat()
    }

    fn content(&self) -> Apply {
        let config_map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self.content_name(), "labels": self.labels()},
            "data": self.seen.spec().content,
        });
        Apply::new(CONTENT, &config_map)
    }

    /// After the content: pods that start before it would wait for it, and those of a changed content would show the old one.
    fn deployment(&self) -> Apply {
        let spec = self.seen.spec();
        let image = spec.image.as_ref().unwrap_or(&self.seen.config().image);
        let files = spec.content.iter();
        let hash = fingerprint(files.flat_map(|(name, text)| [name.as_str(), text.as_str()]));
        let container = json!({
            "name": "web",
            "image": image,
            "ports": [{"name": "http", "containerPort": spec.port, "protocol": "TCP"}],
            "readinessProbe": {"tcpSocket": {"port": "http"}},
            "volumeMounts": [{"name": "content", "mountPath": "/usr/share/nginx/html", "readOnly": true}],
        });
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": self.name, "labels": self.labels()},
            "spec": {
                "replicas": spec.replicas,
                "selector": {"matchLabels": self.labels()},
                "template": {
                    "metadata": {"labels": self.labels(), "annotations": {CONTENT_HASH: hash}},
                    "spec": {
                        "automountServiceAccountToken": false,
                        "containers": [container],
                        "volumes": [{"name": "content", "configMap": {"name": self.content_name()}}],
                    },
                },
            },
        });
        Apply::new(DEPLOYMENT, &deployment).after(CONTENT)
    }

    fn service(&self) -> Apply {
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": self.name, "labels": self.labels()},
            "spec": {
                "selector": self.labels(),
                "ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}],
            },
        });
        Apply::new(SERVICE, &service)
    }

    fn ingress(&self, host: &str) -> Apply {
        let backend = json!({"service": {"name": self.name, "port": {"name": "http"}}});
        let path = json!({"path": "/", "pathType": "Prefix", "backend": backend});
        let mut ingress = json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "metadata": {"name": self.name, "labels": self.labels()},
            "spec": {"rules": [{"host": host, "http": {"paths": [path]}}]},
        });
        if let Some(class) = &self.seen.config().ingress_class {
            ingress["spec"]["ingressClassName"] = json!(class);
        }
        Apply::new(INGRESS, &ingress).after(SERVICE)
    }
}
