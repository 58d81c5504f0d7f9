"""Messages of workers, kept: golden/NAME.txt, in the words of Python and of the command line.
`pytest --update-golden` writes them anew."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.workers import perform as performing
from lgmdsl.workers.opened import GivenExecutor, scheduler_address
from lgmdsl.workers.task import Bundle
from tests.workers.models import COUNTS, calibrated, counts

GOLDEN = Path(__file__).parent / "golden"
Take = Callable[[Any], None]


class Here(GivenExecutor):
    """A crew in this thread. `fails`: what the future of a task raises, by its arguments."""

    name = "the pool of worker processes"
    size = 2

    def __init__(self, fails: Callable[[tuple[Any, ...]], Exception | None]) -> None:
        self.fails = fails

    def submit(self, fn: Callable[..., Any], *args: Any, home: int | None = None) -> Any:
        future: Future[Any] = Future()
        error = self.fails(pickle.loads(args[1]).arguments)
        if error is None:
            future.set_result(fn(*args))
        else:
            future.set_exception(error)
        return future

    def renew(self) -> bool:
        return True


def ends(crew: Take) -> None:
    """Run 7 ends whoever makes it."""
    end = BrokenProcessPool("a process ended")
    crew(Here(lambda arguments: end if arguments == (7,) else None))
    calibrated(jobs=2)


def lost(crew: Take) -> None:
    made = Here(lambda _: ConnectionResetError("connection reset by peer"))
    made.lost, made.name = (OSError,), "the scheduler tcp://host:8786"
    crew(made)
    calibrated(jobs=2)


def broken(crew: Take) -> None:
    class Gone(ThreadPoolExecutor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
            raise BrokenProcessPool("a process of the executor ended")

    crew(GivenExecutor(Gone(1)))
    calibrated(jobs=2)


def unreachable(crew: Take) -> None:
    scheduler_address("scheduler.json")


def without_data(crew: Take) -> None:
    place = Path("data.npz").absolute()
    np.savez(place, **counts())

    class Losing(ThreadPoolExecutor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
            place.unlink(missing_ok=True)
            return super().submit(fn, *args)

    with Losing(1) as executor:
        lgm.fit(lgm.loads(COUNTS), place, "laplace", "integrate", jobs=executor)


def version(crew: Take) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(performing, "__version__", "9.9")
        with ThreadPoolExecutor(1) as executor:
            calibrated(jobs=executor)


def module(crew: Take) -> None:
    def lacking(_: bytes) -> object:
        raise ModuleNotFoundError("No module named 'acme'")

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as executor:
        crew(GivenExecutor(executor))
        patch.setattr(pickle, "loads", lacking)
        calibrated(jobs=2)


def unsendable(crew: Take) -> None:
    Bundle.of(lambda: None)


CASES: dict[str, Callable[[Take], None]] = {
    "e701_ends_its_workers": ends,
    "e702_lost": lost,
    "e702_broken": broken,
    "e702_unreachable": unreachable,
    "e703_gone": without_data,
    "e704_version": version,
    "e704_module": module,
    "e501_unsendable": unsendable,
}


@pytest.mark.parametrize("name", CASES)
def test_message(
    name: str,
    crew: Take,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(lgm.LgmError) as caught:
        CASES[name](crew)
    assert caught.value.codes[0].lower() == name.partition("_")[0]
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.help
    found = f"{diagnostic.render()}\n\n{diagnostic.on_command_line().render()}\n"
    for own, general in ((f"{tmp_path}", "DIR"), (lgm.__version__, "VERSION")):
        found = found.replace(own, general)
    kept = GOLDEN / f"{name}.txt"
    if request.config.getoption("--update-golden", default=False):
        GOLDEN.mkdir(exist_ok=True)
        kept.write_text(found, encoding="utf-8")
    assert kept.read_text(encoding="utf-8") == found
