#!/usr/bin/env bash
# To be sourced: packages of another Debian suite, through the mirror that this system's apt is configured with.
#
# Nothing is installed and the system's own sources are not touched: apt gets folders of its own under the cache, and
# packages are only downloaded (and checked against Debian's archive keys as always).
#
#   suite_update SUITE                   fetches the suite's package lists, once a shell
#   suite_version SUITE PACKAGE REGEX    prints the newest version that matches (from its start, epoch left out)
#   suite_download SUITE PACKAGE[=VERSION] FOLDER    downloads into FOLDER and sets SUITE_DEB to the file

suite_root=${SUITE_ROOT:?set by the script that sources this}

# Sets SUITE_OPTS: apt with its own sources, lists and cache.
suite_opts() {
  local dir="$suite_root/$1"
  SUITE_OPTS=(
    -qq
    -o "Dir::Etc::sourcelist=$dir/sources.list"
    -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::Lists=$dir/lists"
    -o "Dir::Cache=$dir/cache"
    -o Acquire::Languages=none
    -o APT::Sandbox::User=root
    -o Acquire::Retries=3
  )
}

# The configured mirror: `main`, or `security` for its separate archive.
suite_uri() {
  apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' | awk -v kind="$1" '
    kind == "security" && $2 ~ /-security$/ { print $1; exit }
    kind == "main" && $2 !~ /-(security|updates|backports|proposed-updates)$/ { print $1; exit }'
}

suite_update() {
  local suite=$1 dir="$suite_root/$1" kind=main uri
  case " ${SUITES_DONE:-} " in *" $suite "*) return 0 ;; esac
  case $suite in *-security) kind=security ;; esac
  uri=$(suite_uri "$kind")
  if [ -z "$uri" ]; then
    # A fresh container image has sources but no lists yet.
    apt-get -qq update >/dev/null 2>&1 || true
    uri=$(suite_uri "$kind")
  fi
  if [ -z "$uri" ]; then
    echo "apt is configured with no $kind mirror of Debian" >&2
    return 1
  fi
  mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
  printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "$uri" "$suite" \
    > "$dir/sources.list"
  suite_opts "$suite"
  apt-get "${SUITE_OPTS[@]}" update >&2 || return 1
  SUITES_DONE="${SUITES_DONE:-} $suite"
}

suite_version() {
  local version
  suite_opts "$1"
  version=$(apt-cache "${SUITE_OPTS[@]}" madison "$2" |
    awk -F'|' -v re="^([0-9]+:)?($3)" '{ gsub(/ /, "", $2) } $2 ~ re { print $2 }' | head -1)
  [ -n "$version" ] && echo "$version"
}

suite_download() {
  local package=${2%%=*}
  suite_opts "$1"
  mkdir -p "$3"
  rm -f "$3/${package}"_*.deb
  (cd "$3" && apt-get "${SUITE_OPTS[@]}" download "$2" >&2) || return 1
  SUITE_DEB=$(ls "$3/${package}"_*.deb)
}
