//! What a plugin's schema of its config may cost. It is judged on the host's own time, so one that takes for ever, or a pattern that
//! does, would be everybody's trouble.

use std::collections::BTreeMap;

use serde_json::Value;

/// Longest schema, bytes of JSON text.
pub const MAX_SCHEMA: usize = 64 << 10;
/// Most places a value is held against, each reference followed.
const MAX_WORK: u64 = 10_000;
/// Deepest nesting.
const MAX_DEPTH: usize = 100;

/// Says why a schema is too much, if it is: `text` is the schema itself.
pub fn check(text: &str) -> Result<(), String> {
    if text.len() > MAX_SCHEMA {
        return Err(format!(
            "it has {} bytes, at most {MAX_SCHEMA} are taken",
            text.len()
        ));
    }
    let root: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut work = Work {
        root: &root,
        known: BTreeMap::new(),
    };
    match work.of(&root, 0)? {
        work if work <= MAX_WORK => Ok(()),
        _ => Err(format!(
            "its references fan out to more than {MAX_WORK} places; name each part once"
        )),
    }
}

struct Work<'a> {
    root: &'a Value,
    /// By reference; one that is being followed counts once, since only a deeper value leads on.
    known: BTreeMap<&'a str, u64>,
}

impl<'a> Work<'a> {
    fn of(&mut self, at: &'a Value, depth: usize) -> Result<u64, String> {
        if depth > MAX_DEPTH {
            return Err(format!("it is nested deeper than {MAX_DEPTH}"));
        }
        let mut sum = 1_u64;
        match at {
            Value::Object(members) => {
                for (name, value) in members {
                    let work = match value {
                        Value::String(to) if name == "$ref" || name == "$dynamicRef" => {
                            self.behind(to, depth)?
                        }
                        value => self.of(value, depth + 1)?,
                    };
                    sum = sum.saturating_add(work);
                }
            }
            Value::Array(items) => {
                for item in items {
                    sum = sum.saturating_add(self.of(item, depth + 1)?);
                }
            }
            _ => {}
        }
        Ok(sum)
    }

    fn behind(&mut self, to: &'a str, depth: usize) -> Result<u64, String> {
        if let Some(work) = self.known.get(to) {
            return Ok(*work);
        }
        let Some(pointer) = to.strip_prefix('#') else {
            return Err(format!("the reference `{to}` leads out of it"));
        };
        self.known.insert(to, 1);
        let work = match self.root.pointer(pointer) {
            Some(target) => self.of(target, depth + 1)?,
            // An anchor, or nothing: the validator says which.
            None => 1,
        };
        self.known.insert(to, work);
        Ok(work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn doubling(levels: usize) -> String {
        let mut defs = serde_json::Map::new();
        defs.insert("a0".into(), json!({"type": "object"}));
        for level in 1..=levels {
            let before = json!({"$ref": format!("#/$defs/a{}", level - 1)});
            defs.insert(format!("a{level}"), json!({"allOf": [before, before]}));
        }
        json!({"$defs": defs, "$ref": format!("#/$defs/a{levels}")}).to_string()
    }

    #[test]
    fn a_schema_whose_references_fan_out_is_refused_and_a_usual_one_is_not() {
        let usual = json!({
            "$defs": {"host": {"type": "string"}},
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/host"}, "b": {"$ref": "#/$defs/host"}},
        });
        assert_eq!(check(&usual.to_string()), Ok(()));
        assert_eq!(check(&doubling(5)), Ok(()));
        let refused = check(&doubling(40)).unwrap_err();
        assert!(refused.contains("fan out"), "{refused}");
    }

    #[test]
    fn size_depth_and_references_elsewhere_are_bounded() {
        let large = json!({"description": "x".repeat(MAX_SCHEMA)}).to_string();
        assert!(check(&large).unwrap_err().contains("bytes"));
        let mut deep = json!({});
        for _ in 0..=MAX_DEPTH {
            deep = json!({"not": deep});
        }
        assert!(check(&deep.to_string()).unwrap_err().contains("deeper"));
        let out = json!({"$ref": "https://example.com/schema"}).to_string();
        assert!(check(&out).unwrap_err().contains("leads out"));
        // One that leads to itself is a tree of configs.
        let tree = json!({"properties": {"next": {"$ref": "#"}}}).to_string();
        assert_eq!(check(&tree), Ok(()));
    }
}
