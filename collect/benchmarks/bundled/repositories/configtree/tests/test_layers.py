import pytest

from configtree import ConfigError, Loader

FILES = {
    "base": "name = base\n[db]\nhost = localhost\nport = 5432\n[db.pool]\nsize = 5\n",
    "plugins": "[plugins]\nactive = auth\n[plugins.cache]\nttl = 10min\n",
    "app": (
        "include = base, plugins\nname = app\n[db]\nport = 6000\n"
        "[plugins]\nactive += search, mail\n"
        "[profile.dev.db]\nhost = devbox\n[profile.dev.plugins]\nactive += debug\n"
        "[profile.prod.db.pool]\nsize = 50\n"
    ),
    "tool": "include = base\nname = tool\n",
    "audit": "[plugins]\nactive += audit\n",
    "team": "include = audit\n[plugins]\nactive += chat\n",
    "site": "include = plugins, team\nname = site\n",
    "a": "include = b\n",
    "b": "include = a\n",
}


@pytest.fixture()
def loader():
    return Loader(FILES.__getitem__)


def test_file_overrides_what_it_includes(loader):
    config = loader.load("app")
    assert (config.get("name"), config.get("db.port", "int")) == ("app", 6000)
    assert config.get("db.host") == "localhost"


def test_lists_grow_from_layer_to_layer(loader):
    assert loader.load("app").get("plugins.active", "list") == ["auth", "search", "mail"]
    assert loader.load("app", "dev").get("plugins.active", "list")[-1] == "debug"


def test_list_grows_by_a_file_that_grew_it_before(loader):
    assert loader.load("site").get("plugins.active", "list") == ["auth", "audit", "chat"]


def test_additions_without_a_list_below(loader):
    assert loader.load("team").get("plugins.active", "list") == ["audit", "chat"]


def test_profile_is_laid_over_the_file(loader):
    config = loader.load("app", "dev")
    assert (config.get("db.host"), config.get("db.pool.size", "int")) == ("devbox", 5)


def test_profiles_are_no_setting(loader):
    assert loader.load("app").get("profile", default=None) is None


def test_unknown_profile(loader):
    with pytest.raises(ConfigError, match="app has no profile test"):
        loader.load("app", "test")


def test_files_are_read_once():
    names = []
    loader = Loader(lambda name: names.append(name) or FILES[name])
    loader.load("app")
    loader.load("tool")
    assert sorted(names) == ["app", "base", "plugins", "tool"]


def test_include_loop(loader):
    with pytest.raises(ConfigError, match="include loop: a -> b -> a"):
        loader.load("a")


def test_two_applications_share_a_base(loader):
    app = loader.load("app")
    app.override("db.pool.size", "99")
    tool = loader.load("tool")
    assert (tool.get("db.port", "int"), tool.get("db.pool.size", "int")) == (5432, 5)


def test_override_holds_for_one_load(loader):
    first = loader.load("app", "prod")
    first.override("db.pool.size", "1")
    first.override("plugins.cache.ttl", "1s")
    second = loader.load("app", "prod")
    assert second.get("db.pool.size", "int") == 50
    assert second.get("plugins.cache.ttl", "seconds") == 600
