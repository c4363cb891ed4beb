//! A second version of the plugin without a second build: the same code with a note in it, and so another digest.

/// The module with a custom section at its end, which is for tools and changes nothing that runs (WebAssembly core
/// specification, 5.5.3).
pub(super) fn with_note(wasm: &[u8], note: &str) -> Vec<u8> {
    const NAME: &str = "guesthouse-demo";
    let mut section = Vec::new();
    push_length(&mut section, NAME.len());
    section.extend_from_slice(NAME.as_bytes());
    section.extend_from_slice(note.as_bytes());
    let mut module = wasm.to_vec();
    module.push(0);
    push_length(&mut module, section.len());
    module.extend_from_slice(&section);
    module
}

/// LEB128.
fn push_length(bytes: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        bytes.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_is_one_custom_section_behind_the_module() {
        let module = with_note(b"\0asm\x01\0\0\0", "v2");
        assert_eq!(&module[..8], b"\0asm\x01\0\0\0");
        assert_eq!(&module[8..], b"\0\x12\x0fguesthouse-demov2");
        let long = with_note(b"", &"x".repeat(200));
        assert_eq!(&long[..3], [0, 0xd8, 0x01]);
        assert_eq!(long.len(), 3 + 0xd8);
    }
}
