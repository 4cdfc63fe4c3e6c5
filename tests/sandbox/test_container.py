"""What only the Docker sandbox promises: images, the container's hardening, its end."""

from __future__ import annotations

import gc
import http.client
import os
import platform
import re
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from docker import APIClient
from docker.errors import NotFound

from sandbox import (
    Command,
    ImageWorkspace,
    SandboxConfig,
    container,
    container_exec,
    open_sandbox,
)
from sandbox.container import ContainerSandbox
from sandbox.container_exec import ContainerExecs
from sandbox.engine import (
    LABEL,
    OWNER_LABEL,
    USER_LABEL,
    choose_users,
    remove_leftover_containers,
)
from sandbox.errors import (
    DiskExceeded,
    ImageMissing,
    SandboxDead,
    SandboxFileError,
    SandboxUnavailable,
)
from sandbox.leftovers import owner_tag
from stepinto import main
from tests.sandbox.conftest import lent
from tests.sandbox.image import TAG

pytestmark = pytest.mark.docker


SMALL = SandboxConfig(backend="docker", memory_mb=128)


@pytest.fixture(scope="module")
def shared(image: str) -> Iterator[ContainerSandbox]:
    with ContainerSandbox(SMALL, image) as opened:
        yield opened


@pytest.fixture
def box(shared: ContainerSandbox) -> Iterator[ContainerSandbox]:
    """One that the test leaves as it was."""
    with lent(shared):
        yield shared


@pytest.fixture
def own_box(image: str) -> Iterator[ContainerSandbox]:
    """One that the test may leave as it likes."""
    with ContainerSandbox(SMALL, image) as opened:
        yield opened


def owned_by(engine: Any, box: ContainerSandbox) -> Any:
    return engine.containers.get(box.container_id)


def test_container_is_hardened(engine: Any, box: ContainerSandbox) -> None:
    container = owned_by(engine, box)
    host = container.attrs["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Memory"] == host["MemorySwap"] == 128 * 1024 * 1024
    assert host["NanoCpus"] == 2_000_000_000
    assert 256 <= host["PidsLimit"] < 300
    assert not host["Privileged"]
    assert not host["Binds"]
    assert container.labels["stepinto"] == "1"


def test_close_leaves_no_container_and_no_volume(engine: Any, image: str) -> None:
    volumes = {volume.id for volume in engine.volumes.list()}
    box = ContainerSandbox(SandboxConfig(backend="docker"), image)
    identity = box.container_id
    box.close()
    with pytest.raises(NotFound):
        engine.containers.get(identity)
    assert {volume.id for volume in engine.volumes.list()} <= volumes


def test_image_is_named_and_digested(engine: Any, box: ContainerSandbox, image: str) -> None:
    assert box.image_digest == engine.images.get(image).id
    assert box.python == "/usr/bin/python3"


def test_missing_image_is_named_with_how_to_get_it(image: str) -> None:
    with pytest.raises(ImageMissing, match="docker pull no-such/image:1"):
        open_sandbox(SandboxConfig(backend="docker"), image="no-such/image:1")
    with pytest.raises(SandboxUnavailable, match=r"sandbox\.image"):
        open_sandbox(SandboxConfig(backend="docker"))


def test_image_of_the_config_comes_before_the_instance_s(image: str) -> None:
    config = SandboxConfig(backend="docker", image=TAG)
    with open_sandbox(config, image="no-such/image:1") as box:
        assert box.run(Command(["true"])).exit_code == 0


def test_no_engine_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    with pytest.raises(SandboxUnavailable, match="DOCKER_HOST"):
        open_sandbox(SandboxConfig(backend="docker", image=TAG, engine_wait=0.5))


def test_image_that_cannot_idle_is_unavailable(engine: Any) -> None:
    tag = f"stepinto-test-empty:{os.getpid()}"
    empty = b"\0" * 10240
    engine.api.import_image_from_data(empty, *tag.split(":"))
    try:
        with pytest.raises((SandboxDead, SandboxUnavailable)):
            open_sandbox(SandboxConfig(backend="docker", image=tag))
        assert not engine.containers.list(all=True, filters={"ancestor": tag})
    finally:
        engine.images.remove(tag, force=True)


