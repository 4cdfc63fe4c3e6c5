from textflow import Document, Style


def filled(document, count):
    for number in range(count):
        document.paragraph("p%d" % number)
    return document


def test_short_document_is_one_page():
    pages = filled(Document(20, 6), 3).render()
    assert pages == ["p0\n\np1\n\np2\n\npage 1 of 1"]


def test_blank_line_at_the_end_needs_no_room():
    document = filled(Document(20, 5), 3)
    assert len(document.pages()) == 1


def test_paragraphs_flow_to_the_next_page():
    pages = filled(Document(20, 3), 5).pages()
    assert [page.lines() for page in pages] == [["p0", "", "p1"], ["p2", "", "p3"], ["p4"]]


def test_page_numbers():
    pages = filled(Document(20, 3), 3).render()
    assert [page.splitlines()[-1] for page in pages] == ["page 1 of 2", "page 2 of 2"]


def test_long_paragraph_is_split():
    document = Document(4, 3, Style(space_after=0))
    document.paragraph("aaa bbb ccc ddd eee")
    assert [page.lines() for page in document.pages()] == [["aaa", "bbb", "ccc"], ["ddd", "eee"]]


def test_heading_moves_along_with_its_paragraph():
    document = filled(Document(20, 5), 2)
    document.heading("next")
    document.paragraph("body")
    assert [page.lines() for page in document.pages()] == [["p0", "", "p1"], ["NEXT", "", "body"]]


def test_page_that_begins_with_a_moved_heading_is_not_overfull():
    document = filled(Document(20, 6), 2)
    document.heading("next")
    filled(document, 4)
    pages = document.render()
    assert [len(page.splitlines()) for page in pages] == [7, 7, 7]
    assert pages[1].startswith("NEXT\n\np0\n\np1\n\n")


def test_room_below_several_moved_headings():
    document = filled(Document(20, 7), 2)
    document.heading("part")
    document.heading("chapter")
    filled(document, 3)
    assert document.pages()[1].lines() == ["PART", "", "CHAPTER", "", "p0", "", "p1"]


def test_several_headings_move_together():
    document = filled(Document(20, 7), 2)
    document.heading("part")
    document.heading("chapter")
    document.paragraph("body")
    assert document.pages()[1].lines() == ["PART", "", "CHAPTER", "", "body"]


def test_heading_at_the_top_of_a_page_stays():
    document = Document(20, 3)
    document.heading("only")
    document.paragraph("aaaa " * 12)
    assert document.pages()[0].lines() == ["ONLY"]
