"""The languages that the factory knows."""

from __future__ import annotations

from collections.abc import Mapping

from collect.benchmarks.base import Language
from collect.factory import layout
from collect.factory.config import FactoryConfig, ProjectConfig
from collect.factory.java.layout import arrange as arrange_java
from collect.factory.java.workbench import JavaWorkbench
from collect.factory.project import Project, Source
from collect.factory.python_workbench import PythonWorkbench
from collect.factory.workbench import Workbench
from sandbox import SandboxConfig
from sandbox.java.scan import BUILD_FILES


def arrange(wanted: ProjectConfig, source: Source, sandbox: SandboxConfig) -> Project:
    """Tell a project's tests from its code, and what they need. Raises ProjectRefused."""
    if _language(wanted, source.files) == "java":
        return arrange_java(wanted, source)
    return layout.arrange(wanted, source, sandbox)


def open_workbench(project: Project, sandbox: SandboxConfig, config: FactoryConfig) -> Workbench:
    """What runs and edits a project."""
    if project.language == "java":
        return JavaWorkbench(project, sandbox, config)
    return PythonWorkbench(project, sandbox, config)


def _language(wanted: ProjectConfig, files: Mapping[str, bytes]) -> Language:
    if wanted.language is not None:
        return wanted.language
    return "java" if any(name in files for name in BUILD_FILES) else "python"
