//! zstd, since a ConfigMap holds a mebibyte at most.

use std::io::Read;

/// Why bytes cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// They are no zstd, or torn.
    #[error("the zstd data cannot be unpacked: {0}")]
    Torn(String),
    /// They grow beyond what a plugin may have.
    #[error("unpacked, the zstd data has more than the {0} bytes that a plugin may have")]
    TooLarge(u64),
}

/// What a zstd frame begins with (RFC 8878, 3.1.1).
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The bytes, unpacked if they are a zstd frame. Never more than `most`, whatever the frame says of itself.
pub fn unpack(bytes: Vec<u8>, most: u64) -> Result<Vec<u8>, UnpackError> {
    if !bytes.starts_with(&MAGIC) {
        return Ok(bytes);
    }
    let torn = |error: &dyn std::fmt::Display| UnpackError::Torn(error.to_string());
    let mut packed = &bytes[..];
    let mut frame =
        ruzstd::decoding::StreamingDecoder::new(&mut packed).map_err(|error| torn(&error))?;
    let mut unpacked = Vec::new();
    Read::by_ref(&mut frame)
        .take(most + 1)
        .read_to_end(&mut unpacked)
        .map_err(|error| torn(&error))?;
    if unpacked.len() as u64 > most {
        return Err(UnpackError::TooLarge(most));
    }
    drop(frame);
    if !packed.is_empty() {
        return Err(UnpackError::Torn(format!(
            "{} bytes follow the frame",
            packed.len()
        )));
    }
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    #[test]
    fn a_frame_is_unpacked_and_everything_else_is_left_as_it_is() {
        let plain: Vec<u8> = (0..100_000u32)
            .flat_map(|i| (i % 251).to_le_bytes())
            .collect();
        let packed = compress_to_vec(&plain[..], CompressionLevel::Fastest);
        assert!(packed.len() < plain.len());
        assert_eq!(unpack(packed, 1 << 20).unwrap(), plain);
        assert_eq!(unpack(plain.clone(), 1 << 20).unwrap(), plain);
    }

    #[test]
    fn a_bomb_ends_at_the_limit_and_a_torn_frame_is_an_error() {
        let packed = compress_to_vec(&vec![0; 1 << 20][..], CompressionLevel::Fastest);
        assert!(packed.len() < 1 << 10);
        assert!(unpack(packed.clone(), 1 << 20).is_ok());
        let error = unpack(packed.clone(), (1 << 20) - 1).unwrap_err();
        assert!(matches!(error, UnpackError::TooLarge(_)));
        for at in 4..packed.len() {
            assert!(
                unpack(packed[..at].to_vec(), 1 << 20).is_err(),
                "torn at {at}"
            );
        }
        assert!(unpack([&packed[..], b"more"].concat(), 1 << 20).is_err());
    }
}
