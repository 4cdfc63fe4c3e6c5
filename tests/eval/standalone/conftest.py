"""The small bug that the tests of runtime questions ask about."""

from __future__ import annotations

from tests.collect.questions.conftest import shop_config, shop_folder, shop_run

__all__ = ["shop_config", "shop_folder", "shop_run"]
