import pytest

from configtree import ReferenceLoop, Settings, parse

SERVERS = """
root = /srv
[defaults]
name = default
dir = ${root}/${.name}
log = ${.dir}/log
timeout = 30
[web]
name = web
log = ${defaults.log}
timeout = ${defaults.timeout}
[web.admin]
name = admin
title = ${..name}/${.name}
"""


@pytest.fixture()
def config():
    return Settings(parse(SERVERS))


def test_absolute_reference(config):
    assert config.get("web.timeout", "int") == 30


def test_relative_reference(config):
    assert config.get("defaults.dir") == "/srv/default"


def test_reference_to_the_section_above(config):
    assert config.get("web.admin.title") == "web/admin"


def test_relative_references_belong_to_the_section_they_stand_in(config):
    assert config.get("web.log") == "/srv/default/log"


def test_whole_section(config):
    assert config.section("web") == {
        "name": "web",
        "log": "/srv/default/log",
        "timeout": "30",
    }
    assert config.subsections("web") == ["admin"]


def test_override_is_seen_by_references(config):
    config.override("root", "/tmp")
    assert config.get("defaults.log") == "/tmp/default/log"


def test_reference_used_twice_is_no_loop():
    config = Settings(parse("a = x\nb = ${a}${a}\nc = ${b}${a}\n"))
    assert config.get("c") == "xxx"


def test_loop_is_reported():
    config = Settings(parse("[s]\na = ${.b}\nb = ${.a}\n"))
    with pytest.raises(ReferenceLoop, match="s.a -> s.b -> s.a"):
        config.get("s.a")
