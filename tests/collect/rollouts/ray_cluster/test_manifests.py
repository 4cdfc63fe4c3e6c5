"""The Kubernetes manifests of docs/clusters.md fit each other, and their command can be read."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import yaml

from configs.loading import load_config

ROOT = Path(__file__).resolve().parents[4]
PAGE = ROOT / "docs" / "clusters.md"


def manifests() -> dict[str, Any]:
    """By kind."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    read = [yaml.safe_load(block) for block in blocks]
    return {each["kind"]: each for each in read if "apiVersion" in each}


def pods(found: dict[str, Any]) -> dict[str, Any]:
    cluster = found["RayCluster"]["spec"]
    (workers,) = cluster["workerGroupSpecs"]
    return {
        "head": cluster["headGroupSpec"]["template"]["spec"],
        "worker": workers["template"]["spec"],
        "driver": found["Job"]["spec"]["template"]["spec"],
    }


def test_what_a_pod_mounts_is_there() -> None:
    for name, pod in pods(manifests()).items():
        mounted = {
            mount["name"]
            for container in pod["containers"]
            for mount in container.get("volumeMounts", ())
        }
        assert mounted == {volume["name"] for volume in pod.get("volumes", ())}, name


def test_all_processes_of_ray_have_the_same_image() -> None:
    images = {pod["containers"][0]["image"] for pod in pods(manifests()).values()}
    assert len(images) == 1


def test_the_engine_listens_where_the_worker_looks_and_to_nobody_else() -> None:
    worker, engine = pods(manifests())["worker"]["containers"]
    (address,) = [each["value"] for each in worker["env"] if each["name"] == "DOCKER_HOST"]
    assert address == "tcp://localhost:2375"
    assert "--host=tcp://127.0.0.1:2375" in engine["args"]


def test_the_driver_joins_the_cluster_and_runs_a_config_of_clusters() -> None:
    found = manifests()
    (container,) = pods(found)["driver"]["containers"]
    joins, _, runs = container["args"][0].partition(" && ")
    name = found["RayCluster"]["metadata"]["name"]
    assert joins == f"ray start --address={name}-head-svc:6379 --num-cpus=0"
    replaced, program, stage, config, *overrides = shlex.split(runs)
    assert (replaced, program, stage) == ("exec", "stepinto", "collect")
    read = load_config(ROOT / config, overrides)
    assert (read.runner.backend, read.runner.ray.address) == ("ray", "auto")
    (runs_mount,) = container["volumeMounts"]
    assert str(read.folder).startswith(runs_mount["mountPath"])
