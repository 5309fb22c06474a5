#!/usr/bin/env bash
# Run a suite in Paceline's container.
#
#   tools/run.sh nightly.yaml                            as 'paceline run nightly.yaml', in the container
#   tools/run.sh --gpus all --shm-size 16g -- nightly.yaml --only tag:gpu
#   tools/run.sh --command nightly nightly.yaml          as 'paceline nightly nightly.yaml'
#   tools/run.sh --shell                                 a shell in the container
#   tools/run.sh --shell nightly.yaml -- python -V       one command in it, with the suite's directories
#   tools/run.sh --dry-run nightly.yaml                  print the command, and do nothing
#
# Options are taken up to '--'; what is none of them goes to paceline, and so does all that follows '--'. The container
# sees the suite's directory (to read), its results, the directories of its 'paths', and the variables that the suite
# names, if they are set. 'paceline mounts nightly.yaml' shows them all.
#
# Options
#   --config FILE         a configuration file, as for paceline; repeatable
#   --command NAME        run, plan or nightly; 'run' unless given
#   --shell               a shell instead of paceline; the words after '--' are its command
#   --image NAME          instead of paceline:VERSION                                    [PACELINE_IMAGE]
#   --engine NAME         docker or podman; the first that is installed                  [PACELINE_ENGINE]
#   --gpus WHICH          all, none, a number, or device=0,1; 'none' unless given        [GPUS]
#   --shm-size SIZE       shared memory, for Ray's objects; half of the machine's memory [PACELINE_SHM_SIZE]
#   --memory SIZE         limit of memory; none unless given
#   --cpus N              limit of CPUs; none unless given
#   --network NAME        'host', a compose network, 'none'; the engine's own unless given
#   --user UID[:GID]      who runs; you, unless you are root: then the image's user
#   --volume FROM:TO[:ro] one more directory; repeatable
#   --read-only NAME      mount this item of the suite's 'paths' to be read only; repeatable
#   --env NAME            hand on one more variable; its value stays off the command line; repeatable
#   --use-host-source     Paceline's source from this checkout instead of the image's
#   --use-host-curator    the library in $HOST_CURATOR_DIR, at /opt/Curator and first on PYTHONPATH
#   --engine-arg WORD     one more word for the engine's run command; repeatable
#   --dry-run             print the engine's command, quoted for a shell
#   -h, --help            this text
#
# Names in brackets are environment variables with the same meaning; an option wins. PYTHON_BIN is a Python with
# paceline installed, by default this checkout's .venv, else python3: it reads the suite's files.
set -euo pipefail
# shellcheck source=tools/engine.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/engine.sh"

DRY_RUN=
engine=${PACELINE_ENGINE:-} image=${PACELINE_IMAGE:-} gpus=${GPUS:-none} shm_size=${PACELINE_SHM_SIZE:-}
paceline_command=run shell='' user='' host_source='' host_curator=''
limits=() volumes=() variables=() engine_args=() read_only=() paceline_args=() shell_args=()

while (($#)); do
  case $1 in
    --command=* | --image=* | --engine=* | --gpus=* | --shm-size=* | --memory=* | --cpus=* | --network=* | --user=* | \
      --volume=* | --read-only=* | --env=* | --engine-arg=*)
      set -- "${1%%=*}" "${1#*=}" "${@:2}"
      continue
      ;;
    --config) need_value "$@" && paceline_args+=("$1" "$2") && shift ;;
    --shell) shell=1 ;;
    --use-host-source) host_source=1 ;;
    --use-host-curator) host_curator=1 ;;
    --dry-run) DRY_RUN=1 ;;
    -h | --help) print_help "${BASH_SOURCE[0]}" && exit 0 ;;
    --command) need_value "$@" && paceline_command=$2 && shift ;;
    --image) need_value "$@" && image=$2 && shift ;;
    --engine) need_value "$@" && engine=$2 && shift ;;
    --gpus) need_value "$@" && gpus=$2 && shift ;;
    --shm-size) need_value "$@" && shm_size=$2 && shift ;;
    --memory | --cpus | --network) need_value "$@" && limits+=("$1=$2") && shift ;;
    --user) need_value "$@" && user=$2 && shift ;;
    --volume) need_value "$@" && volumes+=("--volume=$2") && shift ;;
    --read-only) need_value "$@" && read_only+=("--read-only=$2") && shift ;;
    --env) need_value "$@" && variables+=("$2") && shift ;;
    --engine-arg) need_value "$@" && engine_args+=("$2") && shift ;;
    --)
      shift
      if [[ $shell ]]; then shell_args=("$@"); else paceline_args+=("$@"); fi
      break
      ;;
    *) paceline_args+=("$1") ;;
  esac
  shift
