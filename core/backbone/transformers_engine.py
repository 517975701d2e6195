"""The forward pass of any other causal model, through transformers' AutoModel.

Slower to start than `core.backbone.decoder` (2.4 s of imports) and general. A model whose memory cannot be cut back
to an earlier token (sliding windows, recurrent states) is read from the start each time.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.backbone.decoder import BLOCK
from core.errors import ConfigError

if TYPE_CHECKING:
    import torch

    Tensor = torch.Tensor


class DynamicStore:
    """transformers' own growing cache with the interface of `core.backbone.kv.Store`."""

    def __init__(self, cache: Any, config: Any, length: int = 0) -> None:
        self.cache = cache
        self.length = length
        self._config = config

    @property
    def capacity(self) -> int:
        """It holds exactly what was read; growing is its own business."""
        return max(1, self.length)

    @property
    def nbytes(self) -> int:
        """Bytes of all keys and values."""
        pairs = [pair for layer in self.cache.layers for pair in (layer.keys, layer.values)]
        return sum(pair.nbytes for pair in pairs if pair is not None)

    def copy(self, length: int, capacity: int) -> DynamicStore:
        """A cache of its own with the first `length` tokens."""
        from transformers import DynamicCache

        fresh = DynamicCache(config=self._config)
        for index, layer in enumerate(self.cache.layers):
            if length:
                fresh.update(layer.keys[:, :, :length].clone(), layer.values[:, :, :length].clone(), index)
        return DynamicStore(fresh, self._config, length)


class TransformersEngine:
    """Any model that AutoModel can build from a folder of safetensors."""

    batches = False

    def __init__(self, model: Any, changed: Mapping[str, Tensor] | None = None) -> None:
        self.model = model
        self._parameters = dict(model.named_parameters())
        self._changed = dict(changed or {})
        config = model.config.get_text_config()
        self._config = config
        self.hidden_size = int(config.hidden_size)
        self.context_length = int(getattr(config, "max_position_embeddings", 0) or 2_048)
        windows = {"sliding_attention", "chunked_attention"} & set(getattr(config, "layer_types", None) or ())
        # transformers 5.2x renames the argument; a model that has not followed yet takes the old name.
        named = inspect.signature(type(model).forward).parameters
        self._argument = "cache" if "cache" in named else "past_key_values"
        self.caches = not windows and not getattr(config, "sliding_window", None) and self._plain_memory()

    @classmethod
    def load(cls, folder: Path, dtype: torch.dtype, device: str) -> TransformersEngine:
        """Build the model. Raises ConfigError with the first line of what transformers says."""
        from transformers import AutoModel
        from transformers.utils import logging

        logging.disable_progress_bar()
        try:
            model = AutoModel.from_pretrained(
                folder, dtype=dtype, use_safetensors=True, trust_remote_code=False, local_files_only=True
            )
        except Exception as error:  # transformers raises OSError, ValueError, KeyError, ImportError, …
            why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ConfigError(f"{folder} cannot be used as the backbone: {why}") from error
        return cls(model.to(device).eval())

    @property
    def layers(self) -> int:
        """Layers of the model."""
        return int(self._config.num_hidden_layers)

    def size_of(self, name: str) -> tuple[int, int]:
        """Rows and columns of a matrix by its `state_dict` name. Raises KeyError."""
        rows, columns = self._parameters[name].shape
        return int(rows), int(columns)

    def matrix(self, name: str) -> Tensor:
        """A copy of one weight by its `state_dict` name, replaced ones included. Raises KeyError."""
        found: Tensor = self._changed[name] if name in self._changed else self._parameters[name]
        return found.detach().clone()

    def with_weights(self, changed: Mapping[str, Tensor]) -> TransformersEngine:
        """The same model with some matrices replaced for the time of each call; this one is left as it is."""
        if unknown := set(changed) - set(self._parameters):
            raise KeyError(", ".join(sorted(unknown)))
        return TransformersEngine(self.model, {**self._changed, **changed})

    def new_store(self, capacity: int, rows: int = 1) -> DynamicStore:
        """Empty memory; it grows by itself."""
        from transformers import DynamicCache

        return DynamicStore(DynamicCache(config=self._config), self._config)

    def extend(self, store: DynamicStore, ids: Sequence[Sequence[int]], closing: Sequence[int]) -> Tensor:
        """See Decoder.extend."""
        import torch

        length, tail = len(ids[0]), len(closing)
        rows = torch.tensor([[*row, *closing] for row in ids], dtype=torch.long).to(self.model.device)
        last = torch.empty((len(ids), 0))
        # A model without a croppable memory is read in one pass: its own masks then see the whole text.
        block = BLOCK if self.caches else max(1, length)
        with torch.inference_mode():
            for start in range(0, max(length, min(tail, 1)), block):
                stop = start + block if start + block < length else length + tail
                options = {self._argument: store.cache, "use_cache": True} if self.caches else {"use_cache": False}
                last = self._forward(rows[:, start:stop], options)
        if tail and self.caches:
            store.cache.crop(-tail)
        store.length += length
        return last if tail else last[:, :0]

    def _forward(self, ids: Tensor, options: dict[str, Any]) -> Tensor:
        """Hidden state [rows, hidden] of the last position."""
        from torch.func import functional_call

        if self._changed:
            output = functional_call(self.model, self._changed, (ids,), options)
        else:
            output = self.model(ids, **options)
        hidden: Tensor = output.last_hidden_state[:, -1]
        return hidden

    def _plain_memory(self) -> bool:
        """True when the model keeps ordinary keys and values for every layer (no recurrent state)."""
        kinds = set(getattr(self._config, "layer_types", None) or ("full_attention",))
        return kinds == {"full_attention"}
