"""Rollouts: the collect stage, one start of it, who does a rollout, and one rollout."""
