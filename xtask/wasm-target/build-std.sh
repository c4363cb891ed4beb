#!/usr/bin/env bash
# Gives the active Rust toolchain a standard library for wasm32-wasip1 where `rustup target add` cannot reach its server.
#
# The source of std must be of exactly the toolchain's version. It comes from Debian's package rust-src (whichever suite
# carries that version), or from a tar; the C library under it comes from Debian's wasi-libc. std is built once, about
# half a minute, and installed into the toolchain: plain `cargo build --target wasm32-wasip1` then works.
#
# usage: build-std.sh WORK_FOLDER
#   WASM_STD_SRC_TAR=FILE   a tar of std's source of this very version (its top folder is `library`), used instead of
#                           rust-src; rustup's component rust-src holds the same files under lib/rustlib/src/rust
# exit 3: the source or the C library cannot be had here
set -euo pipefail
work=${1:?usage: build-std.sh WORK_FOLDER}
target=wasm32-wasip1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
SUITE_ROOT="$work/suites"
. "$here/debian-suite.sh"

sysroot=$(rustc --print sysroot)
version=$(rustc -V | awk '{print $2}')
commit=$(rustc -Vv | awk '/^commit-hash/{print $2}')
# The toolchain's own programs: rustup's proxies would choose another one outside the checkout.
[ -x "$sysroot/bin/cargo" ] && PATH="$sysroot/bin:$PATH"
say() { echo "wasm target: $*" >&2; }
give_up() {
  echo "wasm target: $*" >&2
  echo "wasm target: see \`cargo xtask setup --help\` for WASM_STD_SRC_TAR" >&2
  exit 3
}

for tool in tar xz; do
  command -v "$tool" >/dev/null || give_up "$tool is not installed"
done
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
  give_up "this way needs Debian's apt-get and dpkg-deb, for wasi-libc"
mkdir -p "$work"

# --- std's source. `.ok` marks a folder that was unpacked to its end.
src="$work/rust-src-$version"
fetch_source() {
  local place suite package found deb=
  for place in trixie-backports:rust-src forky:rust-src sid:rust-src trixie:rust-src bookworm-security:rust-web-src; do
    suite=${place%%:*} package=${place##*:}
    suite_update "$suite" || continue
    found=$(suite_version "$suite" "$package" "$version[+-]") || continue
    say "fetching $package $found of Debian $suite"
    if suite_download "$suite" "$package=$found" "$work"; then
      deb=$SUITE_DEB
      break
    fi
  done
  [ -n "$deb" ] || give_up "no Debian suite has the source of rustc $version"
  dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$src" --strip-components=4 --wildcards \
    --exclude='*/library/vendor/*' './usr/src/rustc-*/library/*'
  rm -f "$deb"
}
if [ ! -e "$src/.ok" ]; then
  rm -rf "$src"
  mkdir -p "$src"
  if [ -n "${WASM_STD_SRC_TAR:-}" ]; then
    say "unpacking std's source from WASM_STD_SRC_TAR"
    tar -xf "$WASM_STD_SRC_TAR" -C "$src"
  else
    fetch_source
  fi
  [ -f "$src/library/sysroot/Cargo.toml" ] || give_up "the source of std has no library/sysroot"
  touch "$src/.ok"
fi

# --- the C library
libc="$work/wasi-libc"
if [ ! -e "$libc/.ok" ]; then
  deb=
  for suite in trixie-backports trixie forky sid; do
    suite_update "$suite" || continue
    found=$(suite_version "$suite" wasi-libc .) || continue
    say "fetching wasi-libc $found of Debian $suite"
    if suite_download "$suite" "wasi-libc=$found" "$work"; then
      deb=$SUITE_DEB
      break
    fi
  done
  [ -n "$deb" ] || give_up "no Debian suite offers wasi-libc"
  rm -rf "$libc"
  mkdir -p "$libc"
  dpkg-deb -x "$deb" "$libc"
  rm -f "$deb"
  touch "$libc/.ok"
fi

# --- build and install
say "building std for rustc $version"
# std may use unstable features on a stable compiler; that is what this variable is for.
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$work/target-$version" __CARGO_DEFAULT_LIB_METADATA=wasmstd
export CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1
# Paths are remapped so that two builds of one version are the same library: cargo does not notice a changed std and
# would stop with E0460 at what it had built with the old one.
export RUSTFLAGS="-Cembed-bitcode=yes -Zforce-unstable-if-unmarked
  --remap-path-prefix=$src=/rustc/$commit
  --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=/rust/deps"
unset CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_TARGET CARGO_BUILD_RUSTFLAGS
rm -rf "$CARGO_TARGET_DIR"
(cd "$src/library" && cargo build --quiet --release --locked --target "$target" \
  --manifest-path sysroot/Cargo.toml --features backtrace,panic-unwind)

dir="$sysroot/lib/rustlib/$target"
rm -rf "$dir.new"
mkdir -p "$dir.new/lib/self-contained"
cp "$CARGO_TARGET_DIR/$target/release/deps/"*.rlib "$dir.new/lib/"
rm -f "$dir.new/lib/libsysroot-"*.rlib
lib="$libc/usr/lib/$target"
[ -d "$lib" ] || lib="$libc/usr/lib/wasm32-wasi" # the target's name in older packages
cp "$lib/libc.a" "$lib/crt1-command.o" "$lib/crt1-reactor.o" "$dir.new/lib/self-contained/"
# Renamed when complete: whoever finds the folder finds a whole library.
rm -rf "$dir"
mv "$dir.new" "$dir"
rm -rf "$CARGO_TARGET_DIR" "$src"
say "installed ($(du -sm "$dir" | cut -f1) MiB)"
