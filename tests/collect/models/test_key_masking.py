"""Keys in a server's replies."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.models.endpoint_client import key_mask

KEY = "sk-Secret/of+the_test~1?"
KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=40)
FORMS = {
    "plain": KEY,
    "url": quote(KEY, safe=""),
    "url twice": quote(quote(KEY, safe=""), safe=""),
    "json": json.dumps(KEY).replace("/", r"\/"),
    "json of json": json.dumps(json.dumps("".join(f"\\u{ord(each):04X}" for each in KEY))),
    "hex": KEY.encode().hex().upper(),
    "base64 without padding": base64.b64encode(KEY.encode()).decode().rstrip("="),
    "urlsafe": base64.urlsafe_b64encode(KEY.encode()).decode(),
    "url of base64": quote(base64.b64encode(b"me:" + KEY.encode()).decode(), safe=""),
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_its_usual_forms_are_masked(text: str) -> None:
    masked = key_mask([KEY])(f"it was {text}, wasn't it?")
    assert "[key]" in masked
    assert len(masked) < len("it was , wasn't it?[key]") + 8


@given(KEYS, st.binary(max_size=5), st.binary(max_size=5))
def test_base64_at_any_offset_is_masked(key: str, before: bytes, after: bytes) -> None:
    packed = base64.b64encode(before + key.encode() + after).decode()
    kept = key_mask([key])(packed)
    assert "[key]" in kept
    assert len(kept.replace("[key]", "")) <= len(packed) - len(key) * 8 // 6 + 2


def test_other_text_and_words_stay() -> None:
    assert key_mask([KEY, None, "EMPTY"])("The list is EMPTY, see sk-Secret") == (
        "The list is EMPTY, see sk-Secret"
    )
    assert key_mask([None])("x") == "x"


def test_floods_of_what_may_begin_a_key_take_no_time() -> None:
    mask = key_mask([KEY])
    for flood in ("\\" * 1_000_000, "%25" * 300_000, KEY[:-1] * 40_000):
        assert mask(flood) == flood
