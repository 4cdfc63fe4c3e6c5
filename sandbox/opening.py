"""Choose and open a sandbox backend."""

from __future__ import annotations

import shutil

from sandbox.base import ImageWorkspace, Sandbox, SandboxConfig
from sandbox.engine import EnginePause
from sandbox.errors import SandboxUnavailable


def _look_for_engine() -> None:
    from sandbox.engine import connect

    connect().close()


ENGINE = EnginePause(_look_for_engine)


def open_sandbox(
    config: SandboxConfig, image: str | None = None, workspace: ImageWorkspace | None = None
) -> Sandbox:
    """Open a fresh sandbox with an empty workspace, or with the image's `workspace`.

    `image` is the instance's own image, used if the config names none. Raises SandboxUnavailable,
    ImageMissing.
    """
    if config.backend == "local":
        if workspace is not None:
            raise SandboxUnavailable(
                f"the code under test lies in {workspace.folder} of the image {image}: set "
                "sandbox.backend=docker"
            )
        from sandbox.local import LocalSandbox

        return LocalSandbox(config)
    chosen = config.image or image
    if chosen is None:
        raise SandboxUnavailable(
            "the docker sandbox needs an image: set sandbox.image, or use a benchmark whose "
            "instances name one"
        )
    from sandbox.container import ContainerSandbox

    return ENGINE.open(
        lambda: ContainerSandbox(config, chosen, workspace),
        config.starts_at_once,
        config.engine_wait,
    )


def backend_name(config: SandboxConfig) -> str:
    """The backend's name in records; `local-unsafe` if commands run on the host itself, for lack of
    bubblewrap."""
    on_host = config.backend == "local" and config.unsafe and shutil.which("bwrap") is None
    return "local-unsafe" if on_host else config.backend


def clean_up(config: SandboxConfig) -> None:
    """Remove folders or containers that killed runs left behind on this machine."""
    if config.backend == "local":
        from sandbox.leftovers import remove_leftovers

        remove_leftovers()
        return
    from sandbox.engine import remove_leftover_containers

    remove_leftover_containers()
