//! The formats of strings that the server checks and that can be checked here without guessing; others are left to it
//! (kube-openapi `pkg/validation/strfmt`).

// Of `core`: an address to parse, and no way to a network.
use core::net::Ipv6Addr;

use base64::Engine as _;

/// Whether `text` has the format; true for one that is not known here.
pub(super) fn fits(format: &str, text: &str) -> bool {
    match format {
        "date" => date(text),
        "date-time" | "datetime" => date_time(text),
        "byte" => {
            !text.is_empty()
                && base64::engine::general_purpose::STANDARD
                    .decode(text)
                    .is_ok()
        }
        "ipv4" => ipv4(text) || (text.contains('.') && text.parse::<Ipv6Addr>().is_ok()),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "uuid" => uuid(text),
        _ => true,
    }
}

/// With leading zeros, which the server allows.
fn ipv4(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let octet =
        |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit()) && part.parse::<u8>().is_ok();
    parts.len() == 4 && parts.iter().all(octet)
}

fn date(text: &str) -> bool {
    let digits = |range: std::ops::Range<usize>| {
        let part = text.get(range)?;
        let plain = part.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| part.parse::<i16>().ok()).flatten()
    };
    let dashes = text.len() == 10 && text.get(4..5) == Some("-") && text.get(7..8) == Some("-");
    let (true, Some(year), Some(month), Some(day)) =
        (dashes, digits(0..4), digits(5..7), digits(8..10))
    else {
        return false;
    };
    jiff::civil::Date::new(year, month as i8, day as i8).is_ok()
}

/// RFC 3339, with `t` and `z` in either case.
fn date_time(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let Some((day, clock)) = lower.split_once('t') else {
        return false;
    };
    let bytes = clock.as_bytes();
    let two = |at: usize, most: u8| {
        let pair = bytes.get(at..at + 2)?;
        let plain = pair.iter().all(u8::is_ascii_digit);
        (plain && (pair[0] - b'0') * 10 + (pair[1] - b'0') <= most).then_some(())
    };
    let time = two(0, 23).is_some()
        && two(3, 59).is_some()
        && two(6, 59).is_some()
        && bytes.get(2) == Some(&b':')
        && bytes.get(5) == Some(&b':');
    let Some(mut rest) = clock.get(8..) else {
        return false;
    };
    if let Some(fraction) = rest.strip_prefix('.') {
        let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
        if zone.len() == fraction.len() {
            return false;
        }
        rest = zone;
    }
    let zone = match rest.as_bytes() {
        b"z" => true,
        [b'+' | b'-', a, b, b':', c, d] => [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()),
        _ => false,
    };
    date(day) && time && zone
}

/// With dashes or without.
fn uuid(text: &str) -> bool {
    let dashes = [8, 13, 18, 23];
    let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match text.len() {
        32 => hex(text),
        36 => text.bytes().enumerate().all(|(at, byte)| {
            if dashes.contains(&at) {
                byte == b'-'
            } else {
                byte.is_ascii_hexdigit()
            }
        }),
        _ => false,
    }
}
