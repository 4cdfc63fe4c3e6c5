"""The JUnit Platform's launcher, where a class path has an engine of JUnit 5 and no launcher."""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace

from sandbox.base import Command, Sandbox
from sandbox.java.project import JavaProject

_ENGINE = re.compile(r"junit-platform-(engine|commons)-([\w.-]+?)\.jar$")
# Maven keeps versions side by side in a module's folder; Gradle one folder deeper, by hash.
_FIND = r"""
for jar; do
    [ -f "$jar" ] && { echo "$jar"; exit 0; }
done
exit 0
"""


def with_launcher(sandbox: Sandbox, project: JavaProject) -> JavaProject:
    """Add the launcher of the engine's version from the local repository, if it is needed and
    there: build tools add it themselves when they run tests."""
    names = [posixpath.basename(path) for path in project.class_path]
    if any(name.startswith("junit-platform-launcher") for name in names):
        return project
    if any(name.startswith("junit-platform-console-standalone") for name in names):
        return project
    for path in project.class_path:
        if (match := _ENGINE.search(path)) is not None:
            found = _find(sandbox, path, match[2])
            return replace(project, class_path=(*project.class_path, *found))
    return project


def _find(sandbox: Sandbox, engine: str, version: str) -> list[str]:
    """The launcher beside an engine's jar, in a Maven repository, in Gradle's cache or in a
    folder of jars."""
    folder = posixpath.dirname(engine)
    name = f"junit-platform-launcher-{version}.jar"
    maven = posixpath.join(folder, "../../junit-platform-launcher", version, name)
    gradle = posixpath.join(folder, "../../../junit-platform-launcher", version)
    places = f'"$0/{name}" "{maven}" "{gradle}"/*/"{name}"'
    script = f"set -- {places}\n{_FIND}"
    result = sandbox.run(Command(["sh", "-c", script, folder]))
    return [posixpath.normpath(line) for line in result.output.split()]
