//! The cluster's own certificate authority, and the kubeconfigs it signs.
//!
//! One authority per folder signs the API server's certificate and every client's. Kubernetes reads a client's name
//! from the certificate's common name and its groups from the organizations
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates>).

use crate::layout::{Layout, write_file};
use anyhow::{Context, Result, bail};
use base64::Engine;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use std::path::{Path, PathBuf};

/// The group that RBAC lets do everything.
pub(crate) const MASTERS: &str = "system:masters";

/// A certificate with its key, both as PEM text.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// The authority of one cluster's folder.
#[derive(Debug)]
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// PEM text.
    pub(crate) certificate: String,
}

/// Files that the components are pointed to.
#[derive(Debug, Clone)]
pub(crate) struct PkiFiles {
    pub(crate) ca: PathBuf,
    pub(crate) serving_certificate: PathBuf,
    pub(crate) serving_key: PathBuf,
    pub(crate) service_account_key: PathBuf,
    pub(crate) service_account_public_key: PathBuf,
}

impl PkiFiles {
    pub(crate) fn of(layout: &Layout) -> Self {
        let file = |name: &str| layout.pki().join(name);
        Self {
            ca: file("ca.crt"),
            serving_certificate: file("serving.crt"),
            serving_key: file("serving.key"),
            service_account_key: file("service-account.key"),
            service_account_public_key: file("service-account.pub"),
        }
    }
}

impl Authority {
    /// The folder's authority, made with all its files on first use. It stays the same over restarts, so that a
    /// kubeconfig handed out once goes on working.
    pub(crate) fn open(layout: &Layout) -> Result<Self> {
        let files = PkiFiles::of(layout);
        let key_file = layout.pki().join("ca.key");
        if key_file.exists() && files.ca.exists() && files.service_account_key.exists() {
            let key = read(&key_file)?;
            let key =
                KeyPair::from_pem(&key).with_context(|| format!("parse {}", key_file.display()))?;
            let certificate = read(&files.ca)?;
            return Ok(Self {
                issuer: Issuer::new(ca_params(), key),
                certificate,
            });
        }
        let key = KeyPair::generate().context("make the authority's key")?;
        let certificate = ca_params()
            .self_signed(&key)
            .context("sign the authority's certificate")?
            .pem();
        let authority = Self {
            issuer: Issuer::new(ca_params(), key),
            certificate,
        };
        let serving = authority.serving()?;
        let service_account = KeyPair::generate().context("make the key of service accounts")?;
        write_file(
            &files.serving_certificate,
            serving.certificate.as_bytes(),
            0o644,
        )?;
        write_file(&files.serving_key, serving.key.as_bytes(), 0o600)?;
        write_file(&files.ca, authority.certificate.as_bytes(), 0o644)?;
        write_file(
            &key_file,
            authority.issuer.key().serialize_pem().as_bytes(),
            0o600,
        )?;
        write_file(
            &files.service_account_public_key,
            service_account.public_key_pem().as_bytes(),
            0o644,
        )?;
        // Last: its presence says that the others are complete.
        write_file(
            &files.service_account_key,
            service_account.serialize_pem().as_bytes(),
            0o600,
        )?;
        Ok(authority)
    }

    fn serving(&self) -> Result<Identity> {
        let names = [
            "127.0.0.1",
            "localhost",
            "kubernetes",
            "kubernetes.default.svc",
        ]
        .map(str::to_owned);
        let mut params = CertificateParams::new(names).context("name the API server")?;
        params.distinguished_name = name("kube-apiserver", &[])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// A certificate for a client called `user` in `groups`.
    pub(crate) fn client(&self, user: &str, groups: &[&str]) -> Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(user, groups)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Identity> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().context("make a key")?;
        let certificate = params
            .signed_by(&key, &self.issuer)
            .context("sign a certificate")?;
        Ok(Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    /// Writes a kubeconfig for `identity`, complete in itself (it can be copied anywhere on this machine).
    pub(crate) fn write_kubeconfig(
        &self,
        path: &Path,
        url: &str,
        user: &str,
        identity: &Identity,
    ) -> Result<()> {
        let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: guesthouse\n\
             clusters:\n- name: guesthouse\n  cluster:\n    server: {url}\n    certificate-authority-data: {ca}\n\
             contexts:\n- name: guesthouse\n  context: {{cluster: guesthouse, user: {user:?}}}\n\
             users:\n- name: {user:?}\n  user:\n    client-certificate-data: {certificate}\n    client-key-data: {key}\n",
            ca = base64(&self.certificate),
            certificate = base64(&identity.certificate),
            key = base64(&identity.key),
        );
        write_file(path, text.as_bytes(), 0o600)
    }
}

fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, "guesthouse-local");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    params
}

/// A subject with `user` as common name and `groups` as organizations.
fn name(user: &str, groups: &[&str]) -> Result<DistinguishedName> {
    // rcgen keeps one value per attribute type. The second group goes under the same attribute, written out as an
    // object identifier (2.5.4.10); for a third there is no further spelling.
    let kinds = [
        DnType::OrganizationName,
        DnType::CustomDnType(vec![2, 5, 4, 10]),
    ];
    if groups.len() > kinds.len() {
        bail!(
            "user {user:?}: at most {} groups fit into a certificate, got {groups:?}",
            kinds.len()
        );
    }
    let mut name = DistinguishedName::new();
    for (kind, group) in kinds.into_iter().zip(groups) {
        name.push(kind, *group);
    }
    name.push(DnType::CommonName, user);
    Ok(name)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}
