"""What a main agent asks its Debug Subagent: the categories of Debug2Fix's table 3, by rules.

The rules are read in order, and the first that holds decides. They look at the words of the
question alone; code in it, file names and tests are blanked first, so that a quoted `raise` is no
question about an exception. Only whether a value is a variable's or an object's is told by how the
asked expression is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from collect.question_records import Category

DESCRIPTIONS: Mapping[Category, str] = {
    Category.EXCEPTION: "Identifying the type, origin, or cause of runtime exceptions.",
    Category.ROOT_CAUSE: "Understanding why a specific behavior or bug occurs.",
    Category.LOCAL: "Querying the value of specific variables at a location.",
    Category.ATTRIBUTE: "Inspecting object attributes or map entries.",
    Category.ASSERTION: "Identifying which assertion fails and the actual vs expected values.",
    Category.REACHABILITY: "Checking if execution reaches a specific location or branch.",
    Category.POST_FIX: "Confirming that a code change resolves the issue.",
}
"""The paper's own, in its order."""


def cues(*patterns: str, flags: int = re.IGNORECASE) -> re.Pattern[str]:
    """Any of these, whatever the case."""
    return re.compile("|".join(patterns), flags)


ERROR_TYPE = r"\b(?!Assert)(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Failure|Fault|Interrupt)\b"
CODE = re.compile(r"`([^`\n]+)`")
PLACE = re.compile(r"(?:[\w./-]*\w\.(?:py|java)|[\w.]*\w#\w+|\w+::[\w:\[\]-]+)(?::\d+)?")
SENTENCE = re.compile(r"(?<=[.?!:;])\s+|\n+")
SUBORDINATE = cues(r"\b(?:when|while|before|after|once|until|where|because|since|so that)\b.*")

