"""Compilers of numba for kernels and for the functions that only kernels call."""

from __future__ import annotations

import gc
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numba
from numba.core.bytecode import FunctionIdentity
from numba.core.cgutils import alloca_once
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.imputils import builtin_registry
from numba.core.interpreter import Interpreter
from numba.core.lowering import Lower
from numba.core.postproc import PostProcessor
from numba.core.transforms import canonicalize_cfg
from numba.core.typed_passes import NativeLowering
from numba.core.types.functions import BaseFunction
from numba.core.typing.templates import _TemplateTargetHelperMixin
from numba.np import linalg


@cache
def _import_array_functions() -> None:
    """Import `numba.np.arraymath` without `scipy.linalg`, which saves 0.1 s.

    `numba.np.arraymath` imports `scipy.linalg` only to check that SciPy is installed. numba's
    functions of linear algebra check it again when they are compiled.
    """
    check = linalg.ensure_blas

    def find_blas() -> None:
        if find_spec("scipy") is None:
            raise ImportError("scipy is not installed")

    linalg.ensure_blas = find_blas
    try:
        import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = check


class _LinkedCode(JITCodeLibrary):  # type: ignore[misc]
    """LLVM code of a function that only kernels call, each with a copy of its own.

    numba also generates machine code of every function, which is never called: a tenth of the time
    to compile a kernel.
    """

    # numba stores the function's environment in the machine code. compile_kernel stores it in the
    # kernel's.
    codegen = SimpleNamespace(set_env=lambda name, environment: None)

    def _optimize_final_module(self) -> None:
        """Leave it to the kernels: LLVM inlines and optimizes the linked functions there."""

    def _finalize_final_module(self) -> None:
        self._finalized = True


class _ShortCode(_LinkedCode):
    """LLVM code of a function, optimized for size: LLVM inlines it where that costs little."""

    attributes: tuple[str, ...] = ("optsize",)

    def add_ir_module(self, module: Any) -> None:
        # llvmlite 0.46 cannot add them to parsed code.
        for function in module.functions:
            if not function.is_declaration:
                for attribute in self.attributes:
                    function.attributes.add(attribute)
        super().add_ir_module(module)


class _SmallCode(_ShortCode):
    """LLVM code of a function that a kernel contains once, in as few bytes as possible."""

    attributes = ("noinline", "minsize", "optsize")


_UNUSED_PASSES = {
    "WithLifting",
    "InlineClosureLikes",
    "RewriteDynamicRaises",
    "MakeFunctionToJitFunction",
    "InlineInlinables",
    "FindLiterallyCalls",
    "LiteralUnroll",
    "LiteralPropagationSubPipelinePass",
    "InlineOverloads",
    "NopythonRewrites",
    "NoPythonSupportedFeatureValidation",
    "DumpParforDiagnostics",
    "peep_hole_delete_with_exit",
    "peep_hole_fuse_dict_add_updates",
}
"""numba's passes for features that kernels do not use: closures, expressions of whole arrays, dicts."""


class _Passes(PassManager):  # type: ignore[misc]
    """Passes over a function that run without numba's messages to debuggers around each."""

    def _runPass(self, index: int, step: Any, state: Any) -> None:
        step.analysis = self._analysis
        step.run_initialization(state)
        step.run_pass(state)
        step.run_finalizer(state)


_find_lifetimes = PostProcessor.run


def _process(self: Any, *arguments: Any, **options: Any) -> None:
    """Do without lifetimes of variables where no references are counted at their ends.

    numba finds the lifetimes again after each pass, which reads none, and at the end of each writes
    a load of the variable and a store of 0: a tenth of the time to compile a kernel.
    """
    function, is_last = self.func_ir.func_id, any(arguments[:1]) or options.get("emit_dels", False)
    if not getattr(function, "is_kernel", False) or (is_last and function.counts_references):
        _find_lifetimes(self, *arguments, **options)
    else:
        self.func_ir.blocks = canonicalize_cfg(self.func_ir.blocks)


_apply_peepholes = Interpreter.post_process


def _apply_used_peepholes(self: Any, peepholes: list[Any], function: Any) -> Any:
    """Do without the passes over bytecode for features that kernels do not use."""
    if getattr(self.func_id, "is_kernel", False):
        peepholes = [peephole for peephole in peepholes if peephole.__name__ not in _UNUSED_PASSES]
    return _apply_peepholes(self, peepholes, function)


