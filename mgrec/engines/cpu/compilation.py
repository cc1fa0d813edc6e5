"""Compilation of functions and kernels by numba, with a cache on disk."""

from __future__ import annotations

import gc
import math
import pickle
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache, partial
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from itertools import dropwhile, takewhile
from pathlib import Path
from threading import Lock
from types import CellType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numba
import numpy as np
from numba.core import config
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import FunctionCache, NullCache
from numba.core.cgutils import alloca_once
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.errors import NumbaError
from numba.core.lowering import Lower
from numba.core.postproc import PostProcessor
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.core.transforms import canonicalize_cfg
from numba.core.typed_passes import NativeLowering
from numba.np import linalg
from numba.np.ufunc.dufunc import DUFunc

from ...core.algebra.fingerprint import StepFunction, library_name, read_values
from ..code_on_disk import CodeFolder, log_not_stored

OPTIONS = {"nogil": True, "error_model": "numpy"}
"""Without fastmath: a plain loop has the results of the same loop in NumPy scalars."""


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
}
"""numba's passes for features that kernels do not use: closures, expressions of whole arrays."""


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
    a load of the variable and a store of 0: a fifth of the time to compile a kernel. Functions of
    other packages are compiled as before.
    """
    function, is_last = self.func_ir.func_id, any(arguments[:1]) or options.get("emit_dels", False)
    if not getattr(function, "is_kernel", False) or (is_last and function.counts_references):
        _find_lifetimes(self, *arguments, **options)
    else:
        self.func_ir.blocks = canonicalize_cfg(self.func_ir.blocks)


PostProcessor.run = _process


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


class _TypesOfCalls:
    """numba's typing context, which returns the signature of a built-in function once found.

    numba looks for it, among all signatures of an operator, at each call and in each pass over the
    calls of a function.
    """

    def __init__(self, context: Any, signatures: dict[Any, Any]) -> None:
        self._context, self._signatures = context, signatures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, arguments: Any, keywords: Any) -> Any:
        if keywords or not isinstance(function, numba.types.Function):
            return self._context.resolve_function_type(function, arguments, keywords)
        key = function, tuple(arguments)
        signature = self._signatures.get(key)
        if signature is None:
            signature = self._context.resolve_function_type(function, arguments, keywords)
            self._signatures[key] = signature
        return signature


_SIGNATURES: ContextVar[dict[Any, Any]] = ContextVar("signatures")
"""Signatures of the functions that the current kernel calls, by function and argument types."""


class _KernelCompiler(Compiler):  # type: ignore[misc]
    """numba's compiler without the passes that change no function of this package."""

    def __init__(self, *arguments: Any) -> None:
        _import_array_functions()
        super().__init__(*arguments)

    def define_pipelines(self) -> Any:
        self.state.typingctx = _TypesOfCalls(self.state.typingctx, _SIGNATURES.get({}))
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


