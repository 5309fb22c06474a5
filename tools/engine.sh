# shellcheck shell=bash
# What build_docker.sh and run.sh share. Every command is an array from its first word to the engine's last argument;
# nothing is ever put together as text and read by a shell again.

if ((BASH_VERSINFO[0] < 4 || (BASH_VERSINFO[0] == 4 && BASH_VERSINFO[1] < 4))); then
  echo "bash 4.4 or newer is needed; this is $BASH_VERSION" >&2
  exit 2
fi

unset CDPATH
REPOSITORY=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

# The text above the first line of code of a script is its help.
print_help() { awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$1"; }

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 2
}

# need_value OPTION [VALUE…]: whether a word follows an option; it may begin with a dash, and may be empty.
need_value() { (($# > 1)) || die "$1 needs a value; see --help"; }

# bind_mount SOURCE TARGET: the value of --mount for a directory to be read. Engines read it as CSV.
bind_mount() {
  local source=source=$1
  if [[ $source == *[,\"$'\r\n']* ]]; then
    source=\"${source//\"/\"\"}\"
  fi
  printf 'type=bind,%s,target=%s,readonly' "$source" "$2"
}

# The engine asked for, else the first one that is installed.
find_engine() {
  local asked=$1 name
  shift
  if [[ -n $asked ]]; then
    command -v -- "$asked" >/dev/null || die "no engine '$asked' is installed; see --engine"
    printf '%s' "$asked"
    return
  fi
  for name; do
    if command -v -- "$name" >/dev/null; then
      printf '%s' "$name"
      return
    fi
  done
  die "none of $* is installed; see --engine"
}

package_version() {
  local line
  while IFS= read -r line; do
    if [[ $line =~ ^__version__\ =\ \"([^\"]+)\" ]]; then
      printf '%s' "${BASH_REMATCH[1]}"
      return
    fi
  done <"$REPOSITORY/src/paceline/__init__.py"
  die "no version in src/paceline/__init__.py"
}

# Run the words given, or with DRY_RUN=1 print them as a shell would read them, in one line.
run_or_print() {
  if [[ ${DRY_RUN:-} ]]; then
    printf '%q' "$1"
    shift
    (($# == 0)) || printf ' %q' "$@"
    printf '\n'
  else
    exec -- "$@"
  fi
}
