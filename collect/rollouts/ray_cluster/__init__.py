"""Rollouts on the nodes of a Ray cluster.

The driver hands each rollout to a worker, one process a node, and keeps its rows. The
workers share the dollars, the requests at once and the replies of rollouts under way; a process
beside the driver keeps them.
"""