def test_container_killed_during_a_command_is_dead(engine: Any, own_box: ContainerSandbox) -> None:
    terminal = own_box.spawn(Command(["sh", "-c", "echo up; sleep 1020"]))
    assert terminal.read_line(30) == b"up"
    killer = threading.Timer(0.5, owned_by(engine, own_box).kill)
    killer.start()
    with pytest.raises(SandboxDead):
        own_box.run(Command(["sleep", "1020"], timeout=60))
    killer.join()
    with pytest.raises((EOFError, SandboxDead)):
        terminal.read_line(30)
    assert not terminal.alive()
    assert terminal.close() == 137
    with pytest.raises(SandboxDead):
        own_box.run(Command(["true"]))


def test_container_removed_by_another_is_dead_and_closes(
    engine: Any, own_box: ContainerSandbox
) -> None:
    owned_by(engine, own_box).remove(force=True)
    with pytest.raises(SandboxDead):
        own_box.run(Command(["true"]))
    with pytest.raises(SandboxDead):
        own_box.read_file("x")
    own_box.close()


def test_command_out_of_memory_is_killed_and_the_sandbox_lives(box: ContainerSandbox) -> None:
    script = "held = []\nwhile True: held.append(bytearray(1 << 20))"
    assert box.run(Command([box.python, "-c", script])).exit_code == 137
    assert box.run(Command(["echo", "alive"])).output == "alive\n"


