"""Build with Gradle, and ask it in the same run how it compiles and runs tests."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sandbox.base import SOURCE_LIMIT, Sandbox
from sandbox.errors import BuildFailed, SandboxFileError
from sandbox.java.distributions import GRADLE_WRAPPER, gradle_for
from sandbox.java.javac import build_failed, compiler_errors
from sandbox.java.jdk import Jdk
from sandbox.java.project import (
    JVM_OPTIONS,
    BuildJob,
    CompileStep,
    JavaProject,
    Module,
    run_tool,
    unknown_project,
)
from sandbox.java.project_repository import with_advice
from sandbox.shell import FOLDER, write_bytes

LOG = f"{FOLDER}/gradle.log"
SCRIPT = f"{FOLDER}/describe.gradle"
DESCRIPTION = f"{FOLDER}/gradle.json"
TASK = "stepintoDescribe"

# Uses the Gradle of the project's wrapper if that is already downloaded, otherwise the one on PATH.
# A user's read-only cache is read in place, which Gradle can from 6.2 on.
_TOOL = r"""
home=$(awk -F: -v id="$(id -u)" '$3 == id {print $6}' /etc/passwd 2>/dev/null)
wrapper=gradle/wrapper/gradle-wrapper.properties
wanted=$(sed -n 's|^distributionUrl=.*/\(.*\)\.zip *$|\1|p' $wrapper 2>/dev/null)
tool=$(command -v gradle)
for folder in "$GRADLE_USER_HOME" "$home/.gradle" "$HOME/.gradle" /root/.gradle; do
    [ -n "$folder" ] && [ -r "$folder/caches" ] || continue
    for own in "$folder/wrapper/dists/${wanted:-none}"/*/*/bin/gradle; do
        [ -x "$own" ] && tool=$own
    done
    if [ -w "$folder/caches" ]; then GRADLE_USER_HOME=$folder
    else export GRADLE_RO_DEP_CACHE="$folder/caches"; fi
    break
done
[ -n "$tool" ] || exit 127
export GRADLE_USER_HOME="${GRADLE_USER_HOME:-$HOME/.gradle}"
exec "$tool" "$@"
"""
_BUILD = r"""
log=$1; rm -f "$2"; shift 2
"$@" >"$log" 2>&1
"""
_FAILURE = r"""
grep -E -A4 "\.java:[0-9]+: error:" "$1" | head -n 300
grep -E "^(:[A-Za-z0-9:_-]*)?error: " "$1" | head -n 20
grep "^Initialization script" "$1"
grep -A15 "What went wrong" "$1" | head -n 40
[ -s "$1" ] && ! grep -q "What went wrong" "$1" && tail -n 15 "$1"
exit 0
"""


def build_gradle(job: BuildJob, module: Module) -> JavaProject:
    """Build a module with its dependencies. Raises BuildFailed, JavaUnavailable, SandboxError."""
    script = (Path(__file__).parent / "describe.gradle").read_bytes()
    write_bytes(job.sandbox, SCRIPT, script)
    properties = {
        "stepinto.folder": job.absolute(module.folder),
        "stepinto.sources": module.source_set,
        "stepinto.output": DESCRIPTION,
        # Overrides project settings that would leave a process behind or skip a task.
        "org.gradle.daemon": "false",
        "org.gradle.configuration-cache": "false",
        "org.gradle.configureondemand": "false",
    }
    settings = [f"-D{name}={value}" for name, value in properties.items()]
    command = gradle_command(job.sandbox, job.jdk, ["-I", SCRIPT, *settings, TASK])
    told = run_tool(job, module, _BUILD, LOG, DESCRIPTION, *command)
    if told.exit_code != 0:
        output = job.run(_FAILURE, LOG).output
        # Errors in the sources quote them, and a source can have any text.
        in_sources = any(compiler_errors(output, job.sandbox.workspace))
        if posixpath.basename(SCRIPT) in output and not in_sources:
            # The script does not support this build.
            return unknown_project(job.absolute(module.folder), module)
        failed = build_failed(job.sandbox, "gradle", output, _lacking_gradle(job, module))
        raise with_advice(job.sandbox, failed)
    try:
        described: Mapping[str, Any] = json.loads(job.sandbox.read_file(DESCRIPTION))
    except (SandboxFileError, ValueError) as error:
        raise BuildFailed(f"Gradle did not tell its class path: {error}") from error
    class_path = tuple(described["classPath"])
    steps = [
        CompileStep(step["output"], tuple(step["sourceRoots"]), tuple(step["options"]))
        for step in described["steps"]
        if step is not None
    ]
    return JavaProject(
        module=module,
        folder=described["folder"],
        class_path=class_path,
        class_roots=tuple(path for path in described["classRoots"] if path in class_path),
        source_roots=tuple(described["sourceRoots"]),
        jvm_options=tuple(described["jvmOptions"]),
        environment=described["environment"],
        steps=tuple(steps) if len(steps) == len(described["steps"]) else (),
    )


def _lacking_gradle(job: BuildJob, module: Module) -> str:
    """What to say of the Gradle that the project's wrapper asks for; empty if the sandbox has it,
    or it asks for none."""
    wrapper = posixpath.join(module.root, GRADLE_WRAPPER)
    try:
        wanted = gradle_for({GRADLE_WRAPPER: job.sandbox.read_file(wrapper, SOURCE_LIMIT)})
    except SandboxFileError:
        return ""
    if wanted is None or job.sandbox.config.java.gradle_home is not None:
        return ""
    return (
        f"the project's wrapper asks for {wanted.name}, which was not fetched: name a repository "
        "that has its archive in sandbox.java.repositories, or set sandbox.java.gradle_home"
    )


def gradle_command(sandbox: Sandbox, jdk: Jdk, arguments: Sequence[str]) -> list[str]:
    """The command of a `gradle` with the configured options, to be run in the build's root. Runs
    without a daemon, which would outlive it; exits with MISSING if there is no Gradle."""
    configured = sandbox.config.java.gradle_options
    given = ["--offline"] if configured is None else configured
    options = ["--no-daemon", "--console=plain", *given, *arguments]
    environment = [f"JAVA_HOME={jdk.home}", f"GRADLE_OPTS={JVM_OPTIONS}"]
    return ["env", *environment, "sh", "-c", _TOOL, "sh", *options]
