"""Rollouts on the nodes of a Ray cluster: the driver hands each to a worker, one process a node,
and keeps its rows. A process beside the driver keeps what the workers share: the dollars, the
requests at once, and the replies of rollouts under way."""
