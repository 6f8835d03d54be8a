"""Compiles CUDA sources with NVRTC, through ctypes: no toolkit and no GPU are needed.

    pip install nvidia-cuda-nvrtc
"""

import ctypes
import glob
import site
import sys


def library():
    """NVRTC of this Python's packages, or of the system."""
    folders = [*site.getsitepackages(), site.getusersitepackages(), *sys.path]
    packaged = [path for folder in folders for path in sorted(glob.glob(f"{folder}/nvidia/*/lib/libnvrtc.so.*"))]
    installed = sorted(glob.glob("/usr/local/cuda*/lib64/libnvrtc.so"))
    for path in [*packaged, "libnvrtc.so.13", "libnvrtc.so.12", *installed]:
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    sys.exit("NVRTC not found: pip install nvidia-cuda-nvrtc")


_nvrtc = None


def compile(path, options, headers=(), edits=()):
    """The machine code of a source file, and the compiler's log.

    `options` name the architecture, `headers` are what it includes, `edits` are (file name, old, new) to try before compiling.
    """
    global _nvrtc
    _nvrtc = _nvrtc or library()
    program = ctypes.c_void_p()
    texts = [_edited(header, edits) for header in headers]
    names = [header.name.encode() for header in headers]
    strings = ctypes.c_char_p * max(len(texts), 1)
    _check(
        _nvrtc.nvrtcCreateProgram(
            ctypes.byref(program), _edited(path, edits), path.name.encode(), len(texts), strings(*texts), strings(*names)
        )
    )
    arguments = [option.encode() for option in options]
    status = _nvrtc.nvrtcCompileProgram(program, len(arguments), (ctypes.c_char_p * len(arguments))(*arguments))
    log = _text(program, _nvrtc.nvrtcGetProgramLogSize, _nvrtc.nvrtcGetProgramLog).decode().strip("\0\n ")
    if status != 0:
        raise RuntimeError(f"{path.name} {' '.join(options)}\n{log}")
    code = _text(program, _nvrtc.nvrtcGetCUBINSize, _nvrtc.nvrtcGetCUBIN)
    _check(_nvrtc.nvrtcDestroyProgram(ctypes.byref(program)))
    return code, log


def _edited(path, edits):
    text = path.read_text()
    for name, old, new in edits:
        if name == path.name:
            assert old in text, f"{name} has no {old!r}"
            text = text.replace(old, new)
    return text.encode()


def _text(program, size_of, get):
    size = ctypes.c_size_t()
    _check(size_of(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(get(program, buffer))
    return buffer.raw


def _check(status):
    if status != 0:
        raise RuntimeError(f"NVRTC error {status}")
