"""Keys in a server's replies."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import pytest

from collect.models.endpoint_client import mask_of

KEY = 'sk-Secret/of+the_"test~1?'
SERVER = "https://api.example.org/v1"
FORMS = {
    "plain": KEY,
    "url": quote(KEY, safe=""),
    "url_in_lower_case": quote(KEY, safe="").replace("%2F", "%2f"),
    "json": json.dumps(KEY),
    "json_with_escaped_slashes": json.dumps(KEY).replace("/", "\\/"),
    "json_in_json": json.dumps(json.dumps(KEY)),
    "json_with_code_points": "".join(f"\\u{ord(each):04X}" for each in KEY),
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_its_usual_forms_are_masked(text: str) -> None:
    masked = mask_of(SERVER, KEY)(f"it was {text}, wasn't it?")
    assert re.sub(r'[\\"]', "", masked) == "it was [key], wasn't it?"


def test_a_reply_of_backslashes_is_soon_read() -> None:
    text = "\\" * 1_000_000
    assert mask_of(SERVER, KEY)(text) == text


def test_a_password_in_the_address_is_masked() -> None:
    assert mask_of("https://me:pass-word-1@host/v1", None)("pass-word-1 is wrong") == (
        "[key] is wrong"
    )


def test_other_text_and_words_stay() -> None:
    text = "The list is EMPTY, see sk-Secret"
    assert mask_of(SERVER, KEY)(text) == mask_of(SERVER, "EMPTY")(text) == text
    assert mask_of(SERVER, None)("x") == "x"
