"""Makes the build tools of a Java project usable from an agent's shell.

Build output goes through links to a folder outside the workspace: so a project can be built and
tested while the edit gate keeps the workspace read-only, and no class file counts as a change.
"""

from __future__ import annotations

import shlex

from sandbox import Command, Sandbox
from sandbox.errors import SandboxError
from sandbox.java.maven import DEBIAN_SETTINGS, maven_options

_LINKS = r"""
link() {
    [ -e "$1" ] && return
    made="$HOME/build/${1#./}"
    mkdir -p "$made" && chmod 0777 "$made" && ln -s "$made" "$1"
}
find . -name pom.xml -not -path '*/target/*' | while read -r file; do
    link "$(dirname "$file")/target"
done
find . -maxdepth 1 \( -name 'build.gradle*' -o -name 'settings.gradle*' \) | grep -q . || exit 0
link .gradle
# A module of Gradle may do without a build file of its own.
find . -path '*/src/*' -prune -o \( -name 'build.gradle*' -o -name src \) -print |
    while read -r file; do link "$(dirname "$file")/build"; done
"""
_SETTINGS = r"""
mkdir -p ~/.gradle/init.d && chmod 0777 ~/.gradle
echo 'org.gradle.daemon=false' >~/.gradle/gradle.properties
{
    echo "gradle.startParameter.offline = $1"
    [ -d /usr/share/maven-repo ] &&
        echo "allprojects { repositories { maven { url 'file:///usr/share/maven-repo' } } }"
} >~/.gradle/init.d/offline.gradle
printf '%s\n' "$0" >~/.mavenrc
"""
# mvn sources ~/.mavenrc in its own script, so it can add arguments.
_MAVEN = """\
set -- {options} "$@"
MAVEN_OPTS="-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djansi.noreset=true $MAVEN_OPTS"
"""
_NO_FORK = "-DforkCount=0"
"""Debian's Surefire idles for about ten seconds at the end of a forked JVM."""


def prepare_java_workspace(sandbox: Sandbox) -> None:
    """Call once after the workspace is prepared. Raises SandboxError."""
    options = maven_options(sandbox)
    if DEBIAN_SETTINGS in options:
        options.append(_NO_FORK)
    maven = _MAVEN.format(options=shlex.join(options))
    configured = sandbox.config.java.gradle_options
    offline = "true" if configured is None or "--offline" in configured else "false"
    for script in (_LINKS, _SETTINGS):
        result = sandbox.run(Command(["sh", "-c", script, maven, offline]))
        if result.exit_code:
            raise SandboxError(f"can't prepare a Java workspace: {result.output.strip()}")
