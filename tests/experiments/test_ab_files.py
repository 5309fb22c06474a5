"""A/B files and folders: read, checked, and the results written from them."""

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from paceline.errors import ConfigError, PacelineError
from paceline.experiments.ab.experiment import make_schedule
from paceline.experiments.ab.folders import is_folder, pip_part, read_folder
from paceline.experiments.ab.report import (
    ABResult,
    ArmComparison,
    ArmInfo,
    Missing,
    markdown,
    page,
    result_json,
    terminal_lines,
)
from paceline.experiments.ab.spec import ABFile, ABSpec, ArmOptions, read_spec
from paceline.report.table import Screen
from workplace import Workplace

SUITE = "entries:\n  - {name: one, command: 'true'}\n"


def read(tmp_path: Path, text: str, **environ: str) -> ABSpec:
    (tmp_path / "suite.yaml").write_text(SUITE)
    path = tmp_path / "ab.yaml"
    path.write_text(text)
    return read_spec(path, environ)


class TestFiles:
    def test_all_keys(self, tmp_path: Path) -> None:
        spec = read(
            tmp_path,
            "config: suite.yaml\n"
            "only: [one]\n"
            "metrics: {rows: higher}\n"
            "arms:\n"
            "  a: {packages: [x==1], python: 3.12, env: {N: 1, FLAG: true, HOME_: '${WHERE}'}}\n"
            "  b: {git: {repo: ../r, ref: main}, args: {one: --fast}, params: {size: 3}}\n"
            "null_arm: false\nbudget: {runs: 8, time: 1h 30m}\nseed: 5\nmargin: 1%\nwarmup: 2\n"
            "vary_hash_seed: false\n",
            WHERE="there",
        )
        assert spec.configs == (tmp_path / "suite.yaml",)
        assert spec.arm_names == ("a", "b")
        assert spec.arms[0].options.python == "3.12"
        assert spec.arms[0].options.env == {"N": "1", "FLAG": "true", "HOME_": "there"}
        assert spec.metrics == {"rows": "higher"}
        assert not spec.vary_hash_seed
        assert (spec.max_runs, spec.max_time_s, spec.seed, spec.margin, spec.warmup) == (8, 5400, 5, 0.01, 2)

    def test_a_suite_of_its_own_and_a_list_of_arms(self, tmp_path: Path) -> None:
        spec = read(tmp_path, SUITE + "arms:\n  - name: a\n  - {name: b, env: {X: y}}\nbudget: {time: 90}\n")
        assert spec.configs == (tmp_path / "ab.yaml",)
        assert spec.arm_names == ("a", "b", "null")
        assert (spec.max_runs, spec.max_time_s) == (None, 90)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("config: suite.yaml\narms: {a: {pakages: []}, b: {}}", r"ab.yaml:2: arms.a: .* mean 'packages'"),
            ("config: suite.yaml\narms: {a: {}, b: {}}\nbuget: {}", r"ab.yaml:3: unknown .*; did you mean 'budget'"),
            ("config: suite.yaml\narms: {a: {}}\nnull_arm: false", r"ab.yaml:2: arms: nothing to compare with"),
            ("arms: {a: {}, b: {}}", r"ab.yaml:1: give 'config' or a suite of its own"),
            (SUITE + "config: suite.yaml\narms: {a: {}, b: {}}", r"ab.yaml:3: give 'config' or .* not both"),
            ("config: nowhere.yaml\narms: {a: {}, b: {}}", r"ab.yaml:1: config: nowhere.yaml: no such file"),
            ("config: suite.yaml\narms: {a: {env: {X: '${UNSET_ONE}'}}, b: {}}", r"ab.yaml:2: .*UNSET_ONE"),
            ("config: suite.yaml\narms: [{name: a}, {name: a}]", r"ab.yaml:2: arms\[1\]: a second arm 'a'"),
            ("config: suite.yaml\narms: {a: {}, b: {}}\nbudget: {time: soon}", r"yaml:3: budget.time: expected"),
            ("config: suite.yaml\narms: {a: {}, b: {}}\nbudget: {runs: 0}", r"yaml:3: budget.runs: expected"),
            ("config: suite.yaml\narms: {a: {git: {reff: x}}, b: {}}", r"did you mean 'ref'"),
            ("- a\n", r"ab.yaml:1: expected one mapping"),
        ],
        ids=lambda value: "" if value.startswith(("config", "arms", "entries", "-")) else value[:25],
    )  # fmt: skip
    def test_mistakes_have_a_line(self, tmp_path: Path, text: str, said: str) -> None:
        with pytest.raises(ConfigError, match=said):
            read(tmp_path, text)

    def test_a_budget_too_small_for_warm_ups_goes_without(self, tmp_path: Path) -> None:
        arms = "config: suite.yaml\narms: {a: {}, b: {}}\n"
        assert make_schedule(read(tmp_path, arms + "budget: {runs: 100}")).warmup == 1
        schedule = make_schedule(read(tmp_path, arms + "budget: {runs: 12}"))
        assert (schedule.warmup, schedule.max_blocks) == (0, 4)
        with pytest.raises(PacelineError, match="too small for 3 arms"):
            make_schedule(read(tmp_path, arms + "budget: {runs: 2}"))


