"""Calls of the hosts' compiled code by its address.

Numba compiles all that a function calls into it, again for every caller. The engine has many functions that ask a
machine about a job, and the hosts' code is large, so it is compiled once, as a C function, and its address is part of
the hosts' array (``DO``, ``WHEN``).
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic

from tracekit.compiled import config
from tracekit.sim.compile import cache_folder

cgutils: Any = _cgutils
_cfunc: Any = numba.cfunc
_intrinsic: Any = intrinsic  # its type stands for functions of fewer arguments
_I64, _F64 = ir.IntType(64), ir.DoubleType()


def c_function(signature: str) -> Any:
    """Compile a function for calls by address; kept on disk as all compiled code is."""

    def decorate(function: Any) -> Any:
        folder, before = cache_folder(), config.CACHE_DIR
        config.CACHE_DIR = str(folder or "")  # read by numba while it decorates, and only then
        try:
            kept = folder is not None
            made: Any = _cfunc(signature, cache=kept, nopython=True, error_model="numpy", _nrt=False)
            return made(function)
        finally:
            config.CACHE_DIR = before

    return decorate


@_intrinsic
def do_at(context: Any, address: Any, data: Any, real: Any, code: Any, job: Any, row: Any, claimed: Any) -> Any:
    """Call ``do`` at an address; arrays are given by their addresses."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_I64, [_I64] * 6)
        place = builder.inttoptr(arguments[0], kind.as_pointer())
        return builder.call(place, arguments[1:])

    return types.int64(*[types.int64] * 7), generate


@_intrinsic
def when_at(
    context: Any, address: Any, data: Any, real: Any, layer: Any, now: Any, job: Any, limits: Any, running: Any
) -> Any:
    """Call ``when`` at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_F64, [_I64, _I64, _I64, _F64, _I64, _I64, _I64])
        place = builder.inttoptr(arguments[0], kind.as_pointer())
        return builder.call(place, arguments[1:])

    taken = [types.int64] * 4 + [types.float64] + [types.int64] * 3
    return types.float64(*taken), generate


@_intrinsic
def address_of(context: Any, array: Any) -> Any:
    """Return the address of an array's first element."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.ptrtoint(made.data, _I64)

    return types.int64(array), generate


@_intrinsic
def prefetch(context: Any, address: Any) -> Any:
    """Begin to load the cache line at an address, without waiting for it; the address may be anything."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, text = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [text, number, number, number])
        load = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(load, [builder.inttoptr(arguments[0], text), number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


def _array_at(kind: Any) -> Any:
    """Return an intrinsic that makes an array of the memory at an address; its length is not known, nor checked."""

    def array_at(context: Any, address: Any) -> Any:
        made = types.Array(kind, 1, "C")

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(made)(context, builder)
            size = context.get_constant(types.intp, 8)
            data = builder.inttoptr(arguments[0], context.get_data_type(kind).as_pointer())
            shape = cgutils.pack_array(builder, [context.get_constant(types.intp, 2**50)])
            context.populate_array(
                array, data=data, shape=shape, strides=cgutils.pack_array(builder, [size]), itemsize=size, meminfo=None
            )
            return array._getvalue()

        return made(types.int64), generate

    return _intrinsic(array_at)


ints_at = _array_at(types.int64)
floats_at = _array_at(types.float64)
