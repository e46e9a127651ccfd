"""A file of questions: three columns of names, tab-separated, one slot of each line open."""

from __future__ import annotations

from pathlib import Path

from fivestar.errors import BadLine, BadSource, FivestarError, SourceNotFound
from fivestar.prediction.predictor import Predictor, Question


def read_questions(path: Path, predictor: Predictor) -> list[Question]:
    """All questions of a file, each of which the predictor can answer; blank lines are left out."""
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError as error:
        raise SourceNotFound(f"no file {path}; give a file of questions") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadSource(f"{path}: cannot be read as text in UTF-8 ({error})") from error
    found: list[Question] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        slots = [slot.strip() for slot in line.split("\t")]
        if len(slots) != 3:
            _refuse(path, number, f"has {len(slots)} fields, not head, relation and tail, one as _")
        question = (slots[0], slots[1], slots[2])
        try:
            predictor.numbers(question)
        except FivestarError as error:
            _refuse(path, number, str(error))
        found.append(question)
    if not found:
        raise BadSource(
            f"{path}: holds no question; write one a line, as Paris<TAB>capital_of<TAB>_"
        )
    return found


def _refuse(path: Path, number: int, why: str) -> None:
    raise BadLine(f"{path}, line {number}: {why}", source=str(path), line=number)
