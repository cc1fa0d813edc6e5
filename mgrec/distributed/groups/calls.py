"""A call of a public function on all ranks of a group: messages that carry errors, too.

A rank that raises an error sends it in place of its message. So every rank raises it, and no rank
waits for a message that never comes.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from ...core.arrays.array_types import to_host
from ...core.arrays.resets import as_labels, changes_of
from ...core.arrays.validation import as_axis, as_flag
from ...core.contract.kernels import CacheMiss, ShardSolver
from .group import Group

PATIENCE = 4
"""Consecutive failures of messages on the device after which calls of a kind send none."""


class OtherRankError(Exception):
    """Another rank has raised an error; this rank raises it as its own."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class GroupCall:
    """The messages of one call of a public function.

    `is_composed`: the call solves several recurrences. Errors between them are sent, too.
    `has_ended`: no rank waits for a further message of this call.
    `lengths`: in a call that computes gradients: the lengths of the parts of all ranks.
    `has_old_lengths`: the lengths are those of an earlier call, which no message has confirmed.
    `has_guessed`: messages in the memory of GPUs did not suffice.
    """

    def __init__(self, group: Group, function: str) -> None:
        self.group, self.function = group, function
        self.is_composed = self.has_ended = self.has_guessed = self.has_old_lengths = False
        self.lengths: list[int] | None = None

    def all_gather(
        self, stage: str, options: Mapping[str, Any], message: Any, is_last: bool = True
    ) -> list[Any]:
        """Return the messages of all ranks.

        `options`, mapping of str to object: values that must be the same on all ranks, by names for
          messages.
        `is_last`: the solve needs no further messages. Otherwise later errors are sent, too.

        Raise CacheMiss if the lengths of an earlier call are not confirmed. No message is sent.
        Raise OtherRankError if another rank sends an error. Raise ValueError if ranks call
        different functions, or with different options.
        """
        if self.has_old_lengths:
            self.has_guessed = True
            raise CacheMiss
        compared = {"the function": self.function, "the exchange": stage, **options}
        answers = self._exchange((None, compared, message), is_last)
        _check_same([compared for _, compared, _ in answers])
        return [message for _, _, message in answers]

    @property
    def may_guess(self) -> bool:
        """Whether ranks may exchange messages in the memory of GPUs."""
        return self.group.is_asynchronous and not self.has_guessed

    def solve_on_device(
        self,
        solve: ShardSolver,
        options: Any,
        operands: Sequence[Any],
        results: Sequence[Any],
        is_last: bool = False,
    ) -> Any:
        """Solve with one exchange on the device; raise CacheMiss on all ranks if it fails.

        `options` are the same on all ranks, or the exchange fails. If it `is_last`, a composed call
        needs no further message.
        """
        from .device import digest_of, start_shards

        lengths = tuple(self.lengths) if self.lengths and self.has_old_lengths else ()
        digest = digest_of((options, lengths))
        self.has_ended = True
        try:
            shards, size = [partial(solve, operands, results)], solve.message_bytes
            (carry_out,) = start_shards(self.group, digest, shards, message_bytes=size)()
        except CacheMiss:
            self.has_ended, self.has_guessed = False, True
            raise
        self.has_ended, self.has_old_lengths = is_last or not self.is_composed, False
        return carry_out

    def raise_everywhere(self, error: Exception) -> None:
        """Send an error in place of the next message."""
        self._exchange((_as_pickled(error), {}, None))

    def _exchange(self, message: tuple[Any, ...], is_last: bool = True) -> list[Any]:
        self.has_ended = True  # If the group fails here, no rank gets a further message.
        answers = [pickle.loads(row) for row in self.group.all_gather_bytes(pickle.dumps(message))]
        self.has_ended = is_last and not self.is_composed
        for rank, (pickled, *_) in enumerate(answers):
            if pickled is not None:
                self.has_ended = True
                if rank != self.group.rank and message[0] is None:
                    error = pickle.loads(pickled)
                    error.add_note(f"raised by rank {rank} of the group")
                    raise OtherRankError(error)
        return answers


CALL: ContextVar[GroupCall | None] = ContextVar("call", default=None)
"""The call that a public function of this context is part of."""


def as_group(group: Any) -> Group | None:
    """Return a group of several ranks, or None; raise TypeError for another object."""
    if group is not None and not isinstance(group, Group):
        raise TypeError(
            f"group must be a group of mgrec.collective, as from_mpi returns; got {type(group).__name__}"
        )
    return None if group is None or group.size == 1 else group


def refuse_derivatives(name: str) -> None:
    """Raise NotImplementedError in a call on a group, whose derivatives would lack other ranks'."""
    if CALL.get() is not None:
        raise NotImplementedError(
            f"group must be None where {name} is differentiated or traced: its derivatives across "
            f"ranks are not implemented"
        )


def call_on_group(group: Group, function: Callable[..., Any], *operands: Any, **options: Any) -> Any:
    """Call a public function, whose solves then exchange messages with the other ranks."""
    call = GroupCall(group, function.__name__)
    token = CALL.set(call)
    try:
        result = function(*operands, **_with_mask(call, function, operands, options))
        if call.is_composed and not call.has_ended:
            call.is_composed = False
            call.all_gather("the end", {}, None)
        return result
    except OtherRankError as other:
        raise other.error from None
    except Exception as error:
        if not call.has_ended:
            call.raise_everywhere(error)
        raise
    finally:
        CALL.reset(token)


def _with_mask(
    call: GroupCall, function: Callable[..., Any], operands: Any, options: dict[str, Any]
) -> dict[str, Any]:
    """Return options with a mask as `reset` in place of labels."""
    lengths, reset = options.get("lengths"), options.get("reset")
    if lengths is not None:
        raise TypeError(
            f"lengths must be None on a group, whose ranks have parts of sequences; got "
            f"{type(lengths).__name__}: pass the rank's part of mgrec.starts(lengths) as reset"
        )
    if reset is None:
        return options
    reset = reset if hasattr(reset, "dtype") else np.asarray(reset)
    if "bool" in str(reset.dtype):  # torch's have no kind
        return options
    arguments = signature(function).bind_partial(*operands, **options).arguments
    labels = as_labels(np.asarray(to_host(reset.cpu() if hasattr(reset, "cpu") else reset)))
    axis = 0 if labels.ndim == 1 else as_axis(arguments.get("axis", -1), labels.shape)
    reverse = as_flag("reverse", arguments.get("reverse", False))
    start, end = slice(0, 1), slice(-1, None)
    first, last = (end, start) if reverse else (start, end)
    index: Any = (slice(None),) * axis
    sent = labels[(*index, last)] if labels.shape[axis] else None
    parts = call.all_gather("the labels", {"reverse": reverse}, sent, is_last=False)
    earlier = parts[call.group.rank + 1 :] if reverse else parts[: call.group.rank][::-1]
    mask = changes_of(labels, axis, reverse)
    before = next((part for part in earlier if part is not None), None)
    if sent is not None and before is not None:
        mask[(*index, first)] = labels[(*index, first)] != before
    return {**options, "reset": mask}


def _check_same(options_of_ranks: list[dict[str, Any]]) -> None:
    first = options_of_ranks[0]
    for rank, options in enumerate(options_of_ranks):
        for name, value in first.items():
            if options.get(name) != value:
                raise ValueError(
                    f"{name} must be the same on all ranks of the group; rank 0 has "
                    f"{value}, rank {rank} has {options.get(name)}"
                )


def _as_pickled(error: Exception) -> bytes:
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)
    except Exception:
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return pickled
