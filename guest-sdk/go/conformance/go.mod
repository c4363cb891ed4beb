module guesthouse.dev/guest-sdk/go/conformance

go 1.26.0

toolchain go1.26.8

require guesthouse.dev/guest-sdk/go v0.1.0

replace guesthouse.dev/guest-sdk/go => ../
