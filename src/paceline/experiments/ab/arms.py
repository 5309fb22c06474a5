"""Arms as they were asked for → settings that trials can run in: environments built, revisions checked out."""

import hashlib
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from paceline.errors import BuildError
from paceline.experiments.ab.schema import ArmOptions
from paceline.experiments.ab.spec import NULL_ARM, ABSpec, ArmSpec
from paceline.experiments.builds.conda import build_conda
from paceline.experiments.builds.environments import Venv, build_venv, planned_venv
from paceline.experiments.builds.worktrees import Worktree, checkout
from paceline.experiments.trials import TrialSetting
from paceline.record.atomic import write_atomic

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
    """The arms in their order, that for A/A last, and what is worth a word; `directory` is the experiment's.

    Without `build`, environments are only named: good for a plan.
    """
    notes: list[str] = []
    maker = _Maker(spec, directory, cache_dir, say, notes, build=build)
    arms = [maker.make(arm) for arm in spec.arms]
    if spec.null_arm:
        first = arms[0]
        setting = replace(first.setting, name=NULL_ARM, details={"arm": NULL_ARM})
        arms.append(replace(first, name=NULL_ARM, setting=setting, null=True))
    return tuple(arms), tuple(dict.fromkeys(notes))


class _Maker:
    """Makes one arm after the other."""

    def __init__(
        self, spec: ABSpec, directory: Path, cache_dir: Path, say: Say, notes: list[str], *, build: bool
    ) -> None:
        self._spec = spec
        self._directory = directory
        self._cache_dir = cache_dir
        self._say = say
        self._notes = notes
        self._build = build

    def make(self, arm: ArmSpec) -> Arm:
        options = arm.options
        try:
            tree = self._tree(options)
            venv = self._venv(arm, tree)
        except BuildError as error:
            raise BuildError(f"arm {arm.name}: {error}") from error
        spec = self._spec
        setting = TrialSetting(
            name=arm.name,
            directory=self._directory,
            configs=(*spec.configs, *self._configs(arm)),
            skipped=spec.skipped,
            only=spec.only,
            exclude=spec.exclude,
            venv=venv,
            worktree=tree,
            env={**options.env, **self._dask(options)},
            args={name: _words(given) for name, given in options.args.items()},
            params=options.params,
            details={"arm": arm.name},
        )
        return Arm(name=arm.name, setting=setting, facts=_facts(arm, venv, tree))

    def _tree(self, options: ArmOptions) -> Worktree | None:
        if options.git is None:
            return None
        text = options.git.repo
        is_url = "://" in text or text.startswith("git@")
        repo = text if is_url else self._spec.base / Path(text).expanduser()
        return checkout(repo, options.git.ref, cache_dir=self._cache_dir)

    def _venv(self, arm: ArmSpec, tree: Worktree | None) -> Venv | None:
        log = self._cache_dir / "logs" / f"{_digest(arm.name + str(self._spec.base))}.log"
        if arm.conda is not None and self._build:
            return build_conda(
                arm.conda,
                cache_dir=self._cache_dir,
                log=log,
                say=self._say,
                notes=self._notes,
                also=("pytest",),
            )
        options = arm.options
        if options.packages is None:
            return None
        packages = [text.replace("{repo_dir}", str(tree.path)) if tree else text for text in options.packages]
        base = self._spec.base
        if not self._build:
            return planned_venv(packages, cache_dir=self._cache_dir, python=options.python, base=base)
        self._say(f"arm {arm.name}: an environment with {', '.join(packages) or 'no packages'}")
        return build_venv(packages, cache_dir=self._cache_dir, log=log, python=options.python, base=base)

    def _configs(self, arm: ArmSpec) -> list[Path]:
        configs = [self._spec.base / Path(text).expanduser() for text in arm.options.config]
        if arm.options.ray is not None:
            configs.append(self._write({"ray": arm.options.ray}))
        return configs

    def _dask(self, options: ArmOptions) -> dict[str, str]:
        if not options.dask:
            return {}
        return {"DASK_CONFIG": str(self._write(options.dask))}

    def _write(self, data: Any) -> Path:
        """A file for the arms' programs, by its content the same each time; JSON is YAML too."""
        text = json.dumps(data, indent=2, sort_keys=True)
        path = self._cache_dir / "arms" / f"{_digest(text)}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text.encode() + b"\n")
        return path


def _words(given: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(shlex.split(given)) if isinstance(given, str) else tuple(given)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _facts(arm: ArmSpec, venv: Venv | None, tree: Worktree | None) -> dict[str, Any]:
    given = arm.options.model_dump(exclude_defaults=True)
    return {
        **given,
        **({"conda": arm.conda.name} if arm.conda else {}),
        **({"environment": venv.key} if venv else {}),
        **({"revision": tree.revision} if tree else {}),
    }
