"""`lgm`: runs one command and turns how it ended into an exit status.

A command is imported only when it is asked for, so that `lgm --help` costs next to nothing.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

import click

from lgmdsl.cli import failures
from lgmdsl.cli.deferred_imports import defer
from lgmdsl.cli.exit_status import DEFECT, INTERRUPTED, OK, REFUSED, UNFINISHED, USAGE
from lgmdsl.cli.group import LazyGroup
from lgmdsl.cli.output import warned
from lgmdsl.errors import LgmError, NumericalError
from lgmdsl.vocabulary.plugins import PluginWarning

EPILOG = """\b
Examples:
  lgm check model.lgm data.npz
  lgm fit model.lgm data.npz -o model.fit.nc
  lgm help E203"""


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from lgmdsl import __version__

        click.echo(f"lgm {__version__}")
        context.exit()


@click.group(
    cls=LazyGroup,
    name="lgm",
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version and exit.",
)
def lgm() -> None:
    """Inference in latent Gaussian models: the model is a text file, data bind by name."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `lgm` with these arguments (those of the process by default); the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    defer()
    # A start makes some 200,000 objects that all stay; to look through them again and again for
    # garbage takes 5 % of its time.
    gc.set_threshold(50_000, 20, 20)
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        # A label that the terminal's encoding lacks is shown as `?`, it does not end the command.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if "_LGM_COMPLETE" in os.environ:
        lgm.main(args=words, prog_name="lgm")
    try:
        with _plain_warnings():
            status = _run(words)
        sys.stdout.flush()
    except OSError as error:
        if not _closed(error):
            raise
        # The reader closed the pipe: what is still buffered is discarded.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = OK
    return status


def _closed(error: OSError) -> bool:
    """Whether a write failed because nobody reads any more; Windows says so by EINVAL."""
    known = (errno.EINVAL,) if sys.platform == "win32" else ()
    return isinstance(error, BrokenPipeError) or error.errno in known


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings of predictions and about plug-ins are for the user: their text alone. Others say
    where they arose."""
    usual = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, PluginWarning) or hasattr(message, "diagnostic"):
            warned(message)
        else:
            usual(message, category, filename, lineno, file, line)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = usual


def _open_streams() -> None:
    """A stream that the caller closed (`>&-`) takes what is written and drops it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def _run(words: list[str]) -> int:
    as_json = "--json" in words
    try:
        with lgm.make_context("lgm", words) as context:
            status = lgm.invoke(context)
            return status if isinstance(status, int) else OK
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        if as_json:
            failures.usage(error, words, as_json)
        else:
            click.echo(error.ctx.get_help() if error.ctx else str(error), err=True)
        return USAGE
    except click.UsageError as error:
        failures.usage(error, words, as_json)
        return USAGE
    except LgmError as error:
        failures.refused(error, as_json)
        return UNFINISHED if isinstance(error, NumericalError) else REFUSED
    except (KeyboardInterrupt, click.Abort):
        failures.interrupted(as_json)
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except OSError as error:
        failures.system(error, as_json)
        return REFUSED
    except MemoryError:
        failures.memory(as_json)
        return REFUSED
    except Exception as error:  # noqa: BLE001  whatever is left is a defect of this program
        failures.defect(error, as_json)
        return DEFECT


if __name__ == "__main__":
    sys.exit(main())