class TestDocumentation:
    REPOSITORY = Path(__file__).parents[2]

    def test_the_page_has_every_key(self) -> None:
        text = (self.REPOSITORY / "docs" / "ab.md").read_text()
        rows = "\n".join(line.split("|")[1] for line in text.splitlines() if line.startswith("|"))
        for name in (*ABFile.model_fields, *ArmOptions.model_fields):
            assert f"`{name}`" in rows, name

    def test_the_example_plans(self, place: Workplace) -> None:
        example = self.REPOSITORY / "examples" / "ab" / "duckdb.yaml"
        done = place.run("ab", example, "--dry-run", PACELINE_CACHE=str(place.path / "cache"))
        assert done.returncode == 0, done.stderr
        assert "packages duckdb==0.9.2" in done.stdout
        assert not (place.path / "cache").exists()

    def test_the_example_runs(self, place: Workplace) -> None:
        pytest.importorskip("duckdb")
        script = self.REPOSITORY / "examples" / "ab" / "sales_queries.py"
        words = [sys.executable, script, "--rows", "2000", "--benchmark-results-path", place.path]
        subprocess.run(words, check=True, timeout=120)
        metrics = json.loads((place.path / "metrics.json").read_text())
        assert metrics["matches"] > 0
        assert metrics["group_cpu_s"] > 0


class TestFolders:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "AB_environments"
        folder.mkdir()
        (tmp_path / "tests").mkdir()
        (tmp_path / "tests" / "test_a.py").write_text("def test_a(): pass\n")
        for name in ("baseline", "other"):
            (folder / f"AB_{name}.conda.yaml").write_text("dependencies: [python=3.11, pip: [x]]\n")
            (folder / f"AB_{name}.cluster.yaml").write_text("")
            (folder / f"AB_{name}.dask.yaml").write_text("")
        (folder / "AB_other.dask.yaml").write_text(
            "dask:\n  distributed: {scheduler: {worker-saturation: 1.1}}\n"
        )
        (folder / "config.yaml").write_text(
            "repeat: 5\ntest_null_hypothesis: true\ntargets: [tests/test_a.py]\nmarkers: not slow\n"
            "h2o_datasets: [a, b]\nmax_parallel: {ci_jobs: 5}\n"
        )
        return folder

    def test_is_read(self, folder: Path, tmp_path: Path) -> None:
        assert is_folder(folder)
        assert is_folder(folder / "config.yaml")
        spec = read_folder(folder, files=tmp_path / "files")
        assert spec.arm_names == ("baseline", "other", "null")
        assert (spec.max_runs, spec.warmup) == (15, 0)
        other = spec.arms[1].options
        assert other.env["AB_VERSION"] == "AB_other"
        assert other.env["CLUSTER_KWARGS"] == str(folder / "AB_other.cluster.yaml")
        assert other.env["H2O_DATASETS"] == "a,b"
        assert other.dask == {"distributed": {"scheduler": {"worker-saturation": 1.1}}}
        assert any("max_parallel" in note for note in spec.notes)
        assert any("'dask'" in note for note in spec.notes)

    def test_mistakes_are_told(self, folder: Path, tmp_path: Path) -> None:
        (folder / "config.yaml").write_text("repeat: 0\n")
        with pytest.raises(ConfigError, match=r"config.yaml:1: repeat: 0 switches"):
            read_folder(folder, files=tmp_path)
        (folder / "config.yaml").write_text("repeat: 3\ntargets: [tests/gone.py]\n")
        with pytest.raises(PacelineError, match=r"there is no tests/gone.py"):
            read_folder(folder, files=tmp_path)
        (folder / "AB_baseline.conda.yaml").unlink()
        with pytest.raises(PacelineError, match="there is no AB_baseline"):
            read_folder(folder, files=tmp_path)

    def test_what_pip_can_install_of_conda(self) -> None:
        dependencies = [
            "python=3.10", "pip", "conda-forge::dask ==2024.1.0", "pandas=2.1", "numpy >=1.2,<3", "nodejs",
            "pytorch", "pyarrow=14.0.1=py310_0", {"pip": ["git+https://example.com/d.git@main"]},
        ]  # fmt: skip
        packages, python, left_out = pip_part({"dependencies": dependencies})
        assert python == "3.10"
        assert left_out == ["nodejs"]
        assert packages == [
            "dask==2024.1.0", "pandas==2.1.*", "numpy>=1.2,<3", "torch", "pyarrow==14.0.1",
            "git+https://example.com/d.git@main",
        ]  # fmt: skip


