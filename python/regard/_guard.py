"""One exception type: invalid arguments to the package raise `regard.Error`."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterable
from typing import Any

from ._regard import Error

# The exceptions that Python and NumPy raise for values of the wrong type, size or index.
_WRONG = (TypeError, ValueError, OverflowError, AttributeError, LookupError, MemoryError, OSError)

# The special methods that take arguments from the caller.
_CALLED = ("__call__", "__contains__", "__getitem__", "__init__")


def passed_through(error: BaseException) -> None:
    """Marks an exception from a function of the caller: it is raised unchanged."""
    # Some exception classes allow no attributes.
    try:
        error._regard_passed = True  # type: ignore[attr-defined]
    except AttributeError:
        pass


def guard(function: Any) -> Any:
    """Wraps a function so that its failures are `regard.Error`. Unknown arguments remain a TypeError."""

    # Bound here: below, the function gets the globals of another module.
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
            message = str(error) or type(error).__name__
            raise own(f"{function.__name__.strip('_')}: {message.splitlines()[0]}") from error

    # With the globals of the function's own module, so that tools such as doctest attribute it to that module.
    same = types.FunctionType(guarded.__code__, function.__globals__, function.__name__, None, guarded.__closure__)
    return functools.wraps(function)(same)


def guard_class(kind: type) -> None:
    """Guards the methods of a class that take arguments from the caller."""
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
