"""Arguments and options that several commands share, and how NAME=VALUE is read."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from lgmdsl.language.builder import Model

F = TypeVar("F", bound=Callable[..., Any])


def model_argument(function: F) -> F:
    """MODEL: a path, or `-` for stdin."""
    return click.argument("model", metavar="MODEL")(function)


def gathered(into: str, *options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Several options that the command takes as one value, `into`: their values by name, as
    keywords of the function that they are for."""

    def decorate(function: F) -> F:
        names: list[str] = []

        @wraps(function)
        def joined(*positional: Any, **named: Any) -> Any:
            values = {name: named.pop(name) for name in names}
            return function(*positional, **named, **{into: values})

        known: list[click.Parameter] = getattr(joined, "__click_params__", [])
        before = len(known)
        out: Any = joined
        for option in reversed(options):
            out = option(out)
        names += [str(p.name) for p in out.__click_params__[before:]]
        return cast(F, out)

    return decorate


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON (schema 1).")


def map_option(function: F) -> F:
    """--map NAME=KEY, as often as wanted."""
    return click.option(
        "--map",
        "mapping",
        metavar="NAME=KEY",
        multiple=True,
        callback=_pairs,
        help="Read NAME of the model from KEY of the data; X=a,b makes a matrix of columns.",
    )(function)


def method_option(function: F) -> F:
    """--method M."""
    return click.option(
        "--method",
        default="auto",
        metavar="M",
        show_default=True,
        help="auto, or one that `lgm methods` lists.",
    )(function)


def hyper_option(function: F) -> F:
    """--hyper H."""
    return click.option(
        "--hyper",
        default="auto",
        metavar="H",
        show_default=True,
        help="Hyperparameters: auto, fixed, map, em, integrate, vb.",
    )(function)


def set_option(function: F) -> F:
    """--set NAME=VALUE, as often as wanted."""
    return click.option(
        "--set",
        "fixed",
        metavar="NAME=VALUE",
        multiple=True,
        callback=_values,
        help="Pin a hyperparameter: s=0.5, mix=2/3, cov=[[1,0],[0,1]]; a number fills an array.",
    )(function)


def start_option(function: F) -> F:
    """--start NAME=VALUE, as often as wanted."""
    return click.option(
        "--start",
        metavar="NAME=VALUE",
        multiple=True,
        callback=_starts,
        help="Where the search for a hyperparameter begins; as --set.",
    )(function)


@dataclass(frozen=True)
class AuditOptions:
    """An audit as it was asked for: whether, of how many draws, and by an exact sampler."""

    asked: bool
    draws: int
    sampler: bool


def audit_options(function: F) -> F:
    """--audit, how many --draws it takes and whether they are exact (--audit-sampler), which are
    wrong usage without it; the command gets `audit` as AuditOptions."""

    @wraps(function)
    def checked(*positional: Any, **named: Any) -> Any:
        context = click.get_current_context()
        asked = context.get_parameter_source("draws") is ParameterSource.COMMANDLINE
        if asked and not named["audit"]:
            message = f"--draws is for --audit: write --audit --draws {named['draws']}"
            raise click.UsageError(message, context)
        if named["audit_sampler"] and not named["audit"]:
            message = "--audit-sampler is for --audit: write --audit --audit-sampler"
            raise click.UsageError(message, context)
        audit = AuditOptions(named.pop("audit"), named.pop("draws"), named.pop("audit_sampler"))
        return function(*positional, **named, audit=audit)

    audit = click.option(
        "--audit", is_flag=True, help="Check the posterior by importance sampling."
    )
    draws = click.option(
        "--draws",
        type=click.IntRange(min=100),
        default=4000,
        show_default=True,
        metavar="N",
        help="Draws of --audit.",
    )
    sampler = click.option(
        "--audit-sampler",
        is_flag=True,
        help="Audit by draws of an exact sampler, where weights cannot tell.",
    )
    return cast(F, audit(draws(sampler(checked))))


def jobs_options(function: F) -> F:
    """--jobs N, --cluster ADDRESS or --scheduler-file F, of which one at most; the command gets
    `jobs` as Python's functions take it."""

    @wraps(function)
    def chosen(*positional: Any, **named: Any) -> Any:
        given = {name: named.pop(name) for name in ("jobs", "cluster", "scheduler_file")}
        asked = [f"--{name.replace('_', '-')}" for name, v in given.items() if v is not None]
        context = click.get_current_context()
        if len(asked) > 1:
            raise click.UsageError(f"take one of {' and '.join(asked)}", context)
        jobs = given["jobs"] if given["jobs"] is not None else given["cluster"]
        if jobs is not None and jobs == given["cluster"] and "://" not in jobs:
            message = f"--cluster takes an address like tcp://host:8786, not `{jobs}`"
            raise click.UsageError(message, context)
        if given["scheduler_file"] is not None:
            from lgmdsl.workers.opened import scheduler_address

            jobs = scheduler_address(given["scheduler_file"])
        return function(*positional, **named, jobs=jobs)

    jobs = click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Share the fits between N processes.",
    )
    cluster = click.option(
        "--cluster",
        metavar="ADDRESS",
        help="Share them between a Dask cluster's workers (tcp://host:8786).",
    )
    file = click.option(
        "--scheduler-file", metavar="F", help="The same, by the file of its scheduler."
    )
    return cast(F, jobs(cluster(file(chosen))))


