//! How the API server says that a field cannot be changed.
//!
//! There is no machine-readable reason for it: the cause is `FieldValueInvalid` or `FieldValueForbidden` like any other, only
//! the words differ. They are those of kubernetes/kubernetes, `pkg/apis/*/validation` and
//! `staging/src/k8s.io/apimachinery/pkg/api/validation`; rules of CRDs say `immutable` by convention.

/// Words of kinds that do not say `immutable`.
const WORDS: [&str; 8] = [
    // Jobs, Deployments' selectors, ConfigMaps and Secrets with `immutable: true`, claims, CRDs: "field is immutable", "spec
    // is immutable after creation except …", "Value is immutable".
    "immutable",
    // StatefulSet: "updates to statefulset spec for fields other than … are forbidden".
    "spec for fields other than",
    // Pod: "pod updates may not change fields other than …".
    "may not change fields other than",
    // Service: clusterIPs, loadBalancerClass.
    "may not change once set",
    "primary clusterip can not be unset",
    // RoleBinding, ClusterRoleBinding.
    "cannot change roleref",
    // PriorityClass: value.
    "may not be changed in an update",
    // APIs with a fixed type: Secret, Node, CSIDriver.
    "may not be changed",
];

/// Whether the message of a refused write says that a field cannot be changed, so that only another object can have the new
/// value. The uid is no such field: another one means another object.
pub fn is_immutable(message: &str) -> bool {
    let lower = message.to_ascii_lowercase();
    let storage_class =
        lower.contains(": forbidden: updates to ") && lower.contains("are forbidden");
    !lower.contains("metadata.uid:")
        && (storage_class || WORDS.iter().any(|words| lower.contains(words)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_cannot_be_changed_is_told_from_a_wrong_value() {
        for (message, expected) in [
            (
                "Job.batch \"a\" is invalid: spec.template: Invalid value: core.PodTemplateSpec{}: field is immutable",
                true,
            ),
            (
                "Deployment.apps \"a\" is invalid: spec.selector: Invalid value: v1.LabelSelector{}: field is immutable",
                true,
            ),
            (
                "ConfigMap \"a\" is invalid: data: Forbidden: field is immutable when `immutable` is set",
                true,
            ),
            (
                "StatefulSet.apps \"a\" is invalid: spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'template' are forbidden",
                true,
            ),
            (
                "Pod \"a\" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`",
                true,
            ),
            (
                "PersistentVolumeClaim \"a\" is invalid: spec: Forbidden: spec is immutable after creation except resources.requests",
                true,
            ),
            (
                "Service \"a\" is invalid: spec.clusterIPs[0]: Invalid value: [\"None\"]: may not change once set",
                true,
            ),
            (
                "Service \"a\" is invalid: spec.clusterIPs[0]: Invalid value: []: primary clusterIP can not be unset",
                true,
            ),
            (
                "RoleBinding.rbac.authorization.k8s.io \"a\" is invalid: roleRef: Invalid value: rbac.RoleRef{}: cannot change roleRef",
                true,
            ),
            (
                "PriorityClass.scheduling.k8s.io \"a\" is invalid: value: Forbidden: may not be changed in an update.",
                true,
            ),
            (
                "StorageClass.storage.k8s.io \"a\" is invalid: provisioner: Forbidden: updates to provisioner are forbidden.",
                true,
            ),
            (
                "Thing.example.com \"a\" is invalid: spec.size: Invalid value: \"integer\": Value is immutable",
                true,
            ),
            (
                "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"u\": field is immutable",
                false,
            ),
            (
                "Deployment.apps \"a\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                false,
            ),
            (
                "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal string",
                false,
            ),
            ("", false),
        ] {
            assert_eq!(is_immutable(message), expected, "{message}");
        }
    }
}
