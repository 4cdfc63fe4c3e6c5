"""Images are fetched within a limit, and make room for each other, on a real engine."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import secrets
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
from docker.errors import APIError, DockerException, NotFound

from sandbox import images
from sandbox.engine import connect, local_root
from sandbox.errors import EngineDown, NoRoomForImage, SandboxUnavailable
from sandbox.images import (
    GIGABYTE,
    ImagePuller,
    ImagesConfig,
    ImageStore,
    PulledImage,
    image_bytes,
    pull_failure,
    pull_from_registry,
)
from tests.sandbox.registry import Registry

pytestmark = pytest.mark.docker
SIZE = 2_000_000
# Each process of a parallel run makes and removes its own.
REPOSITORY = f"stepinto-test-pull-{os.getpid()}"


def pull(client: Any, image: str) -> None:
    """In the place of a registry: an image of SIZE bytes, or the registry's own answer."""
    repository, _, tag = image.partition(":")
    if tag == "missing":
        raise NotFound("no such image in the registry")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo(f"data-{secrets.token_hex(4)}")
        entry.size = SIZE
        archive.addfile(entry, io.BytesIO(bytes(SIZE)))
    client.api.import_image_from_data(buffer.getvalue(), repository=repository, tag=tag)


@pytest.fixture
def engine(image: str) -> Iterator[Any]:
    client = connect()
    yield client
    for made in client.images.list(name=REPOSITORY):
        client.images.remove(made.id, force=True)
    client.close()


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "images.json")


def own_bytes(client: Any) -> int:
    """Of this file's images alone: other tests make and remove images at the same time."""
    return len(client.images.list(name=REPOSITORY)) * SIZE


def puller(engine: Any, store: ImageStore, room: float, limit_wait: float = 0) -> ImagePuller:
    """One that keeps to this number of images."""
    limit = room * SIZE / GIGABYTE
    config = ImagesConfig(parallelism=2, disk_gb=limit, backoff=0, pull_limit_wait=limit_wait)
    return ImagePuller(engine, config, store, pull, own_bytes)


def names(*tags: str) -> list[str]:
    return [f"{REPOSITORY}:{tag}" for tag in tags]


def there(engine: Any, *tags: str) -> list[bool]:
    return [bool(engine.images.list(name=name)) for name in names(*tags)]


def test_a_fetch_that_fails_is_tried_again(engine: Any, store: ImageStore) -> None:
    tries = iter([APIError("unexpected EOF"), ConnectionError("reset")])

    def pull_at_last(client: Any, name: str) -> None:
        for failure in tries:
            raise failure
        pull(client, name)

    patient = puller(engine, store, 9)
    patient.pull = pull_at_last
    assert patient.fetch(names("a")).pulled == names("a")
    tries = iter([APIError("unexpected EOF")] * 3)
    assert "unexpected EOF" in patient.fetch(names("b")).failed[names("b")[0]]
    tries = iter([ConnectionError("reset")] * 3)
    with pytest.raises(EngineDown, match="reset"):
        patient.fetch(names("b"))


def test_a_registry_that_gives_out_no_more_is_waited_for(
    engine: Any, store: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def pull_limited(client: Any, name: str) -> None:
        asked.append(name)
        if len(asked) % 5:
            raise APIError("toomanyrequests: slow down")
        pull(client, name)

    monkeypatch.setattr(images, "FIRST_LIMIT_WAIT", 0.01)
    patient = puller(engine, store, 9, limit_wait=60)
    patient.pull = pull_limited
    assert patient.fetch(names("a")).pulled == names("a")
    assert len(asked) == 5
    hasty = puller(engine, store, 9)
    hasty.pull = pull_limited
    assert "toomanyrequests" in hasty.fetch(names("b")).failed[names("b")[0]]
    assert len(asked) == 6


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("toomanyrequests: You have reached your pull rate limit", "PullLimited"),
        ("unexpected status code 429 Too Many Requests", "PullLimited"),
        ("manifest for a/b:4290 not found", "ImageMissing"),
        ("Get https://10.4.29.1/v2/: EOF", "ImageMissing"),
    ],
)
def test_what_a_failed_pull_means(said: str, means: str) -> None:
    failure = pull_failure("a/b:4290", APIError("500 Server Error", explanation=said))
    assert type(failure).__name__ == means
    assert said in str(failure)


def test_a_pull_that_breaks_off_is_told(engine: Any) -> None:
    if local_root() is None:
        pytest.skip("needs an engine of this machine, which finds a registry here")
    with Registry().running() as registry:
        registry.broken = 100
        with pytest.raises(DockerException, match="verification failed"):
            pull_from_registry(engine, registry.image("a"))


