"""Say in sentences what supports a triple and what speaks against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fivestar.prediction.evidence import OtherAnswers, SimilarEntities
from fivestar.prediction.path_patterns import PathPattern, SupportingPaths

if TYPE_CHECKING:
    from fivestar.prediction.explanation import Explanation


@dataclass(frozen=True)
class Finding:
    """A sentence about a triple, and whether it supports it or speaks against it."""

    supports: bool
    text: str

    def __str__(self) -> str:
        return f"{'+' if self.supports else '−'} {self.text}"


def findings_of(found: Explanation) -> list[Finding]:
    """Return what supports a triple and what speaks against it; what supports it comes first.

    Args:
        found: the explanation.

    Returns:
        The findings, none if there is nothing to count in train.
    """
    relation, evidence = found.relation.label, found.evidence
    head, tail = found.head.label, found.tail.label
    findings = [
        *_similar(evidence.similar_heads, "head", head, f"{relation} {tail}"),
        *_similar(evidence.similar_tails, "tail", tail, f"{head} as a head of {relation}"),
        *_paths(found.paths),
        *_others(evidence.other_tails, head, "tail", relation),
        *_others(evidence.other_heads, tail, "head", relation),
    ]
    return sorted(findings, key=lambda finding: not finding.supports)


def _similar(found: SimilarEntities, side: str, entity: str, other_end: str) -> list[Finding]:
    if not found.share:
        return []
    number, have = (f"{found.support}" if found.support else "None"), _plural(found.support)
    text = (
        f"{number} of the {found.count} {side}s most similar to {entity} {have} {other_end} "
        f"(of all {side}s: {found.share:.1%})."
    )
    return [Finding(found.supports, text)]


def _plural(count: int) -> str:
    return "has" if count == 1 else "have"


def _paths(paths: SupportingPaths) -> list[Finding]:
    if not paths.patterns:
        return []  # no path is no evidence
    which = "the best " if paths.num_measured < paths.num_patterns else ""
    number = f"{paths.num_supporting}" if paths.num_supporting else "None"
    text = f"{number} of {which}{paths.num_measured:,} path patterns between them supports it."
    if paths.num_supporting > 1:
        text = text.replace("supports it", "support it")
    return [Finding(paths.num_supporting > 0, text)]


def _others(found: OtherAnswers, entity: str, side: str, relation: str) -> list[Finding]:
    if not found.is_against or found.example is None:
        return []
    given = "head" if side == "tail" else "tail"
    rest = f" and {found.count - 1:,} more" if found.count > 1 else ""
    text = (
        f"{entity} has another {side} of {relation} in train ({found.example.label}{rest}); "
        f"{found.single_share:.1%} of all {given}s have exactly one."
    )
    return [Finding(supports=False, text=text)]


def describe_pattern(pattern: PathPattern, base_rate: float) -> str:
    """Return whether a path pattern supports the triple, with the counts that decide it."""
    if pattern.confidence is None:
        return "connects no other pair, so it says nothing"
    which = "" if pattern.exact else "sampled "
    pairs = f"{pattern.pairs:,} other {which}pairs"
    if not pattern.support:
        return f"does not support it: none of {pairs} has the relation"
    share = f"{pattern.support:,} of {pairs} have the relation, {pattern.confidence:.1%}"
    verdict = "supports it" if pattern.supports else "does not support it"
    return f"{verdict}: {share} (base rate {base_rate:.1%})"
