from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Symptom:
    text: str

    @classmethod
    def of(cls, project: object, failing: object, failure: object, output: str) -> Symptom:
        return cls(str(failure))


def write_issue(symptom: Symptom, seed: str) -> str:
    return symptom.text
