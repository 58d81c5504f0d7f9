"""E701 to E704, worded once."""

from __future__ import annotations

from lgmdsl import __version__
from lgmdsl.errors import MethodError, WorkerError
from lgmdsl.memory import size_text
from lgmdsl.remedies import argument, number

KEPT = "a record keeps what is finished, and the same call goes on from there"


def deadly(name: str, times: int) -> WorkerError:
    """E701: a task that has ended `times` workers."""
    count = {3: "three"}.get(times, str(times))
    return WorkerError.of(
        "E701",
        f"{name} ended its worker {count} times",
        details=("the other tasks that were running then are not to blame: they were repeated",),
        help=f"{number('jobs', 1)} runs it in this process, which may show why; a worker that "
        "the system ends most often ran out of memory: take fewer at a time",
    )


def too_large(needed: int, room: int) -> WorkerError:
    """E701: what tasks share would end every worker that gets it. Both in bytes."""
    need, has = size_text(needed), size_text(room)
    return WorkerError.of(
        "E701",
        f"model and data take {need} of a worker while they arrive, and it may take {has}",
        help="start fewer workers on a machine, with a larger memory limit each",
    )


def unreachable(what: str, reason: str) -> WorkerError:
    """E702: a scheduler at an address that does not answer."""
    return WorkerError.of(
        "E702",
        f"{what} cannot be reached",
        details=(reason,) if reason else (),
        help="check that it runs, the address, its port and whether a firewall lies between",
    )


def without_certificate(what: str) -> WorkerError:
    """E702: an address that wants TLS, of a client that was given no certificate."""
    return WorkerError.of(
        "E702",
        f"{what} cannot be reached",
        details=("its address wants TLS, and Dask's configuration names no certificate",),
        help="set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, "
        "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT and "
        "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY to the paths of .pem files",
    )


def lost(what: str, reason: str = "") -> WorkerError:
    """E702: workers that were there at first."""
    return WorkerError.of(
        "E702",
        f"the connection to {what} was lost",
        details=(reason,) if reason else (),
        help=f"start it again; {KEPT}",
    )


def broken(what: str, reason: str) -> WorkerError:
    """E702: an executor of the caller's that takes no more tasks."""
    return WorkerError.of(
        "E702",
        f"{what} takes no more tasks",
        details=(reason,) if reason else (),
        help=f"{argument('jobs')} with a number makes workers that are replaced when they end; "
        f"{KEPT}",
    )


def without_data(path: str, reason: str) -> WorkerError:
    """E703: a worker that has not the caller's file."""
    return WorkerError.of(
        "E703",
        f"a worker lacks the data `{path}`",
        details=(reason,),
        help="put the file where all workers can read it under the same path, or give the data "
        "as arrays or a frame, which are sent",
    )


def other_version(version: str) -> WorkerError:
    """E704: a worker with another lgmdsl, or none (an empty version)."""
    has = f"has lgmdsl {version}" if version else "has no lgmdsl that takes tasks"
    return WorkerError.of(
        "E704",
        f"a worker {has}, and this process {__version__}",
        help=f"pip install lgmdsl=={__version__} where the workers run, and start them anew",
    )


def unsendable(reason: str) -> MethodError:
    """E501: a model with a part that cannot leave this process."""
    return MethodError.of(
        "E501",
        "a part of this model or its data cannot be sent to workers",
        details=(reason,),
        help=f"define its class in a module, or run it with {number('jobs', 1)}",
    )


def without_module(reason: str) -> WorkerError:
    """E704: a worker that cannot import what a task needs."""
    return WorkerError.of(
        "E704",
        "a worker lacks a module that the work needs",
        details=(reason,),
        help="install there what is installed here, the modules of registered parts among it",
    )
