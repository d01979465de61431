"""libpipec.so: the functions of pipec_run.h, by ctypes."""
import ctypes
import os
import pathlib

HERE = pathlib.Path(__file__).resolve().parent

NONE, F, B, W, BW, R, OPTIMIZER, NORM, CLIP, SAVE, LOAD, END_OF_STEP, END = range(13)


class Error(ctypes.Structure):
    _fields_ = [("message", ctypes.c_char * 4096)]


class Layer(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("type", ctypes.c_int32), ("stage", ctypes.c_int32), ("layer", ctypes.c_int32),
                ("gradients", ctypes.c_void_p), ("weights", ctypes.c_void_p), ("elements", ctypes.c_int64)]


class Setup(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("resume", ctypes.c_int32), ("plan", ctypes.c_char_p), ("device", ctypes.c_char_p),
                ("transport", ctypes.c_char_p), ("deadline", ctypes.c_double), ("idle", ctypes.c_double),
                ("rendezvous", ctypes.c_double), ("checkpoint", ctypes.c_char_p), ("every", ctypes.c_int64),
                ("control", ctypes.c_char_p), ("trace", ctypes.c_char_p), ("adapt", ctypes.c_char_p),
                ("secret", ctypes.c_char_p), ("overwrite", ctypes.c_int32), ("layer_count", ctypes.c_int32),
                ("layers", ctypes.POINTER(Layer)), ("refused", ctypes.c_char_p), ("folders", ctypes.c_int32),
                ("host", ctypes.c_char_p), ("port", ctypes.c_int32), ("process", ctypes.c_int32),
                ("processes", ctypes.c_int32), ("local", ctypes.c_int32), ("spread", ctypes.c_int32), ("job", ctypes.c_char_p)]


class Instruction(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("kind", ctypes.c_int32), ("stage", ctypes.c_int32), ("first_layer", ctypes.c_int32),
                ("layers", ctypes.c_int32), ("replica", ctypes.c_int32), ("recomputed", ctypes.c_int32),
                ("sharded", ctypes.c_int32), ("microbatch", ctypes.c_int64), ("microbatches", ctypes.c_int64),
                ("step", ctypes.c_int64), ("epoch", ctypes.c_int64), ("input", ctypes.c_void_p), ("input_bytes", ctypes.c_int64),
                ("output", ctypes.c_void_p), ("output_bytes", ctypes.c_int64), ("stream", ctypes.c_void_p),
                ("number", ctypes.c_double), ("path", ctypes.c_char_p), ("evaluation", ctypes.c_int64)]


class Result(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("number", ctypes.c_double), ("error", ctypes.c_char_p)]


def _open():
    """The library beside the package, or the one that PIPEC_LIBRARY names."""
    path = os.environ.get("PIPEC_LIBRARY") or HERE / "libpipec.so"
    try:
        library = ctypes.CDLL(os.fspath(path))
    except OSError as error:
        raise ImportError(f"pipec's library cannot be loaded: {error}. Install the package (pip install .), or set "
                          f"PIPEC_LIBRARY to libpipec.so") from None
    pointer, text, error = ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(Error)
    signatures = {
        "facts": [text, ctypes.POINTER(text), error],
        "open": [ctypes.POINTER(Setup), ctypes.POINTER(pointer), error],
        "next": [pointer, ctypes.POINTER(Instruction), error],
        "done": [pointer, ctypes.POINTER(Result), error],
        "finish": [pointer, error],
        "drain": [pointer, error],
        "evaluate": [pointer, ctypes.c_int64, error],
        "swap": [pointer, text, ctypes.POINTER(ctypes.c_int64), error],
        "stop": [pointer, error],
        "put": [pointer, text, text, error],
        "get": [pointer, text, ctypes.POINTER(text), error],
        "report": [pointer, ctypes.POINTER(text), error],
    }
    for name, arguments in signatures.items():
        function = getattr(library, f"pipec_run_{name}")
        function.argtypes, function.restype = arguments, ctypes.c_int
    library.pipec_run_close.argtypes, library.pipec_run_close.restype = [pointer, text], None
    return library


LIBRARY = _open()
