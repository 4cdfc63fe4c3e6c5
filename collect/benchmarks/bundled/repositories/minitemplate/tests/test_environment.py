import pytest

from minitemplate import Environment, TemplateSyntaxError, UndefinedError

SHOP = {
    "address.part": "{{ name }}, {{ city }}",
    "page.html": '<p>{% include "address.part" %}</p>',
    "mail.txt": 'To: {% include "address.part" %}\n',
    "label.txt": '{% set city = "Bath" %}{% include "address.part" %}',
}
COMPANY = {"name": "Smith & Sons", "city": "York"}


def test_html_is_escaped():
    assert Environment(SHOP).render("page.html", **COMPANY) == "<p>Smith &amp; Sons, York</p>"


def test_text_is_not_escaped():
    assert Environment(SHOP).render("mail.txt", **COMPANY) == "To: Smith & Sons, York\n"


def test_mail_after_page():
    shop = Environment(SHOP)
    page = shop.render("page.html", **COMPANY)
    mail = shop.render("mail.txt", **COMPANY)
    assert (page, mail) == ("<p>Smith &amp; Sons, York</p>", "To: Smith & Sons, York\n")


def test_rendering_twice_gives_the_same():
    shop = Environment(SHOP)
    assert len({shop.render("page.html", **COMPANY) for _ in range(3)}) == 1


def test_include_sees_what_was_set():
    assert Environment(SHOP).render("label.txt", **COMPANY) == "Smith & Sons, Bath"


def test_own_filter():
    shop = Environment({"a.txt": "{{ 3|double }}"}, {"double": lambda value: value * 2})
    assert shop.render("a.txt") == "6"


def test_unknown_template():
    with pytest.raises(KeyError):
        Environment({}).render("a.txt")


def test_undefined_name(render):
    with pytest.raises(UndefinedError, match="line 3: 'nmae' is undefined"):
        render("Dear\n\n{{ nmae }}", name="Ada")


def test_undefined_step(render):
    with pytest.raises(UndefinedError, match="'user.mail' is undefined"):
        render("{{ user.mail }}", user={})


def test_undefined_name_below_a_compact_loop(render):
    source = "{% for i in items -%}\n\n  {{ i }}\n\n{%- endfor %}\n\nTotal: {{ totl }}\n"
    with pytest.raises(UndefinedError) as caught:
        render(source, items=[1], total=1)
    assert caught.value.line == 7


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("a\n{% unless x %}", "line 2: unknown tag 'unless x'"),
        ("{% if x %}\n\nb", "expected endif"),
        ("{{ x|shout }}", "no filter 'shout'"),
        ("{% for x of y %}", "malformed tag"),
        ("{{ x == }}", "unexpected '=='"),
    ],
    ids=["unknown_tag", "no_end", "unknown_filter", "malformed_tag", "half_comparison"],
)
def test_syntax_errors(render, source, message):
    with pytest.raises(TemplateSyntaxError, match=message):
        render(source, x=1)
