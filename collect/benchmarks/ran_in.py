"""What runs a bug's tests: a mark holds for that, and says nothing of another interpreter."""

from __future__ import annotations

import json

from collect.benchmarks.base import Instance, Language
from sandbox import Command, SandboxConfig, open_sandbox
from sandbox.engine import connect, digest_of, find_image
from sandbox.errors import SandboxError, SandboxUnavailable
from sandbox.java.errors import JavaUnavailable
from sandbox.java.jdk import find_jdk
from sandbox.opening import backend_name

_VERSION = "import platform; print(platform.python_version())"


class RanIn:
    """Names what runs the tests of instances, and asks for each kind of them only once."""

    def __init__(self, config: SandboxConfig) -> None:
        self._config = config
        self._known: dict[tuple[Language, str | None], str] = {}

    def name(self, instance: Instance) -> str:
        """`local, Python 3.12.3`, or `docker, sha256:...`, and what else the config has of its own.

        Raises SandboxUnavailable, ImageMissing.
        """
        key = (instance.language, instance.image)
        if key not in self._known:
            self._known[key] = ", ".join([backend_name(self._config), *self._parts(instance)])
        return self._known[key]

    def known_name(self, instance: Instance) -> str | None:
        """The same; None where nothing on this machine can run it."""
        try:
            return self.name(instance)
        except SandboxError:
            return None

    def _parts(self, instance: Instance) -> list[str]:
        config = self._config
        docker = config.backend == "docker"
        what = _digest(config.image or instance.image) if docker else self._version(instance)
        interpreter = [config.python] if docker and config.python else []
        own = config.model_dump(include={"packages", "import_paths", "environment"})
        own = {name: value for name, value in own.items() if value}
        return [what, *interpreter, *([json.dumps(own, sort_keys=True)] if own else [])]

    def _version(self, instance: Instance) -> str:
        # Without the bug's own packages: its hash has them, and they take time to install.
        with open_sandbox(self._config, instance.image) as sandbox:
            if instance.language == "java":
                try:
                    return f"Java {find_jdk(sandbox).version}"
                except JavaUnavailable as error:
                    raise SandboxUnavailable(str(error)) from error
            result = sandbox.run(Command([sandbox.python, "-I", "-c", _VERSION]))
        return f"Python {result.output.strip()}"


def _digest(image: str | None) -> str:
    if image is None:
        raise SandboxUnavailable(
            "the docker sandbox needs an image: set sandbox.image, or use a benchmark whose "
            "instances name one"
        )
    client = connect()
    try:
        return digest_of(find_image(client, image))
    finally:
        client.close()
