"""Road networks, shortest routes, trips over several stops, and directions."""

from .network import Network, Road
from .planner import Planner, Unreachable
from .search import Route
from .vehicles import Vehicle

__all__ = ["Network", "Planner", "Road", "Route", "Unreachable", "Vehicle"]
