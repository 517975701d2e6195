"""Dequantise a GGUF model once and save it as float32 safetensors: `python -m core.backbone.convert FILE FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def convert(gguf: Path, folder: Path) -> None:
    """Write weights, config.json, tokenizer and chat template of `gguf` into `folder` (which it makes)."""
    if not gguf.is_file():  # before the heavy imports
        raise FileNotFoundError(f"there is no file {gguf}")
    from core.runtime import prepare_environment

    prepare_environment()
    import torch
    from transformers import AutoModel, AutoTokenizer

    where: dict[str, Any] = {"gguf_file": gguf.name, "local_files_only": True, "trust_remote_code": False}
    read = AutoModel.from_pretrained(gguf.parent, dtype=torch.float32, **where)
    # A model read from GGUF refuses to be saved ("quantized"), so its weights move into a plain one.
    config = read.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain = type(read)(config)
    plain.load_state_dict(read.state_dict())
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(gguf.parent, **where).save_pretrained(folder)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
