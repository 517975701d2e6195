"""`trinity serve`: the web app as one process with one worker.

The socket is taken first, so that a port in use is one clear line before anything slow begins; the page is there
within seconds, and the team loads behind it.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from core.errors import ConfigError
from core.settings import Settings, load_settings, prepare_folders

GOODBYE_S = 3  # how long open pages may hold up the end of the server


def serve(argv: list[str]) -> int:
    """Run the web app until it is told to stop. Raises ConfigError for settings that cannot work."""
    settings = _settings(argv)
    prepare_folders(settings)
    # Nothing that the imports make is garbage; without the collector they take 0.5 s less of 3.5.
    gc.disable()
    with _listen(settings) as listener, _private_folder(settings):
        from core.runtime import start_logging

        start_logging(settings.secrets())
        _check_names(settings)
        _run(settings, listener)
    return 0


def _settings(argv: list[str]) -> Settings:
    parser = argparse.ArgumentParser(prog="trinity serve", description="Start the web app.")
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1: this machine only)")
    parser.add_argument("--port", type=int, help="port to listen on (default 7860; 0 takes a free one)")
    parser.add_argument("--pool", help="pool to answer with: a name, or a .yaml file")
    parser.add_argument("--checkpoint", help="head to choose with: a name, or a .safetensors file")
    given = {name: value for name, value in vars(parser.parse_args(argv)).items() if value is not None}
    if not 0 <= given.get("port", 0) <= 65_535:
        raise ConfigError(f"The port must be between 0 and 65535; it is {given['port']}.")
    settings = replace(load_settings(), **given)
    # Files named relative to the folder the command was started in stay findable after it is left.
    return replace(settings, pool=_absolute(settings.pool), checkpoint=_absolute(settings.checkpoint))


def _absolute(name: str) -> str:
    return str(Path(name).absolute()) if name and Path(name).is_file() else name


@contextmanager
def _listen(settings: Settings) -> Iterator[socket.socket]:
    """The listening socket. Raises ConfigError when the address cannot be taken."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.host, settings.port))
        except OSError as error:
            raise ConfigError(
                f"{settings.host}:{settings.port} cannot be listened on ({error.strerror or error}). "
                "Stop what uses it, or choose another with --port or TRINITY_PORT."
            ) from error
        yield listener
    finally:
        listener.close()


@contextmanager
def _private_folder(settings: Settings) -> Iterator[None]:
    """Work in an empty folder of our own, with temporary files in another.

    Gradio hands out files under its working and temporary folders when a handler names them; here there are none.
    """
    with tempfile.TemporaryDirectory(prefix="trinity-") as temporary:
        tempfile.tempdir = temporary  # Gradio asks tempfile when it is imported, which is later
        empty = settings.data_dir / "server"
        empty.mkdir(mode=0o700, exist_ok=True)
        os.chdir(empty)
        try:
            yield
        finally:
            tempfile.tempdir = None


def _check_names(settings: Settings) -> None:
    """Refuse an unknown pool or checkpoint now rather than on the page. Raises ConfigError subclasses."""
    from core.pool import load_pool
    from core.team import choose_checkpoint

    choose_checkpoint(settings.checkpoint, load_pool(settings.pool, settings), settings)


def _run(settings: Settings, listener: socket.socket) -> None:
    import uvicorn

    from core.store import open_store
    from webapp.app import create_app
    from webapp.teams import TeamLike

    store = open_store(settings.url)

    def loader(pool: str, checkpoint: str) -> TeamLike:
        from core.team import load_team

        return load_team(settings, pool=pool or None, checkpoint=checkpoint or None, store=store)

    app = create_app(settings, store, loader)
    gc.freeze()
    gc.enable()
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=GOODBYE_S,
        server_header=False,
        log_config=None,
    )
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    print(f"Trinity is at http://{shown}:{port} (the coordinator loads behind the page; Ctrl+C ends it)", flush=True)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    # uvicorn sends itself the signal again once it is down; a stop that was asked for is no failure.
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        signal.signal(signal.SIGTERM, before)
