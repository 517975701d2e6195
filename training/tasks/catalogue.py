"""The names of all tasks, and how to open one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from core.errors import ConfigError
from training.tasks.aime2025 import Aime2025
from training.tasks.base import Item, Task
from training.tasks.bigcodebench import BigCodeBench
from training.tasks.facts import Facts
from training.tasks.gpqa_diamond import GpqaDiamond
from training.tasks.humaneval import HumanEval
from training.tasks.livecodebench import LiveCodeBench
from training.tasks.math500 import Math500
from training.tasks.mmlu import Mmlu
from training.tasks.mt_bench import MtBench
from training.tasks.offline4 import Offline4
from training.tasks.own import PREFIX as FILE_PREFIX
from training.tasks.own import Own
from training.tasks.reasoning_gym import PREFIX as GYM_PREFIX
from training.tasks.reasoning_gym import ReasoningGym
from training.tasks.rlpr import Rlpr

# Name -> how to open it, given an optional local data file.
TASKS: Mapping[str, Callable[[Path | None], Task]] = {
    "offline4": lambda data: _shipped(Offline4(), data),
    "humaneval": HumanEval,
    "facts": lambda data: _shipped(Facts(), data),
    "math500": Math500,
    "mmlu": Mmlu,
    "rlpr": Rlpr,
    "livecodebench": LiveCodeBench,
    "aime2025": Aime2025,
    "bigcodebench": BigCodeBench,
    "bigcodebench_hard": lambda data: BigCodeBench(data, subset="hard"),
    "gpqa_diamond": GpqaDiamond,
    "mt_bench": MtBench,
}
OFFLINE = ("offline4", "humaneval", "facts")  # these need no download; so does every reasoning_gym:FAMILY


def open_task(name: str, data: Path | None = None) -> Task:
    """The task of a name: one of `TASKS`, `reasoning_gym:FAMILY` or `file:PATH`.

    Raises ConfigError for an unknown name, DataUnavailable when a file or package is absent.
    """
    if name.startswith(GYM_PREFIX):
        return _shipped(ReasoningGym(name.removeprefix(GYM_PREFIX)), data)
    if name.startswith(FILE_PREFIX):
        return _shipped(Own(Path(name.removeprefix(FILE_PREFIX)).expanduser()), data)
    if name not in TASKS:
        known = ", ".join(TASKS)
        raise ConfigError(f"There is no task {name!r}. Tasks: {known}, {GYM_PREFIX}FAMILY, {FILE_PREFIX}PATH.")
    return TASKS[name](data)


def open_tasks(names: str) -> list[Task]:
    """Tasks of a comma-separated list, each once. Raises ConfigError when the list is empty."""
    wanted = list(dict.fromkeys(part.strip() for part in names.split(",") if part.strip()))
    if not wanted:
        raise ConfigError("No task was named. Give one or more, separated by commas.")
    return [open_task(name) for name in wanted]


def find_item(task: Task, item_id: str) -> Item:
    """The item with this id, whatever split it is in. Raises ConfigError when there is none."""
    if isinstance(task, ReasoningGym):
        return task.find(item_id)
    for split in task.splits:
        for item in task.items(split):
            if item.id == item_id:
                return item
    first = next((item.id for split in task.splits for item in task.items(split)), "")
    raise ConfigError(f"The task {task.name} has no item {item_id!r}; ids look like {first}.")


def _shipped(task: Task, data: Path | None) -> Task:
    if data is not None:
        raise ConfigError(f"The task {task.name} has its own items and takes no data file.")
    return task
