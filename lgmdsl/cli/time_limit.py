"""`--time-limit`: a fit is interrupted after so many seconds, as by Ctrl-C."""

from __future__ import annotations

import _thread
import signal
import threading
from types import FrameType
from typing import Self


class TimeLimit:
    """Interrupts the main thread once `seconds` have passed (None: never), on every system.
    `passed`: whether it did. The interrupt never comes after the block, and it comes where Ctrl-C
    is ignored too, as by what a shell script starts with `&`."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds, self.passed = seconds, False
        self._lock, self._inside = threading.Lock(), False
        self._timer: threading.Timer | None = None
        self._ignoring = False

    def __enter__(self) -> Self:
        self._inside = True
        if self.seconds is not None:
            main = threading.current_thread() is threading.main_thread()
            if main and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
                self._ignoring = True
                signal.signal(signal.SIGINT, self._heard)
            self._timer = threading.Timer(self.seconds, self._interrupt)
            self._timer.daemon = True
            self._timer.start()
        return self

    def _heard(self, number: int, frame: FrameType | None) -> None:
        """In place of a SIGINT that is ignored: only the limit's own is not."""
        if self.passed:
            raise KeyboardInterrupt

    def _interrupt(self) -> None:
        with self._lock:
            if self._inside:
                self.passed = True
                _thread.interrupt_main()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            with self._lock:
                self._inside = False
            if self._timer is not None:
                self._timer.cancel()
        except KeyboardInterrupt:  # it came just before
            self._inside = False
            if not self.passed:
                raise
        finally:
            if self._ignoring:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                self._ignoring = False
