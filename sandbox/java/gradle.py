"""Builds with Gradle."""

from __future__ import annotations

from sandbox.java.errors import JavaUnavailable
from sandbox.java.job import BuildJob
from sandbox.java.project import JavaProject, Module


def build_gradle(job: BuildJob, module: Module) -> JavaProject:
    """Build a module with the modules it needs. Raises BuildFailed, SandboxError."""
    raise JavaUnavailable(f"no Gradle build of {module.folder}")
