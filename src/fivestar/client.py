"""`Client`: a served model, with the methods of a local one."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from pydantic import TypeAdapter

from fivestar.errors import (
    AmbiguousName,
    FivestarError,
    GraphError,
    GraphWarning,
    MissingExtra,
    ServerError,
    SettingsError,
    UnknownName,
)
from fivestar.extras import require
from fivestar.prediction.predictions import (
    MISSING,
    Named,
    Prediction,
    Predictions,
    Query,
    missing_slots,
)

if TYPE_CHECKING:  # what these modules import takes longer than an answer
    from fivestar.evaluation.topk import Which
    from fivestar.prediction.completion import Slots
    from fivestar.prediction.explanation import Explanation
    from fivestar.prediction.fold_in import Fact
    from fivestar.prediction.neighbors import Neighbors

Json = Any


@dataclass(frozen=True)
class NewFact:
    """A probable triple that the graph does not hold; `probability` is None without calibration."""

    head: Named
    relation: Named
    tail: Named
    probability: float | None


class Client:
    """A model served by `fivestar serve`, with the methods of a local `TrainedModel`.

    They return the same types and raise the same errors. A `fivestar.errors.ServerError` says that
    the server cannot be reached or refuses the request. Requests that the server is too busy for
    (503, 429) are sent again after the time that it names. A client can be used by several threads.

    Args:
        url: the address of the server, such as `http://localhost:8005`.
        token: the bearer token, if the server requires one.
        run: name of the run; by default the first that is served.
        timeout: seconds to wait for a response.
        retries: how often a request is sent again.

    Raises:
        SettingsError: if the address is none.
        MissingExtra: if urllib3 is not installed (extra `client`).
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        run: str | None = None,
        timeout: float = 60.0,
        retries: int = 3,
    ) -> None:
        urllib3 = require("urllib3", "client", "fivestar.Client")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise SettingsError(f"url: {url!r} is no address; give one like http://localhost:8005")
        self.url = url.rstrip("/")
        self.run = run
        self._errors = (urllib3.exceptions.HTTPError,)
        headers = {"Accept-Encoding": "gzip", "User-Agent": "fivestar"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        self._pool = urllib3.PoolManager(
            headers=headers,
            timeout=urllib3.Timeout(connect=min(10.0, timeout), read=timeout),
            retries=urllib3.Retry(
                total=retries,
                read=0,  # it may have been processed
                redirect=0,  # the token is for this server alone
                status_forcelist=[503],
                allowed_methods=None,
                raise_on_status=False,
                backoff_factor=0.2,
            ),
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r}{'' if self.run is None else f', run={self.run!r}'})"

    def close(self) -> None:
        """Close all connections."""
        self._pool.clear()

    def runs(self) -> list[dict[str, Any]]:
        """Return the served runs with their models, graphs and capabilities."""
        runs: list[dict[str, Any]] = self._get("runs", with_run=False)["runs"]
        return runs

    def predict_tails(
        self,
        head: str,
        relation: str,
        top: int = 10,
        which: Which = "all",
        types: Sequence[str] = (),
    ) -> Predictions:
        """Predict the tails of (head, relation, ?); see `TrainedModel.predict_tails`."""
        return self.predict([(head, relation, "_")], top, which, types)[0]

    def predict_heads(
        self,
        relation: str,
        tail: str,
        top: int = 10,
        which: Which = "all",
        types: Sequence[str] = (),
    ) -> Predictions:
        """Predict the heads of (?, relation, tail); see `TrainedModel.predict_heads`."""
        return self.predict([("_", relation, tail)], top, which, types)[0]

    def predict_relations(
        self, head: str, tail: str, top: int = 10, which: Which = "all"
    ) -> Predictions:
        """Predict the relations of (head, ?, tail); see `TrainedModel.predict_relations`."""
        return self.predict([(head, "_", tail)], top, which)[0]

    def predict(
        self,
        queries: Sequence[Query],
        top: int = 10,
        which: Which = "all",
        types: Sequence[str] = (),
    ) -> list[Predictions]:
        """Answer many queries with one request; see `TrainedModel.predict`.

        Raises:
            UnknownName, AmbiguousName: if a name cannot be resolved.
            SettingsError: if `top` is below 1, or not exactly one slot of a query is missing.
            ServerError: if the server refuses so much at once.
        """
        if not queries:
            return []
        for query in queries:
            missing_slots(query)
        body = {"queries": [list(q) for q in queries], "top": top, "which": which}
        results = self._post("predict/batch", body | {"types": list(types)})["results"]
        for message in dict.fromkeys(text for each in results for text in each["warnings"]):
            warnings.warn(message, GraphWarning, stacklevel=3)
        return [
            Predictions(
                query,
                _adapter(list[Prediction]).validate_python(result["answers"]),
                _names(result["query"]),
            )
            for query, result in zip(queries, results, strict=True)
        ]

    def score(self, head: str, relation: str, tail: str) -> Prediction:
        """Return score, probability, rank and state of a triple; see `TrainedModel.score`."""
        found = self._post("score", {"head": head, "relation": relation, "tail": tail})
        fields = ("rank", "score", "probability", "split", "state")
        return Prediction(**{name: found[name] for name in fields}, **found["tail"])

    def explain(self, head: str, relation: str, tail: str, top: int = 5) -> Explanation:
        """Explain a triple by its evidence; see `TrainedModel.explain`."""
        from fivestar.prediction.explanation import Explanation  # noqa: PLC0415  (imports torch)

        found = self._get("explain", head=head, relation=relation, tail=tail, top=top)
        explanation: Explanation = _adapter(Explanation).validate_python(found["explanation"])
        return explanation

    def similar(self, entity: str, top: int = 10) -> Neighbors:
        """Return the nearest neighbors of an entity; see `TrainedModel.similar`."""
        from fivestar.prediction.neighbors import (  # noqa: PLC0415  (imports torch)
            Neighbor,
            Neighbors,
        )

        found = self._get("similar", entity=entity, top=top)
        neighbors = _adapter(list[Neighbor]).validate_python(found["neighbors"])
        return Neighbors(Named(**found["entity"]), neighbors)

    def new_facts(
        self,
        relations: Sequence[str],
        *,
        top: int = 100,
        threshold: float = 0.0,
        slots: Slots = "seen",
    ) -> Iterator[NewFact]:
        """Iterate over probable new triples while the server finds them, relation by relation.

        Args:
            relations: the relations.
            top: number of triples per relation.
            threshold: least calibrated probability.
            slots: heads and tails "seen" with the relation in train, or "all" entities.

        Raises:
            ServerError: if the server stops before the end.
        """
        query = {"top": top, "threshold": threshold, "slots": slots}
        with self._request("GET", "complete", query | {"relation": relations}) as response:
            line = {}
            for text in _lines(response, self._errors):
                if "head" in (line := json.loads(text)):
                    yield _adapter(NewFact).validate_python(line)
            if "count" not in line:
                raise ServerError("the server has stopped before the end; request less at once")

    def add_entities(self, facts: Iterable[Fact], epochs: int | None = None) -> list[Named]:
        """Add new entities to the served model, in its memory; see `TrainedModel.add_entities`.

        Args:
            facts: triples (head, relation, tail), each with at least one new entity.
            epochs: passes over these triples; None: as many as the server has by default.

        Returns:
            The new entities.

        Raises:
            GraphError: if a triple has no new entity.
            ServerError: if the server does not allow it.
        """
        body: dict[str, Any] = {"facts": [list(f) for f in facts]}
        if epochs is not None:
            body["epochs"] = epochs
        try:
            found = self._post("fold-in", body)
        except SettingsError as error:
            raise GraphError(str(error)) from error
        for message in found["warnings"]:
            warnings.warn(message, GraphWarning, stacklevel=2)
        entities: list[Named] = _adapter(list[Named]).validate_python(found["entities"])
        return entities

    def _get(self, path: str, *, with_run: bool = True, **query: Any) -> Json:
        with self._request("GET", path, query, with_run=with_run) as response:
            return self._document(response)

    def _post(self, path: str, body: dict[str, Any]) -> Json:
        content = json.dumps(body if self.run is None else body | {"run": self.run}).encode()
        with self._request("POST", path, {}, content, with_run=False) as response:
            return self._document(response)

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        content: bytes | None = None,
        *,
        with_run: bool = True,
    ) -> Any:
        """Return a response; raise the error of one that is a problem document."""
        chosen = dict(query) | ({"run": self.run} if with_run else {})
        given = {name: value for name, value in chosen.items() if value is not None}
        url = f"{self.url}/api/{path}" + (f"?{urlencode(given, doseq=True)}" if given else "")
        headers = dict(self._pool.headers)
        if content is not None:
            headers["Content-Type"] = "application/json"
        try:
            response = self._pool.request(
                method, url, body=content, headers=headers, preload_content=False
            )
        except self._errors as error:
            raise ServerError(f"{self.url} does not answer: {error}") from error
        if response.status != 200:
            with response:
                raise _error_of(response.status, self._document(response))
        return response

    def _document(self, response: Any) -> Json:
        try:
            return json.loads(response.read())
        except ValueError as error:
            raise ServerError(
                f"the response ({response.status}) is no JSON; is this a fivestar server?",
                status=response.status,
            ) from error
        except self._errors as error:
            raise ServerError(f"the response ends early: {error}") from error


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _names(query: dict[str, Json]) -> Query:
    head, relation, tail = (
        MISSING[0] if query[slot] is None else query[slot]["id"]
        for slot in ("head", "relation", "tail")
    )
    return head, relation, tail


def _lines(response: Any, errors: tuple[type[Exception], ...]) -> Iterator[bytes]:
    rest = b""
    try:
        for part in response.stream(1 << 16):
            *lines, rest = (rest + part).split(b"\n")
            yield from lines
    except errors as error:
        raise ServerError(f"the response ends early: {error}") from error


def _error_of(status: int, problem: Json) -> FivestarError:
    """Return the error of a problem document, as the library would raise it."""
    if not isinstance(problem, dict) or "detail" not in problem:
        return ServerError(f"status {status}: {str(problem)[:200]}", status=status)
    detail, code = str(problem["detail"]), problem.get("code", "")
    # A batch lists the errors of its queries.
    first = next((each for each in problem.get("errors", ()) if "query" in each), problem)
    if "nearest" in first:
        return UnknownName(first["detail"], first["nearest"])
    if "candidates" in first:
        candidates = [(each["id"], each["label"]) for each in first["candidates"]]
        return AmbiguousName(first["detail"], candidates)
    if status == 422:
        return SettingsError(detail)
    if status == 501:
        return MissingExtra(detail)
    return ServerError(f"{detail} (status {status})", status=status, code=code)
