import pytest

from textflow import Document, Style

TEXT = "the quick brown fox jumps over the lazy dog"


def lines_of(document):
    return [line for page in document.pages() for line in page.lines()]


def test_left_aligned_text_is_wrapped():
    document = Document(16, 20)
    document.paragraph(TEXT)
    assert lines_of(document) == ["the quick brown", "fox jumps over", "the lazy dog"]


def test_right_aligned_text():
    document = Document(16, 20, Style(align="right"))
    document.paragraph(TEXT)
    assert lines_of(document) == [" the quick brown", "  fox jumps over", "    the lazy dog"]


def test_centered_text():
    document = Document(11, 20, Style(align="center"))
    document.paragraph("one two three")
    assert lines_of(document) == ["  one two", "   three"]


def test_justified_text_fills_all_but_the_last_line():
    document = Document(16, 20, Style(align="justify"))
    document.paragraph(TEXT)
    assert lines_of(document) == ["the  quick brown", "fox  jumps  over", "the lazy dog"]


def test_first_line_indent():
    document = Document(16, 20, Style(first_indent=4))
    document.paragraph(TEXT)
    assert lines_of(document) == ["    the quick", "brown fox jumps", "over the lazy", "dog"]


def test_long_word_is_broken_with_a_hyphen():
    document = Document(8, 20)
    document.paragraph("incomprehensibilities")
    assert lines_of(document) == ["incompr-", "ehensib-", "ilities"]


def test_word_after_a_broken_word_shares_its_line():
    document = Document(8, 20)
    document.paragraph("uncountable x")
    assert lines_of(document) == ["uncount-", "able x"]


def test_wide_characters_take_two_cells():
    document = Document(8, 20, Style(align="right"))
    document.paragraph("日本 語")
    assert lines_of(document) == [" 日本 語"]


def test_combining_marks_take_no_cell():
    document = Document(4, 20, Style(align="right"))
    document.paragraph("e\u0301te\u0301")
    assert lines_of(document) == [" e\u0301te\u0301"]


def test_long_wide_word_is_broken_within_the_line():
    document = Document(7, 20, Style(align="right"))
    document.paragraph("日本語日本語 ab")
    assert lines_of(document) == ["日本語-", " 日本語", "     ab"]


def test_quote_is_indented_by_depth():
    document = Document(20, 20)
    document.quote("first", depth=1)
    document.quote("second", depth=2)
    assert lines_of(document) == ["    first", "", "        second"]


def test_text_around_a_quote_keeps_its_margin():
    document = Document(20, 20, Style(space_after=0))
    document.paragraph("before")
    document.quote("quoted")
    document.paragraph("after")
    assert lines_of(document) == ["before", "    quoted", "after"]


def test_custom_style_for_one_paragraph():
    document = Document(10, 20, Style(space_after=0))
    document.paragraph("left")
    document.paragraph("right", Style(align="right", space_after=0))
    assert lines_of(document) == ["left", "     right"]


@pytest.mark.parametrize("options", [{"colour": "red"}, {"align": "middle"}])
def test_bad_style_options_are_refused(options):
    with pytest.raises(ValueError, match="unknown"):
        Style(**options)