CHANGED = cues(
    r"\b(?:my|the|this) (?:fix|change|edit|patch|modification)\b",
    r"\b(?:i|we)(?:'ve| have)?(?: just| now| also)? (?!(?:expect|suspect|want|need|notic|look|"
    r"observ|tri|fail|assum|guess))(?:\w+ed|rewrote|put|made|took)\b",
    r"\bnow that\b",
    r"\bin place\b(?! of)",
    r"\bapplied\b",
    r"\bwith (?:the|my) new\b",
    r"\b(?:last|latest) edit\b",
)
STILL_FAILS = cues(
    r"\b(?:still fails|fails again|does(?: not|n't) pass|is still failing|still failing)\s*[.,;]"
)
PASSES_NOW = cues(
    r"\b(?:is|are|was|been) (?:now )?(?:fixed|gone|solved|resolved)\b",
    r"\b(?:solve|fix|help)(?:e?s|e?d)? (?:it|this|the)\b",
    r"\b(?:does|do|will|is|are)\b[^.?]*\b(?:pass(?:es)?|fixed|green|gone|right)\b[^.?]* now\b",
    r"\bverify (?:the|my|that)\b[^.?]*\bfix",
    r"\bno longer\b",
)
COMES_TO = (
    r"reach(?:es|ed)?|execut(?:ed?|es)|hit|taken|take|called|invoked|enter(?:ed|s)?|visited|"
    r"triggered|skipped|fires?|fired|gets? (?:to|into|past)|go(?:es)? (?:through|into|down)|"
    r"ends? up in|falls? (?:through|back|into)|continues? (?:down )?to|returns? (?:at|on|early)|"
    r"(?:ever )?runs?|branch"
)
REACHES = cues(
    r"^(?:(?:please|and|so|or)\s+)*(?:does|do|did|is|are|was|were|will|has|have|which of)\b.*"
    rf"\b(?:{COMES_TO}|used|pass(?:es)? (?:line|through)|happens?)\b",
    rf"\b(?:whether|if)\b.*\b(?:{COMES_TO})\b",
    r"\bhow (?:often|many (?:times|iterations|calls|passes|rounds))\b",
    rf"\b(?:ever|never|not) (?:be |been )?(?:{COMES_TO})\b",
    r"\bcount the (?:visits|calls|hits|times)\b",
    r"\bwhich (?:branch|path|overload)\b",
)
WHY = cues(r"\bwhy\b", r"\bhow come\b", r"\b(?:root|underlying|real) cause\b", r"\bthe reason\b")
ASSERTS = cues(
    r"\bassert\w*",
    r"\bactual\b.*\bexpect\w*",
    r"\bexpect\w*\b.*\b(?:actual|got|given|produced?)\b",
    r"\bexpected:",
    r"\bdiffers? from what\b",
    r"\bcompared\b|\bcomparison\b",
    r"\b(?:got|get)\b.*\bwant(?:ed|s)?\b",
    r"\b(?:in place of|instead of) what was expected\b",
    r"\bthe test expects\b",
    flags=re.IGNORECASE | re.DOTALL,
)
NO_ASSERTION = cues(
    r"\bdoes(?: not|n't) fail at an? assert\w*",
    r"\b(?:when|before|where|until) (?:the|this|that) assert\w* (?:fails?|is|runs)\b",
)
"""An assertion as what is not meant, or as a place."""
RAISES = cues(
    ERROR_TYPE,
    r"(?i:\bexceptions?\b|\bthrow\w*|\bthrown\b|\brais(?:e|es|ed|ing)\b|\btraceback\b)",
    r"(?i:\bstack ?trace\b|\bcrash\w*|\b(?:what|which|an?) errors?\b|\berrors? out\b)",
    r"(?i:\bblows? up\b|\bblew up\b|\bpanics?\b|\bdies\b)",
    flags=0,
)
CAUSE = cues(
    r"\b(?:go(?:es|ing)?|went|becomes?|is|are) (?:first )?(?:wrong|lost|off|bad|corrupted)\b",
    r"\bfirst (?:go|goes|becomes|produces)\b",
    r"\bwrong (?:value|result|state|output|one)\b",
    r"\bcaus(?:e|es|ed|ing)\b|\bresponsible\b|\bto blame\b|\bmakes?\b|\blets?\b|\bbug\b",
    r"\b(?:leads?|comes?) (?:up )?(?:to|out)\b|\bturns?\b.*\binto\b",
    r"\b(?:explain|understand|trace|work out)\b|\b(?:find|figure) out (?:how|what)\b",
    r"\bat (?:which|what) (?:step|point|stage)\b",
    r"\bhow (?:does|do|is|can|come)\b",
)
VALUE = cues(
    r"\bvalues?\b|\bholds?\b|\bcontains?\b|\bcontents?\b|\blocals?\b|\bvariables?\b|\bfields?\b",
    r"\battributes?\b|\barguments?\b|\bparameters?\b|\bstate of\b|\breturn(?:s|ed)?\b",
    r"\b(?:what|which|print|inspect|show|see|report|dump|tell me|give me|evaluate|list|read)\b",
    r"\b(?:look at|looks? like|i need)\b|\bhave (?:an? )?(?:item|entry|key|value)\b",
    r"\b(?:is|are) (?:CODE|this\.|self\.|\w+\.\w)",
    r"\b(?:is|are|already|still) (?:true|false|none|null|empty|set)\b",
)
ASKED = cues(
    r"(?:\b(?:values? (?:of|for|does|do|has|have|stored in)|"
    r"what(?:'s| is| are| was| were| does| do)|print|inspect|show me|see|report|"
    r"tell me(?: what)?|gives?(?: me)?|read(?: off)?)|^is|;|:)\s+"
    r"(?:the |both |all )?(?:value of |contents? of |state of |local )?"
    r"(?:`(?P<quoted>[^`\n]+)`|(?P<plain>[A-Za-z_][\w.]*(?:\[[^\]\s]+\])?))",
    flags=re.IGNORECASE | re.MULTILINE,
)
"""Where the expression that a value is asked of stands."""
FILLERS = frozenset(
    {
        *("the", "a", "an", "it", "its", "this", "that", "these", "there", "then", "is", "are"),
        *("does", "do", "what", "which", "of", "at", "in", "value", "values", "and", "on", "for"),
        *("all", "both", "when", "each", "our", "your", "my"),
    }
)
"""Words that stand where an expression could."""
FIELD = re.compile(r"\b(?:self|this|[a-z_]\w*)(?:\.[a-z_]\w*)+(?![\w(])")
"""What looks like an attribute wherever it stands, and is no method."""
INSIDE_OBJECT = re.compile(
    r"(?:self|this|cls|[a-z_]\w*)(?:(?:\(\))?\.\w+|\[[^\]]+\])+(?:\(\))?|\w+\[.+\]", re.DOTALL
)
OF_OBJECTS = cues(
    r"\battributes?\b|\bfields?\b|\bpropert(?:y|ies)\b|\bmembers?\b|\binstance\b",
    r"\bentr(?:y|ies)\b|\bitems?\b|\bkeys?\b|\bmap\b|\bmapping\b|\bdict\w*\b|\bstored under\b",
    r"\b(?:state|contents) of\b",
)


