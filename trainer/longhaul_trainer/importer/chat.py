"""The chat formats of the scaffold (the same as in `src/scaffold/render.ts`), and recognition of a model's template as one of them."""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from longhaul_trainer.importer.refusal import refused

# What the rendering of a template may take: a thousand times what published ones do. Seconds of computation, so that a busy machine does not count.
MAX_SECONDS, MAX_MEMORY = 20, 1024**3
# Linux' measure of this process's memory; elsewhere only the time is bounded.
STATM = Path("/proc/self/statm")
SYSTEM, USER, REPLY, ANSWER = "You repair code.", "A test fails.", "I look at it.", "It printed 7."


@dataclass(frozen=True)
class ChatFormat:
    start: str
    header: str  # with {role}
    end_of_turn: str
    after_turn: str
    marks: tuple[str, ...]

    def message(self, role: str, text: str) -> str:
        return self.header.format(role=role) + text + self.end_of_turn + self.after_turn

    def first(self) -> str:
        header = self.header.format(role="assistant")
        return self.start + self.message("system", SYSTEM) + self.message("user", USER) + header

    def delta(self) -> str:
        """The text after a reply and its end of turn, up to the next reply."""
        return self.after_turn + self.message("user", ANSWER) + self.header.format(role="assistant")

    def whole(self) -> str:
        return self.first() + REPLY + self.end_of_turn + self.delta()


FORMATS = {
    "chatml": ChatFormat(
        start="",
        header="<|im_start|>{role}\n",
        end_of_turn="<|im_end|>",
        after_turn="\n",
        marks=("<|im_start|>", "<|im_end|>"),
    ),
    "llama3": ChatFormat(
        start="<|begin_of_text|>",
        header="<|start_header_id|>{role}<|end_header_id|>\n\n",
        end_of_turn="<|eot_id|>",
        after_turn="",
        marks=("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    ),
}


def find_format(directory: Path, stated: str | None, *, place: Path) -> tuple[str, dict[str, Any]]:
    """Name of the format, and what the template has that the format has not. `place`: what the user knows the directory as. Raises
    JobError 66 where there is none to play."""
    template, specials = _read_template(directory, place)
    known = " or ".join(FORMATS)
    if template is None:
        if stated is None:
            raise refused(
                f"Expected a chat template in {place}, found none: name the format that the model was trained with, --chat-format {known}"
            )
        return stated, {"template": "none"}
    rendered, why = _render(template, specials)
    for name in [stated] if stated is not None else FORMATS:
        if rendered is not None and (extra := _compare(rendered, FORMATS[name])) is not None:
            return name, extra
    if stated is not None:
        return stated, {"template": "differs"}
    how = f"it fails: {why}" if rendered is None else f"it writes {json.dumps(rendered[:120], ensure_ascii=False)}"
    raise refused(
        f"Expected the chat template of {place} to be {known}, {how}. If the model knows the tokens of one of them, play it so with --chat-format NAME"
    )


def check_marks(tokenizer: Tokenizer, name: str) -> list[int]:
    """Ids of a first prompt. Raises JobError 66 if the tokenizer lacks the format's tokens, or tokenises a turn alone differently from
    the same turn in a conversation: a trajectory concatenates the ids of prompt and turns, which are tokenised separately."""
    chat = FORMATS[name]
    added = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    missing = [mark for mark in chat.marks if mark not in added or len(_encode(tokenizer, mark)) != 1]
    if missing:
        raise refused(
            f"Expected {missing[0]} of the chat format {name} to be one added token of the tokenizer: the model was not trained with this format"
        )
    first = _encode(tokenizer, chat.first())
    reply = _encode(tokenizer, REPLY + chat.end_of_turn)
    if first + reply + _encode(tokenizer, chat.delta()) != _encode(tokenizer, chat.whole()):
        raise refused(
            "Expected the tokenizer to read a turn alone as it reads it in a conversation: it adds a space or a token at the beginning of each text, so its ids cannot be joined"
        )
    if tokenizer.decode(_encode(tokenizer, USER)).strip() != USER:
        raise refused(
            f"Expected the tokenizer to give back {USER!r}, it loses letters: it is damaged, or another model's"
        )
    return first


def _encode(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False).ids


def _compare(rendered: str, chat: ChatFormat) -> dict[str, Any] | None:
    """How the rendered template matches the format; None if it does not. A preamble before the system prompt, like the date in Llama
    3.1's, is not part of the format."""
    ours = chat.whole()
    if rendered == ours:
        return {"template": "same"}
    before, after = ours.split(SYSTEM)
    parts = rendered.split(SYSTEM)
    if len(parts) == 2 and parts[0].startswith(before) and parts[1] == after:
        return {"template": "same but for a preamble before the system prompt"}
    return None


def _render(template: str, specials: dict[str, Any]) -> tuple[str | None, str]:
    from transformers.utils.chat_template_utils import render_jinja_template

    talk = (("system", SYSTEM), ("user", USER), ("assistant", REPLY), ("user", ANSWER))
    messages = [{"role": role, "content": text} for role, text in talk]
    try:
        with _bounded():
            found: Any = render_jinja_template(
                [messages], chat_template=template, add_generation_prompt=True, **specials
            )
    except Exception as error:
        # A template is a program of the model and can raise anything.
        return None, f"{type(error).__name__}: {str(error)[:200]}"
    return (found[0] if isinstance(found, tuple) else found)[0], ""


@contextmanager
def _bounded() -> Iterator[None]:
    """A template may count forever or fill the memory, also within its sandbox: raises TimeoutError and MemoryError then."""

    def end(*_: object) -> None:
        raise TimeoutError(f"it computes for more than {MAX_SECONDS} s")

    before = signal.signal(signal.SIGVTALRM, end)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if STATM.exists():
        limit = int(STATM.read_text().split()[0]) * resource.getpagesize() + MAX_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit if soft == resource.RLIM_INFINITY else min(soft, limit), hard))
    signal.setitimer(signal.ITIMER_VIRTUAL, MAX_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGVTALRM, before)


def _read_template(directory: Path, place: Path) -> tuple[str | None, dict[str, Any]]:
    path = directory / "tokenizer_config.json"
    config = json.loads(path.read_text()) if path.is_file() else {}
    specials: dict[str, Any] = {}
    for name in ("bos_token", "eos_token", "pad_token", "unk_token"):
        token = config.get(name)
        specials[name] = token.get("content", "") if isinstance(token, dict) else token or ""
    if (file := directory / "chat_template.jinja").is_file():
        return file.read_text(), specials
    found = config.get("chat_template")
    if found is None and (file := directory / "chat_template.json").is_file():
        found = json.loads(file.read_text()).get("chat_template")
    if isinstance(found, list):
        named = [entry for entry in found if isinstance(entry, dict)]
        found = next((entry.get("template") for entry in named if entry.get("name") == "default"), None)
    if found is not None and not isinstance(found, str):
        raise refused(f"Expected the chat template of {place} to be text, found {found!r:.80}; get the file again")
    return found, specials
