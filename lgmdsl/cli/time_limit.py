"""`--time-limit`: a fit is interrupted after so many seconds, as by Ctrl-C."""

from __future__ import annotations

import _thread
import threading
from types import TracebackType
from typing import Self


class TimeLimit:
    """Interrupts the main thread once `seconds` have passed (None: never), on every system.
    `passed`: whether it did. The interrupt never comes after the block."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds, self.passed = seconds, False
        self._lock, self._inside = threading.Lock(), False
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        self._inside = True
        if self.seconds is not None:
            self._timer = threading.Timer(self.seconds, self._interrupt)
            self._timer.daemon = True
            self._timer.start()
        return self

    def _interrupt(self) -> None:
        with self._lock:
            if self._inside:
                self.passed = True
                _thread.interrupt_main()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            with self._lock:
                self._inside = False
            if self._timer is not None:
                self._timer.cancel()
        except KeyboardInterrupt:  # it came just before
            self._inside = False
            if not self.passed:
                raise
