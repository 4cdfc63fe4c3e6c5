import pytest

from minitemplate import Environment


@pytest.fixture
def render():
    def render(source, /, **variables):
        return Environment({"page.txt": source}).render("page.txt", **variables)

    return render
