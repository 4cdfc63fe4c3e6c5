import pytest

from configtree import ConversionError, ParseError, Settings, UnknownKey, parse


def settings(text):
    return Settings(parse(text))


def test_keys_and_nested_sections():
    tree = parse("name = demo\n[server]\nport = 80\n[server.tls]\ncert = a.pem\n")
    assert tree == {"name": "demo", "server": {"port": "80", "tls": {"cert": "a.pem"}}}


def test_section_can_be_continued():
    assert parse("[a]\nx = 1\n[b]\ny = 2\n[a]\nz = 3\n") == {
        "a": {"x": "1", "z": "3"},
        "b": {"y": "2"},
    }


def test_comments_are_removed():
    assert parse("# head\nx = 1  # one\n\n[s] # section\ny = 2#\n") == {"x": "1", "s": {"y": "2"}}


def test_hash_in_quotes_is_no_comment():
    assert settings('color = "#ff0000"  # red\n').get("color") == "#ff0000"


def test_escaped_quotes():
    assert settings('title = "the \\"big\\" one"\n').get("title") == 'the "big" one'


def test_comment_after_a_value_with_escapes():
    config = settings('path = "C:\\\\data\\\\new"  # the "new" place\nports = 1, 2\n')
    assert config.get("path") == "C:\\data\\new"
    assert config.get("ports", "list") == ["1", "2"]


def test_backslash_at_the_end_of_a_quoted_value():
    config = settings('root = "D:\\\\"  # the data drive\n')
    assert config.get("root") == "D:\\"


def test_backslash_at_the_end_of_a_comment():
    config = settings('[paths]\nroot = "D:\\\\"  # was C:\\\nkeep = 30\n[log]\nlevel = 2\n')
    assert config.get("paths.keep", "int") == 30
    assert config.get("log.level", "int") == 2


def test_comment_with_an_apostrophe():
    assert settings("limit = 5  # don't raise\nnext = 6\n").get("limit", "int") == 5


def test_continuation_lines():
    config = settings("hosts = alpha, \\\n  beta, \\\n  gamma\nport = 1\n")
    assert config.get("hosts", "list") == ["alpha", "beta", "gamma"]
    assert config.get("port", "int") == 1


def test_bad_line_is_named_by_its_number():
    with pytest.raises(ParseError, match="line 4: .*nonsense"):
        parse("a = 1, \\\n    2\n\nnonsense\n")


def test_types():
    config = settings("i = 0x10\nf = 2.5\nb = Yes\nl = a, b,\nd = 1h 30min\nn = 1_000\n")
    assert config.get("i", "int") == 16
    assert config.get("n", "int") == 1000
    assert config.get("f", "float") == 2.5
    assert config.get("b", "bool") is True
    assert config.get("l", "list") == ["a", "b"]
    assert config.get("d", "seconds") == 5400


def test_conversion_errors_name_the_key():
    with pytest.raises(ConversionError, match="server.port = 'eighty' is no int"):
        settings("[server]\nport = eighty\n").get("server.port", "int")


def test_missing_keys():
    config = settings("[a]\nx = 1\n")
    assert config.get("a.y", "int", default=7) == 7
    with pytest.raises(UnknownKey, match="no a.y"):
        config.get("a.y")
