"""One kind of failure: whatever goes wrong inside the package with what it was given is a `regard.Error`."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterable
from typing import Any

from ._regard import Error

# What Python and NumPy raise for values of the wrong type, size or place.
_WRONG = (TypeError, ValueError, OverflowError, AttributeError, LookupError, MemoryError, OSError)

# Of the methods with underscores, those that take arguments of the caller.
_CALLED = ("__call__", "__contains__", "__getitem__", "__init__")


def passed_through(error: BaseException) -> None:
    """Marks what a function of the caller raised: it is raised as it is."""
    # Some classes take no attributes.
    try:
        error._regard_passed = True  # type: ignore[attr-defined]
    except AttributeError:
        pass


def guard(function: Any) -> Any:
    """The same function, whose failures are `regard.Error`. Arguments that it does not have remain a TypeError."""

    # Held here: below, the function gets the names of another module.
    own, wrong = Error, _WRONG

    def guarded(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except own:
            raise
        except wrong as error:
            at_the_call = error.__traceback__ is not None and error.__traceback__.tb_next is None
            if at_the_call or getattr(error, "_regard_passed", False):
                raise
            said = str(error) or type(error).__name__
            raise own(f"{function.__name__.strip('_')}: {said.splitlines()[0]}") from error

    # The names of the function's own module: whoever looks where it is from, as doctest does, finds it there.
    same = types.FunctionType(guarded.__code__, function.__globals__, function.__name__, None, guarded.__closure__)
    return functools.wraps(function)(same)


def guard_class(kind: type) -> None:
    """Guards the methods of a class that callers call."""
    for name, member in list(vars(kind).items()):
        if name.startswith("_") and name not in _CALLED:
            continue
        if isinstance(member, classmethod):
            setattr(kind, name, classmethod(guard(member.__func__)))
        elif inspect.isfunction(member) and not inspect.isgeneratorfunction(member):
            setattr(kind, name, guard(member))


def guard_module(module: types.ModuleType, names: Iterable[str]) -> None:
    """Guards the functions and classes of a module."""
    for name in names:
        member = getattr(module, name)
        if inspect.isclass(member) and not issubclass(member, (tuple, Exception)):
            guard_class(member)
        elif inspect.isfunction(member) and not hasattr(member, "__wrapped__"):
            setattr(module, name, guard(member))