def _builtin_registry(self: Any, reason: str) -> Any:
    """Return the registry of intrinsics, without a search for new registrations of all others."""
    return builtin_registry


class _Lower(Lower):  # type: ignore[misc]
    """numba's writer of LLVM code, without code for references that are not counted."""

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        if self.context.enable_nrt:
            super().storevar(value, name, argidx)
            return
        self._alloca_var(name, self.typeof(name))
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        """Allocate a variable. For a debugger numba would ask LLVM for its size."""
        return alloca_once(self.builder, lltype, name=name)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):  # type: ignore[misc]
    _name = "kernel_lowering"
    lowering_class = _Lower


_SIGNATURES: dict[Any, Any] = {}
"""Signatures of the functions that the current kernel calls, by function and argument types."""
_find_signature = BaseFunction.get_call_type


def _signature(self: Any, context: Any, arguments: Any, keywords: Any) -> Any:
    """Return the signature of a built-in function once found.

    numba looks for it, among all signatures of an operator, at each call, in each pass over the
    calls of a function, and again when it writes the call.
    """
    if keywords:
        return _find_signature(self, context, arguments, keywords)
    key = self, tuple(arguments)
    signature = _SIGNATURES.get(key)
    if signature is None:
        signature = _SIGNATURES[key] = _find_signature(self, context, arguments, keywords)
    return signature


class KernelCompiler(Compiler):  # type: ignore[misc]
    """numba's compiler without the passes that change no function of this package."""

    def __init__(self, *arguments: Any) -> None:
        _import_array_functions()
        super().__init__(*arguments)

    def define_pipelines(self) -> Any:
        self.state.func_id.is_kernel = True
        self.state.func_id.counts_references = self.state.flags.nrt
        pipelines = []
        for pipeline in super().define_pipelines():
            passes = _Passes(pipeline.pipeline_name)
            passes.passes = [
                (_Lowering, description) if step is NativeLowering else (step, description)
                for step, description in pipeline.passes
                if step.__name__ not in _UNUSED_PASSES
            ]
            passes.finalize()
            pipelines.append(passes)
        return pipelines


class StepCompiler(Compiler):  # type: ignore[misc]
    """numba's compiler, with all passes, for functions of the user that only kernels call."""

    code = _LinkedCode

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = self.code(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()


class SmallStepCompiler(StepCompiler):
    code = _SmallCode


class LinkedCompiler(StepCompiler, KernelCompiler):
    """The compiler for functions of this package that only kernels call."""


class SmallCompiler(LinkedCompiler):
    code = _SmallCode


class SizedCompiler(LinkedCompiler):
    """The compiler for functions whose first argument is a size: see :mod:`.columns`.

    A kernel for one size contains the functions inlined, one for all sizes calls small ones.
    """

    def define_pipelines(self) -> Any:
        is_constant = isinstance(self.state.args[0], numba.types.BaseTuple)
        self.state.flags.forceinline = is_constant
        self.code = _LinkedCode if is_constant else _ShortCode
        return super().define_pipelines()


@contextmanager
def compiling() -> Iterator[None]:
    """Change numba while it compiles a kernel, which one thread does at a time.

    numba distinguishes functions of the same name by a number that counts from 1 in each process.
    If two processes compiled and cached two kernels, the second silently ran functions of the
    first.

    Python's garbage collection pauses. numba makes a million objects, and few are garbage: looking
    through all objects of a process for it took 0.4 s of a first call.
    """
    with global_compiler_lock:
        changes = (
            (FunctionIdentity, "_unique_ids", iter(lambda: secrets.randbits(62), None)),
            (PostProcessor, "run", _process),
            (Interpreter, "post_process", _apply_used_peepholes),
            (BaseFunction, "get_call_type", _signature),
            (_TemplateTargetHelperMixin, "_get_target_registry", _builtin_registry),
        )
        before = [getattr(owner, name) for owner, name, _ in changes]
        collects_garbage = gc.isenabled()
        gc.disable()
        _SIGNATURES.clear()
        for owner, name, change in changes:
            setattr(owner, name, change)
        try:
            yield
        finally:
            for (owner, name, _), value in zip(changes, before, strict=True):
                setattr(owner, name, value)
            if collects_garbage:
                gc.enable()