def seed_option(function: F) -> F:
    """--seed N."""
    return click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Seed of everything random.",
    )(function)


def tol_option(function: F) -> F:
    """--tol T, a number above 0."""
    return click.option(
        "--tol",
        type=click.FloatRange(0.0, min_open=True),
        metavar="T",
        callback=_finite,
        help="Relative tolerance of the log evidence (default 1e-7).",
    )(function)


def bound_option(function: F) -> F:
    """--bound B."""
    return click.option(
        "--bound", metavar="B", help="Let the sites it applies to answer through this bound."
    )(function)


def option_option(function: F) -> F:
    """--option NAME=VALUE, as often as wanted."""
    return click.option(
        "--option",
        "options",
        metavar="NAME=VALUE",
        multiple=True,
        callback=_options,
        help="An option of the method.",
    )(function)


def quantiles_option(function: F) -> F:
    """--quantiles P,P,..., or none."""
    return click.option(
        "--quantiles",
        default="0.05,0.5,0.95",
        metavar="P,...",
        show_default=True,
        callback=_probabilities,
        help="Probabilities of the quantile columns, or none.",
    )(function)


def max_steps_option(function: F) -> F:
    """--max-steps N."""
    return click.option(
        "--max-steps", type=click.IntRange(min=1), metavar="N", help="Stop after N steps."
    )(function)


def sizes_option(function: F) -> F:
    """--sizes INDEX=N,..., in one option or several."""
    return click.option(
        "--sizes",
        metavar="INDEX=N,...",
        multiple=True,
        callback=_sizes,
        help="Sizes of the index sets that no datum runs over.",
    )(function)


def read_model(path: str) -> Model:
    """The checked model of a path, or of stdin for `-`."""
    from lgmdsl.language.load import load, loads

    return loads(read_stdin(), "<stdin>") if path == "-" else load(path)


def read_stdin() -> str:
    """The text on stdin. Raises DataError E306 where it is not UTF-8."""
    from lgmdsl.errors import DataError

    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError.of(
            "E306",
            f"cannot read stdin: byte {error.start} is not UTF-8",
            help="iconv -f latin1 -t utf-8 FILE | lgm ...",
        ) from None


def split(texts: Sequence[str], option: str, form: str) -> dict[str, str]:
    """NAME=VALUE texts as a dict. Raises UsageError for another form or a repeated name."""
    values: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        name = name.strip()
        if not sign or not name:
            raise click.UsageError(f"{option} takes {form}, not `{text}`", _context())
        if name in values:
            raise click.UsageError(f"{option} is given twice for `{name}`", _context())
        values[name] = value.strip()
    return values


def number(text: str, option: str) -> object:
    """A number, a fraction (1/15) or a list in brackets. Raises UsageError for anything else."""
    top, slash, bottom = text.partition("/")
    try:
        if "_" in text:  # Python's 1_000
            raise ValueError
        if slash:
            return float(top) / float(bottom)
        return float(text)
    except (ValueError, ZeroDivisionError):
        pass
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, list):
        return value
    raise click.UsageError(
        f"{option}: `{text[:40]}` is neither a number nor a list like [1, 2.5]", _context()
    )


def _finite(context: click.Context, _: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.UsageError(f"--tol is a number above 0, not {value}", context)
    return value


def _options(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    return split(texts, "--option", "NAME=VALUE")


def _sizes(context: click.Context, _: click.Parameter, texts: tuple[str, ...]) -> dict[str, int]:
    parts = [part for text in texts for part in text.split(",") if part.strip()]
    sizes = {}
    for name, value in split(parts, "--sizes", "INDEX=N,...").items():
        try:
            sizes[name] = int(value)
        except ValueError:
            raise click.UsageError(
                f"--sizes: `{value}` is not a whole number for `{name}`", context
            ) from None
        if sizes[name] < 1:
            raise click.UsageError(f"--sizes: `{name}` needs at least 1, not {value}", context)
    return sizes


def _probabilities(context: click.Context, _: click.Parameter, text: str) -> tuple[float, ...]:
    """The probabilities, each once; none where the word says so."""
    values: list[float] = []
    if text.strip() == "none":
        return ()
    for part in text.split(","):
        try:
            values.append(float(part))
        except ValueError:
            raise click.UsageError(
                f"--quantiles: `{part.strip()}` is not a number", context
            ) from None
        if not 0.0 < values[-1] < 1.0:
            percent = f"{values[-1] / 100.0:g} is {values[-1]:g} %"
            hint = f" ({percent})" if 1.0 < values[-1] < 100.0 else ""
            message = f"--quantiles takes probabilities between 0 and 1, not {values[-1]:g}{hint}"
            raise click.UsageError(message, context)
    return tuple(dict.fromkeys(values))


def _pairs(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    return split(texts, "--map", "NAME=KEY")


def _values(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, object]:
    return _numbers(texts, "--set")


def _starts(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, object]:
    return _numbers(texts, "--start")


def _numbers(texts: tuple[str, ...], option: str) -> dict[str, object]:
    values = split(texts, option, "NAME=VALUE")
    return {name: number(value, f"{option} {name}") for name, value in values.items()}


def _context() -> click.Context | None:
    return click.get_current_context(silent=True)
