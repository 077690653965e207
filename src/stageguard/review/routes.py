"""The answer to each address of the review: a status, and JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stageguard.base.errors import InputError, OutputError, StageGuardError, error_message
from stageguard.review import wire
from stageguard.review.desk import Desk, NoNightError
from stageguard.review.session import ConflictError, HiddenError, Review, StaleError
from stageguard.review.signals import Filters

Answer = tuple[int, Any]


class Routes:
    """A method for each address, which returns the answer."""

    def __init__(self, desk: Desk, end: Callable[[], None]) -> None:
        self.desk, self._end = desk, end

    def overview(self) -> Answer:
        """Return all nights."""
        return 200, self.desk.overview()

    def night(self, index: int) -> Answer:
        """Return the whole state of a night."""
        return 200, wire.whole_state(self.desk.review(index), index)

    def worth(self, index: int) -> Answer:
        """Return the changes of a night, and the stretches that are worth a look."""
        review = self._open(index)
        at = review.now
        return 200, {"revision": at.state.revision} | wire.worth_part(review, at)

    def revision(self, index: int) -> Answer:
        """Return the number of actions, so that another window notices changes."""
        review = self.desk.review(index)
        saved = {"file": str(review.journal.path), "when": review.journal.when}
        return 200, {"revision": review.now.state.revision, "saved": saved}

    def signals(self, index: int, said: Mapping[str, list[str]]) -> Answer:
        """Return the signals of some epochs."""
        single = _single(said, ("first", "count", "montage", "low", "high", "notch"))
        first, count = (_whole(single.get(name), name) for name in ("first", "count"))
        signals = self.desk.signals(index)
        names, montage = said.get("channels", []), single.get("montage", "")
        return 200, signals.window(first, count, names, montage, Filters.parsed(single))

    def spectrogram(self, index: int, said: Mapping[str, list[str]]) -> Answer:
        """Return the spectrogram of the night."""
        return 200, self.desk.signals(index).spectrogram(_single(said, ("channel",)).get("channel"))

    def explain(self, index: int, epoch: int) -> Answer:
        """Return why an epoch has its stage."""
        review = self._open(index)
        if not 0 <= epoch < review.night.n_epochs:
            raise NoNightError(f"there is no epoch {epoch}, expected 0 to {review.night.n_epochs - 1}.")
        return 200, wire.explanation(review, epoch)

    def act(self, index: int, said: Any) -> Answer:
        """Perform an action of the scorer."""
        review = self.desk.review(index)
        try:
            at = review.act(said.get("action"), said.get("revision"))
        except StaleError as error:
            return 409, {"error": str(error), "state": wire.whole_state(review, index)}
        except ConflictError as error:
            conflict = wire.conflict_part(error, review.night.scheme)
            state = {"index": index} | wire.moving_part(review, review.now)
            return 422, {"error": conflict["text"], "conflict": conflict, "state": state}
        answer = {"index": index} | wire.moving_part(review, at)
        return 200, answer | (wire.fixed_part(review, at) if said["action"].get("do") == "reveal" else {})

    def export(self, index: int, said: Any) -> Answer:
        """Write a night in a format."""
        written = self.desk.review(index).export(said.get("format"))
        return 200, {"file": str(written.path), "lost": list(map(str, written.lost))}

    def close(self, said: Any) -> Answer:
        """End the server after this answer."""
        self._end()
        return 200, {"closed": True}

    def _open(self, index: int) -> Review:
        review = self.desk.review(index)
        if review.now.state.is_blind:
            raise HiddenError("this is hidden while the night is scored blind: reveal it first.")
        return review


def answered(route: Callable[..., Answer], *arguments: Any) -> Answer:
    """Return the answer of a route; an error becomes one line."""
    try:
        return route(*arguments)
    except HiddenError as error:
        return 403, {"error": str(error)}
    except NoNightError as error:
        return 404, {"error": str(error)}
    except OutputError as error:
        return 500, {"error": str(error)}
    except (StageGuardError, OSError) as error:
        return 400, {"error": str(error_message(error))}


def _single(said: Mapping[str, list[str]], names: Sequence[str]) -> dict[str, str]:
    """Return single values of a query; refuse a name that occurs twice."""
    twice = [name for name in names if len(said.get(name, ())) > 1]
    if twice:
        raise InputError(f"{twice[0]} is given twice, expected it once.")
    return {name: said[name][0] for name in names if name in said}


def _whole(text: str | None, name: str) -> int:
    if text is None or not text.isdecimal() or len(text) > 9:
        raise InputError(f"{name} is {text!r:.40}, expected a whole number.")
    return int(text)
