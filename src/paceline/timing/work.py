"""What a round does: calls of a function, async or not, or Python code in a loop.

Loops as those of pyperf and timeit, so that the numbers are the same. Standard library only.
"""

import itertools
import textwrap
from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

from paceline.timing.functions import Timer


@dataclass
class Calls:
    """Calls of a function. `setup` runs before each round and may return (args, kwargs), `teardown` after it.

    With `keeps_result` a round is one call, whose result is kept and freed outside of the time that is measured.
    """

    func: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    setup: Callable[[], Any] | None = None
    teardown: Callable[..., Any] | None = None
    timer: Timer = perf_counter
    keeps_result: bool = False
    result: Any = None

    def round(self, loops: int) -> float:
        args, kwargs = self._arguments()
        call = partial(self.func, *args, **kwargs) if args or kwargs else self.func
        if self.keeps_result and loops == 1:
            self.result = None  # Its end must not fall into this round's time.
            taken, self.result = self._one(call)
        else:
            taken = self._many(call, loops)
        if self.teardown is not None:
            self.teardown(*args, **kwargs)
        return taken

    def close(self) -> None:
        """Nothing is held; calls of async functions hold an event loop."""

    def once(self) -> Any:
        """What the function returns, for whoever wants to see that it works."""
        args, kwargs = self._arguments()
        result = self._one(partial(self.func, *args, **kwargs))[1]
        if self.teardown is not None:
            self.teardown(*args, **kwargs)
        return result

    def loop(self, loops: int) -> float:
        timer, turns = self.timer, range(loops)
        begun = timer()
        for _ in turns:
            pass
        return timer() - begun

    def _arguments(self) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        made = self.setup() if self.setup is not None else None
        if made is None:
            return self.args, self.kwargs
        if self.args or self.kwargs:
            raise TypeError("setup returns arguments, so there must be no others")
        try:
            args, kwargs = made
            return tuple(args), {**kwargs}
        except (TypeError, ValueError):
            raise TypeError(f"setup must return (args, kwargs) or None, not {made!r}") from None

    def _one(self, call: Callable[[], Any]) -> tuple[float, Any]:
        timer = self.timer
        begun = timer()
        result = call()
        return timer() - begun, result

    def _many(self, call: Callable[[], Any], loops: int) -> float:
        timer, turns = self.timer, range(loops)
        begun = timer()
        for _ in turns:
            call()
        return timer() - begun


class AwaitedCalls(Calls):
    """Calls of an async function, in an event loop of their own that all rounds share."""

    _runner: Any = None
    _thread: Any = None

    def _one(self, call: Callable[[], Any]) -> tuple[float, Any]:
        async def one() -> tuple[float, Any]:
            timer = self.timer
            begun = timer()
            result = await call()
            return timer() - begun, result

        found: tuple[float, Any] = self._run(one())
        return found

    def _many(self, call: Callable[[], Any], loops: int) -> float:
        async def many() -> float:
            timer, turns = self.timer, range(loops)
            begun = timer()
            for _ in turns:
                await call()
            return timer() - begun

        return float(self._run(many()))

    def _run(self, main: Coroutine[Any, Any, Any]) -> Any:
        import asyncio

        self._runner = self._runner or asyncio.Runner()
        if asyncio._get_running_loop() is None and self._thread is None:
            return self._runner.run(main)
        if self._thread is None:
            from concurrent.futures import ThreadPoolExecutor

            # As in a notebook: a thread has one running loop.
            self._thread = ThreadPoolExecutor(1)
        return self._thread.submit(self._runner.run, main).result()

    def close(self) -> None:
        if self._runner is None:
            return
        if self._thread is None:
            self._runner.close()
        else:
            self._thread.submit(self._runner.close).result()
            self._thread.shutdown()


_ROUNDS = """\
def rounds(_timer):
{setup}
    _taken = None
    try:
        while True:
            _turns = yield _taken
{prepare}
            _begun = _timer()
            for _ in _turns:
{code}
            _taken = _timer() - _begun
{conclude}
    finally:
        pass
{cleanup}
"""
_INDENTS = {"setup": 4, "prepare": 12, "code": 16, "conclude": 12, "cleanup": 8}


class Statement:
    """Python code in a loop, as timeit runs it: what `setup` sets are local variables of the loop.

    `setup` and `cleanup` run once, `prepare` and `conclude` around each round.
    """

    def __init__(self, code: str, *, timer: Timer = perf_counter, **around: str) -> None:
        self.timer = timer
        parts = {**dict.fromkeys(_INDENTS, ""), **around, "code": code}
        for name, text in parts.items():
            compile(text, f"<{name}>", "exec")  # Outside of a function, so that a `return` in it is an error.
        self._rounds = _started(parts, timer)
        self._empty = _started({**dict.fromkeys(parts, ""), "code": "pass"}, timer)

    def close(self) -> None:
        """Run what comes after all rounds."""
        self._rounds.close()

    def round(self, loops: int) -> float:
        return self._rounds.send(itertools.repeat(None, loops))

    def loop(self, loops: int) -> float:
        return self._empty.send(itertools.repeat(None, loops))


def _started(parts: Mapping[str, str], timer: Timer) -> Generator[float, Any, None]:
    """A generator that runs a round for each iterator that it is sent; its variables are local, and stay."""
    source = _ROUNDS.format(
        **{name: textwrap.indent(parts[name], " " * indent) for name, indent in _INDENTS.items()}
    )
    made: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "<code>", "exec"), made)  # noqa: S102 - it is what the user asks to have timed
    rounds: Generator[float, Any, None] = made["rounds"](timer)
    next(rounds)
    return rounds
