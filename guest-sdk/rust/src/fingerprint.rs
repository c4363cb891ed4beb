//! A short name for what many texts say together: for keys of effects, and for annotations that change with a content.

/// 16 hexadecimal digits that stand for these texts in this order, the same in every build and on every machine.
///
/// Every text counts as a whole: `["ab", ""]` and `["a", "b"]` differ. It tells changes apart and is no protection against
/// somebody who looks for two texts with one fingerprint.
pub fn fingerprint<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    // FNV-1a, 64 bits (www.isthe.com/chongo/tech/comp/fnv), each text ended by a byte that UTF-8 does not have.
    let bytes = texts
        .into_iter()
        .flat_map(|text| text.bytes().chain([0xff]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::fingerprint;

    #[test]
    fn texts_count_one_by_one_and_in_their_order() {
        let all = [
            &["a", "b"][..],
            &["b", "a"],
            &["ab"],
            &["ab", ""],
            &["", "ab"],
            &[],
        ];
        for (at, one) in all.iter().enumerate() {
            for other in &all[..at] {
                let print = |texts: &[&str]| fingerprint(texts.iter().copied());
                assert_ne!(print(one), print(other), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn a_fingerprint_never_changes_since_it_stands_in_keys() {
        assert_eq!(fingerprint([]), "cbf29ce484222325");
        assert_eq!(fingerprint(["a"]), "089bc907b544c769");
    }
}