def test_only_what_is_missing_is_fetched(engine: Any, store: ImageStore, image: str) -> None:
    report = puller(engine, store, 9).fetch([*names("a", "missing"), image, *names("a")])
    assert (report.pulled, report.present) == (names("a"), [image])
    assert "no such image" in report.failed[f"{REPOSITORY}:missing"]
    assert store.read().keys() == set(names("a"))
    assert report.used_bytes == SIZE < image_bytes(engine)


def test_the_image_used_longest_ago_makes_room(engine: Any, store: ImageStore) -> None:
    pull(engine, f"{REPOSITORY}:foreign")
    puller(engine, store, 9).fetch(names("old", "new", "busy"))
    age(store, old=300, new=200, busy=400)
    container = engine.containers.create(f"{REPOSITORY}:busy", "x")
    try:
        store.note_use(f"{REPOSITORY}:new")
        report = puller(engine, store, 4.5).fetch(names("next"))
        assert report.evicted == names("old")
        assert report.pulled == names("next")
        assert there(engine, "foreign", "old", "new", "busy", "next") == [
            True,
            False,
            True,
            True,
            True,
        ]
    finally:
        container.remove(force=True)


def test_a_held_image_makes_no_room(engine: Any, store: ImageStore) -> None:
    puller(engine, store, 9).fetch(names("held", "free"))
    age(store, held=300, free=200)
    with ImageStore(store.path).holding(f"{REPOSITORY}:held"):
        puller(engine, store, 1.5).require(f"{REPOSITORY}:next")
        assert there(engine, "held", "free", "next") == [True, False, True]
        with pytest.raises(NoRoomForImage, match=r"raise it"):
            puller(engine, store, 0.5).require(f"{REPOSITORY}:more")
        assert there(engine, "held", "next") == [True, False]
    puller(engine, store, 0.5).require(f"{REPOSITORY}:more")
    assert there(engine, "held", "more") == [False, True]


def test_without_room_nothing_that_is_wanted_goes(engine: Any, store: ImageStore) -> None:
    pull(engine, f"{REPOSITORY}:foreign")
    puller(engine, store, 9).fetch(names("a"))
    report = puller(engine, store, 1.5).fetch(names("a", "b"))
    assert (report.present, report.left, report.evicted) == (names("a"), names("b"), [])
    assert there(engine, "foreign", "a", "b") == [True, True, False]


def test_an_image_that_another_made_under_the_name_is_not_ours(
    engine: Any, store: ImageStore
) -> None:
    puller(engine, store, 9).fetch(names("a"))
    pull(engine, f"{REPOSITORY}:a")
    report = puller(engine, store, 0.5).fetch(names("b"))
    assert (report.evicted, report.left) == ([], names("b"))
    assert store.read() == {}


def test_the_registry_is_asked_by_the_image_s_name(engine: Any) -> None:
    with pytest.raises(APIError, match="localhost:1"):
        pull_from_registry(engine, "localhost:1/no/image:1")


def test_without_a_home_to_write_to_an_image_is_held_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    homeless = ImageStore(tmp_path / "file" / "images.json")
    with homeless.holding("a:1"):
        homeless.note_use("a:1")
    with pytest.raises(SandboxUnavailable, match="set XDG_CACHE_HOME"):
        homeless.add("a:1", "sha256:1")


def test_a_hold_is_open_for_what_it_locks(
    store: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As NFS requires it: for reading where the lock is shared, for writing where it is not."""
    modes = []
    lock = fcntl.flock

    def lock_noted(file: TextIO, operation: int) -> None:
        modes.append((operation & fcntl.LOCK_SH, file.readable(), file.writable()))
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", lock_noted)
    with store.holding("a:1"), store.if_free("a:1") as free:
        assert not free
    assert modes == [(fcntl.LOCK_SH, True, True), (0, True, True)]


def test_a_hold_that_can_t_be_taken_is_told(
    store: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(file: TextIO, operation: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    for asking in (store.holding("a:1"), store.if_free("a:1")):
        with pytest.raises(SandboxUnavailable, match=r"no locks available.*XDG_CACHE_HOME"), asking:
            pass


def test_use_is_noted_of_pulled_images_alone(store: ImageStore) -> None:
    store.note_use("other:1")
    assert store.read() == {}
    store.add("a:1", "sha256:1")
    age(store, **{"a:1": 500})
    store.note_use("a:1")
    assert time.time() - store.read()["a:1"].used < 100
    store.remove("a:1")
    assert store.read() == {}


def age(store: ImageStore, **seconds: float) -> None:
    """As if the images had been used so many seconds ago."""
    known = store.read()
    for tag, ago in seconds.items():
        name = tag if ":" in tag else f"{REPOSITORY}:{tag}"
        known[name] = PulledImage(known[name].id, time.time() - ago)
    store.path.write_text(json.dumps({name: vars(image) for name, image in known.items()}))
