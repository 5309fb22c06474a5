"""Arms as they were asked for → settings that trials can run in: environments built, revisions checked out."""

import hashlib
import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from paceline.errors import BuildError
from paceline.experiments.ab.folders import build_conda
from paceline.experiments.ab.spec import NULL_ARM, ABSpec, ArmSpec
from paceline.experiments.builds.build import Worktree, checkout
from paceline.experiments.builds.environments import Venv, build_venv
from paceline.experiments.trials import TrialSetting
from paceline.record.files import write_atomic
from paceline.record.repository import find_top

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """An arm that is ready to run; the null arm has everything of the baseline but its name."""

    name: str
    setting: TrialSetting
    facts: Mapping[str, Any] = field(default_factory=dict)
    null: bool = False

    @property
    def installed(self) -> tuple[str, ...]:
        return self.setting.venv.installed if self.setting.venv else ()


def make_arms(
    spec: ABSpec, *, directory: Path, cache_dir: Path, say: Say, build: bool = True
) -> tuple[tuple[Arm, ...], tuple[str, ...]]:
    """The arms in their order, that for A/A last, and notes; `directory` is the experiment's.

    Without `build`, environments are only named: good for a plan.
    """
    notes: list[str] = []
    arms = [_make_arm(spec, arm, directory, cache_dir, say, notes, build=build) for arm in spec.arms]
    if spec.null_arm:
        first = arms[0]
        setting = replace(first.setting, name=NULL_ARM, details={"arm": NULL_ARM})
        arms.append(replace(first, name=NULL_ARM, setting=setting, null=True))
    return tuple(arms), tuple(dict.fromkeys(notes))


def _make_arm(
    spec: ABSpec, arm: ArmSpec, directory: Path, cache_dir: Path, say: Say, notes: list[str], *, build: bool
) -> Arm:
    options = arm.options
    tree = None
    try:
        if options.git is not None:
            text = options.git.repo
            is_url = "://" in text or text.startswith("git@")
            repo = text if is_url else spec.base / Path(text).expanduser()
            tree = checkout(repo, options.git.ref, cache_dir=cache_dir)
            if not is_url and not options.packages:
                tree = replace(tree, top=find_top(Path(repo)))
        venv = _make_venv(spec, arm, tree, cache_dir, say, notes, build=build)
    except BuildError as error:
        raise BuildError(f"arm {arm.name}: {error}") from error
    configs = [*spec.configs, *(spec.base / Path(text).expanduser() for text in options.config)]
    if options.ray is not None:
        configs.append(_write(cache_dir, {"ray": options.ray}))
    dask = {"DASK_CONFIG": str(_write(cache_dir, options.dask))} if options.dask else {}
    setting = TrialSetting(
        name=arm.name,
        directory=directory,
        configs=tuple(configs),
        skipped=spec.skipped,
        only=spec.only,
        exclude=spec.exclude,
        venv=venv,
        worktree=tree,
        env={**options.env, **dask},
        args={
            name: tuple(shlex.split(given) if isinstance(given, str) else given)
            for name, given in options.args.items()
        },
        params=options.params,
        details={"arm": arm.name},
    )
    facts = {
        **options.model_dump(exclude_defaults=True),
        **({"conda": arm.conda.name} if arm.conda else {}),
        **({"environment": venv.key} if venv else {}),
        **({"revision": tree.revision} if tree else {}),
    }
    return Arm(name=arm.name, setting=setting, facts=facts)


def _make_venv(
    spec: ABSpec,
    arm: ArmSpec,
    tree: Worktree | None,
    cache_dir: Path,
    say: Say,
    notes: list[str],
    *,
    build: bool,
) -> Venv | None:
    log = cache_dir / "logs" / f"{_digest(arm.name + str(spec.base))}.log"
    if arm.conda is not None and build:
        return build_conda(arm.conda, cache_dir=cache_dir, log=log, say=say, notes=notes)
    options = arm.options
    if options.packages is None:
        return None
    packages = [text.replace("{repo_dir}", str(tree.path)) if tree else text for text in options.packages]
    if build:
        say(f"arm {arm.name}: an environment with {', '.join(packages) or 'no packages'}")
    return build_venv(
        packages, cache_dir=cache_dir, log=log, python=options.python, base=spec.base, build=build
    )


def _write(cache_dir: Path, data: Any) -> Path:
    """A file for the arms' programs, by its content the same each time; JSON is YAML too."""
    text = json.dumps(data, indent=2, sort_keys=True)
    path = cache_dir / "arms" / f"{_digest(text)}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text.encode() + b"\n")
    return path


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
