#!/usr/bin/env bash
# Build Paceline's image from this repository.
#
#   tools/build_docker.sh                              paceline:VERSION, with what most suites need
#   tools/build_docker.sh --tag-as-latest              and call it paceline:latest too
#   tools/build_docker.sh --extras ray,mlflow,slack    with these extras of pyproject.toml only
#   tools/build_docker.sh --cuda                       paceline:VERSION-cuda, over NVIDIA's CUDA image
#   tools/build_docker.sh --base my-library:1.2        over an image with the library that is measured
#   tools/build_docker.sh --dry-run                    print the command, and do nothing
#
# Options
#   --tag-as-latest       also tag the image as 'latest' ('latest-cuda' with --cuda)
#   --image NAME[:TAG]    instead of paceline:VERSION                            [PACELINE_IMAGE]
#   --extras A,B          extras to install, 'none' for none                     [PACELINE_EXTRAS]
#   --base IMAGE          the image to build over, pinned by tag or digest       [PACELINE_BASE_IMAGE]
#   --cuda                build over nvidia/cuda, and add the extra 'gpu'
#   --torch REQUIREMENT   such as torch==2.13.0; the extra 'evals' needs it
#   --apt-packages "A B"  Debian packages of the image, instead of git
#   --engine NAME         docker, podman or buildah; the first that is installed [PACELINE_ENGINE]
#   --engine-arg WORD     one more word for the engine's build command; repeatable
#   --no-cache            build every step anew
#   --dry-run             print the engine's command, quoted for a shell
#   -h, --help            this text
#
# Names in brackets are environment variables with the same meaning; an option wins.
set -euo pipefail
# shellcheck source=tools/engine.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/engine.sh"

# Kept here and not in the Dockerfile, whose default is the plain image.
CUDA_BASE=nvidia/cuda:12.6.3-runtime-ubuntu24.04

DRY_RUN=
engine=${PACELINE_ENGINE:-} image=${PACELINE_IMAGE:-} base=${PACELINE_BASE_IMAGE:-} extras=${PACELINE_EXTRAS:-}
latest='' cuda='' torch=''
build_args=() engine_args=()

while (($#)); do
  case $1 in
    --image=* | --extras=* | --base=* | --torch=* | --apt-packages=* | --engine=* | --engine-arg=*)
      set -- "${1%%=*}" "${1#*=}" "${@:2}"
      continue
      ;;
    --tag-as-latest) latest=1 ;;
    --cuda) cuda=1 ;;
    --no-cache) engine_args+=(--no-cache) ;;
    --dry-run) DRY_RUN=1 ;;
    -h | --help) print_help "${BASH_SOURCE[0]}" && exit 0 ;;
    --image) need_value "$@" && image=$2 && shift ;;
    --extras) need_value "$@" && extras=$2 && shift ;;
    --base) need_value "$@" && base=$2 && shift ;;
    --torch) need_value "$@" && torch=$2 && shift ;;
    --apt-packages) need_value "$@" && build_args+=("APT_PACKAGES=$2") && shift ;;
    --engine) need_value "$@" && engine=$2 && shift ;;
    --engine-arg) need_value "$@" && engine_args+=("$2") && shift ;;
    *) die "unknown option '$1'; see --help" ;;
  esac
  shift
done

engine=$(find_engine "$engine" docker podman buildah)
version=$(package_version)
suffix=${cuda:+-cuda}
image=${image:-paceline:$version$suffix}
[[ $image != -* ]] || die "an image's name cannot begin with a dash: '$image'"
if [[ $cuda ]]; then
  base=${base:-$CUDA_BASE}
  extras=${extras:-ray,mlflow,postgres,s3,curate},gpu
fi

build_args+=("VERSION=$version")
[[ -z $base ]] || build_args+=("BASE_IMAGE=$base")
[[ -z $extras ]] || build_args+=("EXTRAS=$extras")
[[ -z $torch ]] || build_args+=("TORCH=$torch")
# The commit's time, not the clock's: the same commit gives the same labels. Without git the labels are empty.
if revision=$(git -C "$REPOSITORY" rev-parse --verify --quiet HEAD 2>/dev/null); then
  build_args+=("REVISION=$revision" "CREATED=$(git -C "$REPOSITORY" log -1 --format=%cI)")
fi

command=("$engine" build)
# Docker's own format: OCI's has no place for a health check.
[[ ${engine##*/} == docker* ]] || command+=(--format docker)
command+=(--file "$REPOSITORY/docker/Dockerfile" --tag "$image")
if [[ $latest ]]; then
  name=${image%%@*}
  [[ ${name##*/} != *:* ]] || name=${name%:*}
  command+=(--tag "$name:latest$suffix")
fi
for word in "${build_args[@]}"; do
  command+=(--build-arg "$word")
done
command+=("${engine_args[@]}" "$REPOSITORY")
run_or_print "${command[@]}"
