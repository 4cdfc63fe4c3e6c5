"""Local time. All datetimes are naive; their names say whether they are UTC or local."""

from __future__ import annotations

import bisect
from datetime import datetime, timedelta
from typing import Sequence, Tuple

Change = Tuple[datetime, float]


class Zone:
    """A base offset from UTC, and the moments in UTC at which another one took over."""

    def __init__(self, hours: float, changes: Sequence[Change] = ()) -> None:
        ordered = sorted(changes)
        self._moments = [moment for moment, _ in ordered]
        self._offsets = [timedelta(hours=h) for h in [hours] + [h for _, h in ordered]]

    def offset(self, utc: datetime) -> timedelta:
        """What local time is ahead of UTC."""
        return self._offsets[bisect.bisect_right(self._moments, utc)]

    def to_local(self, utc: datetime) -> datetime:
        """Local time at a moment."""
        return utc + self.offset(utc)

    def to_utc(self, local: datetime) -> datetime:
        """The moment at which clocks show a local time; one of two where they show it twice."""
        nearly = local - self.offset(local)
        return local - self.offset(nearly)


UTC = Zone(0)