class _StepCompiler(Compiler):  # type: ignore[misc]
    """numba's compiler, with all passes, for functions of the user that only kernels call."""

    code = _LinkedCode

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = self.code(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()


class _LinkedCompiler(_StepCompiler, _KernelCompiler):
    """The compiler for functions of this package that only kernels call."""


class _SmallCompiler(_LinkedCompiler):
    code = _SmallCode


class _SizedCompiler(_LinkedCompiler):
    """The compiler for functions whose first argument is a size: see :mod:`.columns`.

    A kernel for one size contains the functions inlined, one for all sizes calls small ones.
    """

    def define_pipelines(self) -> Any:
        is_constant = isinstance(self.state.args[0], numba.types.BaseTuple)
        self.state.flags.forceinline = is_constant
        self.code = _LinkedCode if is_constant else _ShortCode
        return super().define_pipelines()


INNER: dict[str, Any] = {
    **OPTIONS,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": _LinkedCompiler,
}
"""For functions that only kernels call: wrappers for Python and C take a third of the time."""
INLINED = {**INNER, "forceinline": True}
"""For functions of many instructions that must be part of the loop that calls them."""
SIZED: dict[str, Any] = {**INNER, "pipeline_class": _SizedCompiler}
"""For functions of many instructions whose first argument is a size: see :mod:`.columns`."""
RARE: dict[str, Any] = {**INNER, "pipeline_class": _SmallCompiler}
"""For functions that take a negligible part of a kernel's time: LLVM neither copies nor unrolls."""
STEP: dict[str, Any] = {**INNER, "pipeline_class": _StepCompiler}
"""For functions of the user."""
CACHE_SIZE = 256
"""Number of recurrences whose compiled functions are cached in memory."""
IN_MEMORY = "in memory"
"""Part of a kernel's key: the kernel is not stored on disk."""
STORED: list[str] = []
"""Names of the kernels that this process compiled and stored on disk."""
_VARIABLE = "NUMBA_CACHE_DIR"
_PACKAGE = Path(__file__).parents[2]
_LIBRARIES = _PACKAGE, Path(numba.__file__).parent

# numba distinguishes functions of the same name by a number that counts from 1 in each process. If
# two processes compiled and cached two kernels, the second silently ran functions of the first.
# Functions that other packages compile are numbered as before.
_IS_KERNEL: ContextVar[bool] = ContextVar("is_kernel", default=False)
_COUNT = FunctionIdentity._unique_ids
FunctionIdentity._unique_ids = iter(lambda: secrets.randbits(62) if _IS_KERNEL.get() else next(_COUNT), None)


class _Collection:
    """Python's garbage collection, which pauses while a thread compiles.

    numba makes a million objects, and few are garbage: looking through all objects of a process for
    it took 0.4 s of a first call.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._pauses = 0
        self._was_enabled = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        with self._lock:
            if self._pauses == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._pauses += 1
        try:
            yield
        finally:
            with self._lock:
                self._pauses -= 1
                if self._pauses == 0 and self._was_enabled:
                    gc.enable()


_COLLECTION = _Collection()


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


def compile_kernel(kernel: Callable[..., Any], *key: str, allocates: bool = True) -> Any:
    """Return a kernel that compiles at its first call, or loads its code from disk.

    `key` has the fingerprints of the functions in its closure. A kernel that allocates no arrays
    compiles in less time, because numba then counts no references.
    """
    options = {**OPTIONS, "no_cfunc_wrapper": True, "pipeline_class": _KernelCompiler}
    dispatcher = numba.njit(_nrt=allocates, **options)(kernel)
    dispatcher._cache = cache_on_disk(kernel, *key)
    compile_signature = dispatcher.compile

    def compile_for_kernel(signature: Any) -> Any:
        if numba.types.pyobject in signature:
            raise TypeError("kernels must be given arrays in native byte order, and numbers")
        tokens = _IS_KERNEL.set(True), _SIGNATURES.set({})
        try:
            with _COLLECTION.paused():
                address = compile_signature(signature)
        finally:
            _IS_KERNEL.reset(tokens[0])
            _SIGNATURES.reset(tokens[1])
        compiled = dispatcher.overloads[signature]
        for environment in compiled._find_referenced_environments():
            compiled.codegen.set_env(environment.env_name, environment)
        return address

    dispatcher.compile = compile_for_kernel

    def run(*arguments: Any) -> Any:
        try:
            return dispatcher(*arguments)
        except NumbaError as error:
            raise TypeError(
                "the functions of a recurrence must be arithmetic and NumPy ufuncs on scalars "
                "of the recurrence's dtype, which numba compiles (np.where(condition, x, y) for "
                f"a choice); numba says: {_reason(str(error))}"
            ) from error

    return run


def _reason(message: str) -> str:
    """Return the first reason in a message of numba, with its function, without 50 more lines."""
    lines = dropwhile(lambda line: line.startswith("Failed in "), message.splitlines())
    first = takewhile(lambda line: not line.startswith(("During: ", "File ", "There ")), lines)
    reason = " ".join((*" ".join(first).split(), _location(message)))
    if "yield in a closure" in reason:
        reason += ": write out the terms of a generator expression, such as sum(x for x in step)"
    return reason


def _location(message: str) -> str:
    """Return the first line of the user's code in a message, or the name of the function."""
    for file, line in re.findall(r'File "([^"<]+)", line (\d+)', message):
        path = Path(file).resolve()
        if not any(map(path.is_relative_to, _LIBRARIES)):
            return f"({path}, line {line})"
    functions = re.findall(r"<function (\S+) at ", message)
    return f"(in {functions[0]})" if functions else ""


def writable(array: np.ndarray) -> np.ndarray:
    """Return the same memory as a writable array: numba would compile again for read-only ones.

    Kernels do not write to operands.
    """
    if array.flags.writeable:
        return array
    view = array.view()
    try:
        view.flags.writeable = True  # as the memory of a Series: a tenth of the time
    except ValueError:
        view = np.asarray(_WritableView(array))
    return view


class _WritableView:
    def __init__(self, array: np.ndarray) -> None:
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface
        self.array = array


@numba.njit(**INNER)
def _where(condition: Any, x: Any, y: Any) -> Any:
    return x if condition else y


@numba.njit(**INNER)
def _frexp(x: Any) -> Any:
    return math.frexp(x)


def _scalar_numpy() -> ModuleType:
    """Return NumPy for scalars: numba lacks frexp, and its where allocates an array."""
    module = ModuleType("mgrec_scalar_numpy")
    # Not all names at once: numpy.f2py and numpy.testing, which are in numpy.__all__, take 0.09 s.
    module.__dict__.update(where=_where, frexp=_frexp, __getattr__=partial(getattr, np))
    return module


_REPLACEMENTS = {id(np): _scalar_numpy(), id(np.where): _where, id(np.frexp): _frexp}


def compile_step(function: Callable[..., Any]) -> Any:
    """Return a function of one step for kernels, with NumPy's functions on scalars.

    The function keeps the values and functions that it reads now, whenever numba compiles it.
    """
    return _compile_step(StepFunction(function))


# Cached by the fingerprint: the same function object may read other values later.
@lru_cache(maxsize=CACHE_SIZE)
def _compile_step(step: StepFunction) -> Any:
    function = step.function
    if isinstance(function, FunctionType):
        return _freeze(function, _freeze_value_of_step, numba.njit(**STEP))
    if isinstance(function, CPUDispatcher):
        return _recompile(function)
    if isinstance(function, DUFunc):
        return _revectorize(function)
    return function


def _recompile(dispatcher: Any) -> Any:
    """Compile a numba function of the user again: its code may have older values."""

    def compile_frozen(function: FunctionType) -> Any:
        options = dispatcher.locals, dispatcher.targetoptions, dispatcher._compiler.pipeline_class
        return type(dispatcher)(function, *options)

    frozen = _freeze(dispatcher.py_func, _freeze_value, compile_frozen, dispatcher)
    if not dispatcher._can_compile:
        for signature in dispatcher.nopython_signatures:
            frozen.compile(signature)
        frozen.disable_compile()
    return frozen


def _revectorize(ufunc: Any) -> Any:
    """Do the same as :func:`_recompile` for a function of ``numba.vectorize``."""
    dispatcher = ufunc._dispatcher

    def vectorize_frozen(function: FunctionType) -> Any:
        return DUFunc(function, ufunc.identity, targetoptions=dict(dispatcher.targetoptions))

    frozen = _freeze(dispatcher.py_func, _freeze_value, vectorize_frozen, ufunc)
    if ufunc._frozen:
        for signature in dispatcher.overloads:
            frozen.add(signature)
        frozen.disable_compile()
    return frozen


def _freeze_value_of_step(value: Any) -> Any:
    if id(value) in _REPLACEMENTS:
        return _REPLACEMENTS[id(value)]
    if isinstance(value, FunctionType) and library_name(value) is None:
        return compile_step(value)
    return _freeze_value(value)


def _freeze_value(value: Any) -> Any:
    if isinstance(value, (CPUDispatcher, DUFunc)) and library_name(value) is None:
        return compile_step(value)
    return value.copy() if isinstance(value, np.ndarray) else value


def _freeze(
    function: FunctionType,
    freeze_value: Callable[[Any], Any],
    compile_frozen: Callable[[FunctionType], Any],
    compiled: Any = None,
) -> Any:
    """Return ``compile_frozen(function)``, with a copy of the values that the function reads.

    A recursive function, which reads itself or its `compiled` form, calls the result.
    """
    # Processes that load the compiled code import the module of this name.
    scope: dict[str, Any] = {"__builtins__": __builtins__, "__name__": "mgrec"}
    cells: dict[str, Any] = {}
    recursions = []
    for read in read_values(function):
        target = cells if read.is_free else scope
        if read.value is (compiled or function):
            recursions.append((target, read.path))
        else:
            _bind(target, read.path, freeze_value(read.value))
    code = function.__code__
    closure = {name: CellType(cells.get(name)) for name in code.co_freevars}
    copy = FunctionType(
        code, scope, function.__name__, function.__defaults__, tuple(closure.values()) or None
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    frozen = compile_frozen(copy)
    for target, path in recursions:
        _bind(target, path, frozen)
        if path[0] in closure:
            closure[path[0]].cell_contents = target[path[0]]
    return frozen


def _bind(scope: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Bind a name, or an attribute of a new module that has only the attributes read."""
    *modules, name = path
    for module in modules:
        scope = scope.setdefault(module, ModuleType(module)).__dict__
    scope[name] = value


class _CodeFiles:
    """One file of code for each key.

    numba numbers its files by an index: two processes that compile at the same time choose the
    same number, and one then runs the other's recurrence. numba also unpickles damaged files.
    """

    def __init__(self, parent: str, base: str) -> None:
        self._folder = CodeFolder(parent, _VARIABLE)
        self._base = base

    def load(self, key: Any) -> Any:
        code = self._folder.load(self._name(key), repr(key))
        return None if code is None else pickle.loads(code)

    def save(self, key: Any, data: Any) -> None:
        self._folder.store(self._name(key), repr(key), dumps(data))

    def _name(self, key: Any) -> str:
        return f"{self._base}.{sha256(repr(key).encode()).hexdigest()[:32]}.nbc"


class StepCache(FunctionCache):  # type: ignore[misc]
    """numba's cache on disk, with the fingerprints of the inner functions as key.

    numba's own key pickles the closure, in which a compiled function differs in every process:
    nothing was ever found again. Code that cannot be read is compiled again, and code that cannot
    be written (no permission, a full disk) is not stored.
    """

    def __init__(self, function: Callable[..., Any], key: str) -> None:
        super().__init__(function)
        self._key = function.__module__, key
        # The key identifies the code: all installations of the same code share the files.
        folder = config.CACHE_DIR or self._cache_path
        self._cache_file = _CodeFiles(folder, self._impl.filename_base)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return compiled code, without numba's implementations of functions.

        Only compilation needs them, and loads them itself. They take half of the time to load code.
        """
        rtsys.initialize(target_context)
        return self._load_overload(signature, target_context)

    def save_overload(self, signature: Any, data: Any) -> None:
        try:
            super().save_overload(signature, data)
            STORED.append(self._impl.filename_base)
        except OSError as error:  # numba creates the parent of the folder
            log_not_stored(_VARIABLE, f"{self.cache_path} cannot be written: {error}")

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        return signature, codegen.magic_tuple(), self._key


class _NoFolder(NullCache):  # type: ignore[misc]
    def __init__(self, error: Exception) -> None:
        self._reason = str(error)

    def save_overload(self, signature: Any, data: Any) -> None:
        log_not_stored(_VARIABLE, self._reason)


def cache_on_disk(kernel: Callable[..., Any], *key: str) -> Any:
    """Return the cache of a kernel, or one that stores nothing if no folder can be written."""
    if IN_MEMORY in key:
        return NullCache()
    try:
        return StepCache(kernel, "-".join((*key, _versions())))
    except (RuntimeError, OSError) as error:
        return _NoFolder(error)


@cache
def _versions() -> str:
    """Return a hash of this package's code, which kernels may inline, and library versions."""
    source = b"".join(path.read_bytes() for path in sorted(_PACKAGE.rglob("*.py")))
    return f"{sha256(source).hexdigest()}-{np.__version__}-{numba.__version__}"
