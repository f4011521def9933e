# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by ./errand, ./check, bench/run and tests/fresh/run: installs what is missing, configures, builds. A function
# that fails has said why and returns 1 (no `set -e` needed: bash ignores it inside conditions). Says what it does on stderr and is quiet when there is nothing to do.

setup_say() { printf 'errand set-up: %s\n' "$*" >&2; }

# setup_packages ROOT GROUP...: installs the packages of these groups (cmake/packages.txt) that are missing.
setup_packages() {
  local root=$1 group package program rest wanted=() missing=() have=' '
  shift
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    setup_say "this is no Debian: what cmake/packages.txt lists must be here already"
    return 0
  fi
  while read -r group package program rest; do
    [[ " $* " == *" $group "* ]] || continue
    [[ $program != - ]] && command -v "$program" >/dev/null && continue
    wanted+=("$package")
  done < <(grep -v '^ *#' "$root/cmake/packages.txt")
  ((${#wanted[@]})) || return 0
  while read -r package rest; do
    [[ $rest == installed ]] && have+="$package "
  done < <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null)
  for package in "${wanted[@]}"; do
    [[ $have == *" $package "* ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  local as=()
  if ((EUID != 0)); then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      as=(sudo -n)
    else
      setup_say "these packages are missing: ${missing[*]}"
      setup_say "install them with this command, then run me again:"
      printf '  sudo apt-get install -y --no-install-recommends %s\n' "${missing[*]}" >&2
      return 1
    fi
  fi
  setup_say "installing ${missing[*]}"
  local log
  log=$(mktemp "${TMPDIR:-/tmp}/errand-setup.XXXXXX")
  # A foreign source that cannot be reached must not keep Debian's own from being used: only the install decides.
  # The lock's timeout lets two set-ups on one machine follow each other.
  if "${as[@]}" apt-get -o DPkg::Lock::Timeout=600 update >"$log" 2>&1 || true
     "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 \
       install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
    rm -f "$log"
  else
    tail -n 30 "$log" >&2
    rm -f "$log"
    setup_say "apt-get could not install: ${missing[*]}"
    return 1
  fi
}

# setup_run LOG TEXT COMMAND...: runs a step of a build. A terminal sees it live; elsewhere its output is shown only
# when it fails.
setup_run() {
  local log=$1 text=$2
  shift 2
  if [[ -t 2 ]]; then
    setup_say "$text"
    "$@" >&2 || return 1
  elif ! "$@" >"$log" 2>&1; then
    setup_say "$text"
    grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking|Generating)' "$log" | tail -n 60 >&2
    return 1
  fi
}

# setup_is_strange ROOT FOLDER: the build folder is of another place (the clone was moved or copied): all paths are wrong.
setup_is_strange() {
  [[ -f $2/CMakeCache.txt ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$1" "$2/CMakeCache.txt"
}

# setup_configure ROOT PRESET FOLDER CMAKE-OPTIONS...: configures unless FOLDER is configured with these very options.
setup_configure() {
  local root=$1 preset=$2 folder=$3 fresh=() options
  shift 3
  options="$root|$preset|$(cksum <"$root/CMakePresets.json")|$*"
  [[ -f $folder/build.ninja && -f $folder/.options && $(<"$folder/.options") == "$options" ]] && return 0
  if setup_is_strange "$root" "$folder"; then fresh=(--fresh); fi
  mkdir -p "$folder"
  (cd "$root" && setup_run "$folder/.configure.log" "configuring $preset" \
    cmake --preset "$preset" "${fresh[@]}" "$@") || { setup_say "cmake failed in $folder"; return 1; }
  printf '%s' "$options" >"$folder/.options"
}

# setup_build FOLDER TARGET...: builds; no target: everything.
setup_build() {
  local folder=$1
  shift
  setup_run "$folder/.build.log" "building ${*:-all} in ${folder##*/}" ninja -C "$folder" "$@" ||
    { setup_say "the build in $folder failed"; return 1; }
}

# setup_errand ROOT TARGET...: packages, configuration, the release build and its stamp (see ./errand). The targets
# `all` and what it implies need the tests' packages, which the caller has installed.
setup_errand() {
  local root=${1%/.}
  shift
  mkdir -p "$root/build"
  exec 8>"$root/build/.setup-lock"
  flock 8
  setup_packages "$root" run build || return 1
  if [[ $1 == all ]]; then
    setup_configure "$root" release "$root/build" -DBUILD_TESTING=ON || return 1
  elif [[ ! -f $root/build/build.ninja ]] || setup_is_strange "$root" "$root/build"; then
    # What is configured stays so, with tests or by hand: changing to and fro would configure at every run.
    setup_configure "$root" release "$root/build" -DBUILD_TESTING=OFF || return 1
  fi
  printf '%s\n' "$root" >"$root/build/.errand-built.new"
  [[ -t 2 || -f $root/build/.errand-built ]] || setup_say "building; the first time takes some minutes"
  setup_build "$root/build" "$@" || return 1
  mv "$root/build/.errand-built.new" "$root/build/.errand-built"
  exec 8>&-
}
