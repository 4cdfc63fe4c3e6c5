"""What a worker that could not get ready is tried again for."""

from __future__ import annotations

import pytest

from collect.cluster.worker import may_pass
from collect.errors import ConfigError, EndpointDown, EndpointFailure, RateLimited
from collect.preflight.disk import DiskTooFull
from sandbox.errors import EngineDown, PullLimited, SandboxUnavailable


def refused(cause: Exception) -> ConfigError:
    """As a first request to a model ends."""
    error = ConfigError("a first request failed")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (EngineDown("it does not answer"), True),
        (PullLimited("no more for now"), True),
        (DiskTooFull("0 free"), True),
        (refused(EndpointDown("503")), True),
        (refused(RateLimited("429")), True),
        (refused(EndpointFailure("wrong key")), False),
        (SandboxUnavailable("there is no bubblewrap"), False),
        (ConfigError("no key is set"), False),
    ],
    ids=repr,
)
def test_what_may_pass(error: Exception, passes: bool) -> None:
    assert may_pass(error) is passes
