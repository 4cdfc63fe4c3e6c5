import pytest


def test_text_alone(render):
    assert render("Hello\n") == "Hello\n"


def test_output(render):
    assert render("Hello {{ name }}!", name="Ada") == "Hello Ada!"


def test_dotted_path(render):
    user = {"names": ["Ada", "Augusta"]}
    assert render("{{ user.names.1 }}", user=user) == "Augusta"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ name|upper }}", "ADA"),
        ("{{ missing|default:'nobody' }}", "nobody"),
        ("{{ words|join:', ' }}", "a, b"),
        ("{{ 'a long text'|truncate:8,'..' }}", "a long.."),
        ("{{ words|join|upper|length }}", "2"),
    ],
    ids=["upper", "default", "join", "truncate", "chain"],
)
def test_filters(render, source, expected):
    assert render(source, name="Ada", missing=None, words=["a", "b"]) == expected


def test_if_and_else(render):
    source = (
        "{% if count > 1 %}many{% else %}{% if not count %}none{% else %}one{% endif %}{% endif %}"
    )
    assert [render(source, count=count) for count in (0, 1, 2)] == ["none", "one", "many"]


def test_for_knows_its_place(render):
    source = "{% for word in words %}{{ loop.number }}{{ word }}{% if not loop.last %}, {% endif %}{% endfor %}"
    assert render(source, words=["a", "b"]) == "1a, 2b"


def test_for_without_items(render):
    assert render("{% for word in words %}x{% else %}nothing{% endfor %}", words=[]) == "nothing"


def test_set(render):
    assert render("{% set who = name|upper %}{{ who }}", name="Ada") == "ADA"


def test_set_in_a_loop_stays_there(render):
    source = "{% set x = 1 %}{% for i in items %}{% set x = i %}{{ x }}{% endfor %}{{ x }}"
    assert render(source, items=[7, 8]) == "781"


def test_nested_loops(render):
    source = "{% for row in rows %}{% for cell in row %}{{ cell }}{% endfor %};{% endfor %}"
    assert render(source, rows=[[1, 2], [3]]) == "12;3;"


def test_dashes_eat_white_space(render):
    source = "<\n  {%- for i in items -%}\n  {{ i }}\n  {%- endfor -%}\n>"
    assert render(source, items=[1, 2]) == "<12>"


def test_comment(render):
    assert render("a{# not\nthis #}b") == "ab"


def test_order_list_for_a_customer(render):
    source = (
        "{% for name in orders %}{{ name }}:"
        "{% for item in stock.items %}{{ item }} {% else %}out of stock {% endfor %}"
        "{% endfor %}thanks, {{ name }}"
    )
    text = render(source, orders=["tea", "rice"], stock={"items": []}, name="Ada")
    assert text == "tea:out of stock rice:out of stock thanks, Ada"
