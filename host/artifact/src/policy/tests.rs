use super::*;
use crate::signature::tests::Signer;

const BYTES: &[u8] = b"the plugin";

fn policy(text: &str) -> Policy {
    Policy::parse(text, |file| std::fs::read_to_string(file)).unwrap()
}

fn candidate(evidence: Vec<Evidence>) -> Candidate {
    Candidate {
        source: Source::File("/plugins/a.wasm".into()),
        origin: "/plugins/a.wasm".into(),
        manifest: None,
        bytes: BYTES.to_vec(),
        evidence,
    }
}

fn signed(by: &[&Signer]) -> Candidate {
    let all = by.iter().map(|key| Evidence::Detached(key.sign(BYTES)));
    candidate(all.collect())
}

/// Indented for a policy file.
fn key(signer: &Signer) -> String {
    let pem = signer.pem.replace('\n', "\n      ");
    format!(
        "  - name: {}\n    pem: |\n      {pem}\n",
        signer.public.name()
    )
}

#[test]
fn what_is_allowed_is_matched_part_by_part_and_nothing_leads_out_of_it() {
    let policy = policy(
        "allow: ['oci:registry.example/team/*', 'oci:registry.example/app', 'https://plugins.example/*', 'configMap:plugins/*', 'file:/plugins/*']",
    );
    let oci = |text: &str| Source::Oci(text.into());
    let url = |text: &str| Source::Url(text.into());
    let file = |text: &str| Source::File(text.into());
    for (source, allowed) in [
        (oci("registry.example/team/a"), true),
        (oci("registry.example/team/a/b"), true),
        (oci("registry.example/team-evil/a"), false),
        (oci("registry.example/team/../other/a"), false),
        (oci("registry.example/app"), true),
        (oci("registry.example/app2"), false),
        (oci("registry.example.evil/team/a"), false),
        (url("https://plugins.example/a.wasm"), true),
        (url("https://plugins.example/../a.wasm"), false),
        (url("https://plugins.example/%2E./a.wasm"), false),
        (url("https://plugins.example.evil/a.wasm"), false),
        (url("http://plugins.example/a.wasm"), false),
        (url("https://plugins.example@evil.example/a"), false),
        (file("/plugins/a.wasm"), true),
        (file("/plugins/../etc/a.wasm"), false),
        (file("plugins/a.wasm"), false),
        (Source::ConfigMap("plugins".into(), "a".into()), true),
        (Source::ConfigMap("others".into(), "a".into()), false),
    ] {
        let verdict = policy.allows(&source);
        assert_eq!(verdict.is_ok(), allowed, "{source}");
        if let Err(denied) = verdict {
            assert!(
                denied.to_string().contains("oci:registry.example/team/*"),
                "{denied}"
            );
        }
    }
    assert!(
        Policy::default().allows(&file("../a")).is_ok(),
        "no list, no limit"
    );
    let none = self::policy("allow: []");
    assert!(none.allows(&file("/plugins/a.wasm")).is_err());
}

#[test]
fn a_policy_that_does_not_say_what_it_means_is_refused_with_what_to_write() {
    let signer = Signer::new("k");
    for (text, expected) in [
        ("alow: []", "unknown field `alow`, expected one of"),
        ("allow: ['https://plugins.example*']", "at the end alone"),
        ("allow: ['oci:*/a']", "at the end alone"),
        ("allow: ['registry.example/*']", "oci:HOST/REPOSITORY"),
        ("allow: ['oci:']", "oci:HOST/REPOSITORY"),
        ("requireSignature: []", "name a key"),
        ("requireSignature: [{name: a}]", "either `pem` or `file`"),
        ("requireSignature: [{name: a, pem: x}]", "the key a"),
        (
            "requireSignature: [{name: a, file: /nowhere/cosign.pub}]",
            "/nowhere/cosign.pub cannot be read",
        ),
    ] {
        let error = Policy::parse(text, |file| std::fs::read_to_string(file))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(expected) && !error.contains('\n'),
            "{text}: {error}"
        );
    }
    let text = "requireSignature: [{name: k, file: cosign.pub}]";
    let read = Policy::parse(text, |file| {
        assert_eq!(file, "cosign.pub");
        Ok(signer.pem.clone())
    });
    assert_eq!(read.unwrap().keys.unwrap(), [signer.public]);
}

