//! Grants of objects: which children a plugin may make, change and delete.

use super::{Grants, ObjectGrant};
use crate::{
    children::{Parent, Wish, check_kind_names, is_object_name},
    contract::{Kind, ObjectRef, group_of},
    mapping::{is_dns_label, is_own_kind},
    object::ObjectKey,
};

/// A grant that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadGrant {
    /// `http`, `apply` or `read`.
    pub list: &'static str,
    /// Its place in the list.
    pub index: usize,
    /// Why not, and what to write.
    pub why: String,
}

impl Grants {
    /// Whether a child may be applied; else what to add to the mapping. A wish without namespace means the parent's, or none.
    pub fn apply(&self, wish: &Wish, parent: &ObjectKey) -> Result<(), String> {
        let namespace = wish.namespace.as_deref();
        self.object(&wish.kind, namespace, &wish.name, parent)
    }

    /// Whether an object may be deleted; else what to add to the mapping. The reconciled object needs `deleteSelf`, every
    /// other one the same grant as its apply. Whether it is a child at all is not asked here.
    pub fn delete(&self, object: &ObjectRef, parent: &Parent<'_>) -> Result<(), String> {
        let namespace = object.namespace.as_deref();
        if !parent.is(&object.kind, namespace, &object.name) {
            return self.object(&object.kind, namespace, &object.name, parent.key);
        }
        if self.delete_self {
            return Ok(());
        }
        Err("deleting the reconciled object itself is not granted; to allow it add `deleteSelf: true` to `grants` of the mapping".into())
    }

    fn object(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        name: &str,
        parent: &ObjectKey,
    ) -> Result<(), String> {
        if is_own_kind(kind.group(), &kind.kind) {
            return Err(own_kind(kind));
        }
        let namespace = namespace.unwrap_or(parent.namespace());
        let own = parent.namespace();
        if (self.apply.iter()).any(|grant| grant.fits(kind, own, namespace, name)) {
            return Ok(());
        }
        let place = if namespace == own {
            String::new()
        } else {
            format!(", namespaces: [{namespace}]")
        };
        Err(format!(
            "{kind} {name} is not granted; to allow it add {{apiVersion: {}, kind: {}{place}}} to `grants.apply` of the mapping",
            kind.api_version, kind.kind
        ))
    }

    pub(super) fn check_objects(&self) -> Result<(), BadGrant> {
        for (list, grants) in [("apply", &self.apply), ("read", &self.read)] {
            for (index, grant) in grants.iter().enumerate() {
                grant
                    .check()
                    .and_then(|()| grant.check_own(list))
                    .map_err(|why| BadGrant { list, index, why })?;
            }
        }
        Ok(())
    }
}

impl ObjectGrant {
    /// The kind it names.
    pub fn kind(&self) -> Kind {
        Kind {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
        }
    }

    /// Whether it covers `name` in `namespace`, for an object whose namespace is `own`. Any version counts.
    pub(super) fn fits(&self, kind: &Kind, own: &str, namespace: &str, name: &str) -> bool {
        self.is_for(kind)
            && self.reaches(own, namespace)
            && (self.names.is_empty() || self.names.iter().any(|n| n == name))
    }

    /// Any version of the group counts.
    pub(super) fn is_for(&self, kind: &Kind) -> bool {
        group_of(&self.api_version) == kind.group() && self.kind == kind.kind
    }

    pub(super) fn reaches(&self, own: &str, namespace: &str) -> bool {
        namespace == own || self.namespaces.iter().any(|n| n == "*" || n == namespace)
    }

    fn check(&self) -> Result<(), String> {
        check_kind_names(&self.kind())?;
        if let Some(wrong) = (self.namespaces.iter()).find(|n| *n != "*" && !is_dns_label(n)) {
            return Err(format!(
                "namespaces: `{wrong}` is no namespace's name; write names, or `*` for all, or leave the list out for the object's own"
            ));
        }
        if let Some(wrong) = self
            .names
            .iter()
            .find(|n| !is_object_name(n) || n.contains('*'))
        {
            return Err(format!(
                "names: `{wrong}` is no object's name; leave the list out for all names"
            ));
        }
        Ok(())
    }

    /// Whoever could write the host's records could make it forget what it did.
    fn check_own(&self, list: &str) -> Result<(), String> {
        let kind = self.kind();
        if list == "apply" && is_own_kind(kind.group(), &kind.kind) {
            return Err(own_kind(&kind));
        }
        Ok(())
    }
}

fn own_kind(kind: &Kind) -> String {
    format!("{kind} is written by the host itself and cannot be granted")
}
