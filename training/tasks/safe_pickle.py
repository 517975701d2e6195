"""Read the one string inside LiveCodeBench's private tests (base64, zlib, pickle) without unpickling anything."""

from __future__ import annotations

import base64
import binascii
import io
import pickletools
import zlib

MAX_BYTES = 512 << 20  # unpacked; the largest item of the public set is far below
_STRING = {"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE"}
_HARMLESS = {"PROTO", "FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT", "STOP"}


def packed_string(text: str) -> str:
    """The string that `text` packs. Raises ValueError for anything that is not exactly one pickled string.

    Only the opcodes that push one string are accepted; the pickle machine itself never runs.
    """
    try:
        raw = base64.b64decode(text, validate=True)
        unpacker = zlib.decompressobj()
        body = unpacker.decompress(raw, MAX_BYTES)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError(f"private tests are not base64 of zlib data ({error})") from None
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise ValueError(f"private tests are cut off or larger than {MAX_BYTES >> 20} MB unpacked")
    try:
        found = [(opcode.name, value) for opcode, value, _ in pickletools.genops(io.BytesIO(body))]
    except (ValueError, IndexError, AttributeError) as error:  # what genops raises on bytes that are no pickle
        raise ValueError(f"private tests are not a pickled string ({error})") from None
    strange = [name for name, _ in found if name not in _STRING | _HARMLESS]
    if strange:
        raise ValueError(f"private tests hold the pickle instruction {strange[0]}, which is not read")
    strings = [str(value) for name, value in found if name in _STRING]
    if len(strings) != 1:
        raise ValueError(f"private tests must hold one string; they hold {len(strings)}")
    return strings[0]
