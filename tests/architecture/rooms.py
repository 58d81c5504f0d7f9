"""What the house is made of, as a report: `python -m tests.architecture.rooms`.

By room: files, lines, lines of code (without blank lines, comments and docstrings), classes, the
longest module and the largest folder. Below the table: modules that one other module imports
alone, names of classes that mean several things, and circles of modules that need one another's
types (imports under TYPE_CHECKING and inside functions count). Nothing here fails: it is to be read
when a room grows; `test_house.py` bounds the circles.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parents[2]
LIBRARY = ("lgmdsl", "backends")
SHOWN = 12  # names of classes that are listed
CIRCLES = 5  # that are listed


@dataclass
class Room:
    """The counts of one room."""

    files: int = 0
    lines: int = 0
    code: int = 0
    classes: int = 0
    longest: tuple[int, str] = (0, "")
    folders: Counter[str] = field(default_factory=Counter)

    def add(self, path: Path, text: str, tree: ast.Module) -> None:
        lines = len(text.splitlines())
        self.files, self.lines = self.files + 1, self.lines + lines
        self.code += len(code_lines(tree))
        self.classes += sum(isinstance(node, ast.ClassDef) for node in ast.walk(tree))
        self.longest = max(self.longest, (lines, path.stem))
        self.folders[path.parent.name] += 1


def code_lines(tree: ast.Module) -> set[int]:
    """The lines that hold code: those of statements, without docstrings."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not _text_alone(node):
            inner = getattr(node, "body", None)
            last = inner[0].lineno - 1 if isinstance(inner, list) and inner else node.end_lineno
            found.update(range(node.lineno, max(last or node.lineno, node.lineno) + 1))
    return found


def _text_alone(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def modules() -> Iterator[tuple[str, Path]]:
    """Every module with its room: a package of the library, or the tests."""
    for top in (*LIBRARY, "tests"):
        for path in sorted((ROOT / top).rglob("*.py")):
            part = path.relative_to(ROOT / top).parts
            nested = top == "lgmdsl" and len(part) > 1
            yield (f"{top}/{part[0]}" if nested else top), path


def imported(tree: ast.Module) -> set[str]:
    """The names of the modules that a module imports, and of what it takes from them."""
    out: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            out |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
        elif isinstance(node, ast.Import):
            out |= {a.name for a in node.names}
    return out


def name_of(path: Path) -> str:
    """The dotted name by which a module of the library is imported."""
    top = ROOT / "backends" if (ROOT / "backends") in path.parents else ROOT
    parts = path.relative_to(top).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def circles() -> list[list[str]]:
    """Sets of modules of which each needs every other one, types included; the largest first."""
    paths = {name_of(path): path for room, path in modules() if room != "tests"}
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(paths)
    for name, path in paths.items():
        found = imported(ast.parse(path.read_text(encoding="utf-8")))
        # `from package import module` needs the module; the package alone is no part of a circle.
        graph.add_edges_from((name, other) for other in found if other in paths and other != name)
    parts = (sorted(part) for part in nx.strongly_connected_components(graph) if len(part) > 1)
    return sorted(parts, key=lambda part: (-len(part), part))


def main() -> None:
    rooms: dict[str, Room] = defaultdict(Room)
    importers: Counter[str] = Counter()
    names: set[str] = set()
    classes: dict[str, set[str]] = defaultdict(set)
    for room, path in modules():
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        rooms[room].add(path, text, tree)
        if room == "tests":
            continue
        name = name_of(path)
        importers.update(imported(tree))
        if path.name != "__init__.py":
            names.add(name)
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                classes[node.name.lstrip("_")].add(name)
    head = f"{'room':22}{'files':>7}{'lines':>9}{'code':>9}{'classes':>9}  longest, largest folder"
    print(head)
    for room, counts in rooms.items():
        length, longest = counts.longest
        folder, files = counts.folders.most_common(1)[0]
        print(
            f"{room:22}{counts.files:7}{counts.lines:9,}{counts.code:9,}{counts.classes:9}"
            f"  {longest} {length}, {folder} {files}"
        )
    whole = [c for room, c in rooms.items() if room != "tests"]
    lines, code = sum(c.lines for c in whole), sum(c.code for c in whole)
    print(f"{'library':22}{sum(c.files for c in whole):7}{lines:9,}{code:9,}", end="")
    print(f"{sum(c.classes for c in whole):9}")
    print(f"\n{sum(importers[n] == 1 for n in names)} modules have one importer.")
    several = sorted((n for n in classes if len(classes[n]) > 1), key=lambda n: -len(classes[n]))
    listed = ", ".join(f"{n} {len(classes[n])}" for n in several[:SHOWN])
    print(f"{len(several)} names of classes mean several things: {listed} ...")
    found = circles()
    print(f"{len(found)} circles of types; the largest:")
    for part in found[:CIRCLES]:
        print(f"{len(part):4}  {', '.join(name.removeprefix('lgmdsl.') for name in part)}")


if __name__ == "__main__":
    main()