def make_result(word: str = "plain") -> ABResult:
    def one(metric: str, verdict: str, ratio: float | None, arm: str = "new") -> ArmComparison:
        return ArmComparison(
            case=word,
            metric=metric,
            arm=arm,
            null=arm == "null",
            verdict=verdict,  # type: ignore[arg-type]
            ratio=ratio,
            low=None if ratio is None else ratio * 0.99,
            high=None if ratio is None else ratio * 1.01,
            minimum_detectable=0.01,
            blocks=9,
            unit="s",
            baseline=1.0,
            candidate=ratio,
        )

    return ABResult(
        name=word,
        seed=1,
        runs=27,
        blocks=9,
        elapsed_s=12.0,
        level=0.95,
        margin=0.03,
        ended="every metric is decided",
        arms=(
            ArmInfo(name="old", baseline=True, facts={"env": {"X": word}}),
            ArmInfo(name="null", null=True),
        ),
        comparisons=(
            one("a_s", "same", 1.0),
            one("b_s", "worse", 1.2),
            one("c_s", "inconclusive", None),
            one("a_s", "same", 1.0, "null"),
        ),
        missing=(Missing(arm="new", case=word, reason=word),),
        notes=(word,),
    )


class Tags(HTMLParser):
    """Collects what a page has, and what it would load."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [str(value) for name, value in attrs if name in ("src", "href", "onload", "onerror")]


class TestResults:
    EVIL = '<script>alert(1)</script>|`x`\x1b[31m" onload="y'

    def test_html_is_one_harmless_page(self) -> None:
        text = page(make_result(self.EVIL))
        tags = Tags()
        tags.feed(text)
        assert "script" not in tags.tags
        assert tags.loaded == []
        assert {"svg", "table", "circle"} <= set(tags.tags)
        assert "prefers-color-scheme: dark" in text
        assert "\x1b" not in text

    def test_markdown_and_lines_are_harmless(self) -> None:
        result = make_result(self.EVIL)
        assert "<script>" not in markdown(result)
        assert not any("\x1b" in line for line in terminal_lines(result, Screen()))

    def test_json_and_exit_code(self) -> None:
        data = result_json(make_result())
        assert [one["verdict"] for one in data["comparisons"]] == ["worse", "inconclusive", "same", "same"]
        assert set(data["comparisons"][0]) >= {
            "case",
            "metric",
            "arm",
            "verdict",
            "ratio",
            "low",
            "high",
            "minimum_detectable",
        }
        assert list(data["arms"]) == ["old", "null"]
        assert data["runs"] == 27
        assert make_result().exit_code == 1
