"""Recurring events, business days, time zones, busy and free time."""

from .agenda import Agenda, Event
from .business import Calendar
from .intervals import Interval
from .parse import parse_rule
from .rules import Rule
from .zones import Zone

__all__ = ["Agenda", "Calendar", "Event", "Interval", "Rule", "Zone", "parse_rule"]