#[test]
fn a_digest_is_held_to_and_demanded_where_the_host_says_so() {
    let (free, strict) = (Policy::default(), policy("requireDigest: true"));
    let (right, wrong) = (Digest::of(BYTES), Digest::of(b"other"));
    let pinned = |digest| Demands {
        digest: Some(digest),
        ..Demands::default()
    };
    for policy in [&free, &strict] {
        assert!(admit(policy, &pinned(right), candidate(vec![])).is_ok());
        let denied = admit(policy, &pinned(wrong), candidate(vec![])).unwrap_err();
        assert!(matches!(denied, Denied::OtherDigest { .. }), "{denied}");
    }
    assert!(admit(&free, &Demands::default(), candidate(vec![])).is_ok());
    let denied = admit(&strict, &Demands::default(), candidate(vec![])).unwrap_err();
    assert!(
        denied.to_string().contains(&right.to_string()),
        "it says what to write: {denied}"
    );
    // A manifest by digest pins its layer.
    let by_manifest = Demands {
        manifest: Some(wrong),
        ..Demands::default()
    };
    let from = |manifest| Candidate {
        manifest,
        ..candidate(vec![])
    };
    assert!(admit(&strict, &by_manifest, from(Some(wrong))).is_ok());
    assert!(admit(&strict, &by_manifest, from(Some(right))).is_err());
    assert!(admit(&strict, &by_manifest, from(None)).is_err());
}

#[test]
fn a_signature_counts_by_the_keys_of_whoever_demands_it() {
    let (ours, theirs, other) = (
        Signer::new("ours"),
        Signer::new("theirs"),
        Signer::new("other"),
    );
    let host = policy(&format!("requireSignature:\n{}", key(&ours)));
    let demands = Demands {
        keys: Some(vec![theirs.public.clone()]),
        ..Demands::default()
    };
    let judge = |policy: &Policy, demands: &Demands, by: &[&Signer]| {
        admit(policy, demands, signed(by)).map(|admitted| admitted.origin().to_owned())
    };
    let both = judge(&host, &demands, &[&other, &theirs, &ours]).unwrap();
    assert!(both.ends_with("signed by ours and theirs"), "{both}");
    for (policy, demands, by, expected) in [
        (
            &host,
            &demands,
            vec![&ours],
            "the mapping demands a signature by theirs",
        ),
        (
            &host,
            &demands,
            vec![&theirs],
            "the host's policy demands a signature by ours",
        ),
        (&host, &Demands::default(), vec![], "no signature was found"),
        (
            &host,
            &Demands::default(),
            vec![&other],
            "made by another key",
        ),
    ] {
        let denied = judge(policy, demands, &by).unwrap_err().to_string();
        assert!(denied.contains(expected), "{denied}");
    }
    assert!(judge(&host, &Demands::default(), &[&ours]).is_ok());
    assert!(judge(&Policy::default(), &Demands::default(), &[]).is_ok());
}

/// Whatever a mapping says, it can only add to what the host demands.
#[test]
fn no_demand_of_a_mapping_gets_around_the_hosts_minimum() {
    let (ours, theirs) = (Signer::new("ours"), Signer::new("theirs"));
    let text = format!(
        "allow: ['file:/plugins/*']\nrequireDigest: true\nrequireSignature:\n{}",
        key(&ours)
    );
    let host = policy(&text);
    let right = Digest::of(BYTES);
    let digests = [None, Some(right), Some(Digest::of(b"other"))];
    let keys = [
        None,
        Some(vec![]),
        Some(vec![theirs.public.clone()]),
        Some(vec![ours.public.clone()]),
    ];
    let manifests = [None, Some(right)];
    let evidence = [vec![], vec![&theirs], vec![&ours], vec![&ours, &theirs]];
    let sources = ["/plugins/a.wasm", "/elsewhere/a.wasm"];
    let mut admitted = 0;
    for digest in digests {
        for (keys, manifest) in keys
            .iter()
            .flat_map(|keys| manifests.map(|m| (keys.clone(), m)))
        {
            for (by, path) in evidence
                .iter()
                .flat_map(|by| sources.map(|path| (by, path)))
            {
                let demands = Demands {
                    digest,
                    manifest,
                    keys: keys.clone(),
                    ..Demands::default()
                };
                let candidate = Candidate {
                    source: Source::File(path.into()),
                    manifest,
                    ..signed(by)
                };
                if admit(&host, &demands, candidate).is_ok() {
                    admitted += 1;
                    let pinned = digest == Some(right) || (digest.is_none() && manifest.is_some());
                    let by_us = by.iter().any(|key| key.public == ours.public);
                    assert!(
                        path.starts_with("/plugins/") && pinned && by_us,
                        "{demands:?} {path}"
                    );
                }
            }
        }
    }
    assert!(admitted > 0, "the host lets nothing in at all");
}

/// A reference that cannot be read is worse than none.
#[test]
fn the_policy_in_the_documents_reads_and_names_every_field() {
    let text = include_str!("../../../../docs/mapping.md");
    let section = text.split("## What the host demands").nth(1).unwrap();
    let block = section.split("```").nth(1).unwrap();
    let block = block.strip_prefix("text\n").unwrap();
    let pem = Signer::new("release").pem;
    let read = Policy::parse(block, |_| Ok(pem.clone())).unwrap();
    assert!(read.allows_insecure("localhost:5000").is_ok());
    let schema = schemars::schema_for!(PolicyFile).to_value();
    for field in schema["properties"].as_object().unwrap().keys() {
        assert!(block.contains(&format!("{field}:")), "{field}");
    }
}
