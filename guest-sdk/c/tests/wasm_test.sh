#!/bin/sh
# What needs the compiler for WebAssembly: that a new project of the template is tested and built by the commands that its
# README gives, and that the same source gives the same bytes in another folder.
set -eu
cd "$(dirname "$0")"
sdk=$(cd .. && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# As `guesthouse new NAME --lang c` does it.
new() {
    mkdir -p "$1/sdk"
    cp -R "$sdk/template/." "$1"
    for file in "$sdk"/*; do
        [ -d "$file" ] || cp "$file" "$1/sdk"
    done
    find "$1" -path "$1/sdk" -prune -o -type f -exec sed -i \
        -e 's/{{name}}/hello-world/g' -e 's/{{kind}}/HelloWorld/g' -e 's/{{plural}}/helloworlds/g' \
        -e 's/{{group}}/example.com/g' -e 's/{{snake}}/hello_world/g' -e 's/{{deploy}}//g' {} +
}

new "$scratch/one"
new "$scratch/a folder further/down/two"
for project in "$scratch/one" "$scratch/a folder further/down/two"; do
    make -C "$project" test
    make -C "$project"
done
if grep -rn '{{[a-z]*}}' "$scratch/one" --exclude-dir=sdk --exclude-dir=build; then
    echo 'not ok - a placeholder is left'
    exit 1
fi
cmp "$scratch/one/plugin.wasm" "$scratch/a folder further/down/two/plugin.wasm"

# And the conformance guest, whose include paths differ.
for project in "$scratch/here" "$scratch/there/and/further"; do
    mkdir -p "$project"
    cp -R "$sdk/conformance" "$project/conformance"
    cp "$sdk"/*.h "$sdk"/*.mk "$sdk/wasi-cc" "$sdk/toolchain.lock" "$project"
    make -C "$project/conformance" -B
done
cmp "$scratch/here/conformance/conformance.wasm" "$scratch/there/and/further/conformance/conformance.wasm"
sha256sum "$scratch/one/plugin.wasm" "$scratch/here/conformance/conformance.wasm" | sed "s|$scratch/||"
echo 'ok - the template is tested and built, and its bytes do not depend on the folder'
