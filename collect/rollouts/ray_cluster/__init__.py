"""Rollouts on the nodes of a Ray cluster.

The driver hands each rollout to a worker, one process a node, and keeps its rows. What the workers
share, the dollars, the requests at once, and the replies of rollouts under way, is in the shared state,
a process beside the driver.
"""
