//! What an API server's refusal means to a pass.

use guesthouse_core::{pass::WriteError, units::Span};

use crate::cluster::RequestError;

/// The pass' view of a failed request.
pub(crate) fn write_error(error: RequestError) -> WriteError {
    let retry_after = error
        .retry_after()
        .map(|wait| Span(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)));
    match error {
        RequestError::Conflict(_) | RequestError::AlreadyExists(_) => WriteError::Conflict,
        RequestError::NotFound(_) => WriteError::NotFound,
        RequestError::Invalid(message) => WriteError::Invalid(message),
        RequestError::Forbidden(message) => WriteError::Forbidden(message),
        // A kind that is not served says nothing about its objects.
        other => WriteError::Unavailable {
            message: other.to_string(),
            retry_after,
        },
    }
}
