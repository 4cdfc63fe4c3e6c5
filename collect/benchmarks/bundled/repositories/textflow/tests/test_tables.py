from textflow import Document
from textflow.metrics import text_width


def rows_of(document):
    return [line for page in document.pages() for line in page.lines()]


def test_columns_share_the_width():
    document = Document(23, 20)
    document.table([["a", "b", "c"]], shares=[1, 1, 2])
    assert rows_of(document) == ["a    | b    | c        "]


def test_cells_wrap_in_their_own_column():
    document = Document(19, 20)
    document.table([["red green blue", "one"], ["x", "y"]], shares=[1, 1])
    assert rows_of(document) == [
        "red      | one     ",
        "green    |         ",
        "blue     |         ",
        "x        | y       ",
    ]


def test_numbers_can_be_right_aligned():
    document = Document(15, 20)
    document.table([["tea", "250"], ["milk", "75"]], shares=[1, 1], aligns=["left", "right"])
    assert rows_of(document) == ["tea    |    250", "milk   |     75"]


def test_odd_cells_are_given_away():
    document = Document(20, 20)
    document.table([["x", "y"]], shares=[1, 1])
    assert [text_width(row) for row in rows_of(document)] == [20]


def test_rows_with_broken_wide_words_line_up():
    document = Document(19, 20)
    document.table([["製品番号一覧表", "item list"], ["価格", "price"]], shares=[1, 1])
    rows = rows_of(document)
    assert rows[0].startswith("製品番-")
    assert [text_width(row) for row in rows] == [19] * len(rows)


def test_rows_with_broken_latin_words_line_up():
    document = Document(19, 20)
    document.table([["uncountable", "item list"]], shares=[1, 1])
    assert rows_of(document) == ["uncount- | item    ", "able     | list    "]