@dataclass(frozen=True)
class Asked:
    """A question, in the forms that rules look at."""

    text: str

    @cached_property
    def words(self) -> str:
        """The text with code, files and tests blanked."""
        return PLACE.sub("FILE", CODE.sub(_blanked, PLACE.sub("FILE", self.text)))

    @cached_property
    def heads(self) -> list[str]:
        """The sentences without their subordinate clauses."""
        return [SUBORDINATE.sub("", each).strip() for each in SENTENCE.split(self.words)]

    @cached_property
    def expression(self) -> str:
        """What a value is asked of; empty where no rule tells."""
        text = PLACE.sub("FILE", self.text)
        code = [each.span() for each in CODE.finditer(text)]
        for found in ASKED.finditer(text):
            if any(start < found.start() < end for start, end in code):
                continue
            if found["quoted"] or found["plain"].lower() not in FILLERS:
                return found["quoted"] or found["plain"]
        field = FIELD.search(text)
        return field[0] if field else ""


def _blanked(code: re.Match[str]) -> str:
    """A quoted exception stays one, a quoted assertion too; anything else is only code."""
    error = re.match(ERROR_TYPE, code[1])
    if error:
        return error[0]
    return "assert" if code[1].startswith("assert") else "CODE"


def is_post_fix(asked: Asked) -> bool:
    """A change was made, and whether it helps is what is asked."""
    if STILL_FAILS.search(asked.words):
        return False
    return bool(CHANGED.search(asked.words) or PASSES_NOW.search(asked.words))


def is_reachability(asked: Asked) -> bool:
    """Yes or no, how often, or which way: in the question itself, not in a clause that says when
    a value is to be read."""
    return any(REACHES.search(head) for head in asked.heads)


def asks_why(asked: Asked) -> bool:
    """Why something is so, where that is no exception."""
    return bool(WHY.search(asked.words)) and not RAISES.search(asked.words)


def is_assertion(asked: Asked) -> bool:
    """Which assertion fails, or what it compares."""
    return bool(ASSERTS.search(NO_ASSERTION.sub("", asked.words)))


def is_exception(asked: Asked) -> bool:
    """Anything about something that is thrown."""
    return bool(RAISES.search(asked.words))


def is_cause(asked: Asked) -> bool:
    """Where or how something goes wrong."""
    return bool(CAUSE.search(asked.words))


def is_attribute(asked: Asked) -> bool:
    """A value inside an object: by the expression, else by words such as field and entry."""
    if not VALUE.search(asked.words):
        return False
    if asked.expression and INSIDE_OBJECT.fullmatch(asked.expression):
        return True
    return bool(OF_OBJECTS.search(asked.words))


def is_local(asked: Asked) -> bool:
    """Any other value."""
    return bool(VALUE.search(asked.words))


RULES: tuple[tuple[Callable[[Asked], bool], Category], ...] = (
    (is_post_fix, Category.POST_FIX),
    (is_reachability, Category.REACHABILITY),
    (asks_why, Category.ROOT_CAUSE),
    (is_assertion, Category.ASSERTION),
    (is_exception, Category.EXCEPTION),
    (is_cause, Category.ROOT_CAUSE),
    (is_attribute, Category.ATTRIBUTE),
    (is_local, Category.LOCAL),
)


def categorize(question: str) -> Category | None:
    """The category of a question; None where no rule holds."""
    asked = Asked(question)
    return next((category for holds, category in RULES if holds(asked)), None)
