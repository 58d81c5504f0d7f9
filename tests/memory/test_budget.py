"""The memory budget: LGM_MEMORY, else half of the machine or of its control group."""

from __future__ import annotations

from pathlib import Path

import pytest

from lgmdsl import memory
from lgmdsl.errors import MethodError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GB", 8e9),
        ("8G", 8e9),
        ("8000000000", 8e9),
        ("7.5 gb", 7.5e9),
        ("8GiB", 8 * 2.0**30),
        (" 512M ", 5.12e8),
        ("2T", 2e12),
        ("4000000kB", 4e9),
        ("2000000B", 2e6),
        (".5G", 5e8),
    ],
)
def test_amounts(text: str, size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LGM_MEMORY", text)
    assert memory.budget() == size


@pytest.mark.parametrize("text", ["lots", "8", "-8GB", "0", "8GBs", "1e9", "nan", "G", "9e99GB"])
def test_what_is_no_amount_is_an_error_with_a_remedy(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LGM_MEMORY", text)
    with pytest.raises(MethodError) as caught:
        memory.budget()
    (told,) = caught.value.diagnostics
    assert told.code == "E104" and f"`{text}`" in told.message and "LGM_MEMORY=8GB" in told.help


def test_without_the_variable_half_of_all_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LGM_MEMORY", raising=False)
    assert memory.budget() == max(memory.LEAST, memory.total() // 2)


def _group(root: Path, path: str, name: str, text: str) -> None:
    folder = root / "sys/fs/cgroup" / path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_the_smallest_limit_of_the_groups_above_holds(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/user.slice/job.scope\n")
    assert memory.total(tmp_path) == memory.total(tmp_path / "nowhere")  # the machine's own
    _group(tmp_path, "user.slice", "memory.max", "max\n")
    _group(tmp_path, "user.slice/job.scope", "memory.max", "123456789\n")
    assert memory.total(tmp_path) == 123456789
    _group(tmp_path, "user.slice", "memory.max", "100000000\n")
    assert memory.total(tmp_path) == 100000000


def test_limits_of_version_1(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("9:cpu:/x\n4:memory:/docker/abc\n0::/\n")
    _group(tmp_path, "memory", "memory.limit_in_bytes", "9223372036854771712\n")
    whole = memory.total(tmp_path)
    _group(tmp_path, "memory/docker/abc", "memory.limit_in_bytes", "200000000\n")
    assert memory.total(tmp_path) == 200000000 < whole


def test_what_is_free_is_never_read() -> None:
    """The same model on a busy machine gets the same engine."""
    folder = Path(memory.__file__).parent
    asked = [p for p in folder.rglob("*.py") if "MemAvailable" in p.read_text(encoding="utf-8")]
    assert asked == []