done

engine=$(find_engine "$engine" docker podman)
is_podman=
[[ ${engine##*/} != podman* ]] || is_podman=1
image=${image:-paceline:$(package_version)}
[[ $image != -* ]] || die "an image's name cannot begin with a dash: '$image'"

# Ray keeps its objects in shared memory, of which engines give 64 MB. It is only taken when used.
default_shm_size() {
  local key size unit
  while read -r key size unit; do
    if [[ $key == MemTotal: && $unit == kB ]]; then
      printf '%sk' "$((size / 2))"
      return
    fi
  done 2>/dev/null </proc/meminfo || true
  printf 2g
}

# The engine's arguments for the suite: read by paceline itself, so that no suite is parsed twice in two ways.
find_suite_args() {
  local python=${PYTHON_BIN:-} options=(--null --for "$paceline_command" "${read_only[@]}")
  [[ -n $python ]] || { python=$REPOSITORY/.venv/bin/python && [[ -x $python ]]; } || python=python3
  # -P: what lies in the current directory is no module of ours.
  "$python" -P -c 'import paceline' 2>/dev/null ||
    die "$python has no paceline, or is older than 3.11: install it there, or name another Python in PYTHON_BIN"
  [[ $DRY_RUN ]] || options+=(--make-dirs)
  mapfile -d '' -t suite_args < <("$python" -P -m paceline mounts "${options[@]}" -- "${paceline_args[@]}")
  wait "$!" || exit $?
}

for name in "${variables[@]}"; do
  [[ $name =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] ||
    die "--env takes the name of a variable, whose value belongs in the environment: '${name%%=*}'"
done

command=("$engine" run --rm --init)
[[ ! -t 0 || ! -t 1 ]] || command+=(--interactive --tty)

if [[ $user ]]; then
  command+=("--user=$user")
elif ((EUID != 0)); then
  # What the run writes is then yours. Podman maps you to the same number inside.
  command+=("--user=$EUID:$(id -g)")
  [[ ! $is_podman ]] || command+=(--userns=keep-id)
fi

case $gpus in
  none | '') ;;
  all) if [[ $is_podman ]]; then command+=(--device=nvidia.com/gpu=all); else command+=(--gpus=all); fi ;;
  device=*)
    if [[ $is_podman ]]; then
      IFS=, read -r -a devices <<<"${gpus#device=}"
      for device in "${devices[@]}"; do command+=("--device=nvidia.com/gpu=$device"); done
    else
      command+=("--gpus=\"$gpus\"") # Docker reads it as CSV: without the quotes the comma ends the field
    fi
    ;;
  *[!0-9]*) die "--gpus is all, none, a number or device=0,1, not '$gpus'" ;;
  *) if [[ $is_podman ]]; then die "podman takes no number of GPUs: use --gpus device=0,1"; else command+=("--gpus=$gpus"); fi ;;
esac

command+=("--shm-size=${shm_size:-$(default_shm_size)}" "${limits[@]}")

suite_args=()
# A shell may do without a suite; a run may not, and paceline says what is missing.
if [[ ! $shell ]] || ((${#paceline_args[@]})); then
  find_suite_args
fi
command+=("${suite_args[@]}" "${volumes[@]}" "${variables[@]/#/--env=}")

python_path=
if [[ $host_source ]]; then
  command+=(--mount "$(bind_mount "$REPOSITORY/src" /opt/paceline/src)")
  python_path=/opt/paceline/src
fi
if [[ $host_curator ]]; then
  [[ -d ${HOST_CURATOR_DIR:-} ]] || die "--use-host-curator needs HOST_CURATOR_DIR, a directory"
  command+=(--mount "$(bind_mount "$(cd -- "$HOST_CURATOR_DIR" && pwd)" /opt/Curator)")
  python_path=/opt/Curator${python_path:+:$python_path}
fi
[[ -z $python_path ]] || command+=("--env=PYTHONPATH=$python_path")

command+=("${engine_args[@]}")
if [[ ! $shell ]]; then
  command+=("$image" "$paceline_command" "${paceline_args[@]}")
elif ((${#shell_args[@]})); then
  command+=("--entrypoint=${shell_args[0]}" "$image" "${shell_args[@]:1}")
else
  command+=(--entrypoint=/bin/bash "$image")
fi
run_or_print "${command[@]}"
