//! Standard base64 with padding (RFC 4648), which is how bytes stand in the contract's JSON.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(super) fn encode(bytes: &[u8]) -> String {
    let group = |chunk: &[u8]| {
        let number = (0..3).fold(0_u32, |sum, at| {
            sum << 8 | u32::from(chunk.get(at).copied().unwrap_or(0))
        });
        let digit = |at: usize| match at > chunk.len() {
            true => '=',
            false => char::from(DIGITS[(number >> (18 - 6 * at) & 63) as usize]),
        };
        [digit(0), digit(1), digit(2), digit(3)]
    };
    bytes.chunks(3).flat_map(group).collect()
}

pub(super) fn decode(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let (mut number, mut bits) = (0_u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let digit = DIGITS.iter().position(|digit| *digit == letter);
        let digit = digit.ok_or_else(|| format!("not base64: `{text}`"))?;
        number = number << 6 | u32::try_from(digit).unwrap_or(0);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((number >> bits & 255) as u8);
        }
    }
    Ok(bytes)
}
