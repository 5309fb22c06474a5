"""`bench`, which times a function and returns what it returns: the same in a test, in a script and in a worker.

What this module imports is paid by every pytest run in an environment that has Paceline.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from inspect import iscoroutinefunction
from time import perf_counter, time
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from paceline.timing.functions import Rounds, Timer
    from paceline.timing.work import Calls

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `bench.using` sets."""

    name: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    setup: Callable[[], Any] | None = None
    teardown: Callable[..., Any] | None = None
    loops: int | None = None
    seconds: float = 1.0
    least_rounds: int = 5
    lap_s: float = 0.0002
    gc: bool = False
    memory: bool = False
    processes: int = 1
    record: str = ""
    timer: "Timer" = perf_counter


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One call of `bench`: what it measured, of what, and when. A function that failed has the rounds until then."""

    func: Callable[..., Any]
    settings: Settings
    rounds: "Rounds"
    started_s: float
    duration_s: float


class Bench:
    """Call it with a function and its arguments; it returns what the function returns.

        bench(sorted, numbers)                              loops, warm-up and rounds are found out
        bench(load, path, rounds=3, warmup=1)               one call a round
        bench.using(setup=make_list, gc=True)(consume)      other settings
        bench.pedantic(consume, setup=make, rounds=10)      as in pytest-benchmark

    Keywords besides `rounds` and `warmup` are the function's own. Async functions are awaited.
    """

    __slots__ = ("_keep", "settings")

    def __init__(self, keep: Callable[[Timed], None] | None, settings: Settings | None = None) -> None:
        """`keep` gets what was measured; without it, functions are called once and nothing is measured."""
        self._keep = keep
        self.settings = settings or Settings()

    def using(self, **settings: Any) -> "Bench":
        """The same with other settings; those there are:

        - `setup`, a function that runs before each round and may return `(args, kwargs)`; `teardown`, one that runs
          after it with the same arguments. Neither is timed, and a round is then one call.
        - `loops`: calls a lap, of which a round then is one. `seconds`: how long all rounds take together (1).
          `least_rounds` (5). `lap_s`: how long a lap takes at least (0.0002).
        - `gc=True` leaves the garbage collector on. `memory=True` takes the peak of what a call allocates, too.
        - `timer`: another clock than `time.perf_counter`.
        - In a script: `name` and `params` of the result, `record` to keep it in the history under that name,
          `processes` to measure in so many processes.
        """
        unknown = set(settings) - {*Settings.__slots__}
        if unknown:
            raise TypeError(
                f"bench.using has no {', '.join(sorted(unknown))}; it has {', '.join(Settings.__slots__)}"
            )
        return type(self)(self._keep, replace(self.settings, **settings))

    def __call__(
        self,
        func: Callable[..., R],
        /,
        *args: Any,
        rounds: int | None = None,
        warmup: int | None = None,
        **kwargs: Any,
    ) -> R:
        warmup = 1 if warmup is None and rounds is not None else warmup
        return self.run(func, args, kwargs, rounds=rounds, warmup=warmup)

    def pedantic(
        self,
        target: Callable[..., R],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        setup: Callable[[], Any] | None = None,
        teardown: Callable[..., Any] | None = None,
        rounds: int = 1,
        warmup_rounds: int = 0,
        iterations: int = 1,
    ) -> R:
        """Exactly these rounds of exactly these calls, as pytest-benchmark has it."""
        if setup is not None and iterations != 1:
            raise ValueError("a round with a setup is one call: leave iterations at 1")
        around = self.using(setup=setup, teardown=teardown, loops=iterations)
        return around.run(target, args, kwargs or {}, rounds=rounds, warmup=warmup_rounds)

    def run(
        self,
        func: Callable[..., R],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        rounds: int | None = None,
        warmup: int | None = None,
    ) -> R:
        """The same with the function's arguments apart, where its keywords may have any names."""
        settings, kwargs = self.settings, kwargs or {}
        is_plain = settings.setup is None and settings.teardown is None and not is_async(func)
        if self._keep is None and is_plain:
            return func(*args, **kwargs)
        from paceline.timing.work import AwaitedCalls, Calls

        around = settings.setup, settings.teardown, settings.timer
        work = (AwaitedCalls if is_async(func) else Calls)(func, args, kwargs, *around)
        try:
            if self._keep is not None:
                is_single = rounds is not None or settings.setup is not None or settings.teardown is not None
                loops = settings.loops or (1 if is_single else None)
                work.keeps_result = rounds is not None and loops == 1
                self._measure(work, settings, rounds=rounds, loops=loops, warmup=warmup)
            result: R = work.result if work.keeps_result else work.once()
            return result
        finally:
            work.close()

    def _measure(self, work: "Calls", settings: Settings, **wanted: int | None) -> None:
        from paceline.timing.functions import Effort, Rounds, measure

        assert self._keep is not None
        names = ("seconds", "least_rounds", "lap_s", "gc", "memory")
        effort = Effort(**wanted, **{name: getattr(settings, name) for name in names})  # type: ignore[arg-type]
        samples: list[float] = []
        rounds: Rounds | None = None
        started_s, begun = time(), perf_counter()
        try:
            rounds = measure(work, effort, samples)
        finally:
            if samples:
                rounds = rounds or Rounds(samples_s=tuple(samples), loops=effort.loops or 1, warmups=0)
                taken_s = perf_counter() - begun
                self._keep(
                    Timed(
                        func=work.func,
                        settings=settings,
                        rounds=rounds,
                        started_s=started_s,
                        duration_s=taken_s,
                    )
                )


def is_async(func: Callable[..., Any]) -> bool:
    """Whether a call of it has to be awaited."""
    return iscoroutinefunction(func) or iscoroutinefunction(getattr(func, "__call__", None))  # noqa: B004
