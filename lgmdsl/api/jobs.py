"""Workers for a call that takes `jobs`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lgmdsl.api.third_parties import word_of, words_in
from lgmdsl.errors import MethodError
from lgmdsl.inference.registry import packed
from lgmdsl.language.tree import ast
from lgmdsl.remedies import number
from lgmdsl.workers.opened import check_jobs, in_this_process, opened
from lgmdsl.workers.task import Jobs
from lgmdsl.workers.workers import Workers


@contextmanager
def workers_for(jobs: Jobs, tree: ast.Ast) -> Iterator[Workers | None]:
    """Workers that have the parts of a model which were registered at run time; None where all is
    done in this process.

    Raises MethodError E501 where workers cannot have a part that the model may use, and as
    `workers.opened`.
    """
    check_jobs(jobs)
    with opened(jobs, b"" if in_this_process(jobs) else _parts(tree)) as workers:
        yield workers


def _parts(tree: ast.Ast) -> bytes:
    """The parts registered at run time, for `registry.unpack`; nothing where there are none."""
    parts, refused = packed()
    used = set(words_in(tree)) if refused else set()
    for entry in refused:
        word = word_of(entry)
        if word is not None and word not in used:
            continue
        raise MethodError.of(
            "E501",
            f"worker processes cannot have the {entry.kind.words} `{entry.name}`: its class "
            "is defined in a script, a notebook or a function, from where it is not imported",
            help=f"move it to a separate module, or run it with {number('jobs', 1)}",
        )
    return parts