@pytest.mark.slow
def test_no_output_is_lost_to_a_client_that_is_slow(
    box: ContainerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = http.client.HTTPConnection.getresponse

    def slowly(connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
        time.sleep(0.5)
        return answered(connection)

    monkeypatch.setattr(http.client.HTTPConnection, "getresponse", slowly)
    assert box.run(Command(["echo", "at once"])).output == "at once\n"
    assert box.run(Command(["cat"], stdin=b"in")).output == "in"
    many = box.run(Command(["seq", "10000"])).output
    assert many == "".join(f"{number}\n" for number in range(1, 10001))
    late = box.run(Command(["sh", "-c", "echo early; sleep 1; echo late; sleep 60"], timeout=6))
    assert (late.output, late.timed_out) == ("early\nlate\n", True)
    terminal = box.spawn(Command(["sh", "-c", "echo at once; read line; echo $line"]))
    terminal.send_line(b"told")
    assert [terminal.read_line(10), terminal.read_line(10)] == [b"at once", b"told"]
    assert terminal.close() == 0


@pytest.mark.slow
def test_a_command_that_the_engine_could_not_start_is_no_observation(
    engine: Any, own_box: ContainerSandbox
) -> None:
    owned_by(engine, own_box).exec_run(["rm", "/bin/sh"], user="root")
    with pytest.raises(SandboxDead, match="could not start a command: OCI runtime exec failed"):
        own_box.run(Command(["true"]))
    with pytest.raises(SandboxDead, match="could not start a command"):
        own_box.write_file("a.py", b"x")


@pytest.mark.parametrize(
    "change",
    [
        "rm -f /bin/sh",
        pytest.param("cp --remove-destination /bin/true /bin/sh", marks=pytest.mark.slow),
    ],
)
def test_a_program_that_replaces_the_shell_has_ended_its_sandbox(change: str) -> None:
    """It counts as a sandbox that died, not as an engine that starts nothing, which would be no
    failure of the model."""
    held = ImageWorkspace("/usr/lib")  # root's, as in most images that hold a repository
    with ContainerSandbox(SandboxConfig(backend="docker"), TAG, held) as box:
        assert box.run(Command(["bash", "-c", change])).exit_code == 0
        for act in (
            lambda: box.run(Command(["true"])),
            lambda: box.read_file("a.py"),
            lambda: box.spawn(Command(["cat"])),
        ):
            with pytest.raises(SandboxDead) as caught:
                act()
            assert type(caught.value) is SandboxDead


def test_what_a_shell_says_beforehand_is_no_output(image: str) -> None:
    preload = {"LD_PRELOAD": "/none.so"}
    with ContainerSandbox(SandboxConfig(backend="docker", environment=preload), image) as box:
        told = box.run(Command(["sh", "-c", "unset LD_PRELOAD; echo done"])).output
        assert "done\n" in told
        assert "stepinto-ready" not in told
        terminal = box.spawn(Command(["cat"]))
        terminal.send_line(b"told")
        lines = [terminal.read_line(10), terminal.read_line(10)]
        assert b"none.so" in (lines[0] or b""), "what cat itself says"
        assert lines[1] == b"told"
        terminal.close()


@pytest.mark.slow
def test_a_time_out_counts_from_the_commands_start(
    box: ContainerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = ContainerExecs._require_started

    def late(*arguments: Any) -> None:
        started(*arguments)
        time.sleep(2.5)

    monkeypatch.setattr(ContainerExecs, "_require_started", late)
    result = box.run(Command(["echo", "done"], timeout=2))
    assert (result.output, result.timed_out) == ("done\n", False)
    assert result.seconds < 2


def test_a_write_that_is_cut_off_leaves_the_file(
    box: ContainerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.write_file("kept.py", b"x = 1\n")
    monkeypatch.setattr(container, "FILES_TIMEOUT", 0.5)
    with monkeypatch.context() as stalled:
        stalled.setattr(container_exec, "_sent", lambda _, unsent: unsent)
        with pytest.raises(SandboxDead, match=r"writing kept\.py did not end"):
            box.write_file("kept.py", b"x = 2\n")
    assert box.read_file("kept.py") == b"x = 1\n"


def test_a_written_file_keeps_its_mode(box: ContainerSandbox) -> None:
    box.run(Command(["sh", "-c", "echo >run.sh; chmod 700 run.sh; echo >fixed; chmod 400 fixed"]))
    box.write_file("run.sh", b"true\n")
    assert box.run(Command(["stat", "-c", "%a", "run.sh"])).output == "700\n"
    with pytest.raises(SandboxFileError, match="can't write fixed"):
        box.write_file("fixed", b"x")
    assert box.run(Command(["sh", "-c", "ls /tmp"])).output == "home\n", "no more is left"


@pytest.mark.parametrize("rest", [b"", b'{"message":"io: read/write on closed pipe"}\n'])
def test_files_that_the_engine_breaks_off_are_no_tree(
    box: ContainerSandbox, monkeypatch: pytest.MonkeyPatch, rest: bytes
) -> None:
    box.write_files({f"pkg/{name}.py": b"x = 1\n" for name in "abcde"})
    taken = container._Bounded.add

    def cut(output: container._Bounded, chunk: bytes) -> None:
        if b"./pkg/" in chunk:
            taken(output, chunk[: chunk.rindex(b"./pkg/")] + rest)

    monkeypatch.setattr(container._Bounded, "add", cut)
    with pytest.raises(SandboxDead, match="broke off the files"):
        box.read_tree()


def test_files_are_read_with_the_rights_of_the_sandboxs_user(own_box: ContainerSandbox) -> None:
    assert own_box.run(Command(["chmod", "777", "."])).exit_code == 0
    script = "mkdir kept && echo secret >kept/key && chmod 700 kept"
    assert own_box.run(Command(["sh", "-c", script], read_only=True)).exit_code == 0
    with pytest.raises(SandboxFileError, match="can't read 'kept/key'"):
        own_box.read_file("kept/key")
    with pytest.raises(SandboxFileError, match="can't write kept/key"):
        own_box.write_file("kept/key", b"x")
    with pytest.raises(SandboxFileError, match=r"can't read all of '\.': .*kept.*denied"):
        own_box.read_tree()


def test_a_made_up_archive_brings_no_other_paths(engine: Any, own_box: ContainerSandbox) -> None:
    script = (
        "import io, sys, tarfile\n"
        "with tarfile.open(fileobj=sys.stdout.buffer, mode='w|') as archive:\n"
        "    archive.addfile(tarfile.TarInfo('./ok'))\n"
        "    archive.addfile(tarfile.TarInfo('../../outside'))\n"
    )
    own = f"#!/usr/bin/python3\n{script}"
    command = ["python3", "-c", f"open('/usr/bin/tar', 'w').write({own!r})"]
    assert owned_by(engine, own_box).exec_run(command, user="root").exit_code == 0
    with pytest.raises(SandboxFileError, match=r"names '\.\./\.\./outside'"):
        own_box.read_tree()


@pytest.mark.slow
def test_a_tree_of_many_names_for_one_file_is_read_at_once(box: ContainerSandbox) -> None:
    made = "import os; open('file', 'w'); [os.link('file', f'name{n}') for n in range(25000)]"
    box.run(Command(["python3", "-c", made]))
    began = time.process_time()
    assert len(box.read_tree()) == 25001
    assert time.process_time() - began < 6


def test_a_path_that_leads_nowhere_is_told(box: ContainerSandbox) -> None:
    box.run(Command(["sh", "-c", "echo >file; ln -s loop loop"]))
    for path in ("none", "file/below", "loop", "x" * 300):
        with pytest.raises(SandboxFileError, match=f"can't read '{path}"):
            box.read_file(path)


def test_a_container_that_can_t_be_removed_loses_no_work(
    own_box: ContainerSandbox, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_: object, **__: object) -> None:
        raise requests.ReadTimeout("read timed out")

    with monkeypatch.context() as busy:
        busy.setattr(own_box._client.api, "remove_container", slow)
        with pytest.warns(UserWarning, match="was not removed: read timed out"):
            own_box.close()
    owned_by(engine, own_box).remove(force=True)


def test_descriptors_are_closed_with_their_commands(box: ContainerSandbox) -> None:
    gc.disable()
    try:
        for _ in range(15):  # the client keeps a connection for each of its last 25 addresses
            box.run(Command(["true"]))
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(10):
            box.run(Command(["true"]))
        # One that each left would make ten; what else this process has open comes and goes.
        assert len(os.listdir("/proc/self/fd")) < before + 5
    finally:
        gc.enable()


FILL = "head -c 200000000 /dev/zero"
HIDDEN_FILES = {
    "unlinked": f"exec 3>f; rm f; {FILL} >&3; sleep 1023",
    "unreadable": f"mkdir d; {FILL} >d/f; chmod 000 d/f d; sleep 1023",
    "nested": f"for i in $(seq 30); do mkdir $0; cd -P $0; done; {FILL} >/tmp/f; sleep 1023",
}


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, id=name, marks=[] if name == "unlinked" else [pytest.mark.slow])
        for name, script in HIDDEN_FILES.items()
    ],
)
def test_files_that_are_hard_to_find_count_against_the_disk(image: str, script: str) -> None:
    if "rm f" in script and os.geteuid() != 0:
        pytest.skip("only root can look at what other users' programs have open")
    config = SandboxConfig(backend="docker", disk_mb=64)
    with ContainerSandbox(config, image) as box, pytest.raises(DiskExceeded):
        box.run(Command(["bash", "-c", script, "d" * 200], timeout=60))


@pytest.fixture
def image_of_root(engine: Any, image: str) -> Iterator[str]:
    """An image whose commands run as root."""
    tag = f"stepinto-test-root:{os.getpid()}"
    container = engine.containers.create(image, "true")
    try:
        container.commit(*tag.split(":"), conf={"Labels": {"stepinto.user": "0"}})
    finally:
        container.remove()
    yield tag
    engine.images.remove(tag, force=True)


def test_image_may_name_its_user(image_of_root: str) -> None:
    with ContainerSandbox(SandboxConfig(backend="docker"), image_of_root) as box:
        status = box.run(Command(["sh", "-c", "id -u; grep CapEff /proc/self/status"])).output
        assert status == "0\nCapEff:\t0000000000000000\n"
        assert box.run(Command(["id", "-u"], read_only=True)).output != "0\n"
        assert box.run(Command(["touch", "x"], read_only=True)).exit_code != 0
        box.write_file("x", b"1")
        assert box.run(Command(["sleep", "1021"], timeout=0.5)).timed_out
        assert "1021" not in box.run(Command(["ps", "-eo", "args"])).output


def test_a_container_in_which_no_command_starts_any_more_is_ended(
    image_of_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine waits for someone to write into the file that it reads the users from."""
    monkeypatch.setattr("sandbox.container_exec.START_TIMEOUT", 3.0)
    with ContainerSandbox(SandboxConfig(backend="docker"), image_of_root) as box:
        box.run(Command(["sh", "-c", "rm /etc/passwd && mkfifo /etc/passwd"]))
        with pytest.raises(SandboxDead):
            box.run(Command(["true"]))
        began = time.monotonic()
        for use in (box.run, box.spawn):
            with pytest.raises(SandboxDead):
                use(Command(["true"]))
        assert time.monotonic() - began < 3


def test_noise_of_every_program_is_in_no_file(image_of_root: str) -> None:
    with ContainerSandbox(SandboxConfig(backend="docker"), image_of_root) as box:
        box.write_files({"a": b"1\n", "b/c": b"2\n"})
        noisy = box.run(Command(["sh", "-c", "echo /none.so >/etc/ld.so.preload; cat a"]))
        assert "cannot be preloaded" in noisy.output
        for _ in range(5):
            assert box.read_file("a") == b"1\n"
            assert box.read_tree() == {"a": b"1\n", "b/c": b"2\n"}


ENDS_ALL = "sleep 1022 & kill -9 -1; kill -15 1; kill -9 1; kill -9 -1"


@pytest.mark.slow
def test_a_command_that_kills_all_it_can_ends_and_its_sandbox_does_not(
    box: ContainerSandbox, image_of_root: str
) -> None:
    config = SandboxConfig(backend="docker")
    held = ImageWorkspace("/usr/lib")  # root's, as in most images that hold a repository
    with (
        ContainerSandbox(config, image_of_root) as of_root,
        ContainerSandbox(config, TAG, held) as of_workspace,
    ):
        for each in (box, of_root, of_workspace):
            for _ in range(2):
                assert each.run(Command(["sh", "-c", ENDS_ALL])).exit_code == 137
            left = each.run(Command(["ps", "-eo", "pid,stat,args"])).output
            assert "1022" not in left
            assert not re.search(r"^ *[0-9]+ Z", left, re.M), "and what it left behind is reaped"
        seen = of_workspace.run(Command(["sh", "-c", "id -u; stat -c %u /proc/1"])).output.split()
        assert seen[0] == "0" != seen[1], "no debugger of the command's user attaches there"


def test_a_container_that_another_run_removes_meanwhile_is_no_leftover(
    engine: Any, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = {LABEL: "1", OWNER_LABEL: owner_tag()}
    other = engine.containers.create(image, "true", labels=labels)
    listed = APIClient.containers

    def removed_meanwhile(client: APIClient, *arguments: Any, **options: Any) -> Any:
        found = listed(client, *arguments, **options)
        other.remove(force=True)
        return found

    monkeypatch.setattr(APIClient, "containers", removed_meanwhile)
    assert other.id not in remove_leftover_containers().removed


def test_leftovers_of_a_killed_owner_are_removed(engine: Any, box: ContainerSandbox) -> None:
    script = (
        "from sandbox import *\n"
        f"box = open_sandbox(SandboxConfig(backend='docker', image={TAG!r}))\n"
        "print(box.container_id, flush=True); input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    orphan = process.stdout.readline().strip()
    process.kill()
    process.communicate()
    removed = remove_leftover_containers().removed
    # Another process may have removed it before.
    with pytest.raises(NotFound):
        engine.containers.get(orphan)
    assert box.container_id not in removed
    assert box.run(Command(["true"])).exit_code == 0


def test_containers_of_other_machines_are_left_alone(
    engine: Any,
    image: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    label = f"stepinto-test-{secrets.token_hex(4)}"
    monkeypatch.setattr("sandbox.engine.LABEL", label)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    there = owner_tag().replace(platform.node(), "elsewhere")
    labels = {label: "1", OWNER_LABEL: there}
    other = engine.containers.create(image, ["sleep", "600"], labels=labels)
    try:
        other.start()
        assert main(["clean"]) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert "0 containers removed 1 container left" in told
        assert "`stepinto clean --all` removes them" in told
        other.reload()
        assert other.status == "running"
        assert main(["clean", "--all"]) == 0
        assert "1 container removed" in capsys.readouterr().out
        with pytest.raises(NotFound):
            other.reload()
    finally:
        with suppress(NotFound):
            other.remove(force=True)


@pytest.mark.parametrize("label", ["abc", "-1", "99999999999", ""])
def test_a_label_that_names_no_user_is_refused(label: str) -> None:
    image = SimpleNamespace(attrs={"Config": {"Labels": {USER_LABEL: label}}})
    with pytest.raises(SandboxUnavailable, match="is no user's number"):
        choose_users(image)
