"""What shards cannot do or are not, worded once: E306, E501, E703."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.errors import DataError, Diagnostic, MethodError, NumericalError, WorkerError
from lgmdsl.files import AGAIN
from lgmdsl.memory import budget, size_text
from lgmdsl.remedies import either, in_python
from lgmdsl.streams.refusals import KEPT, refused

PAIRS = 0.1  # of the memory budget, for all pairs of shared latents

WHOLE = "fit the file that the shards were made of, with its rows read by batches: " + either(
    "--option rows=streamed", 'options={"rows": "streamed"}'
)
IN_MEMORY = f"fit the file that the shards were made of, with its rows in memory: {KEPT}"
SHARD = either("lgm shard ROWS.parquet --by DATUM -o FOLDER", "the command lgm shard")


def without_shard(path: str, reason: str) -> WorkerError:
    """E703: a shard that a worker cannot read, or that is not what it was."""
    return WorkerError(
        Diagnostic(
            "E703",
            f"the shard `{path}` is lost or changed",
            details=(reason,),
            help="put the folder of shards where all workers read it under the same path; or make "
            f"it again: {SHARD}",
        )
    )


def other_folder(path: str) -> MethodError:
    """E501 for predictions at the rows of other shards than those of the fit."""
    return cannot(
        "the latents of the fit's groups lie in its shards, and these are others",
        f"the fit was not made of {path}",
        "name the folder of the fit too: " + either("--data FOLDER", 'fitted="FOLDER"'),
    )


def cannot(what: str, reason: str = "", help: str = WHOLE) -> MethodError:
    """E501: a model, method or question that shards do not take."""
    return MethodError(
        Diagnostic("E501", f"{what}", details=(reason,) if reason else (), help=help)
    )


def of_block(block: SiteBlock, reason: str, help: str = WHOLE) -> MethodError:
    """E501 for the rows of a site block."""
    return refused(block, reason, help, "be spread over shards")


def apart(block: SiteBlock, index: str) -> MethodError:
    """E501 where a row joins two groups."""
    return of_block(block, f"a row touches the latents of two members of `{index}`")


def too_many_shared(size: int, places: int) -> MethodError:
    """E501 where what joins groups and shared latents is larger than memory allows."""
    return cannot(
        f"{size:,} latents that all groups share are too many for shards of this size",
        f"what joins them to {places:,} places is kept whole",
        "make more and smaller shards (lgm shard --shards N), or raise LGM_MEMORY",
    )


def without_mode(reason: str) -> NumericalError:
    """E601 where the groups of a shard have no mode at the shared latents of a fit."""
    return NumericalError(Diagnostic("E601", "the groups' latents have no mode", details=(reason,)))


def check_all_pairs(size: int) -> None:
    """Raise E501 where most pairs of `size` shared latents are joined by one group or another, and
    all pairs are larger than memory allows."""
    if 8.0 * size * size > PAIRS * budget():
        raise cannot(
            f"{size:,} latents that all groups share are too many",
            "groups join most pairs of them: one group has rows at more than half of them, or all "
            f"groups together at more than half of the pairs, {size_text(8.0 * size * size)}",
            "raise LGM_MEMORY, or take an index of the groups with fewer members of the shared "
            "ones in each",
        )


def no_shards(folder: Path, reason: str) -> DataError:
    """E306: a folder that holds no shards."""
    return DataError(
        Diagnostic(
            "E306",
            f"{folder}: {reason}",
            help=f"{AGAIN}; or {SHARD} makes one" if "damaged" in reason else f"{SHARD} makes one",
            layout="plain",
        )
    )


def next_to_hypers(error: MethodError) -> MethodError:
    """The error of a model with hypers in the predictor, which rows read by batches do not take
    either."""
    return MethodError(
        replace(d, help=IN_MEMORY) if d.help == in_python(WHOLE) else d for d in error.diagnostics
    )


def in_shard(error: MethodError) -> MethodError:
    """What cannot be read by batches, of the rows of a shard."""
    return MethodError(replace(d, help=IN_MEMORY) for d in error.diagnostics)
